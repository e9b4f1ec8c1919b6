#include "base/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/keys.h"

#define PREFIX "LOCKSTOCK_"

enum { LINES_MAX = 64, PLACE_BYTES = 512 };

const option *options_find(const option *options, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
            return &options[i];
    return NULL;
}

void options_offer(const option *options, size_t n, similar *s)
{
    char flag[SIMILAR_BYTES];

    for (size_t i = 0; i < n; i++) {
        snprintf(flag, sizeof flag, "--%s", options[i].name);
        similar_offer(s, flag);
    }
}

/* ---- values ----------------------------------------------------------------------- */

static bool is_choice(const option *o, const char *text)
{
    size_t len = strlen(text), end = strcspn(o->help, ":");

    for (const char *word = o->help; word < o->help + end; word += strcspn(word, " ,") + 1)
        if (strcspn(word, " ,:") == len && memcmp(word, text, len) == 0 && strcmp(text, "or") != 0)
            return true;
    return false;
}

static bool read_number(const option *o, const char *text, int64_t *ret)
{
    bool any = o->min == 0 && o->max == 0;
    char *end;

    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end || number < (any ? 1 : o->min) || (!any && number > o->max))
        return false;
    *ret = number;
    return true;
}

static bool read_real(const option *o, const char *text, double *ret)
{
    char *end;

    errno = 0;
    double number = strtod(text, &end);
    if (o->type == OPTION_RATE && strcmp(end, "x") == 0)
        end++;
    if (errno != 0 || end == text || *end || !(number > 0) || number > (double)o->max)
        return false;
    *ret = number;
    return true;
}

static bool read_bool(const char *text, bool *ret)
{
    *ret = strcmp(text, "true") == 0;
    return *ret || strcmp(text, "false") == 0;
}

bool options_store(const option *o, void *into, const char *text, char why[OPTION_WHY_BYTES])
{
    void *at = (char *)into + o->offset;

    switch (o->type) {
    case OPTION_TEXT:
        *(const char **)at = text;
        return true;
    case OPTION_CHOICE:
        snprintf(why, OPTION_WHY_BYTES, "must be %.*s", (int)strcspn(o->help, ":"), o->help);
        if (!is_choice(o, text))
            return false;
        *(const char **)at = text;
        return true;
    case OPTION_DURATION:
        strcpy(why, "must be a time with its unit: 200ms, 5s, 1h");
        return duration_read(text, at);
    case OPTION_NUMBER:
        strcpy(why, "must be a positive number");
        if (o->max > 0)
            snprintf(why, OPTION_WHY_BYTES, "must be a number from %lld to %lld", (long long)o->min, (long long)o->max);
        return read_number(o, text, at);
    case OPTION_BOOL:
        strcpy(why, "must be true or false");
        return read_bool(text, at);
    case OPTION_SECONDS:
    case OPTION_RATE:
        strcpy(why, "must be a positive number");
        return read_real(o, text, at);
    default:
        return true;
    }
}

/* ---- the command line ------------------------------------------------------------- */

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
    if (strcmp(text, "-h") == 0) {
        ret->name = "help";
        ret->name_len = strlen(ret->name);
    } else if (strncmp(text, "--", 2) == 0) {
        ret->name = text + 2;
        ret->name_len = strcspn(ret->name, "=");
        ret->value = ret->name[ret->name_len] ? ret->name + ret->name_len + 1 : NULL;
    }
    return true;
}

const char *arguments_value(arguments *args, const argument *arg)
{
    if (arg->value)
        return arg->value;
    return args->at < args->argc ? args->argv[args->at++] : NULL;
}

bool argument_is(const argument *arg, const char *name)
{
    return arg->name && strlen(name) == arg->name_len && memcmp(name, arg->name, arg->name_len) == 0;
}

bool arguments_give(arguments *args, const void *member)
{
    for (size_t i = 0; i < args->n_given; i++)
        if (args->given[i] == member)
            return false;
    if (args->n_given == ARGUMENTS_GIVEN_MAX)
        return false;
    args->given[args->n_given++] = member;
    return true;
}

/* ---- environment and file ------------------------------------------------------------ */

/* Writes LOCKSTOCK_TLS_KEY for tls-key. */
static void variable_of(const option *o, char variable[SIMILAR_BYTES])
{
    snprintf(variable, SIMILAR_BYTES, PREFIX "%s", o->name);
    for (char *c = variable; *c; c++)
        *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
}

/* Reports the first variable that is similar to that of an option. */
static bool has_misspelt(const option *options, size_t n, options_take_value *take, void *arg)
{
    char name[SIMILAR_BYTES], known[SIMILAR_BYTES], question[2 * SIMILAR_BYTES], why[3 * SIMILAR_BYTES];

    for (char **variable = environ; *variable; variable++) {
        size_t len = strcspn(*variable, "=");
        if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0 || len >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)len, *variable);
        similar s = {.word = name};
        for (size_t i = 0; i < n; i++) {
            variable_of(&options[i], known);
            similar_offer(&s, known);
        }
        if (!s.best[0] || s.distance == 0)
            continue;
        snprintf(why, sizeof why, "no such setting%s", similar_question(&s, question));
        take(arg, NULL, name, why);
        return true;
    }
    return false;
}

bool options_read_environment(const option *options, size_t n, options_take_value *take, void *arg)
{
    char name[SIMILAR_BYTES];

    if (has_misspelt(options, n, take, arg))
        return false;
    for (size_t i = 0; i < n; i++) {
        variable_of(&options[i], name);
        const char *value = getenv(name);
        if (value && !take(arg, &options[i], name, value))
            return false;
    }
    return true;
}

typedef struct reading {
    const option *options;
    size_t n;
    const char *path;
    options_take_value *take;
    void *arg;
    unsigned line_of[LINES_MAX]; /* where the file first sets each option; 0: not yet */
    bool good;
} reading;

static bool take_line(void *arg, unsigned line, const char *name, const char *value)
{
    reading *r = arg;
    const option *o = name ? options_find(r->options, r->n, name, strlen(name)) : NULL;
    char where[PLACE_BYTES], why[64];

    snprintf(where, sizeof where, "%s", r->path);
    if (line > 0)
        snprintf(where, sizeof where, "%s:%u%s%s", r->path, line, name ? ": " : "", name ? name : "");
    if (name && !o)
        value = "unknown key";
    if (o && r->line_of[o - r->options] > 0 && o->type != OPTION_LIST) {
        snprintf(why, sizeof why, "given more than once, first in line %u", r->line_of[o - r->options]);
        value = why;
        o = NULL;
    }
    r->good = r->take(r->arg, o, where, value) && o;
    if (o && r->line_of[o - r->options] == 0)
        r->line_of[o - r->options] = line;
    return r->good;
}

bool options_read_file(const option *options, size_t n, const char *path, options_take_value *take, void *arg)
{
    reading r = {.options = options, .n = n, .path = path, .take = take, .arg = arg, .good = n <= LINES_MAX};

    keys_read(path, take_line, &r);
    return r.good;
}
