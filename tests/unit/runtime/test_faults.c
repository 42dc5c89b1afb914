/*
 * A store that lies as stores do: refuses for a moment, loses an answer with or without having done
 * the work, cannot read. Whatever it does, every turn ends, and no `once` call runs twice for one
 * step.
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "runtime/loop.h"
#include "store/backend.h"

/* --- The store --- */

typedef struct faulty {
    pw_store store; /* first: it is one */
    pw_store *inner;
    pthread_mutex_t mutex;
    pw_random random;
    uint64_t refused, lost, lost_done, unread; /* what it did so far */
    int sound;                                 /* no faults any more */
    int forget_me;                             /* the next beat finds its row gone */
} faulty;

static uint64_t chance(faulty *f)
{
    pthread_mutex_lock(&f->mutex);
    uint64_t n = f->sound ? 1000 : pw_random_below(&f->random, 1000);
    pthread_mutex_unlock(&f->mutex);
    return n;
}

static void count(faulty *f, uint64_t *counter)
{
    pthread_mutex_lock(&f->mutex);
    (*counter)++;
    pthread_mutex_unlock(&f->mutex);
}

static bool may_fail(const pw_op *op)
{
    return op->kind != PW_OP_JOIN && op->kind != PW_OP_LEAVE;
}

static void execute_one(faulty *f, pw_op *op)
{
    uint64_t n = may_fail(op) ? chance(f) : 1000;
    if (!pw_op_writes(op)) {
        if (n < 40) {
            count(f, &f->unread);
            op->status = PW_FAIL(&op->error, PW_IO, "the disk is moody");
            return;
        }
    } else if (n < 80) {
        count(f, &f->refused);
        op->status = PW_FAIL(&op->error, PW_NOT_COMMITTED, "not now");
        return;
    } else if (n < 120) {
        count(f, &f->lost);
        op->status = PW_FAIL(&op->error, PW_UNKNOWN, "the connection died before");
        return;
    }
    if (op->kind == PW_OP_BEAT && f->forget_me) {
        f->forget_me = 0;
        pw_op leave = {.kind = PW_OP_LEAVE, .arena = op->arena, .owner = op->owner};
        pw_store_execute(f->inner, &leave, 1);
    }
    pw_store_execute(f->inner, op, 1);
    if (pw_op_writes(op) && n >= 120 && n < 170) {
        count(f, &f->lost_done);
        op->status = PW_FAIL(&op->error, PW_UNKNOWN, "the connection died after");
    }
}

static void faulty_execute(pw_store *store, pw_op *ops, size_t total)
{
    for (size_t i = 0; i < total; i++) {
        execute_one((faulty *)(void *)store, &ops[i]);
    }
}

static void faulty_transact(pw_store *store, pw_transact *t)
{
    faulty *f = (faulty *)(void *)store;
    uint64_t n = chance(f);
    if (n < 100) {
        t->status = PW_FAIL(&t->error, n < 50 ? PW_NOT_COMMITTED : PW_UNKNOWN, "not now");
        return;
    }
    pw_store_transact(f->inner, t);
    if (n < 150) {
        t->status = PW_FAIL(&t->error, PW_UNKNOWN, "the connection died after");
    }
}

static bool faulty_changed(pw_store *store)
{
    return pw_store_changed(((faulty *)(void *)store)->inner);
}

static int faulty_alive(pw_store *store, const pw_owner_id *id)
{
    return pw_store_owner_alive(((faulty *)(void *)store)->inner, id);
}

static pw_store_traits faulty_traits(const pw_store *store)
{
    return pw_store_traits_get(((const faulty *)(const void *)store)->inner);
}

static void faulty_close(pw_store *store)
{
    pw_store_close(((faulty *)(void *)store)->inner);
}

static const pw_backend faulty_backend = {faulty_execute, faulty_transact, faulty_changed,
                                          faulty_alive,   faulty_traits,   faulty_close};

static void put_between(faulty *f, bench *b, uint8_t seed)
{
    uint8_t bytes[32] = {seed};
    *f = (faulty){.store = {.backend = &faulty_backend}, .inner = b->p->store};
    pthread_mutex_init(&f->mutex, NULL);
    pw_random_seed(&f->random, bytes);
    b->p->store = &f->store;
}

/* --- What calls did to the world --- */

