/* Starts programs. */
#ifndef LOCKSTOCK_BASE_SPAWN_H
#define LOCKSTOCK_BASE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

enum { SPAWN_INHERIT = -1, SPAWN_NULL = -2 };

typedef struct spawn_options {
    const char *const *argv;      /* ends with NULL; argv[0] is looked up in PATH */
    const char *const *variables; /* "NAME=value", added to the environment; ends with NULL; NULL: none */
    int input, output, errors;    /* descriptors, SPAWN_INHERIT, or SPAWN_NULL for /dev/null */
    int death_signal;             /* the program receives it when the thread that called spawn ends; 0: none */
    bool own_group;               /* the program leads its own process group */
    const char *name;             /* of this program, for the message below */
} spawn_options;

/* How the child exits if the program cannot be run. It prints "NAME: ARGV0: reason" to its standard error. */
enum { SPAWN_CANNOT_RUN = 126, SPAWN_NO_PROGRAM = 127 };

/* Returns the pid, or -1 with errno. All signals are unblocked in the program. */
pid_t spawn(const spawn_options *options);

#endif
