#include "core/message.h"

static const char *const role_names[] = {"user", "trigger", "assistant", "tool"};

const char *pw_role_name(pw_role role)
{
    PW_ASSERT((unsigned)role <= (unsigned)PW_ROLE_TOOL);
    return role_names[role];
}

static const char *const stop_names[] = {
#define STOP_NAME(name, text) text,
    PW_STOP_TABLE(STOP_NAME)
#undef STOP_NAME
};

const char *pw_stop_name(pw_stop stop)
{
    PW_ASSERT((unsigned)stop < sizeof(stop_names) / sizeof(stop_names[0]));
    return stop_names[stop];
}

bool pw_failure_is_transport(pw_str code)
{
    static const char *const codes[] = {"connect", "dns",     "tls",     "reset",    "timeout",
                                        "stalled", "cut_off", "aborted", "transport"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (pw_str_is(code, codes[i])) {
            return true;
        }
    }
    return false;
}
