/* URLs, read strictly (url.h). Borrows the text; must never accept what it does not understand. */
#include "net/url.h"

#define HOST_MAX 253

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_good(char c)
{
    return c > ' ' && c < 0x7f && !strchr("\\\"<>^`{|}", c);
}

static bool good_name(pw_str host)
{
    for (size_t i = 0; i < host.len; i++) {
        const char c = host.ptr[i];
        const bool dot_twice = c == '.' && (i == 0 || host.ptr[i - 1] == '.');
        if (dot_twice || !(is_letter_or_digit(c) || c == '-' || c == '.' || c == '_')) {
            return false;
        }
    }
    return host.len > 0 && host.len <= HOST_MAX && host.ptr[host.len - 1] != '.';
}

static bool good_literal(pw_str host)
{
    for (size_t i = 0; i < host.len; i++) {
        const char c = host.ptr[i];
        const bool hex = is_letter_or_digit(c) && (c | 0x20) <= 'f';
        if (!hex && c != ':' && c != '.') {
            return false;
        }
    }
    return host.len >= 2 && host.len <= 45;
}

static pw_status parse_authority(pw_str authority, pw_url *url, pw_error *error)
{
    if (pw_str_find(authority, PW_STR("@")) != SIZE_MAX) {
        return PW_FAIL(error, PW_INVALID, "credentials do not belong into a URL");
    }
    size_t end = 0;
    if (authority.len > 0 && authority.ptr[0] == '[') {
        end = pw_str_find(authority, PW_STR("]"));
        url->literal = true;
        url->host = end == SIZE_MAX ? PW_STR_NONE : pw_str_slice(authority, 1, end);
        end = end == SIZE_MAX ? authority.len : end + 1;
    } else {
        end = pw_str_find(authority, PW_STR(":"));
        end = end == SIZE_MAX ? authority.len : end;
        url->host = pw_str_slice(authority, 0, end);
    }
    if (!(url->literal ? good_literal(url->host) : good_name(url->host))) {
        return PW_FAIL(error, PW_INVALID,
                       "expected a host's name in ASCII or an address after the scheme");
    }
    if (end == authority.len) {
        return PW_OK;
    }
    uint64_t port = 0;
    const pw_str digits = pw_str_slice(authority, end + 1, authority.len);
    if (authority.ptr[end] != ':' || digits.len > 5 || !pw_str_u64(digits, &port) || port == 0 ||
        port > 65535) {
        return PW_FAIL(error, PW_INVALID, "expected a port of 1 to 65535 after the host");
    }
    url->port = (uint16_t)port;
    return PW_OK;
}

pw_status pw_url_parse(pw_str text, pw_url *ret, pw_error *error)
{
    const pw_str http = PW_STR("http://"), https = PW_STR("https://");
    if (text.len > PW_URL_MAX) {
        return PW_FAIL(error, PW_TOO_LARGE, "%zu bytes, at most %d are taken", text.len,
                       PW_URL_MAX);
    }
    pw_url url = {.secure = pw_str_begins(text, https)};
    if (!url.secure && !pw_str_begins(text, http)) {
        return PW_FAIL(error, PW_INVALID, "expected http:// or https:// and a host");
    }
    url.port = url.secure ? 443 : 80;
    const size_t from = url.secure ? https.len : http.len;
    size_t to = from;
    for (size_t i = from; i < text.len; i++) {
        if (!is_good(text.ptr[i])) {
            return PW_FAIL(error, PW_INVALID, "byte %zu does not belong into a URL", i + 1);
        }
        if (text.ptr[i] == '#') {
            return PW_FAIL(error, PW_INVALID, "a fragment (#…) is sent nowhere: leave it out");
        }
        if (to == i && text.ptr[i] != '/' && text.ptr[i] != '?') {
            to = i + 1;
        }
    }
    PW_TRY(parse_authority(pw_str_slice(text, from, to), &url, error));
    *ret = url;
    return PW_OK;
}
