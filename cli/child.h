/* A program that is run while something is held for it: it ends when this process does, gets the signals that this
 * process gets, and is ended by force when it must not go on. One at a time. */
#ifndef LOCKSTOCK_CLI_CHILD_H
#define LOCKSTOCK_CLI_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid; /* 0 = it has ended, or was never started */
    pid_t
        group; /* of its processes, where it has one of its own: not at a terminal, of which that would be the background */
    int status; /* as from waitpid, once it has ended */
} child;

/* From now on signals that would end this process, and the end of children, are told at the descriptor that is
 * returned, an event each; what blocks is not interrupted. -1: said. Once a process. */
int signals_catch(void);

typedef struct signal_event {
    int number;
    bool from_terminal; /* which tells all processes of its foreground */
} signal_event;

/* The next event, if there is one. */
bool signals_next(signal_event *ret);

/* Runs argv[0], looked up in PATH, with the variables ("NAME=value", NULL-terminated) beside the environment, and its
 * standard output to `output` unless that is -1. What cannot be run exits with 126 or 127, and says why. Its direct
 * parent is the calling thread, with which it ends. False: said. */
bool child_start(child *c, char *const argv[], const char *const variables[], int output);

/* Passes a signal on, to its group if it has one, unless the terminal has told it already. */
void child_signal(const child *c, const signal_event *event);

/* Sends it and its group a signal; the group also when it has ended itself. */
void child_kill(const child *c, int number);

/* Asks it and its group to end: SIGTERM, which is heard when it was stopped, too. */
void child_stop(const child *c);

/* After an event SIGCHLD: whether it has ended by now. */
bool child_has_ended(child *c);

/* How this process ends after it: with its code, or with 128 and its signal. */
int child_code(const child *c);

#endif
