/*
 * What is made from the table of commands for other programs: completion for shells, and the manual
 * page. Nothing is said here that the table does not say.
 */
#include "cli.h"

#include <string.h>

/* --- What of the table all of them need */

static bool takes(const cli_command *k, int option)
{
    return (k->options & 1u << option) != 0;
}

/* The words that may follow an option or be a command's argument; NULL: any. */
static const char *words_of(const char *value)
{
    static const struct {
        const char *value, *words;
    } sets[] = {{"STATUS", "idle queued running waiting suspended quarantined"},
                {"SHELL", "bash zsh fish man"}};
    for (size_t i = 0; value && i < sizeof(sets) / sizeof(sets[0]); i++) {
        if (strcmp(value, sets[i].value) == 0) {
            return sets[i].words;
        }
    }
    return NULL;
}

/* The last word of a synopsis, which is an argument's name when the command takes any. */
static const char *argument_of(const cli_command *k)
{
    const char *space = strrchr(k->synopsis, ' ');
    return k->most > 0 && space ? space + 1 : NULL;
}

static bool is_folder(const char *value)
{
    return value && strcmp(value, "DIR") == 0;
}

/* First words of commands, each once: "agents" of "agents check". */
static size_t first_word(const cli_command *k)
{
    return strcspn(k->name, " ");
}

static bool is_first(const cli_command *k)
{
    for (const cli_command *before = cli_commands; before < k; before++) {
        if (first_word(before) == first_word(k) &&
            strncmp(before->name, k->name, first_word(k)) == 0) {
            return false;
        }
    }
    return true;
}

static void write_first_words(const char *separator)
{
    for (const cli_command *k = cli_commands; k->name; k++) {
        if (is_first(k)) {
            printf("%s%.*s", k == cli_commands ? "" : separator, (int)first_word(k), k->name);
        }
    }
}

/* The second words of a first one, like "check" of "models". */
static void write_second_words(const cli_command *of)
{
    for (const cli_command *k = cli_commands; k->name; k++) {
        if (first_word(k) == first_word(of) && k->name[first_word(k)] &&
            strncmp(k->name, of->name, first_word(k)) == 0) {
            printf(" %s", k->name + first_word(k) + 1);
        }
    }
}

static void write_options(const cli_command *k)
{
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        cli_option_row row = cli_row_of((cli_option)i);
        if (takes(k, i)) {
            printf(" --%s", row.name);
            if (row.letter) {
                printf(" -%c", row.letter);
            }
        }
    }
}

/* --- bash */

static void write_bash_values(void)
{
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        cli_option_row row = cli_row_of((cli_option)i);
        if (!row.value) {
            continue;
        }
        printf("    --%s", row.name);
        if (row.letter) {
            printf("|-%c", row.letter);
        }
        if (words_of(row.value)) {
            printf(") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n",
                   words_of(row.value));
        } else if (is_folder(row.value) || strcmp(row.value, "AGENT") == 0) {
            fputs(") COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n", stdout);
        } else {
            fputs(") return ;;\n", stdout);
        }
    }
}

static void write_bash_command(const cli_command *k)
{
    const char *argument = argument_of(k), *words = words_of(argument);
    printf("    '%s')\n        words='", k->name);
    write_options(k);
    fputs("'\n", stdout);
    if (words) {
        printf("        words=\"$words %s\"\n", words);
    } else if (strcmp(k->name, "help") == 0) {
        fputs("        words=\"$words ", stdout);
        write_first_words(" ");
        fputs("\"\n", stdout);
    } else if (is_folder(argument)) {
        fputs("        [[ $cur == -* ]] || { COMPREPLY=($(compgen -d -- \"$cur\")); return; }\n",
              stdout);
    }
    fputs("        ;;\n", stdout);
}

static void write_bash(void)
{
    fputs("# bash completion of pawl, made from its table of commands: pawl completion bash\n"
          "_pawl() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=''\n"
          "    local name=${COMP_WORDS[1]} second=''\n"
          "    COMPREPLY=()\n"
          "    if (( COMP_CWORD == 1 )); then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    write_first_words(" ");
    fputs("' -- \"$cur\")); return\n    fi\n    case $name in\n", stdout);
    for (const cli_command *k = cli_commands; k->name; k++) {
        if (is_first(k)) {
            printf("    %.*s) second='", (int)first_word(k), k->name);
            write_second_words(k);
            fputs("' ;;\n", stdout);
        }
    }
    fputs("    esac\n"
          "    if (( COMP_CWORD > 2 )) && [[ \" $second \" == *\" ${COMP_WORDS[2]} \"* ]]; then\n"
          "        name=\"$name ${COMP_WORDS[2]}\" second=''\n"
          "    fi\n"
          "    (( COMP_CWORD == 2 )) || second=''\n"
          "    case $prev in\n",
          stdout);
    write_bash_values();
    fputs("    esac\n    case $name in\n", stdout);
    for (const cli_command *k = cli_commands; k->name; k++) {
        write_bash_command(k);
    }
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$second $words\" -- \"$cur\"))\n"
          "}\n"
          "complete -F _pawl pawl\n",
          stdout);
}

