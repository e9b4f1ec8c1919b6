/* This very program, started anew to be killed or frozen: a process that uses lockstock cannot fork without exec. It is
 * talked to by lines over its standard input and output, and dies with the thread that started it, even if it is
 * frozen; one that starts too late for that finds its standard input at an end. */
#ifndef SECKILL_CHILD_H
#define SECKILL_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;  /* 0 = none */
    FILE *talk; /* a socket: its standard input and output */
} child;

/* Starts `program`. False: it cannot be started. The caller ends it with child_end in any case. */
bool child_start(const char *program, const char *const argv[], child *ret);

/* The next line that it says, without the line's end, cut to size. False: it says nothing more. */
bool child_line(child *c, char *line, size_t size);

/* Sends it a line, its end included. */
bool child_tell(child *c, const char *line);

/* Kills it if it lives, and reaps. Takes a zeroed one. */
void child_end(child *c);

/* Called first by what was started: it is killed when the thread that started it ends. False: it is too late. */
bool child_begin(void);

#endif
