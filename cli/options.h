/* Flags from tables, and what stands on the command line beside them. */
#ifndef LOCKSTOCK_CLI_OPTIONS_H
#define LOCKSTOCK_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

typedef enum option_type {
    OPTION_TEXT,     /* const char *, as it stands */
    OPTION_DURATION, /* int64_t, milliseconds: "200ms", "5s" */
    OPTION_NUMBER,   /* int64_t, at least 1 */
    OPTION_BOOL      /* bool: stands alone */
} option_type;

typedef struct option {
    const char *name;
    option_type type;
    size_t offset;     /* in what the set fills in */
    const char *value; /* what --help calls it */
    const char *help;
} option;

typedef struct option_set {
    const option *options;
    size_t n;
    void *into;
} option_set;

#define OPTION_SET(table, pointer) \
    (&(const option_set){.options = (table), .n = sizeof(table) / sizeof *(table), .into = (pointer)})

/* What is left of argv. */
typedef struct arguments {
    int argc;
    char **argv;
    int at;
    bool ended; /* "--" was met: the rest is a command */
} arguments;

typedef struct argument {
    const char *text;  /* as it stands */
    const char *name;  /* of a flag, without dashes; NULL = it is none */
    size_t name_len;   /* up to an equals sign */
    const char *value; /* behind that; NULL = none */
} argument;

/* False at the end, and after "--". */
bool arguments_next(arguments *args, argument *ret);

/* The value of a flag: behind its equals sign, or the next argument. NULL: there is none, which was said. */
const char *arguments_value(arguments *args, const argument *arg);

bool argument_is(const argument *arg, const char *name);

typedef enum options_result { OPTIONS_OTHER, OPTIONS_TAKEN, OPTIONS_WRONG } options_result;

/* Fills in the member of the option that `arg` is; OPTIONS_OTHER: it is none of the set. OPTIONS_WRONG: said. */
options_result options_take(const option_set *set, arguments *args, const argument *arg);

/* Fills in one member. False: said, of `what`. */
bool options_fill(const option *o, void *into, const char *what, const char *text);

/* Makes an error that begins with "field:" begin with "flag:". False: it begins otherwise. */
bool options_rename(lks_error *error, const char *field, const char *flag);

/* Makes an error of the library that begins with a member, "options.lease_ms: ...", name the flag of the same name
 * instead, "--lease: ...". */
void options_name_flag(const option *options, size_t n, lks_error *error);

/* A line for each, for --help. */
void options_print(const option *options, size_t n);

#endif
