/*
 * `pawl bench`: the engine measured from outside, as an embedding program uses it. A turn is ten
 * iterations, each a model call and a call of a `none` tool, 1 KB each way (arguments and result),
 * then the reply. N sessions have M iterations each.
 *
 * What is measured is the engine and not who submits: all messages of all sessions are admitted
 * first, each durable, then the engine is started and the clock with it; it stops when every turn
 * has ended. What admission took is told apart (`admit_seconds`). Messages that wait together would
 * become one turn (B2, B8), so each has a source of its own.
 *
 * A step is a model call or a tool call: its receipt is one durable record. Step latency is half
 * the time between two consecutive calls of the tool in a turn (as the tool itself sees them): one
 * iteration is two steps, and nothing of the second begins before the first is durable. The
 * baseline (bench_baseline.c) writes the same rows in as many commits as the run had.
 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define ITERATIONS_A_TURN 10
#define SESSIONS_MAX 4096
#define FILLER 1000
#define SLOTS_PER_DOUBLING 64
#define SLOTS (SLOTS_PER_DOUBLING * 40)
#define SUBMITTERS_MAX 32
#define WAIT_MS 600000

typedef struct session {
    _Atomic int64_t last_call_ns;
    _Atomic int64_t calls;
} session;

typedef struct bench {
    pawl *p;
    session *sessions;
    int64_t session_count, iterations, turns; /* of each session */
    char filler[FILLER + 1];
    char *result;
    _Atomic int64_t histogram[SLOTS]; /* of step times in ns, 64 slots a doubling: within 1.6 % */
    _Atomic int64_t measured;
    _Atomic int64_t next_session; /* for the submitters */
    _Atomic int failed;
    char store[4200], folder[4096]; /* folder: ours, to be removed */
    char error[240];
    pthread_mutex_t mutex;
} bench;

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- Latency
 * ------------------------------------------------------------------------------------------------
 */

static size_t slot_of(int64_t ns)
{
    uint64_t x = ns > 0 ? (uint64_t)ns : 1;
    unsigned doubling = 63 - (unsigned)__builtin_clzll(x);
    uint64_t within = doubling >= 6 ? (x >> (doubling - 6)) & 63 : (x << (6 - doubling)) & 63;
    size_t slot = (size_t)doubling * SLOTS_PER_DOUBLING + (size_t)within;
    return slot < SLOTS ? slot : SLOTS - 1;
}

static double ms_of_slot(size_t slot)
{
    double base = (double)(1ull << (slot / SLOTS_PER_DOUBLING));
    return base * (1.0 + ((double)(slot % SLOTS_PER_DOUBLING) + 0.5) / SLOTS_PER_DOUBLING) / 1e6;
}

static double percentile_ms(bench *b, double share)
{
    int64_t total = atomic_load(&b->measured), seen = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        seen += atomic_load(&b->histogram[i]);
        if (total > 0 && (double)seen >= share * (double)total) {
            return ms_of_slot(i);
        }
    }
    return 0;
}

/* Whose call it is: "bench-<number>" in what the call says of itself. */
static session *session_of(bench *b, const pawl_call *call)
{
    pawl_str info = pawl_call_info_json(call);
    static const char mark[] = "\"bench-";
    const char *at = memmem(info.ptr, info.len, mark, sizeof(mark) - 1);
    int64_t number = at ? strtoll(at + sizeof(mark) - 1, NULL, 10) : -1;
    return number >= 0 && number < b->session_count ? &b->sessions[number] : NULL;
}

static int32_t echo(pawl_call *call, void *ctx)
{
    bench *b = ctx;
    session *s = session_of(b, call);
    if (s) {
        int64_t now = now_ns(), last = atomic_exchange(&s->last_call_ns, now);
        if (atomic_fetch_add(&s->calls, 1) % ITERATIONS_A_TURN > 0) {
            atomic_fetch_add(&b->histogram[slot_of((now - last) / 2)], 1);
            atomic_fetch_add(&b->measured, 1);
        }
    }
    return pawl_call_return(call, cli_str(b->result));
}

/* --- The workload --- */

static void give_up(bench *b, const pawl_error *error)
{
    (void)pthread_mutex_lock(&b->mutex);
    if (!atomic_exchange(&b->failed, 1)) {
        memcpy(b->error, error->message, sizeof(b->error));
    }
    (void)pthread_mutex_unlock(&b->mutex);
}

