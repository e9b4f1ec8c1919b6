#include "grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "commands.h"
#include "comments.h"
#include "form.h"

/* Copies a text, cut to the size, on one line. */
static void put(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text);
    for (char *c = to; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

bool grammar_has_choices(const char *form)
{
    return form[0] >= 'a' && form[0] <= 'z';
}

static void add_option(grammar_flag *flags, size_t *n, const option *o)
{
    grammar_flag *flag = &flags[(*n)++];

    *flag = (grammar_flag){.repeated = false};
    put(flag->name, sizeof flag->name, o->name);
    put(flag->form, sizeof flag->form, o->form ? o->form : "");
    put(flag->help, sizeof flag->help, o->help);
}

size_t grammar_common(grammar_flag flags[GRAMMAR_FLAGS_MAX])
{
    static const option json = {.name = "json", .type = OPTION_BOOL, .help = "answer in JSON"};
    size_t n = 0;

    for (size_t i = 0; i < cli_settings_len; i++)
        add_option(flags, &n, &cli_settings[i]);
    for (size_t i = 0; i < cli_flags_len; i++)
        add_option(flags, &n, &cli_flags[i]);
    add_option(flags, &n, &json);
    return n;
}

static void add_request(grammar_command *to, const ProtobufCMessageDescriptor *request, const comments *all)
{
    for (unsigned i = 0; i < request->n_fields && to->n_flags < GRAMMAR_FLAGS_MAX; i++) {
        grammar_flag *flag = &to->flags[to->n_flags++];
        *flag = (grammar_flag){.repeated = request->fields[i].label == PROTOBUF_C_LABEL_REPEATED};
        words_of_flag(&request->fields[i], flag->name);
        form_of_field(&request->fields[i], flag->form, sizeof flag->form);
        comments_sentence(comments_of_message(all, request->name, request->fields[i].name), flag->help,
                          sizeof flag->help);
    }
}

static void put_command(grammar_command *to, const command *from, const comments *all)
{
    size_t len = strcspn(from->name, " ");

    *to = (grammar_command){.runs_program = from->kind == COMMAND_RUNS_PROGRAM};
    snprintf(to->first, sizeof to->first, "%.*s", (int)len, from->name);
    put(to->second, sizeof to->second, from->name[len] ? from->name + len + 1 : "");
    put(to->form, sizeof to->form, from->usage);
    comments_sentence(from->help, to->help, sizeof to->help);
    for (size_t i = 0; from->flags && i < from->flags->n; i++)
        add_option(to->flags, &to->n_flags, &from->flags->options[i]);
    if (from->method)
        add_request(to, from->method->request, all);
}

static void put_method(grammar_command *to, const lks_rpc_method *from, const comments *all)
{
    catalog_name name = catalog_split(from);

    *to = (grammar_command){.runs_program = false};
    catalog_words(from, to->first, to->second);
    comments_sentence(comments_of_service(all, name.service, name.service_len, name.method), to->help, sizeof to->help);
    add_request(to, from->request, all);
}

bool grammar_each(grammar_visit *visit, void *arg)
{
    grammar_command *one = malloc(sizeof *one);
    comments *all = comments_new();
    bool good = one && all;

    for (size_t i = 0; good && i < commands_len; i++) {
        put_command(one, &commands[i], all);
        visit(arg, one);
    }
    for (size_t i = 0; good && i < catalog_len; i++) {
        const char *short_name = catalog_short(catalog[i]);
        put_method(one, catalog[i], all);
        visit(arg, one);
        if (!short_name)
            continue;
        put(one->second, sizeof one->second, short_name);
        visit(arg, one);
    }
    comments_free(all);
    free(one);
    return good;
}
