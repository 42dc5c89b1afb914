/*
 * The program's own files share this: options, the table of commands, and a few helpers. The
 * program stands on pawl.h and the C library alone (bench_baseline.c also on SQLite): whatever it
 * can do, an embedding program can do. It decides nothing about turns.
 */
#ifndef PAWL_CLI_H
#define PAWL_CLI_H

#include <pawl/pawl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How the program ends. X(name, number, "words") */
#define CLI_EXITS(X)                                                                               \
    X(DONE, 0, "done")                                                                             \
    X(FAILED, 1, "the turn failed, or a check found a fault")                                      \
    X(USAGE, 2, "wrong use: options, an agent's files, a name that is not there")                  \
    X(PAUSED, 3, "paused or exhausted: a bound was reached, what is done is kept")                 \
    X(SUSPENDED, 4, "the turn waits for a person")                                                 \
    X(CANCELLED, 5, "cancelled")                                                                   \
    X(UNREACHABLE, 6, "the store cannot be reached or used")                                       \
    X(TERMINATED, 143, "SIGTERM: drained, the turn stays open")
enum {
#define CLI_EXIT_ENUM(name, number, words) CLI_##name = number,
    CLI_EXITS(CLI_EXIT_ENUM)
#undef CLI_EXIT_ENUM
};

/* X(NAME, "words") */
#define CLI_ENVIRONMENT(X)                                                                         \
    X(PAWL_STORE, "the store, as --store says it")                                                 \
    X(PAWL_AGENTS, "the folder of agents' folders, as --agents says it")                           \
    X(PAWL_AGENT, "the agent, as -a says it")                                                      \
    X(PAWL_PRICES, "a file of prices, asked before those of the program")                          \
    X(PAWL_OUTBOUND_ALLOW,                                                                         \
      "addresses and networks, by commas, that http tools may reach beyond public ones")           \
    X(ANTHROPIC_API_KEY, "the key of models of anthropic, where the agent names no other place")   \
    X(OPENAI_API_KEY, "the same of openai, and of openai-chat where it asks OpenAI's own server")  \
    X(NO_COLOR, "no colours, whatever it holds")

/* X(name, letter or 0, "value" or NULL for a flag, "help") */
#define CLI_OPTIONS(X)                                                                             \
    X(agent, 'a', "AGENT", "the agent: a name, or a folder with agent.yaml (default $PAWL_AGENT)") \
    X(session, 's', "SESSION", "the session (default: a new one, printed)")                        \
    X(request_id, 0, "ID", "makes the message idempotent: the same id again continues or repeats") \
    X(store, 0, "URL",                                                                             \
      "the store, like sqlite:FILE (default $PAWL_STORE, else your state folder)")                 \
    X(agents, 0, "DIR", "a folder of agents' folders (default $PAWL_AGENTS, else ./agents)")       \
    X(take_over, 0, NULL, "take the session even from a process that is alive")                    \
    X(status, 0, "STATUS", "only sessions of this status")                                         \
    X(after, 0, "CURSOR", "begin after this event's id; `now`: only what comes (default: all)")    \
    X(no_follow, 0, NULL, "end when everything stored was told")                                   \
    X(rebuild, 0, NULL, "write the derived tables anew from the journal")                          \
    X(sessions, 0, "N", "how many sessions at once (default 1)")                                   \
    X(iterations, 0, "M", "iterations of each session, 10 to a turn (default 100)")                \
    X(baseline, 0, NULL, "also the raw loop of the same rows, in the same run")                    \
    X(within, 0, "TIME", "how long each model may take, like 20s (the default)")                   \
    X(dry_run, 0, NULL, "show what would be sent and send nothing")                                \
    X(json, 0, NULL, "JSON: one value, or one a line while following")                             \
    X(no_color, 0, NULL, "no colours (also $NO_COLOR)")                                            \
    X(help, 'h', NULL, "this help")

typedef enum cli_option {
#define CLI_OPTION_ENUM(name, letter, value, help) CLI_##name,
    CLI_OPTIONS(CLI_OPTION_ENUM)
#undef CLI_OPTION_ENUM
        CLI_OPTION_COUNT
} cli_option;
#define CLI_BIT(name) (1u << CLI_##name)

typedef struct cli_command cli_command;

typedef struct cli {
    const cli_command *command;
    const char *option[CLI_OPTION_COUNT]; /* NULL: not given; a flag: "" */
    const char **arguments;
    size_t argument_count;
    bool json, color; /* color: on the terminal that notes go to */
    bool no_agents;   /* open without them: their files are at fault, and that was said */
    char agent[256];  /* of -a, when it was a folder */
} cli;

