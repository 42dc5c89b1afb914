/*
 * The hub: who waits for news of a session, and the live text that no journal holds.
 *
 * It keeps no queue per subscriber: readers pull durable events from the store by cursor and live
 * text from here by position, so a slow one slows nobody and costs nothing (M3). Any thread may
 * call; nothing here blocks on the store or on a subscriber.
 */
#ifndef PW_RUNTIME_HUB_H
#define PW_RUNTIME_HUB_H

#include "core/record.h"

typedef struct pw_hub pw_hub;

pw_status pw_hub_new(const pw_allocator *, pw_hub **ret);
void pw_hub_close(pw_hub *); /* wakes every waiter with PW_END */
void pw_hub_free(pw_hub *);  /* after the last subscriber is gone */

/* --- told by the loop and the writer */
/* Records became durable that leave an open message as it is: its text goes on behind them. */
void pw_hub_passed(pw_hub *, int64_t session_id, uint64_t last_seq);
/* Records up to last_seq are durable; also ends the live text of an older position. `held`: this
 * process still has the session (its last append may be answered after it let go). */
void pw_hub_committed(pw_hub *, int64_t session_id, uint64_t last_seq, bool held);
void pw_hub_admitted(pw_hub *, int64_t session_id); /* an inbox row became durable here */
void pw_hub_changed(pw_hub *); /* somebody else committed something (pw_store_changed) */
/* A piece of the open message. `text_bytes`: its text so far with this piece (a piece that does not
 * follow the last starts the text anew). */
void pw_hub_delta(pw_hub *, int64_t session_id, uint64_t after_seq, pw_str step, int32_t attempt,
                  uint64_t text_bytes, bool reasoning, pw_str bytes);
void pw_hub_forget(
    pw_hub *, int64_t session_id); /* this process let go of the session: its live text is over */

/* --- asked by followers and waiters. Interest in a session costs an entry; it also makes the
 * runtime look for others' commits. */
typedef struct pw_hub_interest pw_hub_interest;
pw_status pw_hub_watch(pw_hub *, int64_t session_id /* 0: any */, pw_hub_interest **ret);
pw_status
pw_hub_watch_instead(pw_hub_interest *,
                     int64_t session_id); /* from here on that one; the descriptor stays the same */
void pw_hub_unwatch(pw_hub_interest *);
int pw_hub_fd(pw_hub_interest *); /* an eventfd (or pipe), readable while there is news not yet
                                     looked at; made on the first ask; -1 on failure */
/* Waits until there is news since the last look (or at once if there is), at most timeout_ms (< 0:
 * for ever). PW_OK, PW_TIMEOUT, PW_END. */
pw_status pw_hub_wait(pw_hub_interest *, int64_t timeout_ms);
bool pw_hub_has_interest(
    pw_hub *); /* anybody watching: the writer then polls pw_store_changed every 20 ms */

/* What the news was, so that a follower asks the store only where there may be something. */
enum {
    PW_NEWS_RECORDS = 1, /* records, or something of another process */
    PW_NEWS_ADMITTED = 2,
    PW_NEWS_LIVE = 4 /* live text alone */
};
pw_status pw_hub_wait_news(pw_hub_interest *, int64_t timeout_ms,
                           unsigned *ret_news); /* as pw_hub_wait */
void pw_hub_poke(pw_hub_interest *); /* the reader itself has not looked at all yet: keeps its
                                        descriptor readable. Nothing where none was asked for */

/* The live text of a session's open message as it stands, from `from` on; and reasoning pieces
 * since the last look are not kept (they carry no id, M2). */
typedef struct pw_hub_live {
    bool held;                    /* this process has the session: deltas are to be expected here */
    bool open;                    /* this process runs the session and a message is streaming */
    uint64_t life;                /* another number: the text began anew */
    uint64_t from_seq, after_seq; /* it began behind the one, and goes on behind the other */
    int32_t attempt;
    uint64_t text_bytes;
    pw_str step, text; /* copied into the arena: text from `from` on */
} pw_hub_live;
pw_status pw_hub_live_get(pw_hub *, int64_t session_id, uint64_t from, pw_arena *,
                          pw_hub_live *ret);
/* The open message's reasoning from the `from`-th byte on (or as much of its end as is kept),
 * copied; `ret_end` counts what there was so far. */
pw_status pw_hub_reasoning_get(pw_hub *, int64_t session_id, uint64_t from, pw_arena *, pw_str *ret,
                               uint64_t *ret_end);

#endif
