/* A process that takes a lock, keeps it and gives it back, for another one that runs a program under it. The two are
 * apart so that either can stand still, or die, and the program does not outlive the lease: the lock process writes in shared
 * memory until when the lock is certain, and the other one, which has no other work, ends the program in time. */
#ifndef LOCKSTOCK_CLI_LOCK_PROCESS_H
#define LOCKSTOCK_CLI_LOCK_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "cli.h"

typedef struct lock_process lock_process;

typedef struct lock_process_options {
    const char *name, *group, *owner;
    int64_t lease, wait; /* milliseconds; lease 0 = 30 s */
} lock_process_options;

typedef enum lock_process_news {
    LOCK_PROCESS_NONE,
    LOCK_PROCESS_HELD,   /* the lock is held */
    LOCK_PROCESS_LOST,   /* it is not any more, and why was said */
    LOCK_PROCESS_FAILED, /* it was not taken, or not given back in order; why was said */
    LOCK_PROCESS_DONE    /* it was given back */
} lock_process_news;

/* Forks it, before this process has any thread. When this process dies, it ends without giving the lock back, so that
 * the lease ends it, and kills the program's group (lock_process_guard). NULL: said. */
lock_process *lock_process_start(cli *c, const lock_process_options *options);

/* Becomes readable when there is news. */
int lock_process_fd(const lock_process *k);

/* Does not block. Also when it has died: LOCK_PROCESS_FAILED until the lock was held, LOCK_PROCESS_LOST after. */
lock_process_news lock_process_next(lock_process *k);

/* 0 until the lock is held, at the latest with LOCK_PROCESS_HELD. */
uint64_t lock_process_fence(const lock_process *k);

/* Until when, by CLOCK_MONOTONIC, nobody else can have the lock: the moment at which it counts as lost, and the end of
 * the lease behind it. */
uint64_t lock_process_certain_ns(const lock_process *k);
uint64_t lock_process_margin_ns(const lock_process *k);

/* What this process ends with after LOCK_PROCESS_FAILED. */
exit_code lock_process_code(const lock_process *k);

/* The process group to be killed when this process dies; 0 = none. */
void lock_process_guard(lock_process *k, pid_t group);

/* Has it give the lock back; LOCK_PROCESS_DONE or LOCK_PROCESS_FAILED follows. */
void lock_process_release(lock_process *k);

/* Ends it as it is, and frees. */
void lock_process_free(lock_process *k);

#endif