struct cli_command {
    const char *name; /* one word or two */
    const char *synopsis;
    const char *help;   /* one line */
    const char *more;   /* what else there is to say */
    unsigned options;   /* CLI_BIT… */
    size_t least, most; /* arguments */
    int (*run)(cli *);
};
extern const cli_command cli_commands[]; /* ends with a NULL name */

typedef struct cli_option_row {
    char name[24]; /* with dashes where C has underscores */
    char letter;   /* 0: none */
    const char *value, *help;
} cli_option_row;
cli_option_row cli_row_of(cli_option);

/* options.c: CLI_DONE, or CLI_USAGE after having said why. */
int cli_parse(cli *, int argc, char **argv);
int cli_help(const cli_command *, FILE *to); /* NULL: of the program */
int cli_usage(const cli *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* open.c */
pawl_str cli_str(const char *nul_terminated); /* NULL is empty */
int cli_exit_of(int32_t code);                /* the exit status that an error makes */
int cli_fail(const cli *, int32_t code, const pawl_error *,
             const char *what); /* says it; returns the exit status */
/* Opens the store (and agents, unless read-only); on failure says why and sets the exit status. */
pawl *cli_open(cli *, bool read_only, int *ret_status);
/* Takes that session alone (J2) until the request's turn ends. A store that others are writing to
 * is waited for, as an admission waits. */
int32_t cli_start(cli *, pawl *, const char *session, pawl_str request, pawl_error *);
const char *cli_agent_name(cli *, pawl *); /* of -a, or "" : the session's, or the default */
/* A path for pawl_read: each %s percent-encoded. Free it. */
char *cli_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
int32_t cli_read(pawl *, pawl_doc **ret, pawl_error *, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A member of a document by a formatted path; {NULL, 0} when it is absent or null. */
pawl_str cli_get(const pawl_doc *, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t cli_get_number(const pawl_doc *, int64_t fallback, const char *path);
bool cli_is(pawl_str, const char *);
/* All pages of a list, each given to `item` one by one; stops when it returns false. */
int32_t cli_each(pawl *, const char *path, const char *list,
                 bool (*item)(void *ctx, const pawl_doc *page, size_t index), void *ctx,
                 pawl_error *);
int64_t cli_now_ms(void);      /* monotonic */
int64_t cli_time_ms(pawl_str); /* RFC 3339 of ours, or -1 */
void cli_uuid(char to[37]);    /* a UUIDv7 */

/* The arguments from the first-th on with spaces between. Free it; NULL: no memory. */
char *cli_join(const cli *, size_t first, size_t *ret_len);

/* Signals are only counted; who waits looks. */
extern volatile int cli_interrupts, cli_terminated;
void cli_signals(void);

/* say.c: a turn told to a person, or as lines of JSON. */
typedef struct cli_teller {
    const cli *c;
    bool text_terminal, notes_terminal;
    bool mid_line;  /* text was written and its line is not over */
    bool progress;  /* a progress line stands on the terminal */
    uint64_t shown; /* bytes of the open message already written */
    int64_t quiet_since_ms;
    char waiting_for[96];
    size_t calls_open;
} cli_teller;
void cli_teller_init(cli_teller *, const cli *);
void cli_tell(cli_teller *, const pawl_event *, const pawl_doc *data);
void cli_tell_progress(cli_teller *); /* now and then, while nothing comes */
void cli_note(cli_teller *, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* a line beside the text */
int cli_tell_turn(cli_teller *, const pawl_doc *turn,
                  bool with_text); /* its end; returns the exit status */
int cli_exit_of_turn(const pawl_doc *turn);
void cli_write(FILE *, pawl_str,
               bool terminal);      /* text from outside: no control characters reach a terminal */
void cli_cell(pawl_str, int width); /* of a table on standard output; NULL: a dash */
void cli_print_cost(FILE *, pawl_str cost_usd);

int cli_run(cli *);
int cli_sessions(cli *);
int cli_show(cli *);
int cli_tail(cli *);
int cli_why(cli *);
int cli_cancel(cli *);
int cli_verify(cli *);
int cli_doctor(cli *);
int cli_agents_check(cli *);
int cli_models(cli *);
int cli_models_check(cli *);
int cli_replay(cli *);
int cli_completion(cli *);
int cli_bench(cli *);
int cli_help_command(cli *);
int cli_version(cli *);

/* Drives a free session alone, or waits for its live owner, until that turn ends or a signal comes.
 * Exit status. */
int cli_drive(cli *, pawl *, const char *session, pawl_str turn, pawl_doc **ret_turn);

#endif
