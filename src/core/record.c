#include "core/record.h"

#include "core/value.h"

static const char *const kind_names[] = {
#define KIND_NAME(name, text) text,
    PW_RECORD_TABLE(KIND_NAME)
#undef KIND_NAME
};
enum { KIND_COUNT = sizeof(kind_names) / sizeof(kind_names[0]) };

const char *pw_record_kind_name(pw_record_kind kind)
{
    PW_ASSERT((unsigned)kind < (unsigned)KIND_COUNT);
    return kind_names[kind];
}

bool pw_record_kind_from(pw_str text, pw_record_kind *ret)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (pw_str_is(text, kind_names[i])) {
            *ret = (pw_record_kind)i;
            return true;
        }
    }
    return false;
}

static const char *const state_names[] = {
    "running", "waiting", "suspended", "completed", "failed", "paused", "exhausted", "cancelled",
};
enum { STATE_COUNT = sizeof(state_names) / sizeof(state_names[0]) };
_Static_assert((int)STATE_COUNT == (int)PW_TURN_CANCELLED + 1, "a name for every state");

const char *pw_turn_state_name(pw_turn_state state)
{
    PW_ASSERT((unsigned)state < (unsigned)STATE_COUNT);
    return state_names[state];
}

bool pw_turn_state_from(pw_str text, pw_turn_state *ret)
{
    for (size_t i = 0; i < STATE_COUNT; i++) {
        if (pw_str_is(text, state_names[i])) {
            *ret = (pw_turn_state)i;
            return true;
        }
    }
    return false;
}

static const char *const disposition_names[] = {
    "pending", "claimed", "answered", "superseded", "withdrawn", "settled",
};
enum { DISPOSITION_COUNT = sizeof(disposition_names) / sizeof(disposition_names[0]) };
_Static_assert((int)DISPOSITION_COUNT == (int)PW_SETTLED + 1, "a name for every disposition");

const char *pw_disposition_name(pw_disposition disposition)
{
    PW_ASSERT((unsigned)disposition < (unsigned)DISPOSITION_COUNT);
    return disposition_names[disposition];
}

pw_status pw_receipt_fill(const pw_receipt *receipt, pw_str result, pw_arena *arena,
                          pw_str *ret_body)
{
    pw_value value;
    PW_TRY(pw_value_of_result(arena, result, receipt->result_limit, &value));
    pw_buffer body;
    pw_buffer_init_arena(&body, arena, PW_BODY_MAX);
    PW_TRY(
        pw_buffer_reserve(&body, receipt->before.len + value.json.len + receipt->after.len + 40));
    (void)pw_buffer_add(&body, receipt->before);
    (void)pw_buffer_add(&body, value.json);
    if (value.cut) {
        (void)pw_buffer_add(&body, PW_STR(",\"truncated\":"));
        (void)pw_buffer_u64(&body, result.len);
    }
    (void)pw_buffer_add(&body, receipt->after);
    PW_TRY(body.failed);
    *ret_body = pw_buffer_str(&body);
    return PW_OK;
}