/* --- zsh and fish */

/* Inside single quotes: a quote ends them. In zsh's lists a colon and brackets mean something. */
static void write_quoted(const char *text, bool zsh)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            if (zsh && strchr(":[]\\", *text)) {
                putchar('\\');
            }
            putchar(*text);
        }
    }
}

static void write_zsh_option(cli_option_row row)
{
    if (row.letter) {
        printf(" \\\n            '(-%c --%s)'{-%c%s,--%s%s}'[", row.letter, row.name, row.letter,
               row.value ? "+" : "", row.name, row.value ? "=" : "");
    } else {
        printf(" \\\n            '--%s%s[", row.name, row.value ? "=" : "");
    }
    write_quoted(row.help, true);
    putchar(']');
    if (row.value && words_of(row.value)) {
        printf(":%s:(%s)", row.value, words_of(row.value));
    } else if (row.value) {
        printf(":%s:%s", row.value, is_folder(row.value) ? "_directories" : " ");
    }
    putchar('\'');
}

static void write_zsh_command(const cli_command *k)
{
    const char *argument = argument_of(k);
    printf("    '%s')\n        _arguments -S", k->name);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if (takes(k, i)) {
            write_zsh_option(cli_row_of((cli_option)i));
        }
    }
    if (argument && words_of(argument)) {
        printf(" \\\n            '*:argument:(%s)'", words_of(argument));
    } else if (argument) {
        printf(" \\\n            '*:argument:%s'", is_folder(argument) ? "_directories" : " ");
    }
    fputs("\n        ;;\n", stdout);
}

static void write_zsh(void)
{
    fputs("#compdef pawl\n"
          "# zsh completion of pawl, made from its table of commands: pawl completion zsh\n"
          "_pawl() {\n"
          "    local name\n"
          "    local -a commands seconds\n"
          "    commands=(\n",
          stdout);
    for (const cli_command *k = cli_commands; k->name; k++) {
        if (is_first(k)) {
            printf("        '%.*s:", (int)first_word(k), k->name);
            write_quoted(k->help, true);
            fputs("'\n", stdout);
        }
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands; return\n"
          "    fi\n"
          "    name=$words[2]\n"
          "    case $name in\n",
          stdout);
    for (const cli_command *k = cli_commands; k->name; k++) {
        if (is_first(k)) {
            printf("    %.*s) seconds=(", (int)first_word(k), k->name);
            write_second_words(k);
            fputs(" ) ;;\n", stdout);
        }
    }
    fputs("    esac\n"
          "    if (( CURRENT == 3 && $#seconds )); then\n"
          "        compadd -a seconds\n"
          "    fi\n"
          "    if (( CURRENT > 3 )) && [[ -n ${seconds[(r)$words[3]]} ]]; then\n"
          "        name=\"$name $words[3]\"; shift words; (( CURRENT-- ))\n"
          "    fi\n"
          "    shift words; (( CURRENT-- ))\n"
          "    case $name in\n",
          stdout);
    for (const cli_command *k = cli_commands; k->name; k++) {
        write_zsh_command(k);
    }
    fputs("    esac\n}\n_pawl \"$@\"\n", stdout);
}

static void write_fish(void)
{
    fputs("# fish completion of pawl, made from its table of commands: pawl completion fish\n"
          "complete -c pawl -f\n",
          stdout);
    for (const cli_command *k = cli_commands; k->name; k++) {
        const char *second = k->name[first_word(k)] ? k->name + first_word(k) + 1 : NULL;
        int first = (int)first_word(k);
        if (!second) {
            printf("complete -c pawl -n __fish_use_subcommand -a %s -d '", k->name);
        } else {
            if (is_first(k)) {
                printf("complete -c pawl -n __fish_use_subcommand -a %.*s\n", first, k->name);
            }
            printf("complete -c pawl -n '__fish_seen_subcommand_from %.*s' -a %s -d '", first,
                   k->name, second);
        }
        write_quoted(k->help, false);
        fputs("'\n", stdout);
        for (int i = 0; i < CLI_OPTION_COUNT; i++) {
            cli_option_row row = cli_row_of((cli_option)i);
            if (!takes(k, i)) {
                continue;
            }
            printf("complete -c pawl -n '__fish_seen_subcommand_from %.*s' -l %s", first, k->name,
                   row.name);
            if (row.letter) {
                printf(" -s %c", row.letter);
            }
            if (row.value && words_of(row.value)) {
                printf(" -x -a '%s'", words_of(row.value));
            } else if (row.value) {
                fputs(is_folder(row.value) ? " -r -F" : " -x", stdout);
            }
            fputs(" -d '", stdout);
            write_quoted(row.help, false);
            fputs("'\n", stdout);
        }
        const char *words = words_of(argument_of(k));
        if (words) {
            printf("complete -c pawl -n '__fish_seen_subcommand_from %.*s' -a '%s'\n", first,
                   k->name, words);
        }
    }
}

