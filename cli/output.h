/* Copies the standard output of a program to that of this process, and keeps its beginning. */
#ifndef LOCKSTOCK_CLI_OUTPUT_H
#define LOCKSTOCK_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/once.h>

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

/* Prints that the output is longer than what is kept. */
void output_print_cut(void);

#endif