static int32_t admit(bench *b, int64_t number, int64_t turn, pawl_error *error)
{
    char name[32], request[32], source[32];
    pawl_doc *answer = NULL;
    snprintf(name, sizeof(name), "bench-%" PRId64, number);
    snprintf(request, sizeof(request), "turn-%" PRId64, turn);
    snprintf(source, sizeof(source), "bench-%" PRId64, turn);
    pawl_message message = {.size = sizeof(message),
                            .request_id = cli_str(request),
                            .text = cli_str("Do the next ten things."),
                            .source = cli_str(source)};
    int32_t code = pawl_submit(b->p, cli_str(name), &message, &answer, error);
    pawl_doc_free(answer);
    return code;
}

/* A session at a time, so that its messages keep their order. */
static void *submitter_main(void *arg)
{
    bench *b = arg;
    pawl_error error = {0};
    int64_t number;
    while ((number = atomic_fetch_add(&b->next_session, 1)) < b->session_count) {
        for (int64_t turn = 0; turn < b->turns && !atomic_load(&b->failed); turn++) {
            if (admit(b, number, turn, &error) != PAWL_OK) {
                give_up(b, &error);
            }
        }
    }
    return NULL;
}

static int32_t admit_all(bench *b, pawl_error *error)
{
    pthread_t threads[SUBMITTERS_MAX];
    size_t count = 0,
           wanted = b->session_count < SUBMITTERS_MAX ? (size_t)b->session_count : SUBMITTERS_MAX;
    while (count < wanted && pthread_create(&threads[count], NULL, submitter_main, b) == 0) {
        count++;
    }
    if (count == 0) {
        (void)submitter_main(b);
    }
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (atomic_load(&b->failed)) {
        memcpy(error->message, b->error, sizeof(error->message));
        return PAWL_INTERNAL;
    }
    return PAWL_OK;
}

/* The last turn of each session; one that did not complete is an error. */
static int32_t await_all(bench *b, pawl_error *error)
{
    char name[32], request[32];
    snprintf(request, sizeof(request), "turn-%" PRId64, b->turns - 1);
    for (int64_t number = 0; number < b->session_count; number++) {
        pawl_doc *turn = NULL;
        snprintf(name, sizeof(name), "bench-%" PRId64, number);
        int32_t code = pawl_wait(b->p, cli_str(name), cli_str(request), WAIT_MS, &turn, error);
        if (code == PAWL_OK && !cli_is(cli_get(turn, "state"), "completed")) {
            code = PAWL_INTERNAL;
            snprintf(error->message, sizeof(error->message), "a turn did not complete: %.200s",
                     pawl_doc_text(turn).ptr);
        }
        pawl_doc_free(turn);
        if (code != PAWL_OK) {
            return code;
        }
    }
    return PAWL_OK;
}

/* Ten different calls and a reply: the same call thrice would be refused as a repetition (F4). */
static char *agent_json(const bench *b)
{
    size_t size = (size_t)(ITERATIONS_A_TURN + 2) * (FILLER + 200);
    char *text = malloc(size);
    size_t at = text ? (size_t)snprintf(text, size,
                                        "{\"name\":\"bench\",\"model\":{\"provider\":\"scripted\","
                                        "\"name\":\"bench\",\"script\":[")
                     : 0;
    for (int i = 1; text && i <= ITERATIONS_A_TURN; i++) {
        at += (size_t)snprintf(
            text + at, size - at,
            "{\"when\":{\"step\":%d},\"calls\":[{\"name\":\"echo\",\"arguments\":{\"n\":%d,"
            "\"text\":\"%s\"}}],"
            "\"usage\":{\"input_tokens\":1000,\"output_tokens\":250,\"cost_usd\":0.001}},",
            i, i, b->filler);
    }
    if (text) {
        snprintf(text + at, size - at,
                 "{\"text\":\"%s\",\"chunk\":2000}]},\"context\":{\"messages\":20},"
                 "\"tools\":[{\"name\":\"echo\",\"kind\":\"native\"}]}",
                 b->filler);
    }
    return text;
}

