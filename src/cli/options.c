/* The command line, and help made from the same tables. It acts on nothing. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cli_option_row cli_row_of(cli_option option)
{
    static const struct {
        const char *name;
        char letter;
        const char *value, *help;
    } rows[] = {
#define CLI_OPTION_ROW(name, letter, value, help) {#name, letter, value, help},
        CLI_OPTIONS(CLI_OPTION_ROW)
#undef CLI_OPTION_ROW
    };
    cli_option_row row = {
        .letter = rows[option].letter, .value = rows[option].value, .help = rows[option].help};
    snprintf(row.name, sizeof(row.name), "%s", rows[option].name);
    for (char *c = row.name; *c; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    return row;
}

int cli_usage(const cli *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("pawl: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    if (c && c->command) {
        fprintf(stderr, "\nUsage: pawl %s; more: pawl help %s\n", c->command->synopsis,
                c->command->name);
    } else {
        fputs("; `pawl help` lists what there is\n", stderr);
    }
    return CLI_USAGE;
}

/* --- Help
 * -------------------------------------------------------------------------------------------------
 */

static void program_help(FILE *to)
{
    fputs("pawl: an LLM agent's turn as a durable process\n\n", to);
    for (const cli_command *k = cli_commands; k->name; k++) {
        int columns = 0; /* of UTF-8: printf pads by bytes */
        for (const char *at = k->synopsis; *at; at++) {
            columns += (*at & 0xC0) != 0x80;
        }
        fprintf(to, "  pawl %s%*s%s\n", k->synopsis, columns < 58 ? 60 - columns : 2, "", k->help);
    }
    fputs("\nEvery command takes --help; most take --json and --store URL.\n\nExit status:\n", to);
#define EXIT_ROW(name, number, words) fprintf(to, "  %3d  %s\n", number, words);
    CLI_EXITS(EXIT_ROW)
#undef EXIT_ROW
}

int cli_help(const cli_command *k, FILE *to)
{
    if (!k) {
        program_help(to);
        return CLI_DONE;
    }
    fprintf(to, "pawl %s\n\n%c%s.\n", k->synopsis,
            k->help[0] >= 'a' && k->help[0] <= 'z' ? k->help[0] - 32 : k->help[0], k->help + 1);
    if (k->more) {
        fprintf(to, "%s\n", k->more);
    }
    fputs("\n", to);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if (!(k->options & 1u << i)) {
            continue;
        }
        cli_option_row row = cli_row_of((cli_option)i);
        char left[64];
        snprintf(left, sizeof(left), "%c%c%s--%s%s%s", row.letter ? '-' : ' ',
                 row.letter ? row.letter : ' ', row.letter ? ", " : "  ", row.name,
                 row.value ? " " : "", row.value ? row.value : "");
        fprintf(to, "  %-26s %s\n", left, row.help);
    }
    return CLI_DONE;
}

static const cli_command *find_command(const char *const *words, size_t count, size_t *ret_used)
{
    const cli_command *found = NULL;
    for (const cli_command *k = cli_commands; k->name; k++) {
        const char *space = strchr(k->name, ' ');
        size_t first = space ? (size_t)(space - k->name) : strlen(k->name);
        bool same =
            count > 0 && strlen(words[0]) == first && strncmp(words[0], k->name, first) == 0;
        if (same && (!space || (count > 1 && strcmp(words[1], space + 1) == 0))) {
            found = !found || space ? k : found; /* of "models" and "models check" the longer */
            *ret_used = strchr(found->name, ' ') ? 2 : 1;
        }
    }
    return found;
}

int cli_help_command(cli *c)
{
    size_t used;
    if (c->argument_count == 0) {
        return cli_help(NULL, stdout);
    }
    const cli_command *k = find_command(c->arguments, c->argument_count, &used);
    return k ? cli_help(k, stdout) : cli_usage(NULL, "there is no command \"%s\"", c->arguments[0]);
}

