/* Everything that can be typed: commands, methods, their flags and the values of these. For completion and manual
 * pages. */
#ifndef LOCKSTOCK_CLI_GRAMMAR_H
#define LOCKSTOCK_CLI_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>

#include "words.h"

enum { GRAMMAR_FLAGS_MAX = 32, GRAMMAR_TEXT_BYTES = 512 };

typedef struct grammar_flag {
    char name[WORDS_BYTES];        /* without dashes */
    char form[GRAMMAR_TEXT_BYTES]; /* its value: "TIME", "FILE", "shared|exclusive"; "": none */
    char help[GRAMMAR_TEXT_BYTES]; /* one line; may be empty */
    bool repeated;
} grammar_flag;

typedef struct grammar_command {
    char first[WORDS_BYTES], second[WORDS_BYTES]; /* second is "" for a command of one word */
    char form[GRAMMAR_TEXT_BYTES];                /* its arguments without flags: "bash|zsh|fish"; "" for methods */
    char help[GRAMMAR_TEXT_BYTES];                /* one line */
    bool runs_program;                            /* after "--" */
    size_t n_flags;                               /* without those of all commands */
    grammar_flag flags[GRAMMAR_FLAGS_MAX];
} grammar_command;

/* Returns whether the form is a list of words separated by |. */
bool grammar_has_choices(const char *form);

typedef void grammar_visit(void *arg, const grammar_command *command);

/* Visits all commands, then all methods; a method with a short name twice. Returns false when out of memory. */
bool grammar_each(grammar_visit *visit, void *arg);

/* Writes the flags of all commands and returns their number. */
size_t grammar_common(grammar_flag flags[GRAMMAR_FLAGS_MAX]);

#endif
