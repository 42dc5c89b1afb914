/*
 * A run: makes the store and the processes, pops events until everything is at rest, then asks the
 * judge.
 *
 * A run has two parts. While the plan's moves last, anything may happen. Then faults stop,
 * everybody who is alive or frozen dies, one healthy owner starts, and time runs on: by the rules
 * every message must be answered and every session idle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "sim.h"

static const int64_t sim_epoch_ms = 1764514800000; /* 2025-11-30T15:00:00Z */

int64_t sim_wall(const sim *s)
{
    return sim_epoch_ms + s->now + s->wall_offset;
}

uint64_t sim_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t sim_hash(pw_str text, uint64_t seed)
{
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) {
        uint64_t word;
        memcpy(&word, text.ptr + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    for (; i < text.len; i++) {
        h = (h ^ (uint8_t)text.ptr[i]) * 0x100000001b3u;
    }
    return sim_mix(h, text.len);
}

uint64_t sim_chance(const sim *s, uint64_t a, uint64_t b, uint64_t bound)
{
    return bound ? sim_mix(sim_mix(s->plan->seed, a), b) % bound : 0;
}

pw_str sim_dup(sim *s, pw_str text)
{
    pw_str copy = PW_STR_NONE;
    PW_ASSERT(pw_arena_dup(&s->arena, text, &copy) == PW_OK);
    return copy;
}

pw_str sim_format(sim *s, const char *format, ...)
{
    char room[2048];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(room, sizeof room, format, args);
    va_end(args);
    PW_ASSERT(length >= 0 && (size_t)length < sizeof room);
    return sim_dup(s, (pw_str){room, (size_t)length});
}

void sim_note(sim *s, const char *format, ...)
{
    if (!s->verbose) {
        return;
    }
    va_list args;
    va_start(args, format);
    fprintf(s->out, "%9.3f  ", (double)s->now / 1000.0);
    vfprintf(s->out, format, args);
    fputc('\n', s->out);
    va_end(args);
}

void sim_fail(sim *s, const char *rule, const char *format, ...)
{
    if (s->failed) {
        return;
    }
    s->failed = true;
    snprintf(s->rule, sizeof s->rule, "%s", rule);
    va_list args;
    va_start(args, format);
    vsnprintf(s->message, sizeof s->message, format, args);
    va_end(args);
    sim_note(s, "FAILED %s: %s", s->rule, s->message);
}

/* A broken assertion of the engine is a failure of the run, not the end of the simulator. */
static jmp_buf assert_exit;
static sim *assert_sim;

static void assert_failed(const char *file, int line, const char *what)
{
    const char *slash = strrchr(file, '/');
    if (assert_sim) {
        sim_fail(assert_sim, "assert", "%s:%d: %s", slash ? slash + 1 : file, line, what);
        longjmp(assert_exit, 1);
    }
}

static pw_memory_fault on_commit(void *ctx, const pw_op *ops, size_t count)
{
    sim *s = ctx;
    (void)ops;
    (void)count;
    if (s->fault == PW_MEMORY_FAULT_NONE || s->ending) {
        return PW_MEMORY_FAULT_NONE;
    }
    if (s->fault_skip > 0) {
        s->fault_skip--;
        return PW_MEMORY_FAULT_NONE;
    }
    pw_memory_fault fault = s->fault;
    if (--s->fault_count <= 0) {
        s->fault = PW_MEMORY_FAULT_NONE;
    }
    sim_note(s, "store: fault %d", (int)fault);
    return fault;
}

void sim_execute(sim *s, pw_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ops[i].arena = ops[i].arena ? ops[i].arena : &s->arena;
    }
    pw_store_execute(s->store, ops, count);
}

const pw_definition *sim_definition(sim *s, int32_t index, int32_t version)
{
    const pw_definition **slot = &s->definitions[index][version];
    if (!*slot) {
        pw_error error = {0};
        pw_str text = plan_definition(index, version, &s->arena);
        if (pw_definition_parse(&s->arena, text, slot, &error) != PW_OK) {
            sim_fail(s, "setup", "definition %d: %s", index, error.message);
        }
    }
    return *slot;
}

static void start(sim *s)
{
    pw_error error = {0};
    pw_store_options options = {.url = PW_STR("memory:"), .allocator = &pw_heap};
    if (pw_store_open(&options, &s->store, &error) != PW_OK) {
        sim_fail(s, "setup", "memory store: %s", error.message);
        return;
    }
    pw_store_memory_set_transactions(s->store, true);
    pw_store_memory_fault(s->store, on_commit, s);
    ledger_init(s);
    for (int32_t i = 0; i < s->plan->owners; i++) {
        queue_push(s, (sim_event){.at = 1 + i, .kind = EVENT_START, .owner = i});
    }
    int64_t last = 0;
    for (int32_t i = 0; i < s->plan->move_count; i++) {
        const sim_move *m = &s->plan->moves[i];
        last = m->at_ms > last ? m->at_ms : last;
        queue_push(s, (sim_event){.at = m->at_ms, .kind = EVENT_MOVE, .a = i});
    }
    queue_push(s, (sim_event){.at = last + 8000, .kind = EVENT_END});
}

