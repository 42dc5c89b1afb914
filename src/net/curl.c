/*
 * Loads libcurl at the first transfer of the process (curl.h).
 *
 * Why not link it: Debian's libcurl brings two dozen libraries (TLS, Kerberos, LDAP, SSH, …), and
 * the dynamic linker would spend most of the time of a short `pawl` on them, though reading a store
 * or playing a script calls nobody. This is no system of plug-ins: one library, named when pawl was
 * configured, by the exact name a linked program would ask for, with the types of the header it was
 * compiled against. It is never unloaded, since TLS libraries leave exit handlers behind.
 *
 * The table is the process's, written once under a pthread_once and only read after: the one
 * mutable static of this room.
 */
#include "net/curl.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/format.h"

static struct {
    pthread_once_t once;
    pw_curl table;
    bool whole;
    char why[160];
} library = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    void *handle = dlopen(PW_CURL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        (void)pw_format(library.why, sizeof library.why, "%s",
                        why != NULL ? why : PW_CURL_LIBRARY ": cannot be loaded");
        return;
    }
#define TAKE(name)                                                                                 \
    *(void **)&library.table.name = dlsym(handle, "curl_" #name);                                  \
    if (library.table.name == NULL) {                                                              \
        (void)pw_format(library.why, sizeof library.why, "%s has no curl_%s", PW_CURL_LIBRARY,     \
                        #name);                                                                    \
        return;                                                                                    \
    }
    PW_CURL_FUNCTIONS(TAKE)
#undef TAKE
    library.whole = true;
}

const pw_curl *pw_curl_load(pw_error *error)
{
    (void)pthread_once(&library.once, load); /* fails for no valid once */
    if (!library.whole) {
        (void)PW_FAIL(error, PW_UNAVAILABLE, "unavailable: libcurl cannot be loaded: %s",
                      library.why);
        return NULL;
    }
    return &library.table;
}
