/*
 * Shrinking: a failing plan loses moves, in halves and then one by one, and troubles, as long as it
 * still breaks the same rule. What is left is the script that a person reads.
 */
#include "sim.h"

static bool still(const sim_plan *p, const char *rule)
{
    sim_result r;
    sim_run(p, false, &r);
    return r.failed && strcmp(r.rule, rule) == 0;
}

static bool without(sim_plan *p, int32_t from, int32_t count, const char *rule)
{
    sim_plan smaller = *p;
    memmove(&smaller.moves[from], &smaller.moves[from + count],
            (size_t)(p->move_count - from - count) * sizeof(sim_move));
    smaller.move_count -= count;
    if (smaller.move_count == 0 || !still(&smaller, rule)) {
        return false;
    }
    *p = smaller;
    return true;
}

static void fewer_owners(sim_plan *p, int32_t owners)
{
    p->owners = owners < p->owners ? owners : p->owners;
    for (int32_t i = 0; i < p->move_count; i++) {
        p->moves[i].owner %= p->owners;
    }
}

static void simpler(sim_plan *p, const char *rule)
{
    for (int32_t i = 0; i < 8; i++) {
        sim_plan next = *p;
        if (i < 2) {
            fewer_owners(&next, 2 - i);
        }
        next.failures = i == 2 ? 0 : next.failures;
        next.starve_permille = i == 3 ? 0 : next.starve_permille;
        next.inbox_limit = i == 4 ? 64 : next.inbox_limit;
        next.changed_agent = i == 5 ? false : next.changed_agent;
        next.many = i == 6 ? false : next.many;
        next.locks = i == 7 ? true : next.locks;
        if (still(&next, rule)) {
            *p = next;
        }
    }
}

void sim_shrink(const sim_plan *plan, const sim_result *failed, sim_plan *ret)
{
    *ret = *plan;
    for (int32_t size = ret->move_count / 2; size >= 1; size /= 2) {
        for (int32_t from = 0; from + size <= ret->move_count;) {
            from += without(ret, from, size, failed->rule) ? 0 : size;
        }
    }
    simpler(ret, failed->rule);
    for (int32_t from = 0; from < ret->move_count;) {
        from += without(ret, from, 1, failed->rule) ? 0 : 1;
    }
}
