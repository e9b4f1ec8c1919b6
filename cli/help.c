/* Commands that have no method are a table here; methods are those of the catalog. */
#include "help.h"

#include <stdio.h>
#include <string.h>

#include "catalog.h"
#include "cli.h"
#include "comments.h"
#include "request.h"

static const struct {
    const char *name, *usage, *help;
    const option *options;
    const size_t *n;
} commands[] = {
    {"run", "run --lock NAME [--wait TIME] -- PROGRAM...",
     "Runs a program while a lock is held. It is ended when the lock is lost.\nThe fence is in LOCKSTOCK_FENCE.",
     run_options, &run_options_len},
    {"once", "once --key KEY [--wait TIME] -- PROGRAM...",
     "Runs a program once for a key. Whoever asks later gets what it wrote on standard output,\nand its exit code. "
     "With "
     "exit code 75, or ended by a signal, it may be run again.",
     once_options, &once_options_len},
    {"limit", "limit --key KEY --rate N/TIME [--wait TIME] -- PROGRAM...", "Runs a program if that is allowed now.",
     limit_options, &limit_options_len},
    {"lock exec", "lock exec NAME [--wait TIME] -- PROGRAM...", "The same as run --lock NAME.", run_options,
     &run_options_len},
    {"stock ledger", "stock ledger GROUP [--after ID] [--follow]", "What happened to a group's stock, an entry a line.",
     ledger_options, &ledger_options_len},
    {"stock watch", "stock watch SKU [--group GROUP] [--every TIME]", "An item, a line whenever it has changed.",
     watch_options, &watch_options_len},
    {"status", "status", "Whether each server of --server answers, and its store.", NULL, NULL},
    {"doctor", "doctor",
     "Looks for what is wrong with each server of --server, its store, what that keeps on disk, clocks and latency, "
     "and says\nwhat to do. Ends with 0 when nothing is wrong, 1 when something is, 3 when a server or its store does "
     "not "
     "answer.",
     NULL, NULL},
    {"bench", "bench [ARGUMENT...]", "lockstock-bench, which has a --help of its own.", NULL, NULL},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* The comment from its second line on goes below the first, each `indent` columns in. */
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

/* Up to the end of its first sentence, in one line. */
static void print_sentence(const char *comment)
{
    for (const char *c = comment + (*comment == ' '); *c; c++) {
        if (*c == '\n' && c[1] == ' ')
            continue;
        if (*c == '\n')
            break;
        putchar(*c);
        if (*c == '.' && (c[1] == ' ' || c[1] == '\n' || !c[1]))
            break;
    }
    putchar('\n');
}

exit_code help_all(void)
{
    char service[WORDS_BYTES], name[WORDS_BYTES], before[WORDS_BYTES] = "";

    printf("usage: lockstock [FLAG...] COMMAND [ARGUMENT...]\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  lockstock %s\n", commands[i].usage);
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
    return EXIT_DONE;
}

exit_code help_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) {
            printf("usage: lockstock %s\n\n%s\n\n", commands[i].usage, commands[i].help);
            if (commands[i].n)
                options_print(commands[i].options, *commands[i].n);
        }
    cli_print_options();
    return EXIT_DONE;
}

exit_code help_service(const lks_rpc_method *of)
{
    catalog_name its = catalog_split(of);
    char service[WORDS_BYTES], name[WORDS_BYTES];
    comments *all = comments_new();

    catalog_words(of, service, name);
    printf("usage: lockstock %s METHOD [...]\n\n", service);
    if (all)
        print_comment(comments_of_service(all, its.service, its.service_len), 0);
    printf("\n");
    for (size_t i = 0; i < catalog_len; i++) {
        catalog_name one = catalog_split(catalog[i]);
        if (one.service_len != its.service_len || memcmp(one.service, its.service, its.service_len) != 0)
            continue;
        catalog_words(catalog[i], service, name);
        printf("  %-18s", name);
        print_sentence(all ? comments_of_method(all, one.service, one.service_len, one.method) : "");
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strncmp(commands[i].name, service, strlen(service)) == 0 && commands[i].name[strlen(service)] == ' ')
            printf("  %-18s%s\n", commands[i].name + strlen(service) + 1, commands[i].help);
    comments_free(all);
    return EXIT_DONE;
}

/* ---- one method -------------------------------------------------------------------- */

static void upper(char *word)
{
    for (; *word; word++)
        *word = *word >= 'a' && *word <= 'z' ? (char)(*word - 'a' + 'A') : *word;
}

/* What a flag takes: TIME, NUMBER, one of an enum's words, SKU=QUANTITY. */
static void print_form(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    char word[WORDS_BYTES];

    if (words_is_duration(field)) {
        printf("TIME");
        return;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        printf("TEXT");
        break;
    case PROTOBUF_C_TYPE_BYTES:
        printf("TEXT|@FILE");
        break;
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumDescriptor *of = field->descriptor;
        for (unsigned i = 0, n = 0; i < of->n_values; i++)
            if (of->values[i].value != 0) {
                words_of_enum(of, of->values[i].value, word);
                printf("%s%s", n++ > 0 ? "|" : "", word);
            }
        break;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        for (unsigned i = 0; i < type->n_fields; i++) {
            words_of_field(&type->fields[i], word);
            if (type->n_fields == 2 || i == 0)
                upper(word);
            printf("%s%s", i == 0 ? "" : type->n_fields == 2 ? "=" : ",", word);
            if (type->n_fields > 2 && i > 0)
                printf("=...");
        }
        break;
    case PROTOBUF_C_TYPE_BOOL:
        break;
    default:
        printf("NUMBER");
    }
}

static void print_usage(const lks_rpc_method *method, const char *service, const char *name)
{
    printf("usage: lockstock %s %s", service, name);
    for (unsigned i = 0; i < REQUEST_POSITIONS; i++) {
        const ProtobufCFieldDescriptor *field = request_position(method->request, i);
        char word[WORDS_BYTES];
        if (!field)
            break;
        words_of_field(field, word);
        upper(word);
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        printf(" [%.*s%s]", (int)strlen(word) - (repeated && word[strlen(word) - 1] == 'S'), word,
               repeated ? "..." : "");
        if (repeated)
            break;
    }
    printf(" [--FLAG VALUE]...\n\n");
}

exit_code help_method(const lks_rpc_method *method)
{
    catalog_name its = catalog_split(method);
    char service[WORDS_BYTES], name[WORDS_BYTES];
    comments *all = comments_new();

    catalog_words(method, service, name);
    print_usage(method, service, name);
    if (all)
        print_comment(comments_of_method(all, its.service, its.service_len, its.method), 0);
    printf("\n");
    for (unsigned i = 0; i < method->request->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &method->request->fields[i];
        const char *comment = all ? comments_of_field(all, method->request->name, field->name) : "";
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        char word[WORDS_BYTES];
        words_of_field(field, word);
        if (repeated && word[strlen(word) - 1] == 's')
            word[strlen(word) - 1] = '\0';
        printf("  --%s ", word);
        print_form(field);
        printf("%s\n", repeated ? " (several times)" : "");
        if (*comment) {
            printf("      ");
            print_comment(comment, 6);
        }
    }
    printf("  --json ['{...}']\n      Answer in JSON; with a request, take it from there, from a file (--json=@FILE)\n"
           "      or from standard input (--json=@-).\n");
    comments_free(all);
    return EXIT_DONE;
}
