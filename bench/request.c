/*
 * What the next request of a long turn costs: a transcript of about BYTES is rendered once, then
 * step after step is added and each time the request is built anew, which should cost only what is
 * new. Reports the median as one JSON object. request PROVIDER BYTES
 */
#include "base/heap.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 200, RESULT_BYTES = 4000, MESSAGES_MAX = 100000 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct transcript {
    pw_arena arena;
    const pw_message **list;
    size_t count;
    pw_str result; /* what every tool answers */
} transcript;

static pw_message *add(transcript *t, pw_role role, pw_part part)
{
    pw_message *message = PW_NEW(&t->arena, pw_message);
    pw_part *parts = PW_NEW(&t->arena, pw_part);
    if (!message || !parts || t->count == MESSAGES_MAX) {
        abort();
    }
    *parts = part;
    *message = (pw_message){.role = role,
                            .n = (int64_t)t->count + 1,
                            .turn = PW_STR("t"),
                            .parts = parts,
                            .part_count = 1};
    t->list[t->count++] = message;
    return message;
}

/* One step: the model's call and its tool's answer. */
static void add_step(transcript *t, pw_str provider)
{
    char name[32];
    pw_str call = PW_STR_NONE;
    snprintf(name, sizeof name, "call_%zu", t->count);
    if (pw_arena_dup(&t->arena, pw_str_from(name), &call) != PW_OK) {
        abort();
    }
    pw_message *asked = add(t, PW_ROLE_ASSISTANT,
                            (pw_part){.kind = PW_PART_TOOL_CALL,
                                      .call = call,
                                      .provider_id = call,
                                      .name = PW_STR("look_up"),
                                      .arguments = PW_STR("{\"order\":\"A-1042\",\"deep\":true}")});
    asked->provider = provider;
    asked->model = PW_STR("m");
    pw_message *answered = add(t, PW_ROLE_TOOL, (pw_part){.kind = PW_PART_TEXT});
    answered->part_count = 0;
    answered->call = call;
    answered->name = PW_STR("look_up");
    answered->result = t->result;
}

static void fill_result(transcript *t)
{
    char *bytes = pw_arena_bytes(&t->arena, RESULT_BYTES + 1);
    if (!bytes) {
        abort();
    }
    memset(bytes, 'x', RESULT_BYTES);
    for (size_t i = 40; i < RESULT_BYTES; i += 40) {
        bytes[i] = ' ';
    }
    memcpy(bytes, "{\"text\":\"", 9);
    memcpy(bytes + RESULT_BYTES - 2, "\"}", 2);
    t->result = (pw_str){bytes, RESULT_BYTES};
}

int main(int argc, char **argv)
{
    const pw_provider *provider = argc == 3 ? pw_provider_find(pw_str_from(argv[1])) : NULL;
    if (!provider || provider->local) {
        fprintf(stderr, "usage: request PROVIDER BYTES\n");
        return 2;
    }
    const size_t wanted = strtoul(argv[2], NULL, 10);
    transcript t = {.list = calloc(MESSAGES_MAX, sizeof(pw_message *))};
    pw_arena_init(&t.arena, &pw_heap, 65536, 0);
    fill_result(&t);
    add(&t, PW_ROLE_USER, (pw_part){.kind = PW_PART_TEXT, .text = PW_STR("go")});
    while (t.count / 2 * RESULT_BYTES < wanted) {
        add_step(&t, pw_str_from(provider->name));
    }
    const pw_json *options = NULL;
    if (pw_json_parse(&t.arena, PW_STR("{\"max_tokens\":1000}"), 0, &options, NULL) != PW_OK) {
        abort();
    }
    const pw_model_choice model = {
        .provider = pw_str_from(provider->name), .name = PW_STR("m"), .options = options};
    const pw_definition definition = {.name = PW_STR("bench"), .models = &model, .model_count = 1};
    const pw_endpoint endpoint = {.base_url = PW_STR("http://localhost"), .key = PW_STR("none")};
    pw_render render;
    pw_render_init(&render, &pw_heap);
    static double took[STEPS];
    size_t bytes = 0, same = 0;
    double first = 0;
    for (int i = 0; i <= STEPS; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        pw_http_request http = {0};
        pw_error error = {0};
        const pw_model_request request = {.call = 1,
                                          .turn = PW_STR("t"),
                                          .step = PW_STR("model:1"),
                                          .attempt = 1,
                                          .tries = 1,
                                          .definition = &definition,
                                          .model = &model,
                                          .messages = t.list,
                                          .count = t.count,
                                          .same = same};
        const double from = now_ms();
        if (provider->request(&endpoint, &request, &render, &arena, &http, &error) != PW_OK) {
            fprintf(stderr, "request: %s\n", error.message);
            return 1;
        }
        const double ms = now_ms() - from;
        bytes = http.body[0].len + http.body[1].len + http.body[2].len;
        if (i == 0) {
            first = ms;
        } else {
            took[i - 1] = ms;
        }
        same = t.count;
        add_step(&t, pw_str_from(provider->name));
        pw_arena_free(&arena);
    }
    qsort(took, STEPS, sizeof took[0], by_value);
    printf(
        "{\"bytes\":%zu,\"messages\":%zu,\"whole_ms\":%.3f,\"step_ms\":%.4f,\"worst_ms\":%.4f}\n",
        bytes, t.count, first, took[STEPS / 2], took[STEPS - 1]);
    pw_render_free(&render);
    pw_arena_free(&t.arena);
    free(t.list);
    return 0;
}
