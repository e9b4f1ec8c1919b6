/* The commands that are no method of the contract. Their flags, usage and help stand in this table and nowhere else: it is
 * what is run, what --help says, what shells complete and what the man page has. */
#ifndef LOCKSTOCK_CLI_COMMANDS_H
#define LOCKSTOCK_CLI_COMMANDS_H

#include <stdbool.h>

#include "cli.h"

typedef struct command {
    const char *name; /* one word, or a service and a word: "lock exec" */
    cli_command *run;
    const char *usage; /* behind the name */
    const char *help;
    const option *options; /* its own; NULL = none */
    const size_t *n;
    bool runs_program; /* which stands behind "--" */
} command;

extern const command commands[];
extern const size_t commands_len;

/* By its words; second NULL: there is none. NULL = no such command. */
const command *commands_find(const char *first, const char *second);

/* By its name, which is in the table. */
const command *commands_named(const char *name);

#endif
