/* All that can be typed, in one form: commands, methods of the contract, their flags and what these take. For completion and
 * man pages. */
#ifndef LOCKSTOCK_CLI_GRAMMAR_H
#define LOCKSTOCK_CLI_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>

#include "words.h"

enum { GRAMMAR_FLAGS_MAX = 32, GRAMMAR_TEXT_BYTES = 512 };

typedef struct grammar_flag {
    char name[WORDS_BYTES]; /* without dashes */
    char form
        [GRAMMAR_TEXT_BYTES]; /* what it takes: "TIME", "FILE", "shared|exclusive"; "" = nothing, or true or false */
    char help[GRAMMAR_TEXT_BYTES]; /* one line; may be empty */
    bool repeated;
} grammar_flag;

typedef struct grammar_command {
    char first[WORDS_BYTES], second[WORDS_BYTES]; /* second "": it has one word */
    char form[GRAMMAR_TEXT_BYTES];                /* what follows, but for flags; only of commands: "bash|zsh|fish" */
    char help[GRAMMAR_TEXT_BYTES];                /* one line */
    bool runs_program;                            /* behind "--" */
    size_t n_flags;                               /* beside those of all commands */
    grammar_flag flags[GRAMMAR_FLAGS_MAX];
} grammar_command;

/* Whether the form is words to choose from, with | between. */
bool grammar_has_choices(const char *form);

typedef void grammar_visit(void *arg, const grammar_command *command);

/* Commands first, then methods, those with a shorter name twice. False: no memory. */
bool grammar_each(grammar_visit *visit, void *arg);

/* What every command takes. Gives how many. */
size_t grammar_common(grammar_flag flags[GRAMMAR_FLAGS_MAX]);

#endif
