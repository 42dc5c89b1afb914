/*
 * pawl_inspect: what can be checked of a store (verify) and of the place the program runs in
 * (doctor). Each check stands alone: one that fails, or cannot be made, hides no other. It changes
 * nothing but by "verify?rebuild=1".
 */
#include "runtime/read_inner.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <uv.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "net/curl.h"
#include "runtime/writer.h"

#define WAL_LARGE ((int64_t)256 << 20)
#define DISK_LOW ((int64_t)256 << 20)
#define DETAIL_MAX ((size_t)1 << 20)
#define NAMES_MAX 10

typedef struct inspection {
    pawl *p;
    pw_arena *arena;
    pw_json_writer *w;
    bool ok;
    pw_buffer detail;
} inspection;

/* Begins a check's detail; the next `check` ends it. */
static pw_buffer *detail(inspection *i)
{
    pw_buffer_init_arena(&i->detail, i->arena, DETAIL_MAX);
    return &i->detail;
}

static void check(inspection *i, const char *name, bool ok)
{
    pw_buffer text; /* a path in it may not be text */
    pw_buffer_init_arena(&text, i->arena, DETAIL_MAX * 3);
    if (i->detail.len > 0 && pw_utf8_mend(&text, pw_buffer_str(&i->detail)) != PW_OK) {
        pw_buffer_clear(&text);
    }
    i->ok = i->ok && ok;
    pw_json_object(i->w);
    pw_json_put_str(i->w, "name", pw_str_from(name));
    pw_json_put_bool(i->w, "ok", ok);
    pw_json_put_str(i->w, "detail", text.len > 0 ? pw_buffer_str(&text) : PW_STR(""));
    pw_json_object_end(i->w);
}

/* --- verify
 * ------------------------------------------------------------------------------------------------
 */

static void run_verify(inspection *i, bool rebuild)
{
    pw_op op = {.kind = PW_OP_VERIFY, .arena = i->arena, .verify = {.rebuild = rebuild}};
    if (rebuild) {
        pw_writer_do(i->p->writer, &op, 1);
    } else {
        pw_store_execute(i->p->store, &op, 1);
    }
    pw_buffer *d = detail(i);
    if (op.status != PW_OK) {
        pw_buffer_format(d, "could not be made: %s", op.error.message);
        check(i, "store", false);
        return;
    }
    if (op.verify.faults == 0) {
        pw_buffer_format(d, "every record, turn and inbox row agrees%s",
                         rebuild ? "; derived tables were rebuilt" : "");
        check(i, "store", true);
        return;
    }
    for (pw_str rest = op.verify.report; rest.len > 0;) { /* a check of its own for each fault */
        size_t end = pw_str_find(rest, PW_STR("\n"));
        end = end == SIZE_MAX ? rest.len : end;
        if (end > 0) {
            (void)pw_buffer_add(detail(i), pw_str_slice(rest, 0, end));
            check(i, "store", false);
        }
        rest = pw_str_slice(rest, end < rest.len ? end + 1 : end, rest.len);
    }
    pw_buffer_format(detail(i), "%lld fault%s", (long long)op.verify.faults,
                     op.verify.faults == 1 ? "" : "s");
    check(i, "faults", false);
}

/* --- doctor
 * --------------------------------------------------------------------------------------------------
 */

static pw_str store_path(const pawl *p)
{
    pw_str url = {p->options.store.ptr, p->options.store.len};
    pw_str scheme = PW_STR("sqlite:");
    return pw_str_begins(url, scheme) ? pw_str_slice(url, scheme.len, url.len) : PW_STR_NONE;
}

