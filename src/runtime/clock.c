/*
 * The only clocks and the only source of randomness in the engine, and the way to the host's log.
 * Any thread. Must never print and never fail: a machine without entropy mixes the clocks, since
 * ids need to differ, not to be secret.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/random.h>
#endif

#include "base/clock.h"
#include "base/id.h"
#include "base/utf8.h"
#include "runtime/inside.h"
#include "runtime/runtime.h"

int64_t pw_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t pw_monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void mix_clocks(uint8_t *to, size_t size)
{
    uint8_t seed[32] = {0};
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    clock_gettime(CLOCK_MONOTONIC, &times[1]);
    memcpy(seed, times, sizeof times < sizeof seed ? sizeof times : sizeof seed);
    seed[31] ^= (uint8_t)getpid();
    pw_random mixed;
    pw_random_seed(&mixed, seed);
    pw_random_bytes(&mixed, to, size);
}

void pw_entropy(uint8_t *to, size_t size)
{
#if defined(__linux__)
    while (size > 0) {
        ssize_t got = getrandom(to, size, 0);
        if (got > 0) {
            to += got;
            size -= (size_t)got;
        } else if (errno != EINTR) {
            mix_clocks(to, size);
            return;
        }
    }
#else
    while (size > 0) {
        size_t part = size < 256 ? size : 256;
        if (getentropy(to, part) != 0) {
            mix_clocks(to, size);
            return;
        }
        to += part;
        size -= part;
    }
#endif
}

void pw_log(pawl *p, int32_t level, const char *event, const char *format, ...)
{
    if (!p->options.log) {
        return;
    }
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    pw_arena arena;
    pw_arena_init(&arena, p->allocator, 2048, 0);
    pw_buffer out;
    pw_buffer mended;
    pw_buffer_init_arena(&out, &arena, 8192);
    pw_buffer_init_arena(&mended, &arena, 8192);
    (void)pw_utf8_mend(&mended, (pw_str){text, size});
    pw_json_writer w;
    pw_json_begin(&w, &out);
    pw_json_object(&w);
    pw_json_put_time(&w, "at", pw_now_ms());
    pw_json_put_str(&w, "level",
                    pw_str_from(level <= 0   ? "error"
                                : level == 1 ? "warning"
                                             : "info"));
    pw_json_put_str(&w, "event", pw_str_from(event));
    pw_json_put_str(&w, "message", pw_buffer_str(&mended));
    pw_json_object_end(&w);
    if (out.failed == PW_OK) {
        pw_inside_mark mark;
        pw_inside_enter(p->inside, &mark);
        p->options.log(p->options.ctx, level, (pawl_str){out.ptr, out.len});
        pw_inside_leave(p->inside, &mark);
    }
    pw_arena_free(&arena);
}
