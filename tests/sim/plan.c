/*
 * Plans: what a seed means. Also the agents that the sessions use, in two versions each.
 */
#include <stdlib.h>

#include "sim.h"

static const char *const move_names[] = {"message", "cancel", "withdraw", "drain", "take-over",
                                         "crash",   "freeze", "jump",     "fault", "race"};

static int32_t below(pw_random *r, uint64_t bound)
{
    return (int32_t)pw_random_below(r, bound);
}

static void add(sim_plan *p, sim_move move)
{
    if (p->move_count < SIM_MOVES) {
        p->moves[p->move_count++] = move;
    }
}

/* Messages: bursts, repeats, other content under the same id, cancels and withdrawals shortly
 * after. */
static void add_messages(sim_plan *p, pw_random *r, int64_t span)
{
    for (int32_t session = 0; session < p->sessions; session++) {
        int32_t count = 1 + below(r, 5), request = 0;
        for (int32_t i = 0; i < count; i++) {
            int64_t at = 10 + below(r, (uint64_t)span);
            int32_t burst = below(r, 4) == 0 ? 2 + below(r, 5) : 1;
            for (int32_t k = 0; k < burst; k++, request++) {
                sim_move m = {.kind = MOVE_MESSAGE,
                              .at_ms = at,
                              .session = session,
                              .a = request,
                              .c = below(r, 12) == 0};
                add(p, m);
                if (below(r, 5) == 0) { /* the same again, or something else under its id */
                    m.at_ms += below(r, 4) == 0 ? 0 : below(r, 9000);
                    m.b = below(r, 3) == 0;
                    add(p, m);
                }
                if (below(r, 9) == 0) {
                    add(p, (sim_move){.kind = MOVE_WITHDRAW,
                                      .at_ms = at + below(r, 600),
                                      .session = session,
                                      .a = request});
                }
                at += below(r, 3) == 0 ? 0 : below(r, 400);
            }
        }
        for (int32_t i = below(r, 3); i > 0; i--) {
            add(p, (sim_move){.kind = MOVE_CANCEL,
                              .at_ms = 20 + below(r, (uint64_t)span + 4000),
                              .session = session,
                              .a = below(r, 3) ? 0 : below(r, 4)});
        }
        if (below(r, 6) == 0) {
            add(p, (sim_move){
                       .kind = MOVE_RACE, .at_ms = below(r, (uint64_t)span), .session = session});
        }
    }
}

static void add_troubles(sim_plan *p, pw_random *r, int64_t span)
{
    static const int32_t lengths[] = {200, 3000, 12000, 31000};
    int32_t crashes = below(r, 3) == 0 ? below(r, 14) : below(r, 4);
    for (int32_t i = 0; i < crashes; i++) {
        add(p, (sim_move){.kind = MOVE_CRASH,
                          .at_ms = below(r, (uint64_t)span + 9000),
                          .owner = below(r, (uint64_t)p->owners),
                          .a = 1 + below(r, 60),
                          .b = 50 + below(r, 15000)});
    }
    for (int32_t i = below(r, 3) == 0 ? 1 + below(r, 3) : 0; i > 0; i--) {
        add(p, (sim_move){.kind = MOVE_FREEZE,
                          .at_ms = below(r, (uint64_t)span + 5000),
                          .owner = below(r, (uint64_t)p->owners),
                          .a = lengths[below(r, 4)]});
    }
    for (int32_t i = below(r, 4) == 0 ? 1 + below(r, 2) : 0; i > 0; i--) {
        add(p, (sim_move){.kind = MOVE_DRAIN,
                          .at_ms = below(r, (uint64_t)span + 5000),
                          .owner = below(r, (uint64_t)p->owners)});
    }
    for (int32_t i = below(r, 4) == 0 ? 1 + below(r, 3) : 0; i > 0; i--) {
        add(p, (sim_move){.kind = MOVE_TAKE_OVER,
                          .at_ms = below(r, (uint64_t)span + 5000),
                          .owner = below(r, (uint64_t)p->owners),
                          .session = below(r, (uint64_t)p->sessions)});
    }
    for (int32_t i = below(r, 4) == 0 ? 1 + below(r, 2) : 0; i > 0; i--) {
        int32_t ms = below(r, 2) ? 10000 : 600000;
        add(p, (sim_move){.kind = MOVE_JUMP,
                          .at_ms = below(r, (uint64_t)span + 5000),
                          .a = below(r, 2) ? ms : -ms});
    }
    for (int32_t i = below(r, 2) ? 1 + below(r, 5) : 0; i > 0; i--) {
        add(p, (sim_move){.kind = MOVE_FAULT,
                          .at_ms = below(r, (uint64_t)span + 5000),
                          .a = 1 + below(r, 3),
                          .b = 1 + below(r, 2) * below(r, 6),
                          .c = below(r, 12)});
    }
}

