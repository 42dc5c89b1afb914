/*
 * The hub: a table of sessions in which somebody is interested or whose message is streaming here.
 *
 * One mutex, never held while anything is waited for but this file's own condition variables. It
 * keeps the live text once, however many read it, bounded; it never holds anything on behalf of a
 * slow reader (M3), and nothing durable: whatever it loses, the store has or the next message
 * brings.
 *
 * Invariants: an entry lives while it has an interest, is held by this process or has an open
 * message. `news` of an interest is what it was told since its last look; its pipe, when there is
 * one, holds a byte exactly while `news` is not 0.
 */
#include "runtime/hub.h"

#include <stdatomic.h>
#include <unistd.h>
#include <uv.h>

#include "base/buffer.h"

#define TEXT_MAX                                                                                   \
    ((size_t)16 << 20) /* beyond it deltas are not told (M3); the reply itself is not concerned */
#define REASONING_MAX ((size_t)256 << 10) /* the end of it is kept */
#define FIRST_BUCKETS 64
#define STEP_MAX 160

typedef struct topic topic;

struct pw_hub_interest {
    pw_hub *hub;
    topic *topic; /* NULL: any session */
    pw_hub_interest *next, *before;
    uv_cond_t wake;
    unsigned news;
    uv_file ends[2]; /* -1: not asked for */
};

struct topic {
    topic *next;
    int64_t id;
    pw_hub_interest *interests;
    bool held, open,
        lost; /* lost: a piece could not be kept; nothing is told until the text begins anew */
    uint64_t life, from_seq, after_seq, text_bytes, reasoning_base;
    int32_t attempt;
    size_t step_len;
    char step[STEP_MAX];
    pw_buffer text, reasoning;
};

struct pw_hub {
    const pw_allocator *allocator;
    uv_mutex_t mutex;
    topic **buckets;
    size_t bucket_count, topic_count;
    pw_hub_interest *any;
    atomic_size_t interests;
    uint64_t lives;
    bool closed;
};

/* --- The table --- */

static void *resize(pw_hub *hub, void *ptr, size_t old_size, size_t new_size)
{
    return hub->allocator->resize(hub->allocator->ctx, ptr, old_size, new_size);
}

static size_t bucket_of(size_t count, int64_t id)
{
    uint64_t x = (uint64_t)id * 0x9E3779B97F4A7C15u;
    return (size_t)(x >> 32) & (count - 1);
}

static topic *find(pw_hub *hub, int64_t id)
{
    topic *t = hub->buckets[bucket_of(hub->bucket_count, id)];
    while (t && t->id != id) {
        t = t->next;
    }
    return t;
}

/* Failing to grow is no failure: chains get longer. */
static void grow(pw_hub *hub)
{
    size_t count = hub->bucket_count * 2;
    topic **wider = resize(hub, NULL, 0, count * sizeof(*wider));
    if (!wider) {
        return;
    }
    memset(wider, 0, count * sizeof(*wider));
    for (size_t i = 0; i < hub->bucket_count; i++) {
        for (topic *t = hub->buckets[i], *next; t; t = next) {
            next = t->next;
            topic **to = &wider[bucket_of(count, t->id)];
            t->next = *to;
            *to = t;
        }
    }
    resize(hub, hub->buckets, hub->bucket_count * sizeof(*wider), 0);
    hub->buckets = wider;
    hub->bucket_count = count;
}

static topic *find_or_add(pw_hub *hub, int64_t id)
{
    topic *t = find(hub, id);
    if (t) {
        return t;
    }
    if (hub->topic_count >= hub->bucket_count * 2) {
        grow(hub);
    }
    t = resize(hub, NULL, 0, sizeof(*t));
    if (!t) {
        return NULL;
    }
    *t = (topic){.id = id};
    pw_buffer_init(&t->text, hub->allocator, TEXT_MAX);
    pw_buffer_init(&t->reasoning, hub->allocator, REASONING_MAX);
    topic **to = &hub->buckets[bucket_of(hub->bucket_count, id)];
    t->next = *to;
    *to = t;
    hub->topic_count++;
    return t;
}

