/* What the files of this room share; not a contract of the room. */
#ifndef PW_AGENT_AGENT_INNER_H
#define PW_AGENT_AGENT_INNER_H

#include "agent/agent.h"

#define PW_AGENT_FILE_MAX ((size_t)1024 * 1024)
#define PW_AGENT_PATH_MAX 4096

/* A file that was read and parsed. */
typedef struct pw_source {
    pw_str path; /* as shown in messages */
    pw_str json;
    const pw_json *root;
    const pw_yaml_lines *lines; /* NULL: a JSON file */
} pw_source;

typedef struct pw_problem {
    pw_status status;
    pw_str path;
    int line;    /* 0: the file as a whole */
    pw_str text; /* "key: expected …" */
} pw_problem;

typedef struct pw_problems {
    pw_arena *arena;
    pw_buffer list; /* of pw_problem */
    bool no_memory;
} pw_problems;

/* problems.c. Adding never fails: out of memory is remembered. */
void pw_problems_init(pw_problems *, pw_arena *);
void pw_problem_add(pw_problems *, pw_status, pw_str path, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
size_t pw_problems_count(const pw_problems *);
/* Files in the order they came, lines in order: written to `report` (may be NULL); the first
 * becomes the error. */
pw_status pw_problems_end(pw_problems *, pw_buffer *report, pw_error *);

int pw_source_line(const pw_source *, const pw_json *);
/* Where a value is, as people write it: "tools[2].effects"; "" for the whole. */
pw_str pw_source_path(const pw_source *, const pw_json *, pw_arena *);
/* The value that a message is about, by the path it begins with: "budget.deadline: …", "/tools/2:
 * …", "tools[2].run is …". As far as the path leads; at least `from`. */
const pw_json *pw_source_find(const pw_json *from, pw_str message);

/* folder.c: the files of an agent. */
typedef struct pw_folder {
    pw_arena *arena;
    pw_str shown; /* as the caller named it */
    char real[PW_AGENT_PATH_MAX];
} pw_folder;
pw_status pw_folder_open(pw_folder *, pw_str directory, pw_arena *, pw_error *);
pw_str pw_folder_shown(const pw_folder *, pw_str name);
/* A regular file inside the folder, at most 1 MiB. PW_NOT_FOUND, PW_FORBIDDEN (outside),
 * PW_TOO_LARGE, PW_INVALID (not a file), PW_IO, PW_NOMEM: the error says what, without a path. */
pw_status pw_folder_read(const pw_folder *, pw_str name, pw_str *ret, pw_error *);
bool pw_folder_has(pw_str directory, pw_str name,
                   pw_str under); /* directory/name/under is there; `name` may be empty */

/* complete.c: agent.yaml's keys → a definition's. With `folder` NULL nothing is read:
 * `instructions` stands in the source itself. */
typedef struct pw_completing {
    pw_folder *folder;
    pw_arena *arena;
    pw_problems *problems;
    const pw_source *source;
    pw_str name;        /* when the source says none */
    pw_source *scripts; /* out: of each model, the first and its fallbacks, the file that its
                           `script` names, if it does */
    size_t script_count;
} pw_completing;
pw_status pw_agent_complete(pw_completing *,
                            pw_str *ret_json); /* PW_OK also with problems: look at them */

#endif