static void check_store(inspection *i)
{
    pw_store_traits t = pw_store_traits_get(i->p->store);
    pw_buffer *d = detail(i);
    pw_buffer_format(d, "%s %s", t.name, t.version ? t.version : "");
    pw_buffer_format(d, "; several processes %s",
                     t.many_processes ? "may share it" : "may not share it");
    if (t.schema > 0) {
        pw_buffer_format(d, "; schema %d", (int)t.schema);
    }
    if (i->p->options.store.len > 0) {
        pw_buffer_format(d, "; %.*s", (int)i->p->options.store.len, i->p->options.store.ptr);
    }
    check(i, "store", true);
}

/* 3.7.0 to 3.51.2 can corrupt a WAL file when two connections write and checkpoint at the same
 * moment. */
static void check_sqlite(inspection *i)
{
    int version = sqlite3_libversion_number();
    bool reset_bug = version >= 3007000 && version <= 3051002;
    pw_buffer *d = detail(i);
    pw_buffer_format(d, "SQLite %s", sqlite3_libversion());
    if (reset_bug) {
        pw_buffer_add(d, PW_STR(": versions 3.7.0 to 3.51.2 can damage a write-ahead log when two "
                                "connections write and "
                                "checkpoint at once; pawl never lets them (one writer, a lock "
                                "around both), other programs "
                                "that write to this file might"));
    }
    check(i, "sqlite", version >= 3040000);
}

static void check_libraries(inspection *i)
{
    pw_buffer_format(detail(i), "pawl %s", PAWL_VERSION);
    check(i, "pawl", true);
    pw_buffer_format(detail(i), "libuv %s", uv_version_string());
    check(i, "libuv", true);
    pw_error error = {0};
    const pw_curl *curl = pw_curl_load(&error);
    if (!curl) {
        pw_buffer_format(detail(i), "%s", error.message);
        check(i, "libcurl", false);
        return;
    }
    const curl_version_info_data *c = curl->version_info(CURLVERSION_NOW);
    pw_buffer_format(detail(i), "libcurl %s, TLS by %s", c->version,
                     c->ssl_version ? c->ssl_version : "nobody: no https");
    check(i, "libcurl", c->version_num >= 0x075800 && c->ssl_version);
}

static void check_owners(inspection *i)
{
    pw_owners_seen owners;
    pw_error error = {0};
    pw_buffer *d = detail(i);
    if (pw_owners_look(i->p, i->arena, &owners, &error) != PW_OK) {
        pw_buffer_format(d, "could not be read: %s", error.message);
        check(i, "owners", false);
        return;
    }
    pw_buffer_format(d, "%zu alive, %zu dead", owners.alive, owners.count - owners.alive);
    for (size_t n = 0; n < owners.count && n < NAMES_MAX; n++) {
        const pw_owner_seen *o = &owners.list[n];
        pw_buffer_format(d, "%s%.*s (%.*s) %s", n == 0 ? ": " : ", ", PW_STR_ARG(o->id),
                         PW_STR_ARG(o->address),
                         o->alive ? "alive" : "dead: its sessions will be taken over");
    }
    check(i, "owners", true);
}

typedef struct tally { /* of all sessions of this principal */
    size_t sessions, quarantined, due;
    pw_buffer quarantined_names, due_names;
} tally;

static void name_it(pw_buffer *names, size_t count, pw_str name)
{
    if (count <= NAMES_MAX) {
        pw_buffer_format(names, "%s%.*s", count == 1 ? ": " : ", ", PW_STR_ARG(name));
    } else if (count == NAMES_MAX + 1) {
        pw_buffer_add(names, PW_STR(", …"));
    }
}

