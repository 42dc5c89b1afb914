/*
 * pawl-sim: runs seeds, stories and the test of the judge itself. It ends with a line of numbers,
 * and with status 1 when anything failed; a failing seed is shrunk and its script printed.
 */
#include <malloc.h>
#include <stdlib.h>
#include <time.h>

#include "sim.h"

typedef struct totals {
    uint64_t passed, failed, skipped;
    uint64_t appends, model_calls, tool_calls, crashes, turns, starved, events;
    struct timespec start;
    int32_t most_failures;
} totals;

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void count(totals *t, const sim_result *r)
{
    t->passed += !r->failed;
    t->failed += r->failed;
    t->appends += r->appends;
    t->model_calls += r->model_calls;
    t->tool_calls += r->tool_calls;
    t->crashes += r->crashes;
    t->turns += r->turns;
    t->starved += r->starved;
    t->events += r->events;
}

static void tell_failure(const sim_plan *plan, const sim_result *r, bool shrink)
{
    printf("\nFAILED %s: %s\n", r->rule, r->message);
    if (!shrink) {
        plan_print(plan, stdout);
        return;
    }
    sim_plan smallest;
    sim_result again;
    sim_shrink(plan, r, &smallest);
    sim_run(&smallest, false, &again);
    printf("shrunk from %d moves to %d: %s\n", plan->move_count, smallest.move_count,
           again.message);
    plan_print(&smallest, stdout);
    printf("see it all: pawl-sim --seed %llu --shrink --verbose\n", (unsigned long long)plan->seed);
    fflush(stdout);
}

static void fail_as(sim_result *r, const char *rule, const char *message)
{
    r->failed = true;
    snprintf(r->rule, sizeof r->rule, "%s", rule);
    snprintf(r->message, sizeof r->message, "%s", message);
}

/* The same plan again: the same bytes. Without the starved allocations: the same bytes too. */
static void one_seed(uint64_t seed, totals *t)
{
    sim_plan plan;
    plan_make(&plan, seed);
    sim_result r;
    sim_run(&plan, false, &r);
    if (!r.failed && (seed % 16 == 0 || plan.starve_permille > 0)) {
        sim_plan twin = plan;
        twin.starve_permille = 0;
        sim_result other;
        sim_run(&twin, false, &other);
        if (other.failed || other.hash != r.hash) {
            fail_as(&r, plan.starve_permille ? "memory" : "twice",
                    "the same seed a second time writes other journals");
        }
    }
    count(t, &r);
    if (r.failed) {
        printf("\nseed %llu", (unsigned long long)seed);
        tell_failure(&plan, &r, strcmp(r.rule, "twice") != 0 && strcmp(r.rule, "memory") != 0);
    }
}

static void run_seeds(uint64_t from, uint64_t to, double seconds, totals *t)
{
    uint64_t seed = from;
    double shown = 0;
    for (; seed <= to && (int32_t)t->failed < t->most_failures; seed++) {
        double now = seconds_since(&t->start);
        if (seconds > 0 && now > seconds) {
            break;
        }
        if (now - shown > 5) {
            shown = now;
            printf("seed %llu, %.0f s, %llu failed\n", (unsigned long long)seed, now,
                   (unsigned long long)t->failed);
            fflush(stdout);
        }
        one_seed(seed, t);
    }
    if (seconds <= 0 && seed <= to) {
        t->skipped += to - seed + 1;
    }
}

static void run_trouble(sim_plan *plan, totals *t, uint64_t failed_before)
{
    sim_result r;
    sim_run(plan, false, &r);
    count(t, &r);
    if (r.failed && t->failed - failed_before <= 3) {
        tell_failure(plan, &r, false);
    }
}

/* Two crashes: the second at every place of the recovery from the first. */
static uint64_t run_pairs(sim_plan *plan, uint64_t boundaries, totals *t)
{
    uint64_t pairs = 0, failed = t->failed;
    plan->crash_kind = 0;
    for (plan->crash_at = 1; plan->crash_at <= boundaries; plan->crash_at++) {
        for (plan->crash_again = 1; plan->crash_again <= boundaries; plan->crash_again++) {
            run_trouble(plan, t, failed);
            pairs++;
        }
    }
    plan->crash_again = 0;
    return pairs;
}

