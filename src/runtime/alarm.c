/*
 * The pairing heap behind alarm.h. Runs on the loop thread; must never allocate and never recurse,
 * since thousands of equal times may sit in one row of children.
 */
#include "runtime/alarm.h"

static pw_alarm *meld(pw_alarm *a, pw_alarm *b)
{
    if (!a || !b) {
        return a ? a : b;
    }
    if (b->at_ms < a->at_ms) {
        pw_alarm *swap = a;
        a = b;
        b = swap;
    }
    b->next = a->child;
    if (b->next) {
        b->next->back = b;
    }
    b->back = a;
    a->child = b;
    return a;
}

/* The two passes of a pairing heap: pairs from the left, then all into one from the right. */
static pw_alarm *meld_row(pw_alarm *first)
{
    pw_alarm *pairs = NULL;
    while (first) {
        pw_alarm *a = first, *b = first->next;
        first = b ? b->next : NULL;
        a->next = a->back = NULL;
        if (b) {
            b->next = b->back = NULL;
        }
        pw_alarm *both = meld(a, b);
        both->next = pairs;
        pairs = both;
    }
    pw_alarm *root = NULL;
    while (pairs) {
        pw_alarm *next = pairs->next;
        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = next;
    }
    return root;
}

void pw_alarm_clear(pw_alarms *alarms, pw_alarm *alarm)
{
    if (!alarm->set) {
        return;
    }
    pw_alarm *below = meld_row(alarm->child);
    if (alarm == alarms->root) {
        alarms->root = below;
    } else {
        if (alarm->back->child == alarm) {
            alarm->back->child = alarm->next;
        } else {
            alarm->back->next = alarm->next;
        }
        if (alarm->next) {
            alarm->next->back = alarm->back;
        }
        alarms->root = meld(alarms->root, below);
    }
    alarm->child = alarm->next = alarm->back = NULL;
    alarm->set = false;
}

void pw_alarm_set(pw_alarms *alarms, pw_alarm *alarm, int64_t at_ms)
{
    pw_alarm_clear(alarms, alarm);
    alarm->at_ms = at_ms;
    alarm->set = true;
    alarm->child = alarm->next = alarm->back = NULL;
    alarms->root = meld(alarms->root, alarm);
}

pw_alarm *pw_alarm_due(pw_alarms *alarms, int64_t now_ms)
{
    pw_alarm *first = alarms->root;
    if (!first || first->at_ms > now_ms) {
        return NULL;
    }
    pw_alarm_clear(alarms, first);
    return first;
}

int64_t pw_alarm_next(const pw_alarms *alarms)
{
    return alarms->root ? alarms->root->at_ms : -1;
}
