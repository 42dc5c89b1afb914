/* Operations with the fields that matter, and the files that a SQLite store needs. */
#include "conformance/kit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *kit_scheme = "memory";

void kit_dir_make(char dir[64])
{
    const char *base = getenv("TMPDIR");
    if (base == NULL || strlen(base) > 40) {
        base = "/tmp";
    }
    snprintf(dir, 64, "%s/pawl-XXXXXX", base);
    assert_non_null(mkdtemp(dir));
}

void kit_dir_remove(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d != NULL) {
        closedir(d);
    }
    rmdir(dir);
}

pw_store *kit_open(const char *url)
{
    pw_store *store = NULL;
    pw_error error = {0};
    pw_store_options options = {.url = pw_str_from(url), .allocator = &pw_heap};
    if (pw_store_open(&options, &store, &error) != PW_OK) {
        print_error("%s: %s\n", url, error.message);
    }
    return store;
}

pw_owner_id kit_owner(const char *name)
{
    pw_hash hash = pw_sha256_of(pw_str_from(name));
    pw_hash_hex hex = pw_hash_to_hex(&hash);
    pw_owner_id id;
    snprintf(id.text, sizeof(id.text), "%.8s-%.4s-7%.3s-8%.3s-%.12s", hex.text, hex.text + 8,
             hex.text + 12, hex.text + 16, hex.text + 20);
    return id;
}

int kit_setup(void **state)
{
    kit *k = calloc(1, sizeof(*k));
    assert_non_null(k);
    pw_arena_init(&k->arena, &pw_heap, 0, 0);
    k->now_ms = 1700000000000;
    k->me = kit_owner("me");
    strcpy(k->url, "memory:");
    if (strcmp(kit_scheme, "sqlite") == 0) {
        kit_dir_make(k->dir);
        snprintf(k->url, sizeof(k->url), "sqlite:%s/pawl.db", k->dir);
    }
    k->store = kit_open(k->url);
    assert_non_null(k->store);
    pw_op join = kit_owner_op(k, PW_OP_JOIN, "me");
    kit_ok(k, &join);
    *state = k;
    return 0;
}

int kit_teardown(void **state)
{
    kit *k = *state;
    kit_close(k);
    pw_arena_free(&k->arena);
    if (k->dir[0] != '\0') {
        kit_dir_remove(k->dir);
    }
    free(k);
    return 0;
}

void kit_close(kit *k)
{
    pw_store_close(k->store);
    k->store = NULL;
}

void kit_reopen(kit *k)
{
    if (k->dir[0] != '\0') {
        kit_close(k);
        k->store = kit_open(k->url);
        assert_non_null(k->store);
    }
}

void kit_run(kit *k, pw_op *ops, size_t count)
{
    pw_store_execute(k->store, ops, count);
}

void kit_ok(kit *k, pw_op *op)
{
    kit_run(k, op, 1);
    assert_status(*op, PW_OK);
}

/* --- operations */

pw_op kit_admit(kit *k, const char *session, const char *request, const char *content)
{
    pw_str uid;
    pw_buffer b;
    pw_buffer_init_arena(&b, &k->arena, 200);
    pw_buffer_format(&b, "uid-%s", session);
    uid = pw_buffer_str(&b);
    return (pw_op){.kind = PW_OP_ADMIT,
                   .arena = &k->arena,
                   .admit = {.principal = PW_STR("local"),
                             .session = pw_str_from(session),
                             .uid = uid,
                             .agent = PW_STR("ops"),
                             .request_id = pw_str_from(request),
                             .digest = pw_str_from(content),
                             .body = pw_str_from(content),
                             .now_ms = k->now_ms,
                             .due_at_ms = k->now_ms}};
}

pw_op kit_withdraw(kit *k, const char *session, const char *request)
{
    return (pw_op){.kind = PW_OP_WITHDRAW,
                   .arena = &k->arena,
                   .withdraw = {.principal = PW_STR("local"),
                                .session = pw_str_from(session),
                                .request_id = pw_str_from(request),
                                .now_ms = k->now_ms}};
}

pw_op kit_cancel(kit *k, const char *session, const char *turn)
{
    return (pw_op){.kind = PW_OP_CANCEL,
                   .arena = &k->arena,
                   .cancel = {.principal = PW_STR("local"),
                              .session = pw_str_from(session),
                              .turn = pw_str_from(turn),
                              .body = PW_STR("{\"reason\":\"user\"}"),
                              .now_ms = k->now_ms}};
}

pw_op kit_owner_op(kit *k, pw_op_kind kind, const char *owner)
{
    return (pw_op){.kind = kind,
                   .arena = &k->arena,
                   .owner = {.owner = kit_owner(owner),
                             .address = PW_STR("127.0.0.1:1"),
                             .now_ms = k->now_ms}};
}

pw_op kit_take(kit *k, int64_t session, const char *owner)
{
    return (pw_op){.kind = PW_OP_TAKE,
                   .arena = &k->arena,
                   .take = {.session_id = session,
                            .owner = owner[0] == '\0' ? k->me : kit_owner(owner),
                            .max_attempts = 5,
                            .refuse_suspect_from = -1,
                            .now_ms = k->now_ms}};
}

