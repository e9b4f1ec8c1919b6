#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "exits.h"
#include "words.h"

const char *options_value(arguments *args, const argument *arg)
{
    const char *value = arguments_value(args, arg);

    if (!value)
        exits_wrong(arg->text, "needs a value");
    return value;
}

options_result options_take(const option_set *set, arguments *args, const argument *arg)
{
    const option *o = arg->name ? options_find(set->options, set->n, arg->name, arg->name_len) : NULL;
    char flag[WORDS_BYTES], why[OPTION_WHY_BYTES];

    if (!o)
        return OPTIONS_OTHER;
    const char *value = o->type == OPTION_BOOL && !arg->value ? "true" : options_value(args, arg);
    if (!value)
        return OPTIONS_WRONG;
    if (!arguments_give(args, (const char *)set->into + o->offset))
        strcpy(why, "given more than once");
    else if (options_store(o, set->into, value, why))
        return OPTIONS_TAKEN;
    snprintf(flag, sizeof flag, "--%s", o->name);
    exits_wrong(flag, why);
    return OPTIONS_WRONG;
}

void options_write_times(lks_error *error)
{
    static const char unit[] = "_ms", must_be[] = ": must be ", and_to[] = " to ";
    char *at = strstr(error->message, must_be), from[DURATION_BYTES], to[DURATION_BYTES], *end;
    size_t len = strlen(error->field), suffix = strlen(unit);

    if (!at || len < suffix || strcmp(error->field + len - suffix, unit) != 0)
        return;
    int64_t min = strtoll(at + strlen(must_be), &end, 10);
    if (strncmp(end, and_to, strlen(and_to)) != 0)
        return;
    int64_t max = strtoll(end + strlen(and_to), &end, 10);
    if (*end)
        return;
    duration_write(min, from);
    duration_write(max, to);
    if (at - error->message >= (ptrdiff_t)suffix && memcmp(at - suffix, unit, suffix) == 0)
        at -= suffix;
    snprintf(at, sizeof error->message - (size_t)(at - error->message), ": must be %.32s to %.32s", from, to);
}

bool options_rename(lks_error *error, const char *field, const char *flag)
{
    size_t len = strlen(field);
    char text[LKS_ERROR_MESSAGE_MAX];

    if (strncmp(error->message, field, len) != 0 || error->message[len] != ':')
        return false;
    snprintf(text, sizeof text, "%s%s", flag, error->message + len);
    memcpy(error->message, text, sizeof text);
    options_write_times(error);
    return true;
}

void options_name_flag(const option *options, size_t n, lks_error *error)
{
    static const char *const before[] = {"", "options."}, *const after[] = {"", "_ms"};
    char field[WORDS_BYTES], flag[WORDS_BYTES];

    for (size_t i = 0; i < n; i++) {
        snprintf(flag, sizeof flag, "--%s", options[i].name);
        for (size_t k = 0; k < 4; k++) {
            snprintf(field, sizeof field, "%s%s%s", before[k / 2], options[i].name, after[k % 2]);
            if (options_rename(error, field, flag))
                return;
        }
    }
}

void options_print(const option *options, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char flag[WORDS_BYTES];
        snprintf(flag, sizeof flag, "--%s%s%s", options[i].name, options[i].form ? " " : "",
                 options[i].form ? options[i].form : "");
        printf("  %-26s %s\n", flag, options[i].help);
    }
}
