/*
 * What a turn in flight costs: opens N sessions whose model answers slowly over plain HTTP, and
 * reports the memory of the process before, while all are in flight, and after all have ended, as
 * one JSON object. inflight N STORE BASE_URL
 */
#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pawl_str str(const char *text)
{
    return (pawl_str){text, strlen(text)};
}

/* Anonymous resident memory, in KiB: what the process itself allocated and touched. */
static long resident_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kb = -1;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "RssAnon: %ld", &kb) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kb;
}

static int fail(const pawl_error *error)
{
    fprintf(stderr, "inflight: %s\n", error->message);
    return 1;
}

/* The most that was resident while the turns were in flight: looked at every 20 ms until the first
 * one has ended. */
static long peak_until_first_end(pawl *p, long now)
{
    long peak = now;
    for (;;) {
        pawl_doc *turn = NULL;
        int32_t status = pawl_wait(p, str("s0"), str("r"), 20, &turn, NULL);
        long kb = resident_kb();
        peak = kb > peak ? kb : peak;
        pawl_doc_free(turn);
        if (status != PAWL_TIMEOUT) {
            return peak;
        }
    }
}

/* What stays: memory is given back a little after the last session went, not at once. */
static long resident_at_rest(long base_kb)
{
    const struct timespec pause = {0, 100000000};
    long now_kb = resident_kb();
    for (int i = 0; i < 50 && now_kb > base_kb; i++) {
        (void)nanosleep(&pause, NULL);
        long then_kb = resident_kb();
        now_kb = then_kb < now_kb ? then_kb : now_kb;
    }
    return now_kb;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: inflight N STORE BASE_URL\n");
        return 2;
    }
    int count = atoi(argv[1]);
    char definition[512], name[32];
    snprintf(definition, sizeof definition,
             "{\"model\":{\"provider\":\"anthropic\",\"name\":\"slow\",\"base_url\":\"%s\"},"
             "\"instructions\":\"Answer.\"}",
             argv[3]);
    setenv("ANTHROPIC_API_KEY", "none", 0);
    pawl *p = NULL;
    pawl_error error = {0};
    pawl_options options = {.size = sizeof options, .store = str(argv[2])};
    if (pawl_open(&options, &p, &error) ||
        pawl_agent_add(p, str("slow"), str(definition), &error) || pawl_start(p, NULL, &error)) {
        return fail(&error);
    }
    long before = resident_kb();
    for (int i = 0; i < count; i++) {
        pawl_doc *sent = NULL;
        pawl_message message = {
            .size = sizeof message, .request_id = str("r"), .text = str("Hello, how are you?")};
        snprintf(name, sizeof name, "s%d", i);
        if (pawl_submit(p, str(name), &message, &sent, &error)) {
            return fail(&error);
        }
        pawl_doc_free(sent);
    }
    long peak = peak_until_first_end(p, resident_kb());
    for (int i = 0; i < count; i++) {
        pawl_doc *turn = NULL;
        snprintf(name, sizeof name, "s%d", i);
        if (pawl_wait(p, str(name), str("r"), 120000, &turn, &error)) {
            return fail(&error);
        }
        pawl_doc_free(turn);
    }
    printf("{\"turns\":%d,\"before_kb\":%ld,\"in_flight_kb\":%ld,\"after_kb\":%ld,\"per_turn_kb\":%"
           ".1f}\n",
           count, before, peak, resident_at_rest(before), (double)(peak - before) / count);
    pawl_close(p);
    return 0;
}