typedef struct effects {
    pthread_mutex_t mutex;
    char keys[4096][65];
    int executions[4096];
    int count;
} effects;

static int32_t act(pawl_call *call, void *ctx)
{
    effects *e = ctx;
    pawl_str key = pawl_call_key(call);
    pthread_mutex_lock(&e->mutex);
    int at = 0;
    while (at < e->count && strncmp(e->keys[at], key.ptr, 64) != 0) {
        at++;
    }
    if (at == e->count) {
        snprintf(e->keys[e->count++], 65, "%.*s", (int)key.len, key.ptr);
    }
    e->executions[at]++;
    pthread_mutex_unlock(&e->mutex);
    return pawl_call_return(call, S("\"acted\""));
}

static const char script[] =
    "[{\"when\":{\"role\":\"user\"},\"text\":\"let me "
    "see\",\"pace\":\"1ms\",\"calls\":[{\"name\":\"act\",\"arguments\":{}},"
    "{\"name\":\"look\",\"arguments\":{}},{\"name\":\"look\",\"arguments\":{\"b\":1}}]},"
    "{\"text\":\"done\"}]";

static void run_with_faults(const char *kind, uint8_t seed, int forget)
{
    bench b;
    faulty f;
    static effects once, again;
    enum { SESSIONS = 24, TURNS = 3 };
    memset(&once, 0, sizeof once);
    memset(&again, 0, sizeof again);
    pthread_mutex_init(&once.mutex, NULL);
    pthread_mutex_init(&again.mutex, NULL);
    bench_begin(&b, kind);
    bench_open(&b);
    put_between(&f, &b, seed);
    bench_tool(&b, "act", PAWL_ONCE, act, &once, 0);
    bench_tool(&b, "look", PAWL_NONE, act, &again, 0);
    bench_agent(&b, script,
                "[{\"name\":\"act\",\"kind\":\"native\"},{\"name\":\"look\",\"kind\":\"native\"}]",
                NULL);
    pawl_start_options options = {.size = sizeof options, .lease_ms = 150};
    bench_start_with(&b, &options);
    char session[16], id[16];
    for (int t = 0; t < TURNS; t++) {
        for (int s = 0; s < SESSIONS; s++) {
            snprintf(session, sizeof session, "s%d", s);
            snprintf(id, sizeof id, "r%d", t);
            assert_int_equal(bench_submit(&b, session, id, "go"), PAWL_OK);
        }
        f.forget_me = forget;
    }
    for (int s = 0; s < SESSIONS; s++) {
        for (int t = 0; t < TURNS; t++) {
            snprintf(session, sizeof session, "s%d", s);
            snprintf(id, sizeof id, "r%d", t);
            pawl_doc *turn = bench_wait(&b, session, id);
            bench_expect(turn, "state", "completed");
            pawl_doc_free(turn);
        }
    }
    print_message("refused %llu, lost %llu, lost but done %llu, unread %llu\n",
                  (unsigned long long)f.refused, (unsigned long long)f.lost,
                  (unsigned long long)f.lost_done, (unsigned long long)f.unread);
    assert_true(f.refused > 0 && f.lost > 0 && f.lost_done > 0);
    bench_close(&b);
    for (int i = 0; i < once.count; i++) {
        assert_int_equal(once.executions[i], 1);
    }
    bench_end(&b);
}

static void test_every_turn_ends_on_a_store_that_fails_at_random_j4(void **state)
{
    for (uint8_t seed = 1; seed <= 4; seed++) {
        run_with_faults(*state, seed, 0);
    }
}

static void test_a_process_whose_row_is_gone_joins_anew_and_goes_on_j2(void **state)
{
    run_with_faults(*state, 9, 1);
}

/* --- Not committed for long --- */

static int has_refused(void *ctx)
{
    faulty *f = ctx;
    pthread_mutex_lock(&f->mutex);
    int enough = f->refused > 3;
    pthread_mutex_unlock(&f->mutex);
    return enough;
}

typedef struct submitter {
    bench *b;
    int32_t code;
} submitter;

static void *submit(void *ctx)
{
    submitter *s = ctx;
    s->code = bench_submit(s->b, "s1", "r1", "go");
    return NULL;
}