/* Every story, at every boundary, every trouble; the shorter ones also with two crashes. */
static void run_crashes(totals *t)
{
    for (int32_t story = 0; story < sim_story_count; story++) {
        sim_plan plan;
        sim_result whole;
        story_plan(&plan, story);
        sim_run(&plan, false, &whole);
        count(t, &whole);
        if (whole.failed) {
            tell_failure(&plan, &whole, false);
            continue;
        }
        uint64_t failed = t->failed;
        for (plan.crash_kind = 0; plan.crash_kind < SIM_TROUBLES; plan.crash_kind++) {
            for (plan.crash_at = 1; plan.crash_at <= whole.boundaries; plan.crash_at++) {
                run_trouble(&plan, t, failed);
            }
        }
        uint64_t pairs = whole.boundaries <= 60 ? run_pairs(&plan, whole.boundaries, t) : 0;
        printf("story `%s`: %llu boundaries, %d troubles at each, %llu pairs of crashes, %llu "
               "failed\n",
               sim_stories[story].name, (unsigned long long)whole.boundaries, (int)SIM_TROUBLES,
               (unsigned long long)pairs, (unsigned long long)(t->failed - failed));
    }
}

/* What chance does not bring about: the bug in every story, drained at every boundary. */
static uint64_t in_stories(sim_bug bug, const char *rule, uint64_t *planted, uint64_t *caught)
{
    uint64_t by_rule = 0;
    for (int32_t story = 0; story < sim_story_count && by_rule == 0; story++) {
        sim_plan plan;
        sim_result r = {.boundaries = 1};
        story_plan(&plan, story);
        plan.crash_kind = SIM_TROUBLES - 1;
        for (plan.crash_at = 1; plan.crash_at <= r.boundaries && by_rule < 2; plan.crash_at++) {
            plan.bug = BUG_NOTHING;
            sim_run(&plan, false, &r); /* the boundaries of an honest run */
            const uint64_t boundaries = r.boundaries;
            plan.bug = bug;
            sim_run(&plan, false, &r);
            r.boundaries = boundaries;
            *planted += r.planted;
            *caught += r.failed;
            by_rule += r.failed && strcmp(r.rule, rule) == 0;
        }
    }
    return by_rule;
}

/* Plants each bug and demands that its rule catches it. */
static void self_test(uint64_t seeds, totals *t)
{
    static const char *const names[] = {
#define BUG_NAME(name, rule) #name,
        SIM_BUG_TABLE(BUG_NAME)
#undef BUG_NAME
    };
    static const char *const rules[] = {
#define BUG_RULE(name, rule) rule,
        SIM_BUG_TABLE(BUG_RULE)
#undef BUG_RULE
    };
    for (int32_t bug = 1; bug < BUG_COUNT; bug++) {
        uint64_t planted = 0, caught = 0, by_rule = 0;
        sim_result r = {0};
        char other[64] = "";
        for (uint64_t seed = 1; seed <= seeds && by_rule < 2; seed++) {
            sim_plan plan;
            plan_make(&plan, seed);
            plan.starve_permille = 0;
            plan.bug = (sim_bug)bug;
            sim_run(&plan, false, &r);
            planted += r.planted;
            caught += r.failed;
            by_rule += r.failed && strcmp(r.rule, rules[bug]) == 0;
            if (r.failed && strcmp(r.rule, rules[bug]) != 0) {
                snprintf(other, sizeof other, ", also by %.15s", r.rule);
            }
        }
        if (by_rule == 0) {
            by_rule = in_stories((sim_bug)bug, rules[bug], &planted, &caught);
        }
        bool ok = by_rule > 0;
        t->passed += ok;
        t->failed += !ok;
        printf("%-18s planted in %llu runs, caught in %llu, by %s in %llu%s%s\n", names[bug],
               (unsigned long long)planted, (unsigned long long)caught, rules[bug],
               (unsigned long long)by_rule, other, ok ? "" : "   NOT CAUGHT");
    }
}

