/*
 * An agent's definition: what a turn pins (C11). One canonical JSON text, named by its SHA-256, and
 * its parsed form, which is immutable and shared by every session that uses it.
 *
 * The text (all keys but name and model optional; unknown keys are PW_INVALID):
 * {"name","instructions","model":{"provider","name","max_tokens","thinking",…provider options,
 *  "fallback":[further models in order (F6): whole objects, `provider` as the first's where left
 * out]},
 *  "budget":{"max_iterations","max_tool_calls","max_cost_usd","max_tokens","deadline_ms"},"debounce_ms",
 *  "context":{"messages"},"max_protocol_failures",
 *  "tools":[{"name","kind","description","effects","input":{schema},"limit_ms","result_limit", …the
 * kind's own}]} No paths and no secrets: an agent moved to another folder is the same definition.
 */
#ifndef PW_CORE_DEFINITION_H
#define PW_CORE_DEFINITION_H

#include "base/json.h"
#include "base/sha256.h"

/* X(NAME, "text", strictness): C7 takes the stricter of two declarations; transactional is apart.
 */
#define PW_EFFECTS_TABLE(X)                                                                        \
    X(NONE, "none")                                                                                \
    X(IDEMPOTENT, "idempotent")                                                                    \
    X(ONCE, "once")                                                                                \
    X(TRANSACTIONAL, "transactional")

typedef enum pw_effects_class {
#define PW_EFFECTS_ENUM(name, text) PW_EFFECTS_##name,
    PW_EFFECTS_TABLE(PW_EFFECTS_ENUM)
#undef PW_EFFECTS_ENUM
} pw_effects_class;
const char *pw_effects_name(pw_effects_class);
bool pw_effects_from(pw_str, pw_effects_class *ret);

/* G1. -1: no such bound. */
typedef struct pw_budget {
    int64_t max_iterations, max_tool_calls, max_cost_micros, max_tokens, deadline_ms;
} pw_budget;
#define PW_BUDGET_DEFAULT ((pw_budget){50, 200, -1, -1, 30 * 60 * 1000})
/* Overrides `*budget` where the object names a bound. PW_INVALID names the field and the limit. */
pw_status pw_budget_apply(pw_budget *budget, const pw_json *object, pw_error *);

typedef struct pw_tool_declaration {
    pw_str name; /* ^[a-zA-Z0-9_-]{1,64}$ */
    pw_str kind; /* native, sql, command, … */
    pw_str description;
    pw_effects_class effects; /* default once */
    int64_t limit_ms;         /* default 60000; transactional 2000 (D2, D6) */
    int64_t result_limit;     /* bytes the model reads at most, default 262144 (D7) */
    const pw_json *input;     /* schema, checked; NULL: any object */
    const pw_json *config;    /* the whole declaration */
} pw_tool_declaration;

/* A model as the agent names it. */
typedef struct pw_model_choice {
    pw_str provider, name;
    const pw_json *options; /* the whole object: {"provider","name","max_tokens", …} */
} pw_model_choice;

typedef struct pw_definition {
    pw_str text;      /* canonical JSON */
    pw_hash_hex hash; /* of `text` */
    const pw_json *json;
    pw_str name, instructions;
    const pw_model_choice *models; /* the first choice, then its fallbacks in their order (F6) */
    size_t model_count;
    pw_budget budget;
    int64_t debounce_ms;           /* default 0 */
    int64_t context_messages;      /* -1: all */
    int64_t max_protocol_failures; /* default 5 */
    const pw_tool_declaration *tools;
    size_t tool_count;
} pw_definition;

/* Parses and checks; everything lives in the arena (the text is canonicalised into it). Rejects
 * duplicate tool names, bad schemas, bad bounds. */
pw_status pw_definition_parse(pw_arena *, pw_str json, const pw_definition **ret, pw_error *);
const pw_tool_declaration *pw_definition_tool(const pw_definition *, pw_str name);

#endif
