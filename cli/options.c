/* A member that was not given is 0 or NULL. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exits.h"
#include "words.h"

bool arguments_next(arguments *args, argument *ret)
{
    if (args->ended || args->at == args->argc)
        return false;
    const char *text = args->argv[args->at++];
    *ret = (argument){.text = text};
    if (strcmp(text, "--") == 0) {
        args->ended = true;
        return false;
    }
    if (strncmp(text, "--", 2) == 0) {
        const char *equals = strchr(text, '=');
        ret->name = text + 2;
        ret->name_len = equals ? (size_t)(equals - ret->name) : strlen(ret->name);
        ret->value = equals ? equals + 1 : NULL;
    } else if (strcmp(text, "-h") == 0) {
        ret->name = "help";
        ret->name_len = strlen(ret->name);
    }
    return true;
}

const char *arguments_value(arguments *args, const argument *arg)
{
    if (arg->value)
        return arg->value;
    if (args->at < args->argc)
        return args->argv[args->at++];
    exits_wrong(arg->text, "needs a value");
    return NULL;
}

bool argument_is(const argument *arg, const char *name)
{
    return arg->name && strlen(name) == arg->name_len && memcmp(name, arg->name, arg->name_len) == 0;
}

void argument_unknown(const argument *arg)
{
    char flag[WORDS_BYTES];

    if (!arg->name) {
        exits_wrong(arg->text, "not expected here; see --help");
        return;
    }
    snprintf(flag, sizeof flag, "--%.*s", (int)arg->name_len, arg->name);
    exits_wrong(flag, "unknown flag; see --help");
}

void options_name_flag(const option *options, size_t n, lks_error *error)
{
    static const char prefix[] = "options.";
    bool is_member = strncmp(error->field, prefix, strlen(prefix)) == 0;
    size_t skipped = is_member ? strlen(prefix) : 0, len = strlen(error->field) - skipped;
    const char *member = error->message + skipped;
    char text[LKS_ERROR_MESSAGE_MAX];

    for (size_t i = 0; i < n; i++) {
        size_t name_len = strlen(options[i].name);
        bool has_unit = len == name_len + strlen("_ms") && memcmp(member + name_len, "_ms", strlen("_ms")) == 0;
        if ((len != name_len && !has_unit) || memcmp(member, options[i].name, name_len) != 0)
            continue;
        snprintf(text, sizeof text, "--%s%s", options[i].name, member + len);
        memcpy(error->message, text, sizeof text);
        return;
    }
}

bool options_fill(const option *o, void *into, const char *what, const char *text)
{
    void *at = (char *)into + o->offset;
    char *end;

    switch (o->type) {
    case OPTION_TEXT:
        *(const char **)at = text;
        return true;
    case OPTION_DURATION:
        if (words_find_ms(text, at))
            return true;
        exits_wrong(what, "must be a time with its unit: 200ms, 5s, 1h");
        return false;
    case OPTION_NUMBER:
        errno = 0;
        *(int64_t *)at = strtoll(text, &end, 10);
        if (errno == 0 && end != text && !*end && *(int64_t *)at >= 1)
            return true;
        exits_wrong(what, "must be a positive number");
        return false;
    default:
        *(bool *)at = strcmp(text, "true") == 0;
        if (*(bool *)at || strcmp(text, "false") == 0)
            return true;
        exits_wrong(what, "must be true or false, or stand alone");
        return false;
    }
}

options_result options_take(const option_set *set, arguments *args, const argument *arg)
{
    for (size_t i = 0; i < set->n; i++) {
        const option *o = &set->options[i];
        char flag[WORDS_BYTES];
        if (!argument_is(arg, o->name))
            continue;
        const char *value = o->type == OPTION_BOOL && !arg->value ? "true" : arguments_value(args, arg);
        snprintf(flag, sizeof flag, "--%s", o->name);
        return value && options_fill(o, set->into, flag, value) ? OPTIONS_TAKEN : OPTIONS_WRONG;
    }
    return OPTIONS_OTHER;
}

void options_print(const option *options, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char flag[WORDS_BYTES];
        snprintf(flag, sizeof flag, "--%s%s%s", options[i].name, options[i].value ? " " : "",
                 options[i].value ? options[i].value : "");
        printf("  %-26s %s\n", flag, options[i].help);
    }
}
