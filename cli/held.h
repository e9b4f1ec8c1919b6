/* Runs a program while something is held for it: a lock, or what an Enter took. */
#ifndef LOCKSTOCK_CLI_HELD_H
#define LOCKSTOCK_CLI_HELD_H

#include "keeper.h"

typedef struct held_options {
    const keeper_kind *kind;
    const void *options; /* for the kind */
    uint64_t lease_ms;   /* 0: the default */
    bool keeps_output;   /* the standard output is copied, and its beginning given to the keeper */
    char *const *argv;
} held_options;

/* Returns what this process ends with: the code of the program, or one of those above EXIT_AROUND; EXIT_DONE too when
 * the kind found nothing to run. Call it once. */
exit_code held_run(cli *c, const held_options *options);

#endif