static int32_t prepare(bench *b, pawl_error *error)
{
    pawl_options options = {.size = sizeof(options), .store = cli_str(b->store)};
    pawl_tool tool = {.size = sizeof(tool),
                      .name = cli_str("echo"),
                      .description = cli_str("Says 1 KB."),
                      .effects = PAWL_NONE,
                      .run = echo,
                      .ctx = b};
    char *agent = agent_json(b);
    int32_t code = agent ? pawl_open(&options, &b->p, error) : PAWL_NOMEM;
    code = code == PAWL_OK ? pawl_tool_add(b->p, &tool, error) : code;
    code = code == PAWL_OK ? pawl_agent_add(b->p, cli_str("bench"), cli_str(agent), error) : code;
    free(agent);
    return code;
}

typedef struct report {
    int64_t steps, rows, commits, store_bytes, peak_rss_kb;
    double admit_seconds, seconds, p50_ms, p99_ms, baseline_seconds;
} report;

static int64_t commits_of(pawl *p)
{
    pawl_doc *counters = NULL;
    int64_t commits = 0;
    if (pawl_inspect(p, cli_str("counters"), &counters, NULL) == PAWL_OK) {
        commits = cli_get_number(counters, 0, "commits");
    }
    pawl_doc_free(counters);
    return commits;
}

static int32_t run_all(bench *b, report *r, pawl_error *error)
{
    int32_t code = prepare(b, error);
    int64_t begin = now_ns();
    code = code == PAWL_OK ? admit_all(b, error) : code;
    r->admit_seconds = (double)(now_ns() - begin) / 1e9;
    int64_t commits = code == PAWL_OK ? commits_of(b->p) : 0;
    begin = now_ns();
    code = code == PAWL_OK ? pawl_start(b->p, NULL, error) : code;
    code = code == PAWL_OK ? await_all(b, error) : code;
    r->seconds = (double)(now_ns() - begin) / 1e9;
    r->commits = code == PAWL_OK ? commits_of(b->p) - commits : 0;
    return code;
}

/* --- The report
 * ----------------------------------------------------------------------------------------------------
 */

static const char *database_of(const bench *b)
{
    return strncmp(b->store, "sqlite:", 7) == 0 ? b->store + 7 : NULL;
}

static int64_t file_size(const char *path)
{
    struct stat s;
    return path && stat(path, &s) == 0 ? (int64_t)s.st_size : -1;
}

static void print_report(const cli *c, const bench *b, const report *r)
{
    const char *format =
        c->json
            ? "{\"sessions\":%" PRId64 ",\"iterations\":%" PRId64 ",\"steps\":%" PRId64
              ",\"seconds\":%.3f,\"steps_per_s\":%.1f,\"step_p50_ms\":%.3f,\"step_p99_ms\":%.3f"
            : "sessions      %" PRId64 "\niterations    %" PRId64 "\nsteps         %" PRId64
              "\nseconds       %.3f\nsteps/s       %.1f\nstep p50 ms   %.3f\nstep p99 ms   %.3f\n";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    printf(format, b->session_count, b->iterations, r->steps, r->seconds,
           (double)r->steps / r->seconds, r->p50_ms, r->p99_ms);
#pragma GCC diagnostic pop
    double per_step = r->store_bytes >= 0 ? (double)r->store_bytes / (double)r->steps : 0;
    printf(c->json ? ",\"bytes_per_step\":%.1f,\"commits\":%" PRId64 ",\"peak_rss_kb\":%" PRId64
                   : "bytes/step    %.1f\ncommits       %" PRId64 "\npeak rss kb   %" PRId64 "\n",
           per_step, r->commits, r->peak_rss_kb);
    printf(c->json ? ",\"admit_seconds\":%.3f" : "admit s       %.3f\n", r->admit_seconds);
    if (r->baseline_seconds > 0) {
        printf(c->json ? ",\"baseline_steps_per_s\":%.1f,\"ratio\":%.3f"
                       : "raw loop      %.1f steps/s\nratio         %.3f\n",
               (double)r->steps / r->baseline_seconds, r->baseline_seconds / r->seconds);
    }
    fputs(c->json ? "}\n" : "", stdout);
}

