/*
 * Alarms: what the loop must look at again, and when. All of the loop's timers are these, behind
 * one uv timer, so that setting and clearing one never allocates, never fails and needs no
 * asynchronous close. Times are monotonic (J6).
 *
 * A pairing heap whose nodes live inside what they wake. Loop thread only; must never call anything
 * itself.
 */
#ifndef PW_RUNTIME_ALARM_H
#define PW_RUNTIME_ALARM_H

#include "base/mem.h"

typedef struct pw_alarm pw_alarm;
struct pw_alarm {
    int64_t at_ms;
    bool set;
    void (*fire)(void *loop, pw_alarm *); /* told by the loop, after the alarm was cleared */
    pw_alarm *child, *next, *back; /* back: the sibling before, or the parent of a first child */
};

typedef struct pw_alarms {
    pw_alarm *root;
} pw_alarms;

void pw_alarm_set(pw_alarms *, pw_alarm *, int64_t at_ms); /* a set one is moved */
void pw_alarm_clear(pw_alarms *, pw_alarm *);              /* one that is not set is left alone */
pw_alarm *pw_alarm_due(pw_alarms *, int64_t now_ms); /* takes out the earliest due one, or NULL */
int64_t pw_alarm_next(const pw_alarms *);            /* the earliest time; -1: none is set */

#endif
