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