static int one_verbose(uint64_t seed, bool verbose, bool shrink)
{
    sim_plan plan;
    sim_result r;
    plan_make(&plan, seed);
    sim_run(&plan, verbose && !shrink, &r);
    if (shrink && r.failed) {
        sim_plan smallest;
        sim_shrink(&plan, &r, &smallest);
        plan = smallest;
        sim_run(&plan, verbose, &r);
    }
    plan_print(&plan, stdout);
    printf("%s %s %s\nhash %016llx, %llu boundaries, %llu events\n", r.failed ? "FAILED" : "passed",
           r.rule, r.message, (unsigned long long)r.hash, (unsigned long long)r.boundaries,
           (unsigned long long)r.events);
    return r.failed;
}

static int one_story(const char *text, bool verbose)
{
    sim_plan plan;
    sim_result r;
    int story = 0, kind = 0;
    unsigned long long at = 0, again = 0;
    if (sscanf(text, "%d:%llu:%d:%llu", &story, &at, &kind, &again) < 1 || story < 0 ||
        story >= sim_story_count) {
        return 2;
    }
    story_plan(&plan, story);
    plan.crash_at = at;
    plan.crash_again = again;
    plan.crash_kind = kind;
    sim_run(&plan, verbose, &r);
    plan_print(&plan, stdout);
    printf("%s %s %s\n", r.failed ? "FAILED" : "passed", r.rule, r.message);
    return r.failed;
}

static int usage(void)
{
    fputs("usage: pawl-sim [--seeds FROM..TO] [--minutes M] [--crashes] [--self-test]\n"
          "                [--seed N [--verbose] [--shrink]] [--story N[:BOUNDARY:TROUBLE[:AGAIN]] "
          "[--verbose]]\n"
          "                [--failures N]\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    totals t = {.most_failures = 3};
    clock_gettime(CLOCK_MONOTONIC, &t.start);
    mallopt(M_TRIM_THRESHOLD, 256 << 20); /* a run's memory is the next run's */
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    unsigned long long from = 1, to = 0, seed = 0;
    const char *story = NULL;
    double minutes = 0;
    bool verbose = false, crashes = false, self = false, shrink = false;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else if (strcmp(argv[i], "--crashes") == 0) {
            crashes = true;
        } else if (strcmp(argv[i], "--self-test") == 0) {
            self = true;
        } else if (strcmp(argv[i], "--shrink") == 0) {
            shrink = true;
        } else if (strcmp(argv[i], "--seeds") == 0 && sscanf(next, "%llu..%llu", &from, &to) == 2) {
            i++;
        } else if (strcmp(argv[i], "--seed") == 0 && sscanf(next, "%llu", &seed) == 1) {
            i++;
        } else if (strcmp(argv[i], "--story") == 0 && next[0]) {
            story = argv[++i];
        } else if (strcmp(argv[i], "--minutes") == 0 && sscanf(next, "%lf", &minutes) == 1) {
            i++;
        } else if (strcmp(argv[i], "--failures") == 0 &&
                   sscanf(next, "%d", &t.most_failures) == 1) {
            i++;
        } else {
            return usage();
        }
    }
    if (seed > 0 || story) {
        return story ? one_story(story, verbose) : one_verbose(seed, verbose, shrink);
    }
    if (self) {
        self_test(400, &t);
    }
    if (crashes) {
        run_crashes(&t);
    }
    if (to >= from || minutes > 0) {
        run_seeds(from, to >= from ? to : UINT64_MAX - 1, minutes * 60, &t);
    }
    double seconds = seconds_since(&t.start);
    printf("%llu turns, %llu appends, %llu model calls, %llu tool calls, %llu crashes, %llu failed "
           "allocations, "
           "%llu events in %.1f s\n",
           (unsigned long long)t.turns, (unsigned long long)t.appends,
           (unsigned long long)t.model_calls, (unsigned long long)t.tool_calls,
           (unsigned long long)t.crashes, (unsigned long long)t.starved,
           (unsigned long long)t.events, seconds);
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)t.passed,
           (unsigned long long)t.failed, (unsigned long long)t.skipped);
    return t.failed > 0 ? 1 : 0;
}
