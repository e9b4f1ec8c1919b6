/* A process that takes a lock, keeps it and gives it back, for another one that runs a program under it. The two are
 * apart so that either can stand still, or die, and the program does not outlive the lease: the keeper says in shared
 * memory until when the lock is certain, and the other one, which has no other work, ends the program in time. */
#ifndef LOCKSTOCK_CLI_KEEPER_H
#define LOCKSTOCK_CLI_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "cli.h"

typedef struct keeper keeper;

typedef struct keeper_options {
    const char *name, *group, *owner;
    int64_t lease, wait; /* milliseconds; lease 0 = 30 s */
} keeper_options;

typedef enum keeper_news {
    KEEPER_NONE,
    KEEPER_HELD,   /* the lock is held */
    KEEPER_LOST,   /* it is not any more, and why was said */
    KEEPER_FAILED, /* it was not taken, or not given back in order; why was said */
    KEEPER_DONE    /* it was given back */
} keeper_news;

/* Forks it, before this process has any thread. When this process dies, it ends without giving the lock back, so that
 * the lease ends it, and kills the program's group (keeper_guard). NULL: said. */
keeper *keeper_start(cli *c, const keeper_options *options);

/* Becomes readable when there is news. */
int keeper_fd(const keeper *k);

/* Does not block. Also when it has died: KEEPER_FAILED until the lock was held, KEEPER_LOST after. */
keeper_news keeper_next(keeper *k);

/* 0 until the lock is held, at the latest with KEEPER_HELD. */
uint64_t keeper_fence(const keeper *k);

/* Until when, by CLOCK_MONOTONIC, nobody else can have the lock: the moment at which it counts as lost, and the end of
 * the lease behind it. */
uint64_t keeper_certain_ns(const keeper *k);
uint64_t keeper_margin_ns(const keeper *k);

/* What this process ends with after KEEPER_FAILED. */
exit_code keeper_code(const keeper *k);

/* The process group to be killed when this process dies; 0 = none. */
void keeper_guard(keeper *k, pid_t group);

/* Has it give the lock back; KEEPER_DONE or KEEPER_FAILED follows. */
void keeper_release(keeper *k);

/* Ends it as it is, and frees. */
void keeper_free(keeper *k);

#endif
