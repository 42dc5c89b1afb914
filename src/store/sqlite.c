/* The SQLite backend: being written. */
#include "store/backend.h"

pw_status pw_sqlite_open(const pw_store_options *options, pw_str path, pw_store **ret, pw_error *error)
{
    (void)options;
    (void)path;
    (void)ret;
    return PW_FAIL(error, PW_UNSUPPORTED, "this build has no sqlite store");
}
