/* The commands that are not methods of the contract. This table is their only list: running, --help, completion and
 * the manual page use it. */
#ifndef LOCKSTOCK_CLI_COMMANDS_H
#define LOCKSTOCK_CLI_COMMANDS_H

#include <stdbool.h>

#include <lockstock/rpc/method.h>

#include "cli.h"

struct request;

/* The flags of a command, and the size of the struct that has their members. */
typedef struct command_flags {
    const option *options;
    size_t n, size;
} command_flags;

#define COMMAND_FLAGS(table, type)                                                     \
    {                                                                                  \
        .options = (table), .n = sizeof(table) / sizeof *(table), .size = sizeof(type) \
    }

/* What the command line gave to a command. */
typedef struct invocation {
    const void *flags;             /* the struct of its command_flags */
    const char *word;              /* of a command that takes a word which is no flag's value */
    const struct request *request; /* of a command that has a method */
    char **argv;                   /* the program after "--"; or the command's name and the arguments it passes */
} invocation;

typedef exit_code command_run(cli *c, const invocation *in);

typedef enum command_kind {
    COMMAND_CALLS,            /* runs after cli_settle, as do commands that run a program */
    COMMAND_RUNS_PROGRAM,     /* after "--" */
    COMMAND_IS_LOCAL,         /* calls no server, so it reads no settings */
    COMMAND_PASSES_ARGUMENTS, /* takes no arguments of its own */
} command_kind;

typedef struct command {
    const char *name; /* one word, or a service and a word: "lock exec" */
    command_run *run;
    const char *usage; /* after the name */
    const char *help;
    command_kind kind;
    const command_flags *flags;   /* NULL: none of its own */
    const char *needs;            /* the text flag that must be given; NULL: none */
    const char *word;             /* the text flag that a word without a flag sets; NULL: none; "": invocation.word */
    const lks_rpc_method *method; /* whose flags it has, too; NULL: none */
} command;

extern const command commands[];
extern const size_t commands_len;

/* Returns the word of a command after the name of the service, or NULL if it is not one of that service. */
const char *commands_word(const command *its, const char *service);

/* Finds a command by its words; second may be NULL. Returns NULL if there is none. */
const command *commands_find(const char *first, const char *second);

command_run run_command, once_command, limit_command, guard_run_command, ledger_command, watch_command, status_command,
    doctor_command, live_command, metrics_command, completion_command, bench_command;
extern const command_flags flags_of_run, flags_of_once, flags_of_limit, flags_of_guard_run, flags_of_ledger,
    flags_of_watch, flags_of_live, flags_of_metrics;

#endif
