/* Budgets (G1, G3) and what counts towards them (G6, H2). */
#include "core/state.h"

#include "base/format.h"

void pw_totals_add(pw_totals *to, const pw_totals *more)
{
#define ADD_TOTAL(name) to->name += more->name;
    PW_TOTALS_TABLE(ADD_TOTAL)
#undef ADD_TOTAL
}

bool pw_usage_known(const pw_usage *usage)
{
    return usage->in_uncached >= 0 || usage->in_cache_read >= 0 || usage->in_cache_write >= 0 ||
           usage->out >= 0 || usage->cost_micros >= 0;
}

static int64_t said(int64_t figure)
{
    return figure > 0 ? figure : 0;
}

void pw_totals_spend(pw_totals *to, const pw_usage *usage, bool whole)
{
    to->input_tokens +=
        said(usage->in_uncached) + said(usage->in_cache_read) + said(usage->in_cache_write);
    to->cached_tokens += said(usage->in_cache_read);
    to->output_tokens += said(usage->out);
    to->reasoning_tokens += said(usage->reasoning);
    if (usage->cost_micros >= 0) {
        to->cost_micros += usage->cost_micros;
    } else if (whole || pw_usage_known(usage)) {
        to->unpriced_calls++;
    }
}

pw_status pw_bound_words(pw_session *s, pw_ending *ret, const char *reason, int64_t bound)
{
    const bool exhausted = pw_str_is(PW_STR("max_iterations"), reason);
    pw_buffer detail, text;
    pw_buffer_init_arena(&detail, &s->scratch, 4096);
    pw_buffer_init_arena(&text, &s->scratch, 4096);
    (void)pw_buffer_add(&detail, PW_STR("the turn reached its bound "));
    (void)pw_buffer_add(&detail, pw_str_from(reason));
    if (bound >= 0) {
        (void)pw_buffer_add(&detail, PW_STR(" ("));
        if (pw_str_is(PW_STR("max_cost_usd"), reason)) {
            char money[PW_MONEY_SIZE];
            (void)pw_buffer_add(&detail, (pw_str){money, pw_format_money(money, bound)});
            (void)pw_buffer_add(&detail, PW_STR(" USD"));
        } else {
            (void)pw_buffer_i64(&detail, bound);
        }
        (void)pw_buffer_add(&detail, PW_STR(")"));
    }
    PW_TRY(detail.failed);
    (void)pw_buffer_add(&text, PW_STR("Stopped: "));
    (void)pw_buffer_add(&text, pw_buffer_str(&detail));
    (void)pw_buffer_add(&text, PW_STR(". What is done is kept; send a message to continue."));
    PW_TRY(text.failed);
    *ret = (pw_ending){
        .state = exhausted ? PW_TURN_EXHAUSTED : PW_TURN_PAUSED,
        .reason = reason,
        .detail = pw_buffer_str(&detail),
        .text = pw_buffer_str(&text),
        .code = exhausted ? "exhausted" : "paused",
        .code_detail = pw_str_from(reason),
    };
    return PW_OK;
}

pw_status pw_bound_reached(pw_session *s, bool tool, pw_ending *ret, bool *ret_reached)
{
    const pw_budget *budget = &s->d.turn.budget;
    const pw_totals *totals = &s->d.turn.totals;
    const struct {
        const char *reason;
        int64_t bound, spent;
        bool counts;
    } bounds[] = {
        {"max_iterations", budget->max_iterations, totals->iterations, true},
        {"max_tool_calls", budget->max_tool_calls, totals->tool_calls, tool},
        {"max_cost_usd", budget->max_cost_micros, totals->cost_micros, true},
        {"max_tokens", budget->max_tokens, totals->input_tokens + totals->output_tokens, true},
    };
    *ret_reached = false;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        if (bounds[i].counts && bounds[i].bound >= 0 && bounds[i].spent >= bounds[i].bound) {
            *ret_reached = true;
            return pw_bound_words(s, ret, bounds[i].reason, bounds[i].bound);
        }
    }
    return PW_OK;
}
