/*
 * What the files that answer pawl_read share: the question taken apart, pages, and where a session
 * stands. Reading never fences and never writes (J3). Any thread.
 */
#ifndef PW_RUNTIME_READ_INNER_H
#define PW_RUNTIME_READ_INNER_H

#include "core/event.h"
#include "core/view.h"
#include "runtime/runtime.h"

#define PW_PAGE_DEFAULT 50
#define PW_PAGE_MAX 200
#define PW_ANSWER_MAX ((size_t)1 << 29)

typedef struct pw_parameter {
    pw_str name, value;
} pw_parameter;

typedef struct pw_question {
    pawl *p;
    pw_arena *arena;
    pw_error *error;
    pw_json_writer *w; /* the answer */
    pw_str part[8];    /* the path after /v1/, decoded */
    size_t part_count;
    pw_parameter parameters[8];
    size_t parameter_count;
    size_t limit;
    pw_session_row row; /* of /sessions/{s}/… */
} pw_question;

/* Takes `query` apart ("a=1&b=2", percent-encoded); its names must be among `parameters`
 * (",a,b,"). read.c */
pw_status pw_question_query(pw_question *, pw_str query, const char *parameters);
pw_str pw_question_parameter(const pw_question *, const char *name); /* PW_STR_NONE when absent */
/* A page's end: closes the items and says where the next one begins (PW_STR_NONE: nowhere). */
void pw_page_begin(pw_question *);
void pw_page_end(pw_question *, pw_str next_cursor);
pw_status pw_cursor_number(pw_question *, uint64_t *ret); /* `cursor` as a number; 0 when absent */

/* Executes one read; its failure becomes the error. */
pw_status pw_read_op(pawl *, pw_op *, pw_arena *, pw_error *);

/* --- The owners, read once for a whole answer. */
typedef struct pw_owner_seen {
    pw_str id, address;
    int64_t at_ms;
    uint64_t beat;
    bool alive;
} pw_owner_seen;
typedef struct pw_owners_seen {
    pw_owner_seen *list;
    size_t count, alive;
} pw_owners_seen;
pw_status pw_owners_look(pawl *, pw_arena *, pw_owners_seen *ret, pw_error *);
const pw_owner_seen *pw_owner_of(const pw_owners_seen *,
                                 pw_str id); /* NULL: no such row: it left, or was buried */

/* --- Where a session stands, in M5's words (why.c). */
typedef struct pw_standing {
    pw_str state;  /* idle queued running waiting suspended quarantined */
    pw_str reason; /* M5, or empty */
    pw_str actor;  /* who caused it, or empty */
    int64_t since_ms;
    pw_str words; /* for a person */
} pw_standing;
pw_status pw_stand(pawl *, const pw_session_row *, const pw_owners_seen *, pw_arena *,
                   pw_standing *ret, pw_error *);

/* The turn that the session's last record belongs to; `*ret_found` false: it never had one. */
pw_status pw_last_turn(pawl *, const pw_session_row *, pw_arena *, pw_turn_row *ret,
                       bool *ret_found, pw_error *);
/* The waiting messages as Session and snapshot list them, into an open array. `ret_looked_n` (may
 * be NULL): the row's `admitted`. */
pw_status pw_queue_write(pawl *, const pw_session_row *, pw_json_writer *, pw_arena *,
                         uint64_t *ret_looked_n, pw_error *);

/* Nothing that is stored comes at or after this cursor's place, nor ever did: it is another
 * journal's (resync). */
bool pw_cursor_beyond(const pw_cursor *, uint64_t last_seq);
/* {"submitted","request_id","session","disposition","position","turn"} of HTTP.md. */
typedef struct pw_submitted {
    const pw_session_row *row;
    const pw_message_row *message;
    const char *submitted; /* "accepted" or "existing" */
    bool summed; /* the Turn in full also while it is open: that costs its whole length (N4) */
} pw_submitted;
pw_status pw_write_submitted(pawl *, const pw_submitted *, pw_arena *, pw_json_writer *,
                             pw_error *);

/* --- The answers. */
pw_status pw_answer_sessions(pw_question *);
pw_status pw_answer_session(pw_question *);
pw_status pw_answer_why(pw_question *);
pw_status pw_answer_message(pw_question *);
pw_status pw_answer_messages(pw_question *);
pw_status pw_answer_turns(pw_question *);
pw_status pw_answer_turn(pw_question *);
pw_status pw_answer_steps(pw_question *);
pw_status pw_answer_events(pw_question *);
pw_status pw_answer_agents(pw_question *);
pw_status pw_answer_agent(pw_question *);
/* pawl_inspect's: "models" and "request". */
pw_status pw_answer_models(pw_question *);
pw_status pw_answer_request(pw_question *);

#endif
