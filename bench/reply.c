/*
 * What a long reply costs us: runs N turns, one after another, against a server that answers each
 * with the same stream, and reports the process's own CPU time and the wall time of a turn (from
 * admission to its committed end) as one JSON object. reply N STORE PROVIDER BASE_URL
 */
#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { TURNS_MAX = 1000 };

static pawl_str str(const char *text)
{
    return (pawl_str){text, strlen(text)};
}

static int fail(const pawl_error *error)
{
    fprintf(stderr, "reply: %s\n", error->message);
    return 1;
}

static double wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* All threads of this process, in user and system mode. */
static double cpu_ms(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int32_t run_turn(pawl *p, int n, size_t *ret_bytes, pawl_error *error)
{
    char session[32];
    snprintf(session, sizeof session, "s%d", n);
    pawl_doc *sent = NULL, *turn = NULL;
    pawl_message message = {.size = sizeof message, .request_id = str("r"), .text = str("go")};
    int32_t status = pawl_submit(p, str(session), &message, &sent, error);
    pawl_doc_free(sent);
    if (status != PAWL_OK) {
        return status;
    }
    status = pawl_wait(p, str(session), str("r"), 60000, &turn, error);
    if (status == PAWL_OK) {
        *ret_bytes = pawl_doc_text(turn).len;
    }
    pawl_doc_free(turn);
    return status;
}

int main(int argc, char **argv)
{
    int count = argc == 5 ? atoi(argv[1]) : 0;
    if (count < 1 || count > TURNS_MAX) {
        fprintf(stderr, "usage: reply N STORE PROVIDER BASE_URL (N up to %d)\n", TURNS_MAX);
        return 2;
    }
    static double cpu[TURNS_MAX], wall[TURNS_MAX];
    char definition[512];
    snprintf(definition, sizeof definition,
             "{\"model\":{\"provider\":\"%s\",\"name\":\"long\",\"base_url\":\"%s\"}}", argv[3],
             argv[4]);
    setenv("ANTHROPIC_API_KEY", "none", 0);
    setenv("OPENAI_API_KEY", "none", 0);
    pawl *p = NULL;
    pawl_error error = {0};
    pawl_options options = {.size = sizeof options, .store = str(argv[2])};
    if (pawl_open(&options, &p, &error) ||
        pawl_agent_add(p, str("long"), str(definition), &error) || pawl_start(p, NULL, &error)) {
        return fail(&error);
    }
    size_t bytes = 0;
    if (run_turn(p, -1, &bytes, &error)) { /* connects, loads libraries */
        return fail(&error);
    }
    for (int i = 0; i < count; i++) {
        double cpu_from = cpu_ms(), wall_from = wall_ms();
        if (run_turn(p, i, &bytes, &error)) {
            return fail(&error);
        }
        cpu[i] = cpu_ms() - cpu_from;
        wall[i] = wall_ms() - wall_from;
    }
    pawl_close(p);
    if (bytes < 100000) {
        fprintf(stderr, "reply: a turn holds %zu bytes only: the reply did not come whole\n",
                bytes);
        return 1;
    }
    qsort(cpu, (size_t)count, sizeof cpu[0], by_value);
    qsort(wall, (size_t)count, sizeof wall[0], by_value);
    printf("{\"turns\":%d,\"turn_bytes\":%zu,\"cpu_ms\":%.3f,\"wall_ms\":%.3f}\n", count, bytes,
           cpu[count / 2], wall[count / 2]);
    return 0;
}