static void remove_if_idle(pw_hub *hub, topic *t)
{
    if (t->interests || t->held || t->open) {
        return;
    }
    topic **at = &hub->buckets[bucket_of(hub->bucket_count, t->id)];
    while (*at != t) {
        at = &(*at)->next;
    }
    *at = t->next;
    hub->topic_count--;
    pw_buffer_free(&t->text);
    pw_buffer_free(&t->reasoning);
    resize(hub, t, sizeof(*t), 0);
}

static void end_live(pw_hub *hub, topic *t)
{
    t->open = false;
    t->lost = false;
    pw_buffer_free(&t->text);
    pw_buffer_free(&t->reasoning);
    pw_buffer_init(&t->text, hub->allocator, TEXT_MAX);
    pw_buffer_init(&t->reasoning, hub->allocator, REASONING_MAX);
    t->text_bytes = 0;
    t->reasoning_base = 0;
}

/* --- News --- */

static void tell_one(pw_hub_interest *i, unsigned news)
{
    bool was_quiet = i->news == 0;
    i->news |= news;
    if (was_quiet) {
        uv_cond_signal(&i->wake);
        if (i->ends[1] >= 0) {
            ssize_t written = write(i->ends[1], "", 1); /* a full pipe is readable already */
            (void)written;
        }
    }
}

static void tell_list(pw_hub_interest *list, unsigned news)
{
    for (pw_hub_interest *i = list; i; i = i->next) {
        tell_one(i, news);
    }
}

static void tell_session(pw_hub *hub, topic *t, unsigned news)
{
    if (t) {
        tell_list(t->interests, news);
    }
    if (news != PW_NEWS_LIVE) {
        tell_list(hub->any, news);
    }
}

static void tell_everyone(pw_hub *hub, unsigned news)
{
    for (size_t i = 0; i < hub->bucket_count; i++) {
        for (topic *t = hub->buckets[i]; t; t = t->next) {
            tell_list(t->interests, news);
        }
    }
    tell_list(hub->any, news);
}

/* --- Life --- */

pw_status pw_hub_new(const pw_allocator *allocator, pw_hub **ret)
{
    pw_hub *hub = allocator->resize(allocator->ctx, NULL, 0, sizeof(*hub));
    if (!hub) {
        return PW_NOMEM;
    }
    *hub = (pw_hub){.allocator = allocator, .bucket_count = FIRST_BUCKETS};
    hub->buckets = resize(hub, NULL, 0, FIRST_BUCKETS * sizeof(*hub->buckets));
    if (!hub->buckets || uv_mutex_init(&hub->mutex) != 0) {
        resize(hub, hub->buckets, hub->buckets ? FIRST_BUCKETS * sizeof(*hub->buckets) : 0, 0);
        resize(hub, hub, sizeof(*hub), 0);
        return PW_NOMEM;
    }
    memset(hub->buckets, 0, FIRST_BUCKETS * sizeof(*hub->buckets));
    *ret = hub;
    return PW_OK;
}

void pw_hub_close(pw_hub *hub)
{
    uv_mutex_lock(&hub->mutex);
    hub->closed = true;
    tell_everyone(hub, PW_NEWS_RECORDS);
    uv_mutex_unlock(&hub->mutex);
}

void pw_hub_free(pw_hub *hub)
{
    if (!hub) {
        return;
    }
    for (size_t i = 0; i < hub->bucket_count; i++) {
        for (topic *t = hub->buckets[i], *next; t; t = next) {
            next = t->next;
            pw_buffer_free(&t->text);
            pw_buffer_free(&t->reasoning);
            resize(hub, t, sizeof(*t), 0);
        }
    }
    uv_mutex_destroy(&hub->mutex);
    resize(hub, hub->buckets, hub->bucket_count * sizeof(*hub->buckets), 0);
    resize(hub, hub, sizeof(*hub), 0);
}

/* --- Told by the loop and the writer --- */

