/* A process that takes something, such as a lock, renews it and releases it, while its parent process runs a program.
 * There are two processes so that the program does not outlive the lease even if one of them stops or dies: the keeper
 * writes to shared memory until when it certainly holds the lock, and the parent, which has no other work, ends the
 * program in time. */
#ifndef LOCKSTOCK_CLI_KEEPER_H
#define LOCKSTOCK_CLI_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"

enum { KEEPER_VARIABLES_MAX = 8, KEEPER_DEFAULT_LEASE_MS = 30000 };

typedef struct keeper {
    int fd;            /* becomes readable when there is news */
    uint64_t lease_ms; /* the lease */
    int code;          /* after KEEPER_FAILED an exit_code; after KEEPER_DONE that of keeping_set_code */
    /* For keeper.c. */
    pid_t pid;
    struct shared *shared;
    bool held, gone;
} keeper;

/* ---- in the keeper ------------------------------------------------------------------------------- */

typedef struct keeping keeping;

/* How the program ended. */
typedef struct keeper_end {
    int status;         /* from waitpid */
    bool lost;          /* it was ended after a loss, or was not started */
    bool cut;           /* it wrote more than `output` holds */
    const char *output; /* what it wrote, if its output is kept */
    size_t output_len;
} keeper_end;

typedef struct keeper_kind {
    const char *what; /* what it keeps, for messages: "the lock" */
    /* Takes it, calls keeping_keep, then releases it. Prints an error if that fails. EXIT_DONE without keeping_keep
     * means that there is nothing to run. */
    exit_code (*run)(keeping *k, cli *c, lks_channel *channel, const void *options);
    /* Whether a server stores that the program ended so, with a status from waitpid; it is an error if `run` fails.
     * NULL: no server stores its end. */
    bool (*is_stored)(int status);
    uint32_t stop_ms; /* from SIGTERM to SIGKILL after a loss; 0: before the lease can have ended */
} keeper_kind;

/* Adds a variable, "NAME=value", for the program. It is cut, or left out, if there is no room. */
void keeping_add_variable(keeping *k, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the exit code of the parent for when there is nothing to run, as if the program had ended with it. */
void keeping_set_code(keeping *k, int code);

/* Returns when the program has ended. left_ms(held) returns how long it is certainly held; UINT32_MAX: until keeping_lose is called. */
void keeping_keep(keeping *k, uint32_t (*left_ms)(const void *held), const void *held, keeper_end *ret);

/* Prints why it was lost, and makes the parent end the program. Returns false, and does nothing, after the first call.
 * Thread-safe. */
bool keeping_lose(keeping *k, const char *why);

/* Returns whether keeping_lose was called. */
bool keeping_is_lost(const keeping *k);

/* ---- in the parent ------------------------------------------------------------------------------- */

typedef enum keeper_news {
    KEEPER_NONE,
    KEEPER_HELD,   /* it is held */
    KEEPER_LOST,   /* it was lost; the reason is printed */
    KEEPER_FAILED, /* it was not taken, or not released; the reason is printed */
    KEEPER_DONE    /* it was released, or there is nothing to run */
} keeper_news;

/* Forks the keeper, after signals_catch; this process must have no threads yet. When this process dies, the keeper
 * kills the program's group (keeper_guard) and ends without releasing, so that the lease ends. lease_ms 0: the default.
 * Returns NULL after printing an error. */
keeper *keeper_start(cli *c, const keeper_kind *kind, const void *options, uint64_t lease_ms);

/* Returns the next news without blocking. If the keeper died: KEEPER_FAILED before KEEPER_HELD, else KEEPER_LOST. */
keeper_news keeper_next(keeper *k);

/* Returns whether it is held, or was. May return true before KEEPER_HELD is read. */
bool keeper_holds(const keeper *k);

/* Sets the variables for the program, NULL-terminated. Call it after KEEPER_HELD. */
void keeper_variables(const keeper *k, const char *ret[KEEPER_VARIABLES_MAX + 1]);

/* The time of CLOCK_MONOTONIC until which no other caller can have it, and how long before the end of the lease that is.
 */
uint64_t keeper_certain_ns(const keeper *k);
uint64_t keeper_margin_ns(const keeper *k);

/* Sets the process group that the keeper kills when this process dies; 0: none. */
void keeper_guard(keeper *k, pid_t group);

/* LKS_ONCE_BODY_MAX bytes that the keeper reads, for the output of the program. */
char *keeper_room(keeper *k);

/* Makes the keeper release; KEEPER_DONE or KEEPER_FAILED follows. end->output is not used: it is in keeper_room. */
void keeper_release(keeper *k, const keeper_end *end);

/* Kills the keeper, and frees its memory. */
void keeper_free(keeper *k);

#endif