static pw_status count_sessions(inspection *i, const pw_owners_seen *owners, tally *t,
                                pw_error *error)
{
    pw_str after = PW_STR_NONE;
    int64_t now = pw_now_ms();
    for (;;) {
        pw_op op = {
            .kind = PW_OP_SESSIONS,
            .sessions = {.principal = i->p->principal, .after_name = after, .limit = PW_PAGE_MAX}};
        PW_TRY(pw_read_op(i->p, &op, i->arena, error));
        for (size_t n = 0; n < op.sessions.count; n++) {
            const pw_session_row *r = &op.sessions.rows[n];
            const pw_owner_seen *owner = r->owner.len > 0 ? pw_owner_of(owners, r->owner) : NULL;
            t->sessions++;
            if (r->quarantined) {
                name_it(&t->quarantined_names, ++t->quarantined, r->name);
            } else if (r->wake_at_ms >= 0 && r->wake_at_ms <= now && !(owner && owner->alive)) {
                name_it(&t->due_names, ++t->due, r->name);
            }
        }
        if (op.sessions.count < PW_PAGE_MAX) {
            return PW_OK;
        }
        after = op.sessions.rows[op.sessions.count - 1].name;
    }
}

static void check_sessions(inspection *i)
{
    tally t = {0};
    pw_owners_seen owners;
    pw_error error = {0};
    pw_buffer_init_arena(&t.quarantined_names, i->arena, DETAIL_MAX);
    pw_buffer_init_arena(&t.due_names, i->arena, DETAIL_MAX);
    if (pw_owners_look(i->p, i->arena, &owners, &error) != PW_OK ||
        count_sessions(i, &owners, &t, &error) != PW_OK) {
        pw_buffer_format(detail(i), "could not be read: %s", error.message);
        check(i, "sessions", false);
        return;
    }
    pw_buffer_format(detail(i), "%zu", t.sessions);
    check(i, "sessions", true);
    pw_buffer_format(detail(i), "%zu set aside after repeated crashes%.*s", t.quarantined,
                     PW_STR_ARG(pw_buffer_str(&t.quarantined_names)));
    check(i, "quarantined", t.quarantined == 0);
    pw_buffer_format(detail(i), "%zu due and in nobody's hands%.*s", t.due,
                     PW_STR_ARG(pw_buffer_str(&t.due_names)));
    check(i, "due", t.due == 0 || owners.alive > 0);
}

static void check_files(inspection *i)
{
    pw_str path = store_path(i->p);
    if (path.len == 0) {
        return;
    }
    pw_buffer name;
    struct stat file;
    struct statvfs disk;
    pw_buffer_init_arena(&name, i->arena, 8192);
    if (pw_buffer_format(&name, "%.*s-wal", PW_STR_ARG(path)) != PW_OK) {
        return;
    }
    int64_t wal = stat(name.ptr, &file) == 0 ? (int64_t)file.st_size : 0;
    pw_buffer_format(
        detail(i), "%lld bytes%s", (long long)wal,
        wal > WAL_LARGE ? ": some reader keeps it from being merged, or no process writes" : "");
    check(i, "wal", wal <= WAL_LARGE);
    pw_buffer_clear(&name);
    if (pw_buffer_add(&name, path) != PW_OK || statvfs(name.ptr, &disk) != 0) {
        pw_buffer_add(detail(i), PW_STR("cannot be told"));
        check(i, "disk", false);
        return;
    }
    int64_t free_bytes = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    pw_buffer_format(detail(i), "%lld MiB free", (long long)(free_bytes >> 20));
    check(i, "disk", free_bytes >= DISK_LOW);
}

static void check_agents(inspection *i)
{
    pw_buffer *d = detail(i);
    pw_buffer_format(d, "%zu found", i->p->agent_count);
    for (size_t n = 0; n < i->p->agent_count && n < NAMES_MAX; n++) {
        pw_buffer_format(d, "%s%.*s", n == 0 ? ": " : ", ", PW_STR_ARG(i->p->agents[n]->name));
    }
    check(i, "agents", true);
}

static void run_doctor(inspection *i)
{
    check_store(i);
    check_sqlite(i);
    check_libraries(i);
    check_owners(i);
    check_sessions(i);
    check_files(i);
    check_agents(i);
}

/* --- The question
 * ------------------------------------------------------------------------------------------------
 */

typedef struct topic {
    const char *name, *parameters;
    pw_status (*answer)(pw_question *);
} topic;