void pw_hub_committed(pw_hub *hub, int64_t session_id, uint64_t last_seq, bool held)
{
    uv_mutex_lock(&hub->mutex);
    topic *t = held ? find_or_add(hub, session_id) : find(hub, session_id);
    if (t) {
        t->held = t->held || held;
        if (t->open && t->after_seq < last_seq) {
            end_live(hub, t);
        }
    }
    tell_session(hub, t, PW_NEWS_RECORDS);
    uv_mutex_unlock(&hub->mutex);
}

void pw_hub_passed(pw_hub *hub, int64_t session_id, uint64_t last_seq)
{
    uv_mutex_lock(&hub->mutex);
    topic *t = find(hub, session_id);
    if (t && t->open && t->after_seq < last_seq) {
        t->after_seq = last_seq;
    }
    tell_session(hub, t, PW_NEWS_RECORDS);
    uv_mutex_unlock(&hub->mutex);
}

void pw_hub_admitted(pw_hub *hub, int64_t session_id)
{
    uv_mutex_lock(&hub->mutex);
    tell_session(hub, find(hub, session_id), PW_NEWS_ADMITTED);
    uv_mutex_unlock(&hub->mutex);
}

void pw_hub_changed(pw_hub *hub)
{
    uv_mutex_lock(&hub->mutex);
    tell_everyone(hub, PW_NEWS_RECORDS);
    uv_mutex_unlock(&hub->mutex);
}

/* A record that leaves a message open may have become durable before or after this piece was told:
 * whatever ends the message closes the topic. */
static bool follows(const topic *t, pw_str step, int32_t attempt)
{
    return t->open && t->attempt == attempt && pw_str_equal((pw_str){t->step, t->step_len}, step);
}

static void begin_live(pw_hub *hub, topic *t, uint64_t after_seq, pw_str step, int32_t attempt)
{
    end_live(hub, t);
    t->open = true;
    t->life = ++hub->lives;
    t->from_seq = t->after_seq = after_seq;
    t->attempt = attempt;
    t->step_len = step.len < STEP_MAX ? step.len : STEP_MAX;
    memcpy(t->step, step.ptr, t->step_len);
}

static void add_reasoning(topic *t, pw_str bytes)
{
    if (t->reasoning.len + bytes.len > REASONING_MAX &&
        bytes.len <= REASONING_MAX / 2) { /* half is let go, cut where a character begins */
        size_t cut = t->reasoning.len / 2;
        while (cut < t->reasoning.len && ((unsigned char)t->reasoning.ptr[cut] & 0xC0) == 0x80) {
            cut++;
        }
        pw_buffer_consume(&t->reasoning, cut);
        t->reasoning_base += cut;
    }
    if (pw_buffer_add(&t->reasoning, bytes) != PW_OK) {
        t->reasoning_base += t->reasoning.len + bytes.len;
        pw_buffer_clear(&t->reasoning);
    }
}

void pw_hub_delta(pw_hub *hub, int64_t session_id, uint64_t after_seq, pw_str step, int32_t attempt,
                  uint64_t text_bytes, bool reasoning, pw_str bytes)
{
    uv_mutex_lock(&hub->mutex);
    topic *t = find_or_add(hub, session_id);
    if (!t || hub->closed) {
        uv_mutex_unlock(&hub->mutex);
        return;
    }
    t->held = true;
    bool goes_on =
        follows(t, step, attempt) && t->text_bytes + (reasoning ? 0 : bytes.len) == text_bytes;
    if (!goes_on) {
        begin_live(hub, t, after_seq, step, attempt);
        t->lost = !reasoning && text_bytes != bytes.len;
    } else if (after_seq > t->after_seq) {
        t->after_seq = after_seq;
    }
    t->text_bytes = text_bytes;
    if (reasoning) {
        add_reasoning(t, bytes);
    } else if (!t->lost && pw_buffer_add(&t->text, bytes) != PW_OK) {
        t->lost = true;
    }
    tell_session(hub, t, PW_NEWS_LIVE);
    uv_mutex_unlock(&hub->mutex);
}

