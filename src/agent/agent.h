/*
 * An agent's folder → a definition. YAML is read by libyaml into JSON (YAML 1.2's JSON schema of
 * scalars: no `yes`, no dates), checked against the published agent.schema.json, then completed:
 * instructions.md is read in, files named by `input:` and `script:` are read in, durations become
 * milliseconds. Errors carry file, line, key and what was expected. This room knows nothing of
 * turns.
 */
#ifndef PW_AGENT_AGENT_H
#define PW_AGENT_AGENT_H

#include "core/definition.h"

typedef struct pw_agent {
    pw_str name;
    pw_str directory; /* absolute */
    pw_str json;      /* what pw_definition_parse takes */
    const pw_definition *definition;
} pw_agent;

/* error->file is not the source file here: the message itself begins with `path:line: `. All
 * problems found are written to `report` (one a line, may be NULL); the first is the error.
 * PW_INVALID, PW_NOT_FOUND, PW_IO, PW_TOO_LARGE (a file over 1 MiB). */
pw_status pw_agent_load(pw_str directory, pw_arena *, const pw_agent **ret, pw_buffer *report,
                        pw_error *);

/* A folder of agents' folders, or one agent's folder itself: every folder with an agent.yaml,
 * sorted by name. Names are unique. */
pw_status pw_agents_load(pw_str directory, pw_arena *, const pw_agent *const **ret,
                         size_t *ret_count, pw_buffer *report, pw_error *);

/* The same keys as agent.yaml as JSON, for a host program: no folder, no files (`instructions` is a
 * key, `input` and `script` stand there); keys in a definition's own form (`limit_ms`) pass too.
 * `name`: when the text says none. PW_INVALID, PW_NOMEM. */
pw_status pw_agent_from_json(pw_str name, pw_str json, pw_arena *, const pw_agent **ret,
                             pw_error *);

/* One YAML document as JSON text; used for agents, scripts and pawl.yaml. `lines`, when not NULL,
 * gets a table to find the line of a JSON value. */
typedef struct pw_yaml_lines pw_yaml_lines;
pw_status pw_yaml_to_json(pw_str yaml, pw_str file_name, pw_arena *, pw_str *ret_json,
                          const pw_yaml_lines **lines, pw_error *);
int pw_yaml_line(const pw_yaml_lines *, pw_str json, pw_str raw_of_value); /* 0: unknown */

/* A file of configuration: regular, at most 1 MiB, symbolic links followed. The error says what is
 * wrong, without the path. */
pw_status pw_configuration_read(pw_str path, pw_arena *, pw_str *ret, pw_error *);

extern const char pw_agent_schema_json[]; /* agent.schema.json, embedded by the build */

#endif
