/* Runs a program while the keeper holds something for it: a lock, or what an Enter took. */
#ifndef LOCKSTOCK_CLI_HELD_H
#define LOCKSTOCK_CLI_HELD_H

#include "keeper.h"

typedef struct held_options {
    const keeper_kind *kind;
    const void *options; /* for the kind */
    uint64_t lease_ms;   /* 0: the default */
    bool keeps_output;   /* copy the program's standard output, and give its beginning to the keeper */
    char *const *argv;
} held_options;

/* Returns the exit code of this process: that of the program, one above EXIT_AROUND, or EXIT_DONE if there was nothing
 * to run. Call it once, after cli_settle. */
exit_code held_run(cli *c, const held_options *options);

#endif