void pw_hub_forget(pw_hub *hub, int64_t session_id)
{
    uv_mutex_lock(&hub->mutex);
    topic *t = find(hub, session_id);
    if (t) {
        t->held = false;
        end_live(hub, t);
        tell_list(t->interests, PW_NEWS_LIVE);
        remove_if_idle(hub, t);
    }
    uv_mutex_unlock(&hub->mutex);
}

/* --- Asked by followers --- */

static bool enlist(pw_hub_interest *i, int64_t session_id)
{
    topic *t = session_id != 0 ? find_or_add(i->hub, session_id) : NULL;
    if (session_id != 0 && !t) {
        return false;
    }
    pw_hub_interest **list = t ? &t->interests : &i->hub->any;
    i->topic = t;
    i->before = NULL;
    i->next = *list;
    if (i->next) {
        i->next->before = i;
    }
    *list = i;
    atomic_fetch_add(&i->hub->interests, 1);
    return true;
}

static void delist(pw_hub_interest *i)
{
    if (i->before) {
        i->before->next = i->next;
    } else if (i->topic) {
        i->topic->interests = i->next;
    } else {
        i->hub->any = i->next;
    }
    if (i->next) {
        i->next->before = i->before;
    }
    if (i->topic) {
        remove_if_idle(i->hub, i->topic);
    }
    atomic_fetch_sub(&i->hub->interests, 1);
}

pw_status pw_hub_watch_instead(pw_hub_interest *i, int64_t session_id)
{
    uv_mutex_lock(&i->hub->mutex);
    bool there = find_or_add(i->hub, session_id) !=
                 NULL; /* before it is let go of: enlisting cannot fail then */
    if (there) {
        delist(i);
        there = enlist(i, session_id);
    }
    uv_mutex_unlock(&i->hub->mutex);
    return there ? PW_OK : PW_NOMEM;
}

pw_status pw_hub_watch(pw_hub *hub, int64_t session_id, pw_hub_interest **ret)
{
    pw_hub_interest *i = resize(hub, NULL, 0, sizeof(*i));
    if (!i) {
        return PW_NOMEM;
    }
    *i = (pw_hub_interest){.hub = hub, .ends = {-1, -1}};
    if (uv_cond_init(&i->wake) != 0) {
        resize(hub, i, sizeof(*i), 0);
        return PW_NOMEM;
    }
    uv_mutex_lock(&hub->mutex);
    bool made = enlist(i, session_id);
    uv_mutex_unlock(&hub->mutex);
    if (!made) {
        uv_cond_destroy(&i->wake);
        resize(hub, i, sizeof(*i), 0);
        return PW_NOMEM;
    }
    *ret = i;
    return PW_OK;
}

static void close_end(uv_file end)
{
    if (end >= 0) {
        (void)close(end); /* of a pipe nobody else has: nothing to be lost */
    }
}

void pw_hub_unwatch(pw_hub_interest *i)
{
    if (!i) {
        return;
    }
    pw_hub *hub = i->hub;
    uv_mutex_lock(&hub->mutex);
    delist(i);
    uv_mutex_unlock(&hub->mutex);
    uv_cond_destroy(&i->wake);
    close_end(i->ends[0]);
    close_end(i->ends[1]);
    resize(hub, i, sizeof(*i), 0);
}

int pw_hub_fd(pw_hub_interest *i)
{
    uv_mutex_lock(&i->hub->mutex);
    if (i->ends[0] < 0) {
        uv_file ends[2];
        if (uv_pipe(ends, UV_NONBLOCK_PIPE, UV_NONBLOCK_PIPE) == 0) { /* close-on-exec from birth */
            i->ends[0] = ends[0];
            i->ends[1] = ends[1];
            unsigned news = i->news | PW_NEWS_RECORDS; /* it may have events at hand already */
            i->news = 0;
            tell_one(i, news);
        }
    }
    int fd = i->ends[0];
    uv_mutex_unlock(&i->hub->mutex);
    return fd;
}

