/*
 * The door: a URL's scheme chooses the backend, and every call goes through its table. It must
 * never know a backend's insides, nor anything of turns.
 */
#include "store/backend.h"

/* Alphabetical: the order in which an error names them. */
static const struct {
    pw_str scheme;
    pw_backend_open open;
} backends[] = {
    {PW_STR_INIT("memory:"), pw_memory_open},
    {PW_STR_INIT("sqlite:"), pw_sqlite_open},
};

pw_status pw_store_open(const pw_store_options *options, pw_store **ret, pw_error *error)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        if (pw_str_begins(options->url, backends[i].scheme)) {
            pw_str path = pw_str_slice(options->url, backends[i].scheme.len, options->url.len);
            return backends[i].open(options, path, ret, error);
        }
    }
    /* Its scheme alone: what stands behind it may hold a password (N3). */
    const size_t colon = pw_str_find(options->url, PW_STR(":"));
    const pw_str shown =
        pw_str_slice(options->url, 0, colon == SIZE_MAX ? options->url.len : colon + 1);
    return PW_FAIL(error, PW_INVALID, "unknown store `%.*s`: known are memory: and sqlite:PATH",
                   PW_STR_ARG(shown));
}

void pw_store_close(pw_store *store)
{
    if (store != NULL) {
        store->backend->close(store);
    }
}

void pw_store_execute(pw_store *store, pw_op *ops, size_t count)
{
    if (count > 0) {
        store->backend->execute(store, ops, count);
    }
}

void pw_store_transact(pw_store *store, pw_transact *t)
{
    t->status = PW_OK;
    t->error = (pw_error){0};
    t->body = PW_STR_NONE;
    t->limit_passed = false;
    t->status = pw_append_check(t->append, &t->error);
    if (t->status == PW_OK && t->receipt->record >= t->append->record_count) {
        t->status = PW_FAIL(&t->error, PW_INVALID, "the receipt is not a record of the append");
    }
    if (t->status == PW_OK) {
        store->backend->transact(store, t);
    }
}

bool pw_store_changed(pw_store *store)
{
    return store->backend->changed(store);
}

int pw_store_owner_alive(pw_store *store, const pw_owner_id *owner)
{
    return store->backend->owner_alive(store, owner);
}

pw_store_traits pw_store_traits_get(const pw_store *store)
{
    return store->backend->traits(store);
}