/* --- The manual page */

/* Text as roff takes it literally: no request at a line's start, no hyphen for a minus, other
 * characters than ASCII by their number. */
static void write_roff(const char *text)
{
    bool line_start = true;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (line_start && (*at == '.' || *at == '\'')) {
            fputs("\\&", stdout);
        }
        line_start = *at == '\n';
        if (*at == '\\') {
            fputs("\\e", stdout);
        } else if (*at == '-') {
            fputs("\\-", stdout);
        } else if (*at < 0x80) {
            putchar(*at);
        } else { /* the table is valid UTF-8 of up to three bytes */
            unsigned code = *at & (*at < 0xE0 ? 0x1Fu : 0x0Fu);
            while ((at[1] & 0xC0) == 0x80) {
                code = code << 6 | (*++at & 0x3Fu);
            }
            printf("\\[u%04X]", code);
        }
    }
}

static void write_man_options(void)
{
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        cli_option_row row = cli_row_of((cli_option)i);
        fputs(".TP\n.B ", stdout);
        if (row.letter) {
            printf("\\-%c, ", row.letter);
        }
        fputs("\\-\\-", stdout);
        write_roff(row.name);
        if (row.value) {
            printf(" \\fI%s\\fR", row.value);
        }
        putchar('\n');
        write_roff(row.help);
        const char *before = ". Of ";
        for (const cli_command *k = cli_commands; k->name; k++) {
            if (takes(k, i)) {
                printf("%s\\fB", before);
                write_roff(k->name);
                fputs("\\fR", stdout);
                before = ", ";
            }
        }
        fputs(".\n", stdout);
    }
}

static void write_man_commands(void)
{
    for (const cli_command *k = cli_commands; k->name; k++) {
        fputs(".TP\n.B pawl ", stdout);
        write_roff(k->synopsis);
        putchar('\n');
        write_roff(k->help);
        fputs(".\n", stdout);
        if (k->more) {
            write_roff(k->more);
            putchar('\n');
        }
    }
}

static void write_man(void)
{
    printf(".\\\" Made from the table of commands: pawl completion man\n"
           ".TH PAWL 1 \"\" \"pawl %s\" \"pawl\"\n.SH NAME\npawl \\- ",
           pawl_version());
    write_roff("an LLM agent's turn as a durable process");
    fputs("\n.SH SYNOPSIS\n.B pawl\n.I COMMAND\n.RI [ OPTION... ]\n.RI [ ARGUMENT... ]\n"
          ".SH COMMANDS\n",
          stdout);
    write_man_commands();
    fputs(".SH OPTIONS\n", stdout);
    write_man_options();
    fputs(".SH EXIT STATUS\n", stdout);
#define EXIT_ROW(name, number, words)                                                              \
    fputs(".TP\n.B " #number "\n", stdout);                                                        \
    write_roff(words);                                                                             \
    putchar('\n');
    CLI_EXITS(EXIT_ROW)
#undef EXIT_ROW
    fputs(".SH ENVIRONMENT\n", stdout);
#define VARIABLE_ROW(name, words)                                                                  \
    fputs(".TP\n.B " #name "\n", stdout);                                                          \
    write_roff(words);                                                                             \
    putchar('\n');
    CLI_ENVIRONMENT(VARIABLE_ROW)
#undef VARIABLE_ROW
}

int cli_completion(cli *c)
{
    static const struct {
        const char *name;
        void (*write)(void);
    } kinds[] = {
        {"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}, {"man", write_man}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(c->arguments[0], kinds[i].name) == 0) {
            kinds[i].write();
            return CLI_DONE;
        }
    }
    return cli_usage(c, "\"%s\" is none of bash, zsh, fish, man", c->arguments[0]);
}
