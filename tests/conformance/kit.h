/*
 * What store tests are written with: a store opened by URL, and one call for each operation with
 * the fields that matter. It knows nothing but store.h, so every backend runs the same stories.
 */
#ifndef PW_TEST_STORE_KIT_H
#define PW_TEST_STORE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "store/store.h"

typedef struct kit {
    pw_store *store;
    pw_arena arena;
    char dir[64]; /* a fresh directory, removed at the end */
    char url[128];
    pw_owner_id me;
    int64_t now_ms;
} kit;

extern const char *kit_scheme; /* "memory" or "sqlite" */

int kit_setup(
    void **state); /* cmocka: *state becomes a kit with an open store where `me` has joined */
int kit_teardown(void **state);
pw_store *kit_open(const char *url);
void kit_close(kit *);
void kit_reopen(kit *); /* sqlite: close and open again; memory: nothing */
void kit_dir_make(char dir[64]);
void kit_dir_remove(const char *dir);

pw_owner_id kit_owner(const char *name); /* a UUID made from the name */

void kit_run(kit *, pw_op *, size_t count);
void kit_ok(kit *, pw_op *); /* runs it alone and asks for PW_OK */

pw_op kit_admit(kit *, const char *session, const char *request, const char *content);
pw_op kit_withdraw(kit *, const char *session, const char *request);
pw_op kit_cancel(kit *, const char *session, const char *turn);
pw_op kit_owner_op(kit *, pw_op_kind, const char *owner);
pw_op kit_take(kit *, int64_t session, const char *owner); /* "" : me */
pw_op kit_due(kit *, const char *owner);
pw_op kit_append(kit *, int64_t session, uint64_t epoch, const pw_append *);
pw_op kit_read(kit *, pw_op_kind, int64_t session);

/* An append made of pieces, in the kit's arena. */
typedef struct kit_entry {
    pw_record records[8];
    pw_consumed consumed[8];
    pw_blob blobs[2];
    pw_append append;
} kit_entry;
kit_entry *kit_entry_new(kit *);
void kit_entry_record(kit *, kit_entry *, uint64_t seq, pw_record_kind, const char *turn,
                      const char *step);
/* turn.opened claiming inbox rows from..to, its row and head: running, due at once */
kit_entry *kit_turn_opened(kit *, uint64_t seq, const char *turn, uint64_t from_n, uint64_t to_n);
kit_entry *kit_step(kit *, uint64_t seq, const char *turn,
                    const char *step); /* one tool.completed, a receipt */
kit_entry *kit_turn_ended(kit *, uint64_t seq, const char *turn,
                          uint64_t looked_n); /* and the session is let go */

/* Whole stories: a session that is admitted to, taken by me, with its turn open. Gives its id;
 * epoch is 1. */
int64_t kit_session(kit *, const char *session); /* one message "r1" pending, nobody's */
int64_t kit_taken(kit *, const char *session);   /* mine, epoch 1 */
int64_t kit_running(kit *, const char *session); /* turn "t1" open, seq 1 */
pw_session_row kit_row(kit *, int64_t session);
void kit_sound(kit *); /* VERIFY finds nothing */

#define assert_status(op, wanted)                                                                  \
    do {                                                                                           \
        if ((op).status != (wanted)) {                                                             \
            print_error("status %d (%s), wanted %d\n", (op).status, (op).error.message, (wanted)); \
        }                                                                                          \
        assert_int_equal((op).status, (wanted));                                                   \
    } while (0)
#define assert_text(str, text) assert_true(pw_str_is((str), (text)))

#endif