static void refuse_all(pw_store *store, pw_op *ops, size_t total)
{
    faulty *f = (faulty *)(void *)store;
    for (size_t i = 0; i < total; i++) {
        pthread_mutex_lock(&f->mutex);
        bool sound = f->sound || !pw_op_writes(&ops[i]) || !may_fail(&ops[i]);
        f->refused += !sound;
        pthread_mutex_unlock(&f->mutex);
        if (sound) {
            pw_store_execute(f->inner, &ops[i], 1);
        } else {
            ops[i].status = PW_FAIL(&ops[i].error, PW_NOT_COMMITTED, "the disk is full");
        }
    }
}

static const pw_backend full_backend = {refuse_all,   faulty_transact, faulty_changed,
                                        faulty_alive, faulty_traits,   faulty_close};

static void test_a_submit_waits_for_a_full_store_and_is_then_admitted_a2(void **state)
{
    bench b;
    faulty f;
    pthread_t thread;
    bench_begin(&b, *state);
    bench_open(&b);
    put_between(&f, &b, 1);
    f.store.backend = &full_backend;
    bench_agent(&b, "[{\"text\":\"done\"}]", "[]", NULL);
    bench_start(&b);
    submitter s = {.b = &b, .code = 1};
    assert_int_equal(pthread_create(&thread, NULL, submit, &s), 0);
    bench_until(has_refused, &f);
    pthread_mutex_lock(&f.mutex);
    f.sound = 1;
    pthread_mutex_unlock(&f.mutex);
    pthread_join(thread, NULL);
    assert_int_equal(s.code, PAWL_OK);
    pawl_doc_free(bench_wait(&b, "s1", "r1"));
    bench_end(&b);
}

/* --- A message that comes as its session rests --- */

typedef struct holding {
    pw_store store; /* first: it is one */
    pw_store *inner;
    atomic_int hold_end, hold_look;
    uv_sem_t end_held, end_goes, look_held, look_goes;
    atomic_llong session_id;
} holding;

static void holding_execute(pw_store *store, pw_op *ops, size_t total)
{
    holding *h = (holding *)(void *)store;
    for (size_t i = 0; i < total; i++) {
        pw_op *op = &ops[i];
        bool ends = op->kind == PW_OP_APPEND && op->append.append->turn_ended_seq > 0;
        if (ends && atomic_exchange(&h->hold_end, 0)) {
            atomic_store(&h->session_id, op->append.session_id);
            uv_sem_post(&h->end_held);
            uv_sem_wait(&h->end_goes);
        }
        pw_store_execute(h->inner, op, 1);
        if (op->kind == PW_OP_INBOX && atomic_exchange(&h->hold_look, 0)) {
            uv_sem_post(&h->look_held);
            uv_sem_wait(&h->look_goes);
        }
    }
}

static bool holding_changed(pw_store *store)
{
    return pw_store_changed(((holding *)(void *)store)->inner);
}

static int holding_alive(pw_store *store, const pw_owner_id *id)
{
    return pw_store_owner_alive(((holding *)(void *)store)->inner, id);
}

static pw_store_traits holding_traits(const pw_store *store)
{
    return pw_store_traits_get(((const holding *)(const void *)store)->inner);
}

static void holding_close(pw_store *store)
{
    pw_store_close(((holding *)(void *)store)->inner);
}

static const pw_backend holding_backend = {.execute = holding_execute,
                                           .changed = holding_changed,
                                           .owner_alive = holding_alive,
                                           .traits = holding_traits,
                                           .close = holding_close};

static int32_t hang(pawl_call *call, void *ctx)
{
    uv_sem_t *sems = ctx;
    uv_sem_post(&sems[0]);
    uv_sem_wait(&sems[1]);
    return pawl_call_return(call, S("1"));
}

typedef struct stop_note { /* keeps the loop thread in its act */
    pw_note note;
    uv_sem_t there, goes;
} stop_note;

static void act_stopped(pw_loop *loop, pw_note *note)
{
    (void)loop;
    stop_note *stop = (stop_note *)(void *)note;
    uv_sem_post(&stop->there);
    uv_sem_wait(&stop->goes);
}

static void stop_loop(pw_loop *loop, stop_note *stop)
{
    stop->note.act = act_stopped;
    uv_sem_init(&stop->there, 0);
    uv_sem_init(&stop->goes, 0);
    pw_loop_tell(loop, &stop->note);
    uv_sem_wait(&stop->there);
}

