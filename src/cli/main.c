/* The program's table of commands, from which dispatch and help are made. */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOKING (CLI_BIT(store) | CLI_BIT(json) | CLI_BIT(no_color) | CLI_BIT(help))
#define MODELS                                                                                     \
    (CLI_BIT(agents) | CLI_BIT(agent) | CLI_BIT(json) | CLI_BIT(no_color) | CLI_BIT(help))
#define RUNNING (LOOKING | CLI_BIT(agents) | CLI_BIT(agent) | CLI_BIT(take_over))

const cli_command cli_commands[] = {
    {"run", "run [-a AGENT] [-s SESSION] [--request-id ID] PROMPT…",
     "one turn, here, told as it happens",
     "PROMPT `-` is read from standard input. Killed at any moment, the same command goes on where "
     "the turn was; when the turn\n"
     "has ended, it prints the recorded result. Without PROMPT, -s SESSION resumes what is open or "
     "waits there.\n"
     "Ctrl-C cancels the turn, a second one leaves it to others; SIGTERM stops at the next step, "
     "leaves it open and exits with 143.",
     RUNNING | CLI_BIT(session) | CLI_BIT(request_id), 0, (size_t)-1, cli_run},
    {"sessions", "sessions [--status STATUS] [-a AGENT]",
     "all sessions: status, agent, turns, cost", NULL, LOOKING | CLI_BIT(status) | CLI_BIT(agent),
     0, 0, cli_sessions},
    {"show", "show SESSION", "a session: its transcript, its turns and what they used", NULL,
     LOOKING, 1, 1, cli_show},
    {"tail", "tail SESSION [--after CURSOR] [--no-follow]", "a session's events, as they come",
     NULL, LOOKING | CLI_BIT(after) | CLI_BIT(no_follow), 1, 1, cli_tail},
    {"why", "why SESSION", "why it is not running now, in words", NULL, LOOKING, 1, 1, cli_why},
    {"cancel", "cancel SESSION [TURN]", "cancel a turn (the open one), durably", NULL, RUNNING, 1,
     2, cli_cancel},
    {"verify", "verify [--rebuild]", "check the whole store", NULL, LOOKING | CLI_BIT(rebuild), 0,
     0, cli_verify},
    {"doctor", "doctor", "check the place: libraries, disk, owners, what is stuck", NULL,
     LOOKING | CLI_BIT(agents), 0, 0, cli_doctor},
    {"agents check", "agents check DIR", "check agents' folders", NULL,
     CLI_BIT(json) | CLI_BIT(no_color) | CLI_BIT(help), 1, 1, cli_agents_check},
    {"models", "models [-a AGENT]", "the agents' models and what they cost", NULL, MODELS, 0, 0,
     cli_models},
    {"models check", "models check [-a AGENT] [--within TIME]",
     "ask each model for a few words and say which work",
     "One small request (at most 16 tokens) to each model of each agent, fallbacks too, one after "
     "the other: works, no key,\nrefused (with the provider's words), unreachable or slow.",
     MODELS | CLI_BIT(within), 0, 0, cli_models_check},
    {"replay", "replay SESSION --dry-run [PROMPT…]",
     "a session's next request as it would be sent, and its faults",
     "Prints the request's body; with --json what is wrong with it, and sizes. With PROMPT as if "
     "that message had just\nbeen given. Takes nothing, sends nothing, runs nothing. Exit status "
     "1: "
     "the transcript is not valid.",
     LOOKING | CLI_BIT(agents) | CLI_BIT(agent) | CLI_BIT(dry_run), 1, (size_t)-1, cli_replay},
    {"completion", "completion SHELL", "completion for bash, zsh or fish; `man`: the manual page",
     "For this shell: source <(pawl completion bash).", CLI_BIT(help), 1, 1, cli_completion},
    {"bench", "bench [--sessions N] [--iterations M] [--baseline]", "measure the engine here",
     "Runs the scripted workload (turns of 10 iterations, one model call and one `none` tool each, "
     "1 KB each way, the\n"
     "model answering at once) on a fresh store and prints one object. Without --store in a "
     "temporary folder, removed after.",
     CLI_BIT(store) | CLI_BIT(json) | CLI_BIT(no_color) | CLI_BIT(help) | CLI_BIT(sessions) |
         CLI_BIT(iterations) | CLI_BIT(baseline),
     0, 0, cli_bench},
    {"help", "help [COMMAND]", "help", NULL, CLI_BIT(help), 0, 2, cli_help_command},
    {"version", "version", "the version", NULL, CLI_BIT(help) | CLI_BIT(json), 0, 0, cli_version},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};

volatile int cli_interrupts, cli_terminated;

static void on_signal(int number)
{
    if (number == SIGINT) {
        cli_interrupts++;
    } else {
        cli_terminated = 1;
    }
}

void cli_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 &&
        before.sa_handler != SIG_IGN) { /* not under nohup */
        (void)sigaction(SIGHUP, &action, NULL);
    }
}

/* A store's or a socket's descriptor must not become 0, 1 or 2, where the program reads and prints.
 */
static void open_streams(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

int cli_version(cli *c)
{
    printf(c->json ? "{\"version\":\"%s\"}\n" : "pawl %s\n", pawl_version());
    return CLI_DONE;
}

int main(int argc, char **argv)
{
    cli c = {0};
    open_streams();
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that goes away must not take a turn with it */
    (void)signal(
        SIGCHLD,
        SIG_DFL); /* ignored, as some parents leave it, nobody would learn how a tool exited */
    int status = cli_parse(&c, argc, argv);
    if (status == CLI_DONE) {
        status = c.option[CLI_help] ? cli_help(c.command, stdout) : c.command->run(&c);
    }
    free(c.arguments);
    if (fflush(stdout) != 0 && status == CLI_DONE) {
        status = CLI_FAILED;
    }
    return status;
}
