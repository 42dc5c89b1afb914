/* A prepared record: what fold_prepare.c reads and fold.c applies. */
#ifndef PW_CORE_FOLD_H
#define PW_CORE_FOLD_H

#include "core/state.h"

struct pw_prepared {
    pw_record_kind kind;
    uint64_t seq;
    bool gap; /* records before this one are missing */
    union {
        struct {
            pw_turn turn; /* as it begins */
            int64_t generation, n, turns;
            pw_totals totals;
            pw_str initiator;
            const pw_message *message;
            pw_span *span;
        } opened;
        struct {
            int64_t attempt;
            bool lost;
            bool interrupted; /* what ran in the process before may have been cut off */
            bool resumed;
            pw_str run;
        } attempt;
        struct {
            const pw_message *message;
            pw_usage usage;
            pw_call *calls; /* written by the apply, from `fresh` */
            const pw_call *fresh;
            size_t call_count;
        } model;
        struct {
            pw_usage usage;
            bool has_usage, shown, empty;
        } discarded;
        struct {
            pw_usage usage;
            bool has_usage, counted, resumable;
            int64_t lost;
        } retrying;
        struct {
            int64_t until_ms, lost;
            bool resumable;
        } wait;
        pw_str response_id; /* of model.accepted */
        struct {
            pw_usage usage;
            bool has_usage;
            int64_t to, lost;
            pw_str model;
        } fallback;
        struct {
            size_t call;
            int64_t limit_at_ms;
        } started;
        struct {
            const pw_message *message;
            size_t call; /* SIZE_MAX: of no call that is owed: a damaged store */
            pw_outcome outcome;
            pw_short_hash outcome_hash;
            const pw_operation *operation; /* NULL: none to be listed */
        } receipt;
        struct {
            const pw_message **list;
            size_t count, capacity;
            pw_room *room;
            int64_t quarantined, lost;
        } repaired;
        pw_totals ended;
    };
};

#endif
