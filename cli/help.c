#include "help.h"

#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "cli.h"
#include "commands.h"
#include "comments.h"
#include "form.h"

/* Prints a comment; lines after the first are indented. */
static void print_comment(const char *comment, int indent)
{
    while (*comment) {
        size_t len = strcspn(comment, "\n");
        const char *line = comment + (*comment == ' ');
        printf("%.*s\n", (int)(len - (size_t)(line - comment)), line);
        comment += len + (comment[len] == '\n');
        if (*comment)
            printf("%*s", indent, "");
    }
}

exit_code help_all(void)
{
    char service[WORDS_BYTES], name[WORDS_BYTES], before[WORDS_BYTES] = "";

    printf("usage: lockstock [FLAG...] COMMAND [ARGUMENT...]\n\n");
    for (size_t i = 0; i < commands_len; i++)
        printf("  lockstock %s%s%s\n", commands[i].name, commands[i].usage[0] ? " " : "", commands[i].usage);
    printf("  lockstock SERVICE METHOD [ARGUMENT...]\n\nservices and their methods:");
    for (size_t i = 0; i < catalog_len; i++) {
        catalog_words(catalog[i], service, name);
        if (strcmp(service, before) != 0)
            printf("\n  %-12s", service);
        strcpy(before, service);
        printf(" %s", name);
    }
    printf("\n");
    cli_print_options();
    printf("  %-26s %s\n", "--version", "print the version");
    return EXIT_DONE;
}

static void print_request_flags(const lks_rpc_method *method, const comments *all)
{
    char form[512], word[WORDS_BYTES];

    for (unsigned i = 0; i < method->request->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &method->request->fields[i];
        const char *comment =
            all ? comments_of(all, method->request->name, strlen(method->request->name), field->name) : "";
        words_of_flag(field, word);
        form_of_field(field, form, sizeof form);
        printf("  --%s %s%s\n", word, form, field->label == PROTOBUF_C_LABEL_REPEATED ? " (several times)" : "");
        if (*comment) {
            printf("      ");
            print_comment(comment, 6);
        }
    }
}

exit_code help_command(const command *its)
{
    comments *all = its->method ? comments_new() : NULL;

    printf("usage: lockstock %s%s%s\n\n%s\n\n", its->name, its->usage[0] ? " " : "", its->usage, its->help);
    if (its->flags)
        options_print(its->flags->options, its->flags->n);
    if (its->method)
        print_request_flags(its->method, all);
    comments_free(all);
    cli_print_options();
    return EXIT_DONE;
}

exit_code help_service(const lks_rpc_method *of)
{
    catalog_name its = catalog_split(of);
    char service[WORDS_BYTES], name[WORDS_BYTES], sentence[512];
    comments *all = comments_new();

    catalog_words(of, service, name);
    printf("usage: lockstock %s METHOD [...]\n\n", service);
    if (all)
        print_comment(comments_of(all, its.service, its.service_len, NULL), 0);
    printf("\n");
    for (size_t i = 0; i < catalog_len; i++) {
        catalog_name one = catalog_split(catalog[i]);
        if (one.service_len != its.service_len || memcmp(one.service, its.service, its.service_len) != 0)
            continue;
        catalog_words(catalog[i], service, name);
        printf("  %-22s", name);
        comments_sentence(all ? comments_of(all, one.service, one.service_len, one.method) : "", sentence,
                          sizeof sentence);
        printf("%s\n", sentence);
    }
    for (size_t i = 0; i < commands_len; i++) {
        const char *word = commands_word(&commands[i], service);
        comments_sentence(commands[i].help, sentence, sizeof sentence);
        if (word)
            printf("  %-22s%s\n", word, sentence);
    }
    comments_free(all);
    return EXIT_DONE;
}

/* ---- one method -------------------------------------------------------------------- */

exit_code help_method(const lks_rpc_method *method)
{
    catalog_name its = catalog_split(method);
    char form[512];
    comments *all = comments_new();

    form_usage(method, form, sizeof form);
    printf("usage: lockstock %s\n\n", form);
    if (all)
        print_comment(comments_of(all, its.service, its.service_len, its.method), 0);
    printf("\n");
    print_request_flags(method, all);
    printf("  --json ['{...}']\n      Answer in JSON. The request may follow, or be in a file (--json=@FILE), or be "
           "standard input\n"
           "      (--json=@-).\n");
    comments_free(all);
    return EXIT_DONE;
}
