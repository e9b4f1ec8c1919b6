/* lockstock completion SHELL: prints the script of the shell (cli/completion/) with a row for each word and each
 * flag. The script does not run lockstock. */
#include "completion.h"

#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "commands.h"
#include "comments.h"
#include "form.h"

enum { FIRST_WORDS_MAX = 32, TEXT_BYTES = 512 };

/* First words that have a row. */
typedef struct first_words {
    char of[FIRST_WORDS_MAX][WORDS_BYTES];
    size_t n;
} first_words;

/* The words before the word of a row. */
typedef struct row_place {
    const char *first, *second; /* second is "" after one word */
} row_place;

static const row_place anywhere = {"-", ""};

/* Prints a row; the help in quotes, on one line. */
static void print_row(const row_place *at, const char *dashes, const char *word, const char *form, const char *help)
{
    printf("%s%s%s\t%s%s\t%s\t", at->first, *at->second ? "/" : "", at->second, dashes, word, *form ? form : "-");
    for (; *help; help++)
        if (*help == '\'')
            fputs("'\\''", stdout); /* inside the single quotes of all three shells */
        else
            putchar(*help == '\n' ? ' ' : *help);
    putchar('\n');
}

static void print_options(const row_place *at, const option *options, size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_row(at, "--", options[i].name, options[i].form ? options[i].form : "", options[i].help);
}

static void print_request(const row_place *at, const ProtobufCMessageDescriptor *request, const comments *all)
{
    char name[WORDS_BYTES], form[TEXT_BYTES], help[TEXT_BYTES];

    for (unsigned i = 0; i < request->n_fields; i++) {
        words_of_flag(&request->fields[i], name);
        form_of_field(&request->fields[i], form, sizeof form);
        comments_sentence(comments_of(all, request->name, strlen(request->name), request->fields[i].name), help,
                          sizeof help);
        print_row(at, "--", name, form, help);
    }
}

/* Prints the rows of the words: the first, if it is new, and the second. */
static void print_words(const row_place *at, first_words *all, const char *help)
{
    bool is_new = true;

    for (size_t i = 0; is_new && i < all->n; i++)
        is_new = strcmp(all->of[i], at->first) != 0;
    if (is_new && all->n < FIRST_WORDS_MAX)
        strcpy(all->of[all->n++], at->first);
    if (is_new)
        print_row(&anywhere, "", at->first, "", *at->second ? "" : help);
    if (*at->second)
        print_row(&(const row_place){at->first, ""}, "", at->second, "", help);
}

static void print_command(const command *its, first_words *firsts, const comments *all)
{
    char first[WORDS_BYTES], help[TEXT_BYTES];
    size_t len = strcspn(its->name, " ");
    const row_place at = {first, its->name + len + (its->name[len] == ' ')};

    snprintf(first, sizeof first, "%.*s", (int)len, its->name);
    comments_sentence(its->help, help, sizeof help);
    print_words(&at, firsts, help);
    if (its->usage[0] >= 'a' && its->usage[0] <= 'z') /* a list of words separated by | */
        for (const char *word = its->usage; *word; word += strcspn(word, "|") + (word[strcspn(word, "|")] == '|'))
            printf("%s\t%.*s\t-\t\n", first, (int)strcspn(word, "|"), word);
    if (its->flags)
        print_options(&at, its->flags->options, its->flags->n);
    if (its->method)
        print_request(&at, its->method->request, all);
}

static void print_method(const lks_rpc_method *method, first_words *firsts, const comments *all)
{
    catalog_name name = catalog_split(method);
    char service[WORDS_BYTES], word[WORDS_BYTES], help[TEXT_BYTES];
    const char *words[] = {word, catalog_short(method)};

    catalog_words(method, service, word);
    comments_sentence(comments_of(all, name.service, name.service_len, name.method), help, sizeof help);
    for (size_t i = 0; i < 2 && words[i]; i++) {
        const row_place at = {service, words[i]};
        print_words(&at, firsts, help);
        print_request(&at, method->request, all);
    }
}

static exit_code print_script(const unsigned char *script, size_t len)
{
    static const char mark[] = "@rows@";
    const unsigned char *at = memmem(script, len, mark, strlen(mark));
    const unsigned char *rest = at + strlen(mark);
    comments *all = comments_new();
    first_words firsts = {.n = 0};

    if (!all)
        return EXIT_OTHER;
    fwrite(script, 1, (size_t)(at - script), stdout);
    print_options(&anywhere, cli_settings, cli_settings_len);
    print_options(&anywhere, cli_flags, cli_flags_len);
    for (size_t i = 0; i < commands_len; i++)
        print_command(&commands[i], &firsts, all);
    for (size_t i = 0; i < catalog_len; i++)
        print_method(catalog[i], &firsts, all);
    fwrite(rest, 1, (size_t)(script + len - rest), stdout);
    comments_free(all);
    return EXIT_DONE;
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
            return print_script(shells[i].script, shells[i].len);
    return exits_wrong(shell ? shell : "completion", "must be bash, zsh or fish");
}
