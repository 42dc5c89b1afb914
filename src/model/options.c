/* Checks an object of configuration against a table of options (options.h). */
#include "model/options.h"

#define DURATION_MOST (INT64_C(10) * 366 * 24 * 3600 * 1000)

static bool duration_of(const pw_json *value, int64_t *ret)
{
    if (pw_json_is(value, PW_JSON_STRING)) {
        return pw_str_duration_ms(value->text, ret);
    }
    int64_t ms = 0;
    if (!pw_json_is(value, PW_JSON_NUMBER) || !pw_json_i64(value, &ms) || ms < 0 ||
        ms > DURATION_MOST) {
        return false;
    }
    *ret = ms;
    return true;
}

static pw_status check_value(const pw_json *value, const char *where, const pw_option *option,
                             pw_error *error)
{
    static const char *const expected[] = {
        "a string",  "a whole number",           "true or false", "an array",
        "an object", "a duration such as 300ms", "another value"};
    int64_t number = 0;
    bool fits = false;
    switch (option->type) {
    case PW_OPTION_STRING:
        fits = pw_json_is(value, PW_JSON_STRING);
        break;
    case PW_OPTION_INTEGER:
        fits = pw_json_is(value, PW_JSON_NUMBER) && pw_json_i64(value, &number);
        break;
    case PW_OPTION_BOOLEAN:
        fits = pw_json_is(value, PW_JSON_BOOL);
        break;
    case PW_OPTION_ARRAY:
        fits = pw_json_is(value, PW_JSON_ARRAY);
        break;
    case PW_OPTION_OBJECT:
        fits = pw_json_is(value, PW_JSON_OBJECT);
        break;
    case PW_OPTION_DURATION:
        fits = duration_of(value, &number);
        break;
    case PW_OPTION_ANY:
        fits = true;
        break;
    }
    if (!fits) {
        return PW_FAIL(error, PW_INVALID, "%s%s: expected %s", where, option->name,
                       expected[option->type]);
    }
    if (option->type == PW_OPTION_INTEGER && (number < option->least || number > option->most)) {
        return PW_FAIL(error, PW_INVALID, "%s%s: expected %lld to %lld, not %lld", where,
                       option->name, (long long)option->least, (long long)option->most,
                       (long long)number);
    }
    return PW_OK;
}

pw_status pw_options_check(const pw_json *object, const char *where, const pw_option *table,
                           size_t count, pw_error *error)
{
    if (!pw_json_is(object, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_INVALID, "%s: expected an object", where);
    }
    for (const pw_json *member = object->child; member; member = member->next) {
        size_t i = 0;
        while (i < count && !pw_str_is(member->key, table[i].name)) {
            i++;
        }
        if (i == count) {
            return PW_FAIL(error, PW_INVALID, "%s%.*s: there is no such option", where,
                           PW_STR_ARG(member->key));
        }
        PW_TRY(check_value(member, where, &table[i], error));
    }
    for (size_t i = 0; i < count; i++) {
        if (table[i].required && !pw_json_get(object, table[i].name)) {
            return PW_FAIL(error, PW_INVALID, "%s%s is missing", where, table[i].name);
        }
    }
    return PW_OK;
}

int64_t pw_option_duration(const pw_json *value, int64_t fallback)
{
    int64_t ms = 0;
    return value && duration_of(value, &ms) ? ms : fallback;
}

/* A user and password in it would be kept with the definition (N3). */
static bool is_url(pw_str url)
{
    size_t scheme = pw_str_begins(url, PW_STR("https://")) ? 8 : 0;
    scheme = pw_str_begins(url, PW_STR("http://")) ? 7 : scheme;
    for (size_t i = scheme; i < url.len && url.ptr[i] != '/'; i++) {
        if (url.ptr[i] == '@') {
            return false;
        }
    }
    for (size_t i = scheme; i < url.len; i++) {
        if ((uint8_t)url.ptr[i] <= 0x20 || url.ptr[i] == '?' || url.ptr[i] == '#') {
            return false;
        }
    }
    return scheme > 0 && url.len > scheme;
}

pw_status pw_model_options_check(const pw_json *model, const pw_option *table, size_t count,
                                 int64_t most_temperature, pw_error *error)
{
    PW_TRY(pw_options_check(model, "model.", table, count, error));
    if (pw_json_text(pw_json_get(model, "name")).len == 0) {
        return PW_FAIL(error, PW_INVALID, "model.name is empty");
    }
    const pw_json *temperature = pw_json_get(model, "temperature");
    int64_t micros = 0;
    if (temperature && (!pw_json_micros(temperature, &micros) || micros < 0 ||
                        micros > most_temperature * 1000000)) {
        return PW_FAIL(error, PW_INVALID, "model.temperature: expected a number from 0 to %lld",
                       (long long)most_temperature);
    }
    const pw_json *url = pw_json_get(model, "base_url");
    if (url && !is_url(url->text)) {
        return PW_FAIL(
            error, PW_INVALID,
            "model.base_url: expected http:// or https:// and a host, without a user and "
            "without a query");
    }
    return PW_OK;
}