/* --- Parsing --- */

typedef struct parsing {
    cli *c;
    int argc, at;
    char **argv;
} parsing;

static int take_option(parsing *p, cli_option option, const char *said, const char *value)
{
    cli *c = p->c;
    cli_option_row row = cli_row_of(option);
    if (!(c->command->options & 1u << option)) {
        return cli_usage(c, "%s is not an option of `pawl %s`", said, c->command->name);
    }
    if (!row.value && value) {
        return cli_usage(c, "--%s takes no value", row.name);
    }
    if (row.value && !value) {
        if (p->at + 1 >= p->argc) {
            return cli_usage(c, "%s needs %s", said, row.value);
        }
        value = p->argv[++p->at];
    }
    if (row.value && value[0] == '\0') {
        return cli_usage(c, "--%s is empty", row.name);
    }
    c->option[option] = row.value ? value : "";
    return CLI_DONE;
}

static int take_long(parsing *p, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        cli_option_row row = cli_row_of((cli_option)i);
        if (strlen(row.name) == len - 2 && strncmp(row.name, word + 2, len - 2) == 0) {
            return take_option(p, (cli_option)i, word, equals ? equals + 1 : NULL);
        }
    }
    return cli_usage(p->c, "%s is not an option", word);
}

static int take_short(parsing *p, const char *word)
{
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if (cli_row_of((cli_option)i).letter == word[1]) {
            return take_option(p, (cli_option)i, word, word[2] ? word + 2 : NULL);
        }
    }
    return cli_usage(p->c, "%s is not an option", word);
}

static int take_words(parsing *p)
{
    cli *c = p->c;
    bool options = true;
    for (; p->at < p->argc; p->at++) {
        char *word = p->argv[p->at];
        int status = CLI_DONE;
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && word[0] == '-' && word[1] == '-') {
            status = take_long(p, word);
        } else if (options && word[0] == '-' && word[1] != '\0') {
            status = take_short(p, word);
        } else {
            c->arguments[c->argument_count++] = word;
        }
        if (status != CLI_DONE) {
            return status;
        }
    }
    return CLI_DONE;
}

int cli_parse(cli *c, int argc, char **argv)
{
    size_t used = 0;
    char help[] = "help",
         version[] = "version"; /* stand in for options only until the command is found */
    if (argc < 2) {
        (void)cli_help(NULL, stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        argv[1] = help;
    } else if (strcmp(argv[1], "--version") == 0) {
        argv[1] = version;
    }
    c->command = find_command((const char *const *)argv + 1, (size_t)argc - 1, &used);
    if (!c->command) {
        return strcmp(argv[1], "agents") == 0
                   ? cli_usage(NULL, "agents: what? `pawl agents check DIR`")
                   : cli_usage(NULL, "there is no command \"%s\"", argv[1]);
    }
    c->arguments = calloc((size_t)argc, sizeof(*c->arguments)); /* main frees it */
    if (!c->arguments) {
        return cli_usage(NULL, "no memory");
    }
    parsing p = {.c = c, .argc = argc, .at = 1 + (int)used, .argv = argv};
    int status = take_words(&p);
    if (status != CLI_DONE || c->option[CLI_help]) {
        return status;
    }
    if (c->argument_count < c->command->least) {
        const char *what = c->command->synopsis; /* its first word in capitals */
        what += strcspn(what, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        return cli_usage(c, "%.*s is missing", (int)strcspn(what, " "), what);
    }
    if (c->argument_count > c->command->most) {
        return cli_usage(c, "\"%s\" is too much", c->arguments[c->command->most]);
    }
    const char *no_color = getenv("NO_COLOR");
    c->json = c->option[CLI_json] != NULL;
    c->color = isatty(STDERR_FILENO) && !c->option[CLI_no_color] && !(no_color && no_color[0]);
    return CLI_DONE;
}
