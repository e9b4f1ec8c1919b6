/* The options of a program, from one table: flags of the command line, variables LOCKSTOCK_* of the environment and
 * lines of a settings file. Parsing, --help, completion and the manual pages all read the table. */
#ifndef LOCKSTOCK_BASE_OPTIONS_H
#define LOCKSTOCK_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/similar.h"

/* Rows of a table leave out the members that they do not need. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef enum option_type {
    OPTION_TEXT,     /* const char *: the text itself, not a copy */
    OPTION_DURATION, /* int64_t, milliseconds: "200ms", "5s" */
    OPTION_NUMBER,   /* int64_t from min to max; both 0: at least 1 */
    OPTION_BOOL,     /* bool: "true" or "false" */
    OPTION_CHOICE,   /* const char *: one of the words with which help begins, up to a colon */
    OPTION_LIST,     /* stored by the program */
    OPTION_SECONDS,  /* double, above 0, at most max */
    OPTION_RATE      /* as OPTION_SECONDS; may end with "x" */
} option_type;

typedef struct option {
    const char *name; /* without dashes */
    option_type type;
    size_t offset;    /* of the member that it sets */
    const char *form; /* the name of its value in --help: "TIME"; NULL for a bool */
    const char *help;
    const char *initial; /* its default as text; NULL: none */
    int64_t min, max;
} option;

typedef struct option_set {
    const option *options;
    size_t n;
    void *into; /* the struct that has the members */
} option_set;

#define OPTION_SET(table, pointer) \
    (&(const option_set){.options = (table), .n = sizeof(table) / sizeof *(table), .into = (pointer)})

/* Returns the option with a name of len bytes, or NULL. */
const option *options_find(const option *options, size_t n, const char *name, size_t len);

enum { OPTION_WHY_BYTES = 96 };

/* Checks the text and stores it, except for a list. Returns false with the reason, "must be ...", if the text is
 * wrong. */
bool options_store(const option *o, void *into, const char *text, char why[OPTION_WHY_BYTES]);

/* Offers "--name" of each option to a search for similar words. */
void options_offer(const option *options, size_t n, similar *s);

/* ---- the command line ------------------------------------------------------------- */

enum { ARGUMENTS_GIVEN_MAX = 64 };

/* The arguments that are not read yet. */
typedef struct arguments {
    int argc;
    char **argv;
    int at;
    bool ended; /* after "--": what follows is not a flag */
    /* For arguments_give. */
    const void *given[ARGUMENTS_GIVEN_MAX];
    size_t n_given;
} arguments;

typedef struct argument {
    const char *text;  /* the whole argument */
    const char *name;  /* of a flag, without dashes; NULL: not a flag. -h is the flag "help". */
    size_t name_len;   /* up to the equals sign */
    const char *value; /* after the equals sign; NULL: none */
} argument;

/* Returns false at the end, and at "--". */
bool arguments_next(arguments *args, argument *ret);

/* Returns the value of a flag: what follows its equals sign, else the next argument, else NULL. */
const char *arguments_value(arguments *args, const argument *arg);

bool argument_is(const argument *arg, const char *name);

/* Call it for each member that an argument sets. Returns false if an earlier argument has set it. */
bool arguments_give(arguments *args, const void *member);

/* ---- environment and file ------------------------------------------------------------ */

/* Takes one value. `where` names its place: "LOCKSTOCK_IN_FLIGHT", "FILE:12: in-flight". Without an option, `text`
 * says what is wrong at that place. Both texts are valid during the call. Returning false ends the reading. */
typedef bool options_take_value(void *arg, const option *o, const char *where, const char *text);

/* Calls take for each variable that sets an option. A variable that sets none but is similar to one that does is an
 * error; others may belong to other programs. Returns false if it found an error or take returned false. */
bool options_read_environment(const option *options, size_t n, options_take_value *take, void *arg);

/* Calls take for each line of the file. Only lists may have several lines. Returns false as above. */
bool options_read_file(const option *options, size_t n, const char *path, options_take_value *take, void *arg);

#endif