typedef struct newest {
    pw_loop *loop;
    pw_note *before;
} newest;

static int has_news(void *ctx)
{
    newest *n = ctx;
    return atomic_load(&n->loop->notes) != n->before;
}

/* The answer to the last append and an inbox with a new message in it reach the loop in one round,
 * in that order: the machine rests before it has seen the message, so the row may not be let go as
 * if it had. */
static void test_a_message_not_yet_stepped_keeps_its_wake_a7(void **state)
{
    (void)state;
    bench b;
    holding h = {.store = {.backend = &holding_backend}};
    uv_sem_t sems[2];
    stop_note stop;
    char turn[80];
    bench_begin(&b, "sqlite");
    bench_open(&b);
    h.inner = b.p->store;
    b.p->store = &h.store;
    assert_true(uv_sem_init(&sems[0], 0) == 0 && uv_sem_init(&sems[1], 0) == 0);
    assert_true(uv_sem_init(&h.end_held, 0) == 0 && uv_sem_init(&h.end_goes, 0) == 0);
    assert_true(uv_sem_init(&h.look_held, 0) == 0 && uv_sem_init(&h.look_goes, 0) == 0);
    bench_tool(&b, "hang", PAWL_ONCE, hang, sems, 0);
    bench_agent(&b,
                "[{\"when\":{\"last\":\"go\"},\"calls\":[{\"name\":\"hang\",\"arguments\":{}}]},"
                "{\"text\":\"done\"}]",
                "[{\"name\":\"hang\",\"kind\":\"native\"}]", NULL);
    bench_start(&b);
    pw_loop *loop = pw_loop_of(b.p);
    assert_int_equal(bench_submit(&b, "s", "r1", "go"), PAWL_OK);
    uv_sem_wait(&sems[0]);
    bench_turn_id(&b, "s", "r1", turn);
    atomic_store(&h.hold_end, 1);
    assert_int_equal(pawl_cancel(b.p, S("s"), bench_str(turn), NULL), PAWL_OK);
    uv_sem_wait(&h.end_held); /* it was aborted; the writer stands before the commit of its end */
    bench other = b;
    bench_open(&other);
    assert_int_equal(bench_submit(&other, "s", "r2", "more"), PAWL_OK);
    bench_close(&other);
    atomic_store(&h.hold_look, 1);
    pw_loop_hint(loop, atomic_load(&h.session_id), NULL, 0);
    uv_sem_wait(&h.look_held); /* it has seen r2 */
    stop_loop(loop, &stop);
    uv_sem_post(&h.end_goes);
    assert_int_equal(bench_submit(&b, "t", "r1", "more"), PAWL_OK); /* behind it in the writer */
    newest n = {.loop = loop, .before = atomic_load(&loop->notes)};
    uv_sem_post(&h.look_goes);
    bench_until(has_news, &n);
    uv_sem_post(&stop.goes);
    pawl_doc *doc = bench_wait(&b, "s", "r2");
    bench_expect(doc, "state", "completed");
    pawl_doc_free(doc);
    uv_sem_post(&sems[1]);
    bench_end(&b);
    uv_sem_destroy(&stop.there);
    uv_sem_destroy(&stop.goes);
    uv_sem_destroy(&sems[0]);
    uv_sem_destroy(&sems[1]);
    uv_sem_destroy(&h.end_held);
    uv_sem_destroy(&h.end_goes);
    uv_sem_destroy(&h.look_held);
    uv_sem_destroy(&h.look_goes);
}

/* --- Draining while a session is lost --- */

typedef struct losing {
    pw_store store; /* first: it is one */
    pw_store *inner;
    atomic_int takes; /* of a session that was lost: all refused */
    atomic_llong session_id;
} losing;

static void losing_execute(pw_store *store, pw_op *ops, size_t total)
{
    losing *l = (losing *)(void *)store;
    for (size_t i = 0; i < total; i++) {
        pw_op *op = &ops[i];
        if (op->kind == PW_OP_APPEND && op->append.append->turn_ended_seq > 0) {
            atomic_store(&l->session_id, op->append.session_id);
            op->status = PW_FAIL(&op->error, PW_UNKNOWN, "the connection died before");
        } else if (op->kind == PW_OP_TAKE && op->take.reload) {
            atomic_fetch_add(&l->takes, 1);
            op->status = PW_FAIL(&op->error, PW_NOT_COMMITTED, "not now");
        } else {
            pw_store_execute(l->inner, op, 1);
        }
    }
}

