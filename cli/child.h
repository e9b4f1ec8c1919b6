/* A program that runs while this process holds something for it. It receives the signals of this process and ends
 * with it. One at a time. */
#ifndef LOCKSTOCK_CLI_CHILD_H
#define LOCKSTOCK_CLI_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <lockstock/once.h>

typedef struct child {
    pid_t pid;   /* 0: ended, or not started */
    pid_t group; /* its own process group; 0 at a terminal, where another group would be in the background */
    int status;  /* from waitpid, after it has ended */
} child;

/* Turns signals that would end this process, and SIGCHLD, into events that can be read from the returned descriptor.
 * Blocks SIGPIPE, so that the program runs to its end when nobody reads its output any more. In a forked process the
 * signals stay blocked; child_start unblocks them for its program. Returns -1 after printing an error. Call it once. */
int signals_catch(void);

typedef struct signal_event {
    int number;
    bool from_terminal; /* the terminal signals all processes of the foreground group */
} signal_event;

/* Reads the next event. Returns false if there is none. */
bool signals_next(signal_event *ret);

/* Runs argv[0], looked up in PATH, with the variables ("NAME=value", NULL-terminated) added to the environment, and
 * its standard output to output_fd unless that is -1. It exits with 126 or 127 if it cannot be run. It ends when the
 * calling thread ends. Returns false after printing an error. */
bool child_start(child *c, char *const argv[], const char *const variables[], int output_fd);

/* Forwards a signal to the program or its group, unless the terminal has sent it to them already. */
void child_signal(const child *c, const signal_event *event);

/* Sends a signal to the program and its group; to the group also after the program has ended. */
void child_kill(const child *c, int number);

/* Sends SIGTERM to the program and its group, then SIGCONT in case they are stopped. */
void child_stop(const child *c);

/* Call after SIGCHLD. Returns whether the program has ended. */
bool child_has_ended(child *c);

/* The exit code for this process: the code of the program, or 128 plus the signal that ended it. */
int child_code(const child *c);

/* ---- its standard output: copied to that of this process, and its beginning kept ---- */

/* Set on a stored result that is only the beginning of the output. */
#define OUTPUT_CUT_HEADER "cut"

typedef struct output {
    int fd;     /* the reading end; -1: closed, or not opened */
    char *kept; /* the caller's LKS_ONCE_BODY_MAX bytes */
    size_t n_kept;
    bool cut; /* the output was longer */
} output;

/* Opens a pipe. Returns the end for the program, which the caller closes, or -1 after printing an error. */
int output_open(output *o, char *kept);

/* Copies what can be read now. */
void output_copy(output *o);

/* Copies what can be read after the program has ended, and closes the pipe. Later output of processes that the program
 * left running is lost. */
void output_end(output *o);

/* Prints that only the beginning of the output is stored. */
void output_print_cut(void);

#endif