void plan_make(sim_plan *p, uint64_t seed)
{
    *p = (sim_plan){.seed = seed, .max_attempts = 5, .inbox_limit = 64};
    pw_random r = {sim_mix(seed, 0x91a7)};
    p->sessions = 2 + below(&r, 5);
    p->owners = 1 + below(&r, 4);
    p->locks = below(&r, 2);
    p->many = below(&r, 3) == 0;
    p->changed_agent = below(&r, 5) == 0;
    p->failures = below(&r, 4) == 0 ? 0 : below(&r, 10);
    if (below(&r, 4) == 0) {
        p->max_attempts = 2 + below(&r, 2);
    }
    if (below(&r, 4) == 0) {
        p->inbox_limit = 2 + below(&r, 4);
    }
    if (below(&r, 12) == 0) {
        p->starve_permille = 2 + below(&r, 60);
    }
    for (int32_t i = 0; i < p->sessions; i++) {
        p->definition[i] = below(&r, SIM_DEFINITIONS);
    }
    int64_t span = below(&r, 3) ? 15000 : 60000;
    add_troubles(p, &r, span);
    add_messages(p, &r, span);
}

void plan_print(const sim_plan *p, FILE *out)
{
    fprintf(out, "seed %llu: %d sessions, %d owners%s%s%s, max_attempts %d, inbox %d, failures %d",
            (unsigned long long)p->seed, p->sessions, p->owners, p->locks ? ", locks" : "",
            p->many ? ", many calls" : "", p->changed_agent ? ", changed agent" : "",
            p->max_attempts, p->inbox_limit, p->failures);
    if (p->starve_permille) {
        fprintf(out, ", %d in 1000 allocations fail", p->starve_permille);
    }
    if (p->crash_at) {
        fprintf(out, ", trouble %d at boundary %llu and %llu later", p->crash_kind,
                (unsigned long long)p->crash_at, (unsigned long long)p->crash_again);
    }
    fprintf(out, ", agents");
    for (int32_t i = 0; i < p->sessions; i++) {
        fprintf(out, " %d", p->definition[i]);
    }
    fprintf(out, "%s%s\n", p->story ? ", story " : "", p->story ? p->story->name : "");
    for (int32_t i = 0; i < p->move_count; i++) {
        const sim_move *m = &p->moves[i];
        fprintf(out, "  %8lld ms  %-9s  session %d  owner %d  %d %d %d\n", (long long)m->at_ms,
                move_names[m->kind], m->session, m->owner, m->a, m->b, m->c);
    }
}

/* --- Agents ----------------------------------------------------------------------------------- */

static const char *const agent_limits[SIM_DEFINITIONS] = {
    "",
    "\"budget\":{\"max_iterations\":3,\"max_tool_calls\":4},",
    "\"debounce_ms\":1000,\"context\":{\"messages\":6},",
    "\"budget\":{\"max_tokens\":900,\"deadline_ms\":120000},",
    "\"budget\":{\"max_cost_usd\":0.002},\"max_protocol_failures\":2,",
    "\"debounce_ms\":300,\"budget\":{\"deadline_ms\":60000,\"max_iterations\":8},",
    "",
};

/* Models to fall back to: of the first one's family, and of another. */
#define CROW "{\"name\":\"crow\"}"
#define OWL "{\"name\":\"owl\",\"provider\":\"other\"}"
static const char *const agent_fallbacks[SIM_DEFINITIONS] = {
    "", "", "", CROW "," OWL, OWL "," CROW, CROW, CROW "," OWL "," CROW,
};

static const char agent_tools[] =
    "{\"name\":\"look\",\"kind\":\"native\",\"effects\":\"none\",\"limit_ms\":5000},"
    "{\"name\":\"scan\",\"kind\":\"native\",\"effects\":\"none\",\"limit_ms\":4000,"
    "\"result_limit\":512,\"input\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":"
    "\"integer\"}},\"required\":[\"x\"]}},"
    "{\"name\":\"put\",\"kind\":\"native\",\"effects\":\"idempotent\",\"limit_ms\":8000},"
    "{\"name\":\"pay\",\"kind\":\"native\",\"effects\":\"once\",\"limit_ms\":9000},"
    "{\"name\":\"book\",\"kind\":\"native\",\"effects\":\"transactional\",\"limit_ms\":2000}";

/* The same agent later: `scan` is gone, `look` and `put` are stricter, `pay` is said to be
 * harmless. */
static const char agent_tools_later[] =
    "{\"name\":\"look\",\"kind\":\"native\",\"effects\":\"idempotent\",\"limit_ms\":5000},"
    "{\"name\":\"put\",\"kind\":\"native\",\"effects\":\"once\",\"limit_ms\":8000},"
    "{\"name\":\"pay\",\"kind\":\"native\",\"effects\":\"none\",\"limit_ms\":9000},"
    "{\"name\":\"book\",\"kind\":\"native\",\"effects\":\"transactional\",\"limit_ms\":2000}";

pw_str plan_definition(int32_t index, int32_t version, pw_arena *arena)
{
    char room[2048];
    int length = snprintf(room, sizeof room,
                          "{\"name\":\"agent%d\",\"instructions\":\"Be brief.\",\"model\":{"
                          "\"provider\":\"scripted\",\"name\":\"parrot\",\"fallback\":[%s]},%s"
                          "\"tools\":[%s]}",
                          index, agent_fallbacks[index], agent_limits[index],
                          version ? agent_tools_later : agent_tools);
    PW_ASSERT(length > 0 && (size_t)length < sizeof room);
    pw_str copy = PW_STR_NONE;
    PW_ASSERT(pw_arena_dup(arena, (pw_str){room, (size_t)length}, &copy) == PW_OK);
    return copy;
}
