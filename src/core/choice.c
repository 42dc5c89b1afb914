/*
 * Which of an agent's models a turn asks (F6).
 *
 * A turn begins with the first of them. What one model made another of the same provider can go on
 * from; across providers that holds only while no model has made anything, so from the turn's first
 * receipt on the models of other providers are passed over.
 */
#include "core/state.h"

bool pw_choice_next(const pw_session *s, size_t *ret_index, const pw_model_choice **ret_barred)
{
    const pw_definition *definition = s->v.pinned;
    const pw_model_choice *now = pw_choice_now(s);
    *ret_barred = NULL;
    for (size_t i = (size_t)s->d.turn.choice + 1; i < definition->model_count; i++) {
        const pw_model_choice *next = &definition->models[i];
        if (!s->d.turn.answered || pw_str_equal(next->provider, now->provider)) {
            *ret_index = i;
            return true;
        }
        *ret_barred = *ret_barred ? *ret_barred : next;
    }
    return false;
}