void pw_hub_poke(pw_hub_interest *i)
{
    uv_mutex_lock(&i->hub->mutex);
    if (i->ends[0] >= 0) {
        tell_one(i, PW_NEWS_RECORDS);
    }
    uv_mutex_unlock(&i->hub->mutex);
}

static unsigned take_news(pw_hub_interest *i)
{
    unsigned news = i->news;
    i->news = 0;
    if (news != 0 && i->ends[0] >= 0) {
        char bytes[16];
        ssize_t got;
        do {
            got = read(i->ends[0], bytes, sizeof(bytes));
        } while (got > 0);
    }
    return news;
}

pw_status pw_hub_wait_news(pw_hub_interest *i, int64_t timeout_ms, unsigned *ret_news)
{
    pw_hub *hub = i->hub;
    uint64_t until = timeout_ms < 0 ? UINT64_MAX : uv_hrtime() + (uint64_t)timeout_ms * 1000000u;
    pw_status status = PW_OK;
    uv_mutex_lock(&hub->mutex);
    while (i->news == 0 && !hub->closed && status == PW_OK) {
        if (timeout_ms < 0) {
            uv_cond_wait(&i->wake, &hub->mutex);
            continue;
        }
        uint64_t now = uv_hrtime();
        if (now >= until || uv_cond_timedwait(&i->wake, &hub->mutex, until - now) != 0) {
            status = i->news == 0 && uv_hrtime() >= until ? PW_TIMEOUT : PW_OK;
        }
    }
    if (hub->closed) {
        status = PW_END;
    } else if (status == PW_OK) {
        *ret_news = take_news(i);
    }
    uv_mutex_unlock(&hub->mutex);
    return status;
}

pw_status pw_hub_wait(pw_hub_interest *i, int64_t timeout_ms)
{
    unsigned news;
    return pw_hub_wait_news(i, timeout_ms, &news);
}

bool pw_hub_has_interest(pw_hub *hub)
{
    return atomic_load(&hub->interests) > 0;
}

static pw_status copy_live(const topic *t, uint64_t from, pw_arena *arena, pw_hub_live *ret)
{
    pw_hub_live live = {.held = t->held,
                        .open = t->open && !t->lost,
                        .life = t->life,
                        .from_seq = t->from_seq,
                        .after_seq = t->after_seq,
                        .attempt = t->attempt};
    if (live.open) {
        live.text_bytes = t->text.len;
        size_t at = from < t->text.len ? (size_t)from : t->text.len;
        PW_TRY(pw_arena_dup(arena, (pw_str){t->step, t->step_len}, &live.step));
        PW_TRY(pw_arena_dup(arena, pw_str_slice(pw_buffer_str(&t->text), at, t->text.len),
                            &live.text));
    }
    *ret = live;
    return PW_OK;
}

pw_status pw_hub_live_get(pw_hub *hub, int64_t session_id, uint64_t from, pw_arena *arena,
                          pw_hub_live *ret)
{
    pw_status status = PW_OK;
    uv_mutex_lock(&hub->mutex);
    const topic *t = find(hub, session_id);
    if (t) {
        status = copy_live(t, from, arena, ret);
    } else {
        *ret = (pw_hub_live){0};
    }
    uv_mutex_unlock(&hub->mutex);
    return status;
}

pw_status pw_hub_reasoning_get(pw_hub *hub, int64_t session_id, uint64_t from, pw_arena *arena,
                               pw_str *ret, uint64_t *ret_end)
{
    pw_status status = PW_OK;
    uv_mutex_lock(&hub->mutex);
    const topic *t = find(hub, session_id);
    pw_str kept = t && t->open ? pw_buffer_str(&t->reasoning) : PW_STR_NONE;
    uint64_t base = t && t->open ? t->reasoning_base : 0;
    uint64_t skip = from > base ? from - base : 0;
    size_t at = skip < kept.len ? (size_t)skip : kept.len;
    status = pw_arena_dup(arena, pw_str_slice(kept, at, kept.len), ret);
    if (status == PW_OK) {
        *ret_end = base + kept.len;
    }
    uv_mutex_unlock(&hub->mutex);
    return status;
}
