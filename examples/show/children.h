/* Processes that show starts, its players: they die with it, and only these are ever sent a signal. */
#ifndef SHOW_CHILDREN_H
#define SHOW_CHILDREN_H

#include <stdbool.h>
#include <sys/types.h>

#include <lockstock/status.h>

/* Starts argv[0], a path or a name in PATH, away from the terminal, with `log` (made, or added to) as its output, and
 * with descriptor `fd` as number 3; -1 = none. The kernel kills it when the calling thread ends. LKS_UNAVAILABLE. */
lks_code player_start(const char *const argv[], const char *log, int fd, pid_t *ret, lks_error *error);

/* SIGSTOP; returns when it stands still. False: it has ended, and is to be reaped. */
bool player_freeze(pid_t pid);

/* SIGKILL, and waits until it is gone. */
void player_kill(pid_t pid);

/* SIGTERM, and waits until it is gone, SIGKILL after some seconds. True: it ended with exit status 0. */
bool player_stop(pid_t pid);

/* A child of `parent` that runs `program` (as ps names it); 0 = none. */
pid_t player_child_of(pid_t parent, const char *program);

#endif
