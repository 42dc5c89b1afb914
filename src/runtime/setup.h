/*
 * What is put together before the start: tools and agents. Any thread, under a mutex of its own;
 * fixed from pawl_start on.
 */
#ifndef PW_RUNTIME_SETUP_H
#define PW_RUNTIME_SETUP_H

#include "runtime/runtime.h"
#include "tool/tool.h"

pw_status pw_setup_new(pawl *); /* sets p->setup; p's arena is ready */
void pw_setup_free(pawl *);     /* frees the contexts of tools that no runner took */

/* Agents of a folder (pawl_options.agents). PW_INVALID: the message has file and line. */
pw_status pw_setup_load(pawl *, pw_str directory, pw_error *);
/* Completes the agents' native tools from those added, checks every tool and gives them to the
 * runner. Nothing may be added after. */
pw_status pw_setup_fix(pawl *, pw_error *);
pw_status pw_setup_give_tools(pawl *, pw_tool_runner *, pw_error *);

/* Prices: the program's own, and before them those of pawl_options.prices or $PAWL_PRICES.
 * pricing.c. PW_INVALID names the file and the member. */
pw_status pw_setup_prices(pawl *, pw_error *);

pw_str pw_setup_store_path(const pawl *); /* of an SQLite store; else empty */
/* $PAWL_STORE, else the user's state directory (made when missing). In the arena. */
pw_status pw_setup_default_store(pw_arena *, bool read_only, pw_str *ret, pw_error *);

/* The one that serves sessions which name none: `default`, else the first; NULL: there is none. */
const pw_agent *pw_agent_default(const pawl *);
const pw_agent *pw_agent_find(const pawl *, pw_str name);

#endif
