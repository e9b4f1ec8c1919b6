/* A process that takes something, such as a lock, keeps it and gives it back, for another one that runs a program
 * meanwhile. The two are apart so that either can stand still, or die, and the program does not outlive the lease: the
 * keeper writes in shared memory until when it certainly has what it keeps, and the other process, which has no other
 * work, ends the program in time. */
#ifndef LOCKSTOCK_CLI_KEEPER_H
#define LOCKSTOCK_CLI_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"

enum { KEEPER_VARIABLES_MAX = 8, KEEPER_DEFAULT_LEASE_MS = 30000 };

typedef struct keeper keeper;

/* ---- in the keeper ------------------------------------------------------------------------------- */

typedef struct keeping keeping;

/* How the program ended. */
typedef struct keeper_end {
    int status;         /* from waitpid */
    bool lost;          /* it was ended because what it needs was lost, or was not started */
    bool cut;           /* it wrote more than `output` */
    const char *output; /* what it wrote, if that is kept */
    size_t output_len;
} keeper_end;

typedef struct keeper_kind {
    const char *what; /* that is kept, for messages: "the lock" */
    /* Takes it, calls keeping_keep, then gives it back. Prints why it fails. EXIT_DONE without keeping_keep: there is
     * nothing to run. */
    exit_code (*run)(keeping *k, cli *c, const void *options);
    /* How the program ended is stored at a server: it is also after a loss, and `run` failing counts. */
    bool stores_end;
} keeper_kind;

/* Adds a variable, "NAME=value", for the program. Cut, or left out, where there is no room. */
void keeping_add_variable(keeping *k, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns when the program has ended. left_ms(held) tells how long it is certain to be held; UINT32_MAX: for ever. */
void keeping_keep(keeping *k, uint32_t (*left_ms)(const void *held), const void *held, keeper_end *ret);

/* Prints why it was lost, and has the program ended. Once; returns false if the loss was told before. Thread-safe. */
bool keeping_lose(keeping *k, const char *why);

/* Whether a loss was told. */
bool keeping_is_lost(const keeping *k);

/* ---- in the other process ------------------------------------------------------------------------ */

typedef enum keeper_news {
    KEEPER_NONE,
    KEEPER_HELD,   /* it is held */
    KEEPER_LOST,   /* it is not any more, and why was said */
    KEEPER_FAILED, /* it was not taken, or not given back in order; why was said */
    KEEPER_DONE    /* it was given back, or there is nothing to run */
} keeper_news;

/* Forks it, before this process has any thread. When this process dies, the keeper ends without giving anything back, so
 * that the lease ends, and kills the program's group (keeper_guard). lease_ms 0: the default. Returns NULL after printing
 * an error. */
keeper *keeper_start(cli *c, const keeper_kind *kind, const void *options, uint64_t lease_ms);

/* Becomes readable when there is news. */
int keeper_fd(const keeper *k);

/* Does not block. Also when the keeper has died: KEEPER_FAILED until it held something, KEEPER_LOST after. */
keeper_news keeper_next(keeper *k);

/* True at the latest with KEEPER_HELD. */
bool keeper_holds(const keeper *k);

/* The variables for the program, NULL-terminated, once it holds. */
void keeper_variables(const keeper *k, const char *ret[KEEPER_VARIABLES_MAX + 1]);

/* Until when, by CLOCK_MONOTONIC, nobody else can have it: the moment at which it counts as lost, and the end of the lease
 * behind it. */
uint64_t keeper_certain_ns(const keeper *k);
uint64_t keeper_margin_ns(const keeper *k);
uint64_t keeper_lease_ms(const keeper *k);

/* What this process ends with after KEEPER_FAILED. */
exit_code keeper_code(const keeper *k);

/* The process group to be killed when this process dies; 0 = none. */
void keeper_guard(keeper *k, pid_t group);

/* LKS_ONCE_BODY_MAX bytes that the keeper reads, for the output of the program. */
char *keeper_room(keeper *k);

/* Has it give back; KEEPER_DONE or KEEPER_FAILED follows. `output` is not used: it is in keeper_room. */
void keeper_release(keeper *k, const keeper_end *end);

/* Ends it as it is, and frees. */
void keeper_free(keeper *k);

#endif