pw_op kit_due(kit *k, const char *owner)
{
    return (pw_op){.kind = PW_OP_DUE,
                   .arena = &k->arena,
                   .due = {.now_ms = k->now_ms,
                           .owner = owner[0] == '\0' ? k->me : kit_owner(owner),
                           .limit = 100}};
}

pw_op kit_append(kit *k, int64_t session, uint64_t epoch, const pw_append *append)
{
    return (pw_op){.kind = PW_OP_APPEND, .arena = &k->arena, .append = {session, epoch, append}};
}

pw_op kit_read(kit *k, pw_op_kind kind, int64_t session)
{
    pw_op op = {.kind = kind, .arena = &k->arena};
    switch ((int)kind) {
    case PW_OP_SESSION:
        op.session.session_id = session;
        break;
    case PW_OP_RECORDS:
        op.records.session_id = session;
        break;
    case PW_OP_INBOX:
        op.inbox.session_id = session;
        op.inbox.limit = 64;
        break;
    case PW_OP_MESSAGE:
        op.message.session_id = session;
        break;
    case PW_OP_TURN:
        op.turn.session_id = session;
        break;
    case PW_OP_TURNS:
        op.turns.session_id = session;
        break;
    default:
        break;
    }
    return op;
}

/* --- appends */

kit_entry *kit_entry_new(kit *k)
{
    kit_entry *e = PW_NEW(&k->arena, kit_entry);
    assert_non_null(e);
    e->append.records = e->records;
    e->append.consumed = e->consumed;
    e->append.blobs = e->blobs;
    e->append.head.base_seq = -1;
    return e;
}

void kit_entry_record(kit *k, kit_entry *e, uint64_t seq, pw_record_kind kind, const char *turn,
                      const char *step)
{
    e->records[e->append.record_count++] = (pw_record){.seq = seq,
                                                       .at_ms = k->now_ms,
                                                       .kind = kind,
                                                       .turn = pw_str_from(turn),
                                                       .step = pw_str_from(step),
                                                       .body = PW_STR("{\"v\":1}")};
}

kit_entry *kit_turn_opened(kit *k, uint64_t seq, const char *turn, uint64_t from_n, uint64_t to_n)
{
    kit_entry *e = kit_entry_new(k);
    kit_entry_record(k, e, seq, PW_RECORD_TURN_OPENED, turn, "");
    for (uint64_t n = from_n; n <= to_n && n > 0; n++) {
        e->consumed[e->append.consumed_count++] = (pw_consumed){n, PW_CLAIMED};
    }
    e->append.turn = pw_str_from(turn);
    e->append.turn_opened_seq = seq;
    e->append.turn_state = PW_TURN_RUNNING;
    e->append.head = (pw_head){.set = true,
                               .state = PW_TURN_RUNNING,
                               .turn = pw_str_from(turn),
                               .base_seq = (int64_t)seq,
                               .wake_at_ms = 0,
                               .looked_n = to_n};
    return e;
}

kit_entry *kit_step(kit *k, uint64_t seq, const char *turn, const char *step)
{
    kit_entry *e = kit_entry_new(k);
    kit_entry_record(k, e, seq, PW_RECORD_TOOL_COMPLETED, turn, step);
    e->append.receipt = true;
    return e;
}

kit_entry *kit_turn_ended(kit *k, uint64_t seq, const char *turn, uint64_t looked_n)
{
    kit_entry *e = kit_entry_new(k);
    kit_entry_record(k, e, seq, PW_RECORD_TURN_ENDED, turn, "");
    e->records[0].body = PW_STR("{\"v\":1,\"state\":\"completed\"}");
    e->append.turn = pw_str_from(turn);
    e->append.turn_ended_seq = seq;
    e->append.turn_state = PW_TURN_COMPLETED;
    e->append.settle_cancels_of = pw_str_from(turn);
    e->append.head = (pw_head){
        .set = true, .base_seq = -1, .wake_at_ms = -1, .looked_n = looked_n, .release = true};
    return e;
}

/* --- stories */

int64_t kit_session(kit *k, const char *session)
{
    pw_op op = kit_admit(k, session, "r1", "hello");
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMITTED);
    return op.admit.session_id;
}

int64_t kit_taken(kit *k, const char *session)
{
    int64_t id = kit_session(k, session);
    pw_op op = kit_take(k, id, "");
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.row.epoch, 1);
    return id;
}

int64_t kit_running(kit *k, const char *session)
{
    int64_t id = kit_taken(k, session);
    kit_entry *e = kit_turn_opened(k, 1, "t1", 1, 1);
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    return id;
}

pw_session_row kit_row(kit *k, int64_t session)
{
    pw_op op = kit_read(k, PW_OP_SESSION, session);
    kit_ok(k, &op);
    return op.session.row;
}

void kit_sound(kit *k)
{
    pw_op op = {.kind = PW_OP_VERIFY, .arena = &k->arena};
    kit_ok(k, &op);
    if (op.verify.faults != 0) {
        print_error("%.*s", PW_STR_ARG(op.verify.report));
    }
    assert_int_equal(op.verify.faults, 0);
}
