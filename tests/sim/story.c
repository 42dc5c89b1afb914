/*
 * Fixed stories, told without chance, for trying every position at which something can go
 * wrong.
 *
 * A moves text is a list of `<ms> <what> <session> <a> <b>`: m message, c cancel, w withdraw, d
 * drain (owner in the place of the session), t take-over (session, owner).
 */
#include <stdlib.h>

#include "sim.h"

#define SAYS(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

const sim_story sim_stories[] = {
    {"one word", SAYS("text"), "10 m 0 0 0", 0},
    {"every kind of tool", SAYS("look+put+pay+book", "text"), "10 m 0 0 0", 0},
    {"rounds", SAYS("pay", "book", "put+put", "look+look", "text"), "10 m 0 0 0;900 m 0 1 0", 0},
    {"retries", SAYS("retry", "look", "retry", "retry", "text"), "10 m 0 0 0", 0},
    {"rate limit", SAYS("pay", "wait", "text"), "10 m 0 0 0;2000 m 0 1 0", 0},
    {"cancelled", SAYS("look", "pay+pay", "text"), "10 m 0 0 0;700 c 0 0 0;900 m 0 1 0", 0},
    {"burst", SAYS("text", "book", "text"),
     "10 m 0 0 0;200 m 0 1 0;500 m 0 2 0;700 w 0 1 0;5000 m 0 0 0", 2},
    {"bounds", SAYS("pay+pay", "book", "put", "pay", "text"), "10 m 0 0 0;20 m 0 1 0", 1},
    {"odd replies", SAYS("empty", "gone+look", "paused", "pay", "empty", "empty"), "10 m 0 0 0", 0},
    {"two hands", SAYS("look", "pay", "book", "text"),
     "10 m 0 0 0;15 m 1 0 0;400 d 0 0 0;900 t 0 1 0;1500 m 0 1 0", 0},
    {"next model", SAYS("next", "look", "retry", "retry", "retry", "retry", "text", "text"),
     "10 m 0 0 0;60000 m 0 1 0", 6},
    {"other family", SAYS("next", "next", "pay", "next", "text", "next", "pay", "retry", "text"),
     "10 m 0 0 0;9000 m 0 1 0", 4},
    {"left out", SAYS("reject", "look", "reject", "text", "text"), "10 m 0 0 2;4000 m 0 1 2", 0},
    {"resumed", SAYS("accept+text", "text"), "10 m 0 0 0", 0},
    {"resumed with tools", SAYS("accept+look+pay", "accept+retry", "put", "accept+text", "text"),
     "10 m 0 0 0", 0},
    {"not resumed", SAYS("accept+next", "accept+retry", "wait", "accept+text", "text"),
     "10 m 0 0 0;300 d 0 0 0", 6},
};
const int32_t sim_story_count = sizeof sim_stories / sizeof sim_stories[0];

void story_plan(sim_plan *p, int32_t story)
{
    const sim_story *st = &sim_stories[story];
    *p = (sim_plan){.seed = 1000 + (uint64_t)story,
                    .sessions = 2,
                    .owners = 2,
                    .max_attempts = 5,
                    .inbox_limit = 64,
                    .story = st,
                    .locks = story % 2 == 0};
    p->definition[0] = p->definition[1] = st->definition;
    for (const char *at = st->moves; at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        int ms = 0, session = 0, a = 0, b = 0;
        char what = 0;
        int fields = sscanf(at, "%d %c %d %d %d", &ms, &what, &session, &a, &b);
        PW_ASSERT(fields == 5);
        sim_move m = {.at_ms = ms, .session = session, .a = a, .b = b};
        m.kind = what == 'm'   ? MOVE_MESSAGE
                 : what == 'c' ? MOVE_CANCEL
                 : what == 'w' ? MOVE_WITHDRAW
                 : what == 'd' ? MOVE_DRAIN
                               : MOVE_TAKE_OVER;
        m.owner = what == 't' ? a : session;
        p->moves[p->move_count++] = m;
    }
}