/* Questions that take parameters and answer as they like; `*ret_found` false: it is none of them.
 */
static pw_status ask_topic(inspection *i, pw_str what, bool *ret_found, pw_error *error)
{
    static const topic topics[] = {
        {"models", ",agent,check,within,", pw_answer_models},
        {"request", ",session,prompt,body,", pw_answer_request},
    };
    size_t mark = pw_str_find(what, PW_STR("?"));
    pw_str name = pw_str_slice(what, 0, mark == SIZE_MAX ? what.len : mark);
    pw_str query = mark == SIZE_MAX ? PW_STR_NONE : pw_str_slice(what, mark + 1, what.len);
    *ret_found = false;
    for (size_t n = 0; n < sizeof topics / sizeof topics[0]; n++) {
        if (pw_str_is(name, topics[n].name)) {
            *ret_found = true;
            pw_question q = {.p = i->p, .arena = i->arena, .error = error, .w = i->w};
            PW_TRY(pw_question_query(&q, query, topics[n].parameters));
            PW_TRY(topics[n].answer(&q));
        }
    }
    return i->w->out->failed;
}

static pw_status inspect(inspection *i, pw_str what, pw_error *error)
{
    bool found;
    pw_status asked = ask_topic(i, what, &found, error);
    if (found || asked != PW_OK) {
        return asked;
    }
    bool rebuild = pw_str_is(what, "verify?rebuild=1");
    bool verify = rebuild || pw_str_is(what, "verify");
    if (pw_str_is(what, "counters")) {
        pw_json_object(i->w);
        pw_json_put_i64(i->w, "commits",
                        i->p->writer ? (int64_t)pw_writer_commits(i->p->writer) : 0);
        pw_json_object_end(i->w);
        return i->w->out->failed;
    }
    if (!verify && !pw_str_is(what, "doctor")) {
        return PW_FAIL(
            error, PW_INVALID,
            "what: is not one of verify, verify?rebuild=1, doctor, models, request, counters");
    }
    if (rebuild && !i->p->writer) {
        return PW_FAIL(error, PW_MISUSE, "a store opened read-only cannot be rebuilt");
    }
    pw_json_writer checks;
    pw_buffer list;
    pw_buffer_init_arena(&list, i->arena, PW_ANSWER_MAX);
    pw_json_begin(&checks, &list);
    pw_json_array(&checks);
    pw_json_writer *answer = i->w;
    i->w = &checks;
    if (verify) {
        run_verify(i, rebuild);
    } else {
        run_doctor(i);
    }
    pw_json_array_end(&checks);
    PW_TRY(list.failed);
    pw_json_object(answer);
    pw_json_put_bool(answer, "ok", i->ok);
    pw_json_put_raw(answer, "checks", pw_buffer_str(&list));
    pw_json_object_end(answer);
    return answer->out->failed;
}

int32_t pawl_inspect(pawl *p, pawl_str what, pawl_doc **ret, pawl_error *error)
{
    pw_error *e = (pw_error *)error;
    if (!p || !ret) {
        return PW_FAIL(e, PW_MISUSE, "pawl_inspect needs a handle and a place for its answer");
    }
    pw_arena arena;
    pw_buffer text;
    pw_json_writer writer;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_buffer_init(&text, &pw_heap, PW_ANSWER_MAX);
    pw_json_begin(&writer, &text);
    inspection i = {.p = p, .arena = &arena, .w = &writer, .ok = true};
    pw_error local = {0};
    pw_status status = inspect(&i, (pw_str){what.ptr, what.len}, e ? e : &local);
    if (status == PW_OK) {
        status = pw_doc_new(pw_buffer_str(&text), ret, error);
    } else if (status == PW_NOMEM) {
        status = PW_FAIL(e, PW_NOMEM, "no memory for the answer");
    }
    pw_buffer_free(&text);
    pw_arena_free(&arena);
    return status;
}
