/* lockstock completion SHELL: prints the script of the shell (cli/completion/). The script runs `lockstock completion --
 * WORD...` with the words after "lockstock", up to the one to complete. That prints what may take the place of the last
 * word: lines "WORD<tab>HELP", or "@file" for the name of a file, or "@program" for that of a program. */
#include "completion.h"

#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "commands.h"
#include "comments.h"
#include "form.h"

enum { TEXT_BYTES = 512 };

static void print_row(const char *dashes, const char *word, const char *help)
{
    printf("%s%s\t", dashes, word);
    for (; *help; help++)
        putchar(*help == '\n' ? ' ' : *help);
    putchar('\n');
}

/* Prints the words of a text that are separated by |. */
static void print_choices(const char *text)
{
    for (size_t len; *text; text += len + (text[len] == '|')) {
        len = strcspn(text, "|");
        printf("%.*s\t\n", (int)len, text);
    }
}

static bool is_choice(const char *text)
{
    return *text >= 'a' && *text <= 'z';
}

/* ---- flags ------------------------------------------------------------------------------------------ */

typedef struct completing {
    const comments *comments;
    const char *first, *second; /* the words before that are not flags; "": none */
    const char *flag;           /* the flag whose value is looked up; NULL: all flags are printed */
    char form[TEXT_BYTES];      /* of that value; "": none, or no such flag */
} completing;

static void take_flag(completing *c, const char *name, const char *form, const char *help)
{
    if (!c->flag)
        print_row("--", name, help);
    else if (strlen(name) == strcspn(c->flag, "=") && strncmp(name, c->flag, strlen(name)) == 0)
        snprintf(c->form, sizeof c->form, "%s", form);
}

static void take_options(completing *c, const option *options, size_t n)
{
    for (size_t i = 0; i < n; i++)
        take_flag(c, options[i].name, options[i].form ? options[i].form : "", options[i].help);
}

static void take_fields(completing *c, const ProtobufCMessageDescriptor *request)
{
    char name[WORDS_BYTES], form[TEXT_BYTES], help[TEXT_BYTES];

    for (unsigned i = 0; i < request->n_fields; i++) {
        const char *field = request->fields[i].name;
        words_of_flag(&request->fields[i], name);
        form_of_field(&request->fields[i], form, sizeof form);
        comments_sentence(comments_of(c->comments, request->name, strlen(request->name), field), help, sizeof help);
        take_flag(c, name, form, help);
    }
}

/* Takes the flags that may follow the words. */
static void take_flags(completing *c)
{
    const command *its = commands_find(c->first, c->second);
    const lks_rpc_method *method = its ? its->method : catalog_find(c->first, c->second);

    take_options(c, cli_settings, cli_settings_len);
    take_options(c, cli_flags, cli_flags_len);
    if (its && its->flags)
        take_options(c, its->flags->options, its->flags->n);
    if (method)
        take_fields(c, method->request);
}

/* Returns the form of a flag's value; "" if it has none, or there is no such flag. */
static const char *value_of(completing *c, const char *flag)
{
    c->flag = flag + strspn(flag, "-");
    c->form[0] = '\0';
    take_flags(c);
    c->flag = NULL;
    return c->form;
}

/* ---- commands, services and methods ----------------------------------------------------------------- */

static void print_first_words(void)
{
    char service[WORDS_BYTES], name[WORDS_BYTES], before[WORDS_BYTES] = "", help[TEXT_BYTES];

    for (size_t i = 0; i < catalog_len; i++) {
        catalog_words(catalog[i], service, name);
        if (strcmp(service, before) != 0)
            print_row("", service, "");
        strcpy(before, service);
    }
    for (size_t i = 0; i < commands_len; i++) {
        comments_sentence(commands[i].help, help, sizeof help);
        if (!strchr(commands[i].name, ' '))
            print_row("", commands[i].name, help);
    }
}

static void print_second_words(const completing *c)
{
    char service[WORDS_BYTES], name[WORDS_BYTES], help[TEXT_BYTES];
    const command *its = commands_find(c->first, NULL);

    if (its && is_choice(its->usage))
        print_choices(its->usage);
    for (size_t i = 0; i < commands_len; i++) {
        const char *word = commands_word(&commands[i], c->first);
        comments_sentence(commands[i].help, help, sizeof help);
        if (word)
            print_row("", word, help);
    }
    for (size_t i = 0; i < catalog_len; i++) {
        catalog_name of = catalog_split(catalog[i]);
        const char *short_name = catalog_short(catalog[i]);
        catalog_words(catalog[i], service, name);
        if (strcmp(service, c->first) != 0)
            continue;
        comments_sentence(comments_of(c->comments, of.service, of.service_len, of.method), help, sizeof help);
        print_row("", name, help);
        if (short_name)
            print_row("", short_name, help);
    }
}

/* ---- the command ------------------------------------------------------------------------------------ */

static void complete(completing *c, char **words)
{
    const char *flag = NULL; /* the flag before the word, if it takes a value */

    for (; words[1]; words++) {
        if (strcmp(*words, "--") == 0) {
            puts(words[2] ? "@file" : "@program");
            return;
        }
        if (strcmp(*words, "=") == 0) /* bash splits --flag=value into three words */
            flag = flag ? flag : "";
        else if (flag)
            flag = NULL;
        else if (**words == '-')
            flag = !strchr(*words, '=') && *value_of(c, *words) ? *words : NULL;
        else if (!*c->first)
            c->first = *words;
        else if (!*c->second)
            c->second = *words;
    }
    if (!flag && **words == '-' && strchr(*words, '='))
        flag = *words;
    const char *form = flag ? value_of(c, flag) : "";
    if (strcmp(form, "FILE") == 0)
        puts("@file");
    else if (is_choice(form))
        print_choices(form);
    else if (!flag && **words == '-')
        take_flags(c);
    else if (!flag && !*c->first)
        print_first_words();
    else if (!flag && !*c->second)
        print_second_words(c);
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
    comments *all;

    (void)c;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (shell && strcmp(shells[i].shell, shell) == 0)
            return fwrite(shells[i].script, 1, shells[i].len, stdout) == shells[i].len ? EXIT_DONE : EXIT_OTHER;
    if (shell || !in->argv[0])
        return exits_wrong(shell ? shell : "completion", "must be bash, zsh or fish");
    all = comments_new();
    if (!all)
        return EXIT_OTHER;
    complete(&(completing){.comments = all, .first = "", .second = ""}, in->argv);
    comments_free(all);
    return EXIT_DONE;
}
