/* lockstock completion SHELL: prints the script of the shell (cli/completion/) with a row for each word and each
 * flag of the grammar. The script does not run lockstock. */
#include "commands.h"
#include "completion.h"

#include <stdio.h>
#include <string.h>

#include "grammar.h"

enum { FIRST_WORDS_MAX = 32 };

/* First words that have a row. */
typedef struct first_words {
    char of[FIRST_WORDS_MAX][WORDS_BYTES];
    size_t n;
} first_words;

/* Inside the single quotes of all three shells. */
static void print_quoted(const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
}

static void print_row(const char *first, const char *second, const char *word, const char *form, const char *help)
{
    printf("%s%s%s\t%s\t%s\t", first, *second ? "/" : "", second, word, *form ? form : "-");
    print_quoted(help);
    putchar('\n');
}

static void print_flags(const char *first, const char *second, const grammar_flag *flags, size_t n)
{
    char flag[WORDS_BYTES + 2];

    for (size_t i = 0; i < n; i++) {
        snprintf(flag, sizeof flag, "--%.*s", WORDS_BYTES - 1, flags[i].name);
        print_row(first, second, flag, flags[i].form, flags[i].help);
    }
}

static bool add_first(first_words *all, const char *word)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->of[i], word) == 0)
            return false;
    if (all->n < FIRST_WORDS_MAX)
        strcpy(all->of[all->n++], word);
    return true;
}

static void print_command(void *arg, const grammar_command *c)
{
    char choices[GRAMMAR_TEXT_BYTES], *rest = choices;

    if (add_first(arg, c->first))
        print_row("-", "", c->first, "", c->second[0] ? "" : c->help);
    if (c->second[0])
        print_row(c->first, "", c->second, "", c->help);
    strcpy(choices, grammar_has_choices(c->form) ? c->form : "");
    for (char *choice; *choices && (choice = strsep(&rest, "|"));)
        print_row(c->first, "", choice, "", "");
    print_flags(c->first, c->second, c->flags, c->n_flags);
}

static bool print_script(const unsigned char *script, size_t len)
{
    static const char mark[] = "@rows@";
    const unsigned char *at = memmem(script, len, mark, strlen(mark));
    const unsigned char *rest = at + strlen(mark);
    grammar_flag common[GRAMMAR_FLAGS_MAX];
    first_words firsts = {.n = 0};

    fwrite(script, 1, (size_t)(at - script), stdout);
    print_flags("-", "", common, grammar_common(common));
    bool good = grammar_each(print_command, &firsts);
    fwrite(rest, 1, (size_t)(script + len - rest), stdout);
    return good;
}

exit_code completion_command(cli *c, const invocation *in)
{
    const struct {
        const char *shell;
        const unsigned char *script;
        size_t len;
    } shells[] = {{"bash", completion_bash, completion_bash_len},
                  {"zsh", completion_zsh, completion_zsh_len},
                  {"fish", completion_fish, completion_fish_len}};
    const char *shell = in->word;

    (void)c;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (shell && strcmp(shells[i].shell, shell) == 0)
            return print_script(shells[i].script, shells[i].len) ? EXIT_DONE : EXIT_OTHER;
    return exits_wrong(shell ? shell : "completion", "must be bash, zsh or fish");
}
