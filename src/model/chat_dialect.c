/*
 * The servers that speak Chat Completions, as rows of switches (PROVIDERS.md 5.1, 5.4, 6). A server
 * that has no row is `other`, which is what most of them take.
 */
#include "model/chat_inner.h"

#define NULL_CONTENT "null"
#define EMPTY_CONTENT "\"\""

static const pw_chat_dialect dialects[] = {
    {.name = "other",
     .tokens_field = "max_tokens",
     .no_content = NULL_CONTENT,
     .echo_details = true,
     .echo_extra = true,
     .stream_options = true},
    {.name = "openai",
     .hosts = {"api.openai.com"},
     .hosted = true,
     .tokens_field = "max_completion_tokens",
     .no_content = NULL_CONTENT,
     .stream_options = true},
    {.name = "azure",
     .hosts = {"openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"},
     .hosted = true,
     .auth = PW_CHAT_API_KEY,
     .tokens_field = "max_completion_tokens",
     .no_content = NULL_CONTENT,
     .stream_options = true},
    {.name = "ollama",
     .hosts = {":11434", "ollama.com"},
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .stream_options = true},
    {.name = "vllm",
     .tokens_field = "max_tokens",
     .no_content = NULL_CONTENT,
     .stream_options = true},
    {.name = "llamacpp",
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .stream_options = true},
    {.name = "openrouter",
     .hosts = {"openrouter.ai"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = NULL_CONTENT,
     .echo_details = true,
     .stream_options = true,
     .cache_markers = true,
     .documents = PW_CHAT_FILE_OR_URL},
    {.name = "vercel",
     .hosts = {"ai-gateway.vercel.sh"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = NULL_CONTENT,
     .echo_details = true,
     .stream_options = true},
    {.name = "deepseek",
     .hosts = {"api.deepseek.com"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .reasoning = PW_CHAT_ECHO_LOOP,
     .no_reasoning = "-r1", /* which refuses it */
     .stream_options = true},
    {.name = "mistral", /* usage comes unasked, and a field it does not know is a 422 */
     .hosts = {"api.mistral.ai"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .ids = PW_CHAT_IDS_9,
     .no_content = EMPTY_CONTENT,
     .documents = PW_CHAT_DOCUMENT_URL},
    {.name = "groq",
     .hosts = {"api.groq.com"},
     .hosted = true,
     .tokens_field = "max_completion_tokens",
     .no_content = NULL_CONTENT,
     .stream_options = true},
    {.name = "gemini",
     .hosts = {"googleapis.com"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = NULL_CONTENT,
     .echo_extra = true,
     .stream_options = true},
    {.name = "xai",
     .hosts = {"api.x.ai"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = NULL_CONTENT,
     .stream_options = true},
    {.name = "kimi",
     .hosts = {"api.moonshot.ai", "api.moonshot.cn"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .reasoning = PW_CHAT_ECHO_LOOP,
     .stream_options = true},
    {.name = "perplexity", /* usage comes with every chunk */
     .hosts = {"api.perplexity.ai"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .alternates = true},
    {.name = "together",
     .hosts = {"api.together.xyz", "api.together.ai"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .stream_options = true},
    {.name = "fireworks",
     .hosts = {"api.fireworks.ai"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .stream_options = true},
    {.name = "snowflake",
     .hosts = {"snowflakecomputing.com"},
     .hosted = true,
     .tokens_field = "max_completion_tokens",
     .no_content = EMPTY_CONTENT,
     .stream_options = true},
    {.name = "writer",
     .hosts = {"api.writer.com"},
     .hosted = true,
     .tokens_field = "max_tokens",
     .no_content = EMPTY_CONTENT,
     .stream_options = true},
};
#define DIALECT_COUNT (sizeof dialects / sizeof dialects[0])

/* "example.org:8080" of "https://example.org:8080/v1". */
static pw_str authority_of(pw_str url)
{
    const size_t scheme = pw_str_find(url, PW_STR("://"));
    const size_t from = scheme == SIZE_MAX ? 0 : scheme + 3;
    size_t to = from;
    while (to < url.len && url.ptr[to] != '/') {
        to++;
    }
    return pw_str_slice(url, from, to);
}

/* Names of hosts know no capitals; `host` has none. */
static bool ends_like(pw_str authority, pw_str host)
{
    if (authority.len < host.len) {
        return false;
    }
    for (size_t i = 0; i < host.len; i++) {
        const char c = authority.ptr[authority.len - host.len + i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != host.ptr[i]) {
            return false;
        }
    }
    return true;
}

/* The host itself or one below it; a name that only ends alike is somebody else's. */
static bool is_at(pw_str authority, pw_str host)
{
    if (host.ptr[0] == ':') {
        return ends_like(authority, host);
    }
    size_t port = authority.len;
    while (port > 0 && authority.ptr[port - 1] >= '0' && authority.ptr[port - 1] <= '9') {
        port--;
    }
    if (port > 0 && authority.ptr[port - 1] == ':') {
        authority.len = port - 1;
    }
    return ends_like(authority, host) &&
           (authority.len == host.len || authority.ptr[authority.len - host.len - 1] == '.');
}

bool pw_chat_dialect_at(const pw_chat_dialect *dialect, pw_str base_url)
{
    const pw_str authority = authority_of(base_url);
    for (size_t i = 0; i < sizeof dialect->hosts / sizeof dialect->hosts[0]; i++) {
        if (dialect->hosts[i] && is_at(authority, pw_str_from(dialect->hosts[i]))) {
            return true;
        }
    }
    return false;
}

const pw_chat_dialect *pw_chat_dialect_find(const pw_json *options, pw_str base_url)
{
    const pw_str named = pw_json_text(pw_json_get(options, "dialect"));
    const bool by_name = named.len > 0 && !pw_str_is(named, "auto");
    for (size_t i = 0; i < DIALECT_COUNT; i++) {
        if (by_name ? pw_str_is(named, dialects[i].name)
                    : pw_chat_dialect_at(&dialects[i], base_url)) {
            return &dialects[i];
        }
    }
    return by_name ? NULL : &dialects[0];
}

bool pw_chat_echoes_reasoning(const pw_chat_dialect *dialect, const pw_json *options)
{
    const pw_json *option = pw_json_get(options, "echo_reasoning");
    const pw_str model = pw_json_text(pw_json_get(options, "name"));
    const bool refused =
        dialect->no_reasoning && pw_str_find(model, pw_str_from(dialect->no_reasoning)) != SIZE_MAX;
    return option ? pw_json_true(option) : dialect->reasoning == PW_CHAT_ECHO_LOOP && !refused;
}

pw_status pw_chat_dialect_names(pw_buffer *out)
{
    (void)pw_buffer_add(out, PW_STR("auto"));
    for (size_t i = 0; i < DIALECT_COUNT; i++) {
        (void)pw_buffer_add(out, PW_STR(", "));
        (void)pw_buffer_add(out, pw_str_from(dialects[i].name));
    }
    return out->failed;
}
