/* The commands that are not methods of the contract. This table is their only list: running, --help, completion and
 * the manual page use it. */
#ifndef LOCKSTOCK_CLI_COMMANDS_H
#define LOCKSTOCK_CLI_COMMANDS_H

#include <stdbool.h>

#include "cli.h"

typedef struct command {
    const char *name; /* one word, or a service and a word: "lock exec" */
    cli_command *run;
    const char *usage; /* after the name */
    const char *help;
    const option *options; /* its own flags; NULL: none */
    const size_t *n;
    bool runs_program;                   /* after "--" */
    const struct lks_rpc_method *method; /* whose flags it has, too; NULL: none */
} command;

extern const command commands[];
extern const size_t commands_len;

/* Finds a command by its words; second may be NULL. Returns NULL if there is none. */
const command *commands_find(const char *first, const char *second);

/* Finds a command by a name that is in the table. */
const command *commands_named(const char *name);

#endif