/* Faults stop; one healthy owner is left. */
static void begin_end(sim *s)
{
    sim_note(s, "the end begins: faults stop");
    s->ending = true;
    s->end_since = s->now;
    s->fault = PW_MEMORY_FAULT_NONE;
    memset(s->race, 0, sizeof s->race);
    for (int32_t i = 0; i < s->plan->owners; i++) {
        if (s->owners[i].alive) {
            owner_crash(s, i, -1);
        }
        s->owners[i].start_at = -1;
    }
    queue_push(s, (sim_event){.at = s->now + 1, .kind = EVENT_START, .owner = SIM_OWNERS - 1});
}

/* NULL: everything is at rest. */
static const char *why_not(sim *s)
{
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        sim_ledger *l = &s->ledgers[i];
        if (l->open >= 0) {
            return "a turn is open";
        }
        for (int32_t r = 0; r < l->request_count; r++) {
            if (l->requests[r].fate == FATE_PENDING) {
                return "a message waits";
            }
        }
    }
    if (!owner_quiet(s, SIM_OWNERS - 1)) {
        return "the owner holds a session";
    }
    for (int32_t i = 0; i < s->call_count; i++) {
        if (!s->calls[i].ended) {
            return "a call has not ended";
        }
    }
    return NULL;
}

static bool at_rest(sim *s)
{
    return s->ending && s->owners[SIM_OWNERS - 1].alive && s->now - s->end_since >= 20000 &&
           !why_not(s);
}

static void one_event(sim *s, const sim_event *event)
{
    switch (event->kind) {
    case EVENT_MOVE:
        people_move(s, &s->plan->moves[event->a]);
        break;
    case EVENT_RETRY:
        people_retry(s, event);
        break;
    case EVENT_END:
        begin_end(s);
        break;
    case EVENT_CALL:
        call_event(s, event);
        break;
    case EVENT_SWEEP:
    case EVENT_BEAT:
    case EVENT_HINT:
    case EVENT_WAKE:
    case EVENT_WRITE:
    case EVENT_ANSWER:
    case EVENT_START:
    case EVENT_THAW:
    case EVENT_RELOAD:
    case EVENT_DRAIN:
        owner_event(s, event);
        break;
    }
}

static void go(sim *s)
{
    start(s);
    sim_event event;
    while (!s->failed && queue_pop(s, &event)) {
        s->now = event.at;
        if (++s->events > SIM_EVENTS_MAX) {
            sim_fail(s, "A7", "not at rest after %d events: %s", SIM_EVENTS_MAX, why_not(s));
            break;
        }
        one_event(s, &event);
        if (!s->failed && at_rest(s)) {
            break;
        }
    }
    if (!s->failed) {
        check_end(s);
    }
}

static void clear(sim *s)
{
    for (sim_live *l = s->lives; l;) {
        sim_live *next = l->next;
        heap_drop(&l->heap);
        pw_arena_free(&l->arena);
        free(l->sent);
        free(l);
        l = next;
    }
    for (int32_t i = 0; i < SIM_SESSIONS; i++) {
        for (int32_t t = 0; t < s->ledgers[i].turn_count; t++) {
            free(s->ledgers[i].turns[t].prefix);
        }
        free(s->ledgers[i].steps);
        free(s->ledgers[i].messages);
    }
    free(s->calls);
    free(s->heap);
    pw_store_close(s->store);
    pw_arena_free(&s->arena);
}

void sim_run(const sim_plan *plan, bool verbose, sim_result *ret)
{
    sim *volatile s = calloc(1, sizeof *s);
    PW_ASSERT(s);
    s->plan = plan;
    s->verbose = verbose;
    s->out = stdout;
    pw_arena_init(&s->arena, &pw_heap, 65536, 0);
    pw_assert_handler_set(assert_failed);
    assert_sim = s;
    if (setjmp(assert_exit) == 0) {
        go(s);
    }
    assert_sim = NULL;
    *ret = (sim_result){.failed = s->failed,
                        .hash = s->hash,
                        .boundaries = s->boundaries,
                        .appends = s->appends,
                        .model_calls = s->model_calls,
                        .tool_calls = s->tool_calls,
                        .crashes = s->crashes,
                        .turns = s->turns,
                        .events = s->events,
                        .starved = s->starved,
                        .planted = s->planted};
    memcpy(ret->rule, s->rule, sizeof ret->rule);
    memcpy(ret->message, s->message, sizeof ret->message);
    clear(s);
    free(s);
}