static bool losing_changed(pw_store *store)
{
    return pw_store_changed(((losing *)(void *)store)->inner);
}

static int losing_alive(pw_store *store, const pw_owner_id *id)
{
    return pw_store_owner_alive(((losing *)(void *)store)->inner, id);
}

static pw_store_traits losing_traits(const pw_store *store)
{
    return pw_store_traits_get(((const losing *)(const void *)store)->inner);
}

static void losing_close(pw_store *store)
{
    pw_store_close(((losing *)(void *)store)->inner);
}

static const pw_backend losing_backend = {.execute = losing_execute,
                                          .changed = losing_changed,
                                          .owner_alive = losing_alive,
                                          .traits = losing_traits,
                                          .close = losing_close};

static int was_taken_in_vain(void *ctx)
{
    return atomic_load(&((losing *)ctx)->takes) > 0;
}

/* Its turn stays open, and whoever takes it next takes it from nobody: that is no interruption. */
static void test_a_drain_lets_go_of_a_lost_session_too_c4_i6(void **state)
{
    bench b;
    losing l = {.store = {.backend = &losing_backend}};
    bench_begin(&b, *state);
    bench_open(&b);
    l.inner = b.p->store;
    b.p->store = &l.store;
    bench_agent(&b, "[{\"text\":\"done\"}]", "[]", NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s", "r1", "go"), PAWL_OK);
    bench_until(was_taken_in_vain, &l);
    assert_int_equal(pawl_drain(b.p, 20000), PAWL_OK);
    pw_arena arena;
    pw_arena_init(&arena, b.p->allocator, 0, 0);
    pw_op op = {.kind = PW_OP_SESSION,
                .arena = &arena,
                .session = {.session_id = atomic_load(&l.session_id)}};
    pw_store_execute(l.inner, &op, 1);
    assert_int_equal(op.status, PW_OK);
    assert_int_equal(op.session.row.owner.len, 0);
    assert_true(op.session.row.turn.len > 0);
    assert_true(op.session.row.wake_at_ms >= 0);
    pw_arena_free(&arena);
    bench_end(&b);
}

/* --- Starting while the store is busy --- */

static void hesitating_execute(pw_store *store, pw_op *ops, size_t total)
{
    losing *l = (losing *)(void *)store;
    for (size_t i = 0; i < total; i++) {
        if (ops[i].kind == PW_OP_JOIN && atomic_fetch_add(&l->takes, 1) < 3) {
            ops[i].status = PW_FAIL(&ops[i].error, PW_NOT_COMMITTED, "database is locked");
        } else {
            pw_store_execute(l->inner, &ops[i], 1);
        }
    }
}

static const pw_backend hesitating_backend = {.execute = hesitating_execute,
                                              .changed = losing_changed,
                                              .owner_alive = losing_alive,
                                              .traits = losing_traits,
                                              .close = losing_close};

static void test_a_start_waits_for_a_store_that_others_write_to_j2(void **state)
{
    bench b;
    losing l = {.store = {.backend = &hesitating_backend}};
    bench_begin(&b, *state);
    bench_open(&b);
    l.inner = b.p->store;
    b.p->store = &l.store;
    bench_agent(&b, "[{\"text\":\"done\"}]", "[]", NULL);
    bench_start(&b);
    assert_int_equal(atomic_load(&l.takes), 4);
    bench_end(&b);
}

#define BOTH(test)                                                                                 \
    {#test " memory", test, NULL, NULL, (void *)(uintptr_t) "memory"},                             \
    {                                                                                              \
#test " sqlite", test, NULL, NULL, (void *)(uintptr_t) "sqlite"                            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_every_turn_ends_on_a_store_that_fails_at_random_j4),
        BOTH(test_a_process_whose_row_is_gone_joins_anew_and_goes_on_j2),
        BOTH(test_a_submit_waits_for_a_full_store_and_is_then_admitted_a2),
        cmocka_unit_test(test_a_message_not_yet_stepped_keeps_its_wake_a7),
        BOTH(test_a_drain_lets_go_of_a_lost_session_too_c4_i6),
        BOTH(test_a_start_waits_for_a_store_that_others_write_to_j2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
