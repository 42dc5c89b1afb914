/*
 * Is the declaration of an HTTP tool right? A definition is kept for ever and read by many, so no
 * value of a header stands in it, only the variable that holds one (N3).
 */
#include "net/url.h"
#include "tool/tool_inner.h"

#define HEADERS_MAX 32

/* Ours, the connection's, or the signature's. */
static bool is_ours(pw_str name)
{
    static const char *const names[] = {"content-type",
                                        "content-length",
                                        "idempotency-key",
                                        "host",
                                        "connection",
                                        "transfer-encoding",
                                        "expect",
                                        "upgrade",
                                        "keep-alive",
                                        "te",
                                        "trailer",
                                        "webhook-id",
                                        "user-agent",
                                        "webhook-timestamp",
                                        "webhook-signature",
                                        "accept-encoding"};
    const pw_header header = {name, PW_STR("x")};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (pw_header_get(&header, 1, names[i]).len > 0) {
            return true;
        }
    }
    return false;
}

static bool good_name(pw_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr("!#$%&'*+-.^_`|~", c)))) {
            return false;
        }
    }
    return name.len > 0 && name.len <= 128;
}

static pw_status check_header(const pw_json *header, pw_error *error)
{
    if (!good_name(header->key)) {
        return PW_FAIL(error, PW_INVALID, "headers: a name holds letters, digits and dashes");
    }
    if (is_ours(header->key)) {
        return PW_FAIL(error, PW_INVALID, "headers.%.*s: is set by the engine",
                       PW_STR_ARG(header->key));
    }
    const pw_json *variable = pw_json_get(header, "env");
    if (!pw_json_is(header, PW_JSON_OBJECT) || header->count != 1 ||
        !pw_json_is(variable, PW_JSON_STRING) || !pw_tool_good_variable(variable->text)) {
        return PW_FAIL(error, PW_INVALID,
                       "headers.%.*s: expected { env: NAME }, the variable that holds the value",
                       PW_STR_ARG(header->key));
    }
    return PW_OK;
}

static pw_status check_headers(const pw_json *headers, pw_error *error)
{
    if (headers == NULL) {
        return PW_OK;
    }
    if (!pw_json_is(headers, PW_JSON_OBJECT) || headers->count > HEADERS_MAX) {
        return PW_FAIL(error, PW_INVALID, "headers: expected at most %d names, each { env: NAME }",
                       HEADERS_MAX);
    }
    for (const pw_json *header = headers->child; header != NULL; header = header->next) {
        PW_TRY(check_header(header, error));
    }
    return PW_OK;
}

static pw_status check_signing(const pw_json *config, pw_error *error)
{
    const pw_json *variable = pw_json_get(config, "signing_secret_env");
    const pw_json *file = pw_json_get(config, "signing_secret_file");
    if (variable != NULL && file != NULL) {
        return PW_FAIL(error, PW_INVALID,
                       "signing_secret_file: there is signing_secret_env too; one of them counts");
    }
    if (variable != NULL && !pw_tool_good_variable(pw_json_text(variable))) {
        return PW_FAIL(error, PW_INVALID, "signing_secret_env: expected a variable's name");
    }
    if (file != NULL && pw_json_text(file).len == 0) {
        return PW_FAIL(error, PW_INVALID, "signing_secret_file: expected a path");
    }
    return PW_OK;
}

pw_status pw_http_check(const pw_tool_declaration *tool, pw_error *error)
{
    if (tool->effects == PW_EFFECTS_TRANSACTIONAL) {
        return PW_FAIL(error, PW_INVALID,
                       "effects: expected none, idempotent or once for a tool of kind http, found "
                       "transactional");
    }
    const pw_json *url = pw_json_get(tool->config, "url");
    const pw_json *method = pw_json_get(tool->config, "method");
    if (!pw_json_is(url, PW_JSON_STRING)) {
        return PW_FAIL(error, PW_INVALID, "url: expected where the tool is, as text");
    }
    pw_url parsed;
    pw_error why = {0};
    const pw_status status = pw_url_parse(url->text, &parsed, &why);
    if (status != PW_OK) {
        return PW_FAIL(error, status, "url: %s", why.message);
    }
    if (method != NULL && !pw_str_is(pw_json_text(method), "POST")) {
        return PW_FAIL(error, PW_INVALID, "method: expected POST");
    }
    PW_TRY(check_headers(pw_json_get(tool->config, "headers"), error));
    return check_signing(tool->config, error);
}
