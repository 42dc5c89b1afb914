/* The bench of bench.h. Test threads only; a failure ends the test by cmocka's own jump. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pawl_str bench_str(const char *text)
{
    return (pawl_str){text, text ? strlen(text) : 0};
}

static void count_log(void *ctx, int32_t level, pawl_str json)
{
    bench *b = ctx;
    if (level == 0) {
        atomic_fetch_add(&b->errors, 1);
    }
    if (getenv("PAWL_TEST_LOG")) {
        fprintf(stderr, "%.*s\n", (int)json.len, json.ptr);
    }
}

void bench_begin(bench *b, const char *kind)
{
    memset(b, 0, sizeof *b);
    snprintf(b->directory, sizeof b->directory, "/tmp/pawl-runtime-XXXXXX");
    assert_non_null(mkdtemp(b->directory));
    if (strcmp(kind, "sqlite") == 0) {
        snprintf(b->url, sizeof b->url, "sqlite:%s/pawl.db", b->directory);
    } else {
        snprintf(b->url, sizeof b->url, "memory:");
    }
}

void bench_end(bench *b)
{
    bench_close(b);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", b->directory);
    assert_int_equal(system(command), 0);
}

void bench_open(bench *b)
{
    pawl_options options = {
        .size = sizeof options, .store = bench_str(b->url), .ctx = b, .log = count_log};
    pawl_error error = {0};
    if (pawl_open(&options, &b->p, &error) != PAWL_OK) {
        fail_msg("open: %s", error.message);
    }
}

void bench_agent(bench *b, const char *script, const char *tools, const char *more)
{
    static const char form[] =
        "{\"name\":\"default\",\"instructions\":\"Do it.\",\"model\":{\"provider\":"
        "\"scripted\",\"name\":\"script-1\",\"script\":%s},\"tools\":%s%s%s}";
    size_t size = sizeof form + strlen(script) + strlen(tools) + (more ? strlen(more) : 0) + 8;
    char *json = malloc(size);
    assert_non_null(json);
    snprintf(json, size, form, script, tools, more ? "," : "", more ? more : "");
    pawl_error error = {0};
    int32_t code = pawl_agent_add(b->p, S("default"), bench_str(json), &error);
    free(json);
    if (code != PAWL_OK) {
        fail_msg("agent: %s", error.message);
    }
}

void bench_tool(bench *b, const char *name, int32_t effects, pawl_tool_fn run, void *ctx,
                int32_t limit_ms)
{
    pawl_tool tool = {.size = sizeof tool,
                      .name = bench_str(name),
                      .description = S("A tool of the test."),
                      .schema_json = S("{\"type\":\"object\"}"),
                      .effects = effects,
                      .limit_ms = limit_ms,
                      .run = run,
                      .ctx = ctx};
    pawl_error error = {0};
    if (pawl_tool_add(b->p, &tool, &error) != PAWL_OK) {
        fail_msg("tool: %s", error.message);
    }
}

void bench_start_with(bench *b, const pawl_start_options *options)
{
    pawl_error error = {0};
    if (pawl_start(b->p, options, &error) != PAWL_OK) {
        fail_msg("start: %s", error.message);
    }
}

void bench_start(bench *b)
{
    bench_start_with(b, NULL);
}

void bench_close(bench *b)
{
    pawl_close(b->p);
    b->p = NULL;
}

int32_t bench_submit(bench *b, const char *session, const char *id, const char *text)
{
    pawl_message message = {
        .size = sizeof message, .request_id = bench_str(id), .text = bench_str(text)};
    pawl_doc *doc = NULL;
    pawl_error error = {0};
    int32_t code = pawl_submit(b->p, bench_str(session), &message, &doc, &error);
    if (code != PAWL_OK) {
        print_message("submit %s: %s\n", id, error.message);
    }
    pawl_doc_free(doc);
    return code;
}

pawl_doc *bench_wait(bench *b, const char *session, const char *id)
{
    pawl_doc *turn = NULL;
    pawl_error error = {0};
    int32_t code = pawl_wait(b->p, bench_str(session), bench_str(id), 20000, &turn, &error);
    if (code != PAWL_OK) {
        char path[256];
        pawl_doc *why = NULL;
        snprintf(path, sizeof path, "/v1/sessions/%s/why", session);
        if (pawl_read(b->p, bench_str(path), &why, NULL) == PAWL_OK) {
            print_message("%s\n", pawl_doc_text(why).ptr);
        }
        pawl_doc_free(why);
        fail_msg("wait %s: %s: %s", id, pawl_status_name(code), error.message);
    }
    return turn;
}

const char *bench_get(const pawl_doc *doc, const char *path)
{
    static _Thread_local char texts[8][4096];
    static _Thread_local unsigned at;
    char *text = texts[at++ % 8];
    pawl_str value = {0};
    if (pawl_doc_get(doc, path, &value) != PAWL_OK) {
        return "(none)";
    }
    snprintf(text, sizeof texts[0], "%.*s", (int)value.len, value.ptr);
    return text;
}

void bench_expect(const pawl_doc *doc, const char *path, const char *value)
{
    const char *found = bench_get(doc, path);
    if (strcmp(found, value) != 0) {
        fail_msg("%s is %s, expected %s in %s", path, found, value, pawl_doc_text(doc).ptr);
    }
}

void bench_turn(bench *b, const char *session, const char *id, const char *text, const char *state,
                const char *reply)
{
    assert_int_equal(bench_submit(b, session, id, text), PAWL_OK);
    pawl_doc *turn = bench_wait(b, session, id);
    bench_expect(turn, "state", state);
    if (reply) {
        bench_expect(turn, "text", reply);
    }
    pawl_doc_free(turn);
}

pawl_doc *bench_read(bench *b, const char *path)
{
    pawl_doc *doc = NULL;
    pawl_error error = {0};
    if (pawl_read(b->p, bench_str(path), &doc, &error) != PAWL_OK) {
        fail_msg("read %s: %s", path, error.message);
    }
    return doc;
}

void bench_until(int (*holds)(void *), void *ctx)
{
    for (int i = 0; i < 20000; i++) {
        if (holds(ctx)) {
            return;
        }
        struct timespec ms = {.tv_nsec = 1000000};
        nanosleep(&ms, NULL);
    }
    fail_msg("it did not come true within 20 s");
}

typedef struct claim {
    bench *b;
    char path[256];
    char *to;
} claim;

static int is_claimed(void *ctx)
{
    claim *c = ctx;
    pawl_doc *doc = NULL;
    if (pawl_read(c->b->p, bench_str(c->path), &doc, NULL) != PAWL_OK) {
        return 0;
    }
    snprintf(c->to, 80, "%s", bench_get(doc, "turn.id"));
    pawl_doc_free(doc);
    return strcmp(c->to, "(none)") != 0;
}

void bench_turn_id(bench *b, const char *session, const char *id, char to[80])
{
    claim c = {.b = b, .to = to};
    snprintf(c.path, sizeof c.path, "/v1/sessions/%s/messages/%s", session, id);
    bench_until(is_claimed, &c);
}