static int measure(cli *c, bench *b)
{
    report r = {0};
    pawl_error error = {0};
    struct rusage used;
    int32_t code = run_all(b, &r, &error);
    if (b->p) {
        (void)pawl_drain(b->p, 5000);
        pawl_close(b->p);
    }
    if (code != PAWL_OK) {
        return cli_fail(c, code, &error, "bench");
    }
    (void)getrusage(RUSAGE_SELF, &used);
    r.steps = b->session_count * b->turns * (2 * ITERATIONS_A_TURN + 1);
    r.rows = b->session_count * b->turns *
             (2 * ITERATIONS_A_TURN + 3); /* with the turn's beginning and end */
    r.peak_rss_kb = used.ru_maxrss;
    r.store_bytes = file_size(database_of(b));
    r.p50_ms = percentile_ms(b, 0.50);
    r.p99_ms = percentile_ms(b, 0.99);
    if (c->option[CLI_baseline]) {
        char path[4300];
        snprintf(path, sizeof(path), "%s-baseline", database_of(b));
        double group = (double)r.rows / (double)(r.commits > 0 ? r.commits : 1);
        if (!cli_bench_baseline(database_of(b), path, group, &r.baseline_seconds, error.message,
                                sizeof(error.message))) {
            return cli_fail(c, PAWL_IO, &error, "bench");
        }
    }
    print_report(c, b, &r);
    return CLI_DONE;
}

/* --- The command
 * ------------------------------------------------------------------------------------------------------
 */

static bool whole_number(const char *text, int64_t least, int64_t most, int64_t *ret)
{
    if (!text) {
        return true;
    }
    char *end;
    errno = 0;
    int64_t number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || number < least || number > most) {
        return false;
    }
    *ret = number;
    return true;
}

static int choose_store(cli *c, bench *b)
{
    const char *given = c->option[CLI_store];
    if (given) {
        snprintf(b->store, sizeof(b->store), "%s", given);
        const char *path = database_of(b);
        if (path && file_size(path) > 0) {
            return cli_usage(c, "%s is there already: bench wants a fresh store", path);
        }
        return CLI_DONE;
    }
    const char *place = getenv("TMPDIR");
    snprintf(b->folder, sizeof(b->folder), "%s/pawl-bench-XXXXXX",
             place && place[0] ? place : "/tmp");
    if (!mkdtemp(b->folder)) {
        b->folder[0] = '\0';
        return cli_usage(c, "no temporary folder can be made: %s", strerror(errno));
    }
    snprintf(b->store, sizeof(b->store), "sqlite:%s/bench.db", b->folder);
    return CLI_DONE;
}

static void remove_folder(const bench *b)
{
    static const char *const files[] = {"bench.db", "bench.db-wal", "bench.db-shm",
                                        "bench.db-lock"};
    char path[4200];
    for (size_t i = 0; b->folder[0] && i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", b->folder, files[i]);
        (void)unlink(path); /* not all of them are there */
    }
    if (b->folder[0]) {
        (void)rmdir(b->folder);
    }
}

int cli_bench(cli *c)
{
    bench *b = calloc(1, sizeof(*b));
    if (!b) {
        return cli_fail(c, PAWL_NOMEM, NULL, "bench");
    }
    b->session_count = 1;
    b->iterations = 100;
    int status = CLI_DONE;
    if (!whole_number(c->option[CLI_sessions], 1, SESSIONS_MAX, &b->session_count) ||
        !whole_number(c->option[CLI_iterations], 1, 100000000, &b->iterations)) {
        status = cli_usage(c, "--sessions is a number from 1 to %d, --iterations one from 1",
                           SESSIONS_MAX);
    }
    memset(b->filler, 'x', FILLER);
    b->turns = (b->iterations + ITERATIONS_A_TURN - 1) / ITERATIONS_A_TURN;
    b->sessions = calloc((size_t)b->session_count, sizeof(*b->sessions));
    b->result = malloc(FILLER + 32);
    (void)pthread_mutex_init(&b->mutex, NULL);
    if (status == CLI_DONE && b->sessions && b->result) {
        snprintf(b->result, FILLER + 32, "{\"text\":\"%s\"}", b->filler);
        status = choose_store(c, b);
        if (status == CLI_DONE && c->option[CLI_baseline] && !database_of(b)) {
            status = cli_usage(c, "--baseline needs an sqlite store");
        }
        status = status == CLI_DONE ? measure(c, b) : status;
        remove_folder(b);
    }
    (void)pthread_mutex_destroy(&b->mutex);
    free(b->result);
    free(b->sessions);
    free(b);
    return status;
}
