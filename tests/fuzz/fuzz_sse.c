/*
 * Fuzzes the SSE reader. The first byte chooses how the rest is cut into pieces; the oracle: the
 * events of the pieces are the events of the whole, and the whole is answered alike.
 */
#include "base/heap.h"
#include "model/sse.h"

#define MAXIMUM 4096
#define CHECK(condition) ((condition) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pw_status note(pw_buffer *out, pw_str text)
{
    PW_TRY(pw_buffer_u64(out, text.len));
    PW_TRY(pw_buffer_byte(out, ':'));
    return pw_buffer_add(out, text);
}

static pw_status on_event(void *ctx, const pw_sse_event *event)
{
    pw_buffer *out = ctx;
    PW_TRY(note(out, event->name));
    PW_TRY(note(out, event->data));
    PW_TRY(note(out, event->unknown_name));
    return note(out, event->unknown);
}

static pw_status run(pw_str input, size_t piece, pw_buffer *out)
{
    pw_sse sse;
    pw_sse_init(&sse, &pw_heap, MAXIMUM);
    pw_status status = PW_OK;
    for (size_t at = 0; status == PW_OK && at < input.len;) {
        const size_t end = input.len - at < piece ? input.len : at + piece;
        status = pw_sse_feed(&sse, pw_str_slice(input, at, end), on_event, out, NULL);
        at = end;
    }
    if (status == PW_OK) {
        CHECK(sse.bytes == input.len);
        status = pw_sse_end(&sse, on_event, out, NULL);
    }
    pw_sse_free(&sse);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    const pw_str input = {(const char *)data + 1, size - 1};
    pw_buffer whole, cut;
    pw_buffer_init(&whole, &pw_heap, SIZE_MAX / 4);
    pw_buffer_init(&cut, &pw_heap, SIZE_MAX / 4);
    const pw_status a = run(input, SIZE_MAX / 2, &whole);
    const pw_status b = run(input, (size_t)data[0] % 64 + 1, &cut);
    CHECK(a == b);
    CHECK(a == PW_OK || a == PW_TOO_LARGE);
    CHECK(a != PW_OK || pw_str_equal(pw_buffer_str(&whole), pw_buffer_str(&cut)));
    pw_buffer_free(&whole);
    pw_buffer_free(&cut);
    return 0;
}
