/* The standard output of a program: copied to our own, and its beginning kept. */
#ifndef LOCKSTOCK_CLI_OUTPUT_H
#define LOCKSTOCK_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/once.h>

/* Set on a stored result that is only the beginning of the output. */
#define OUTPUT_CUT_HEADER "cut"

typedef struct output {
    int fd;     /* the reading end; -1: at its end, or none */
    char *kept; /* LKS_ONCE_BODY_MAX bytes of the caller's */
    size_t n_kept;
    bool cut; /* there was more */
} output;

/* Opens a pipe. Returns the end for the program, which the caller closes, or -1 after printing an error. */
int output_open(output *o, char *kept);

/* Copies what can be read now. */
void output_copy(output *o);

/* Copies all that is there once the program has ended: what it left running may still write, but that is nobody's. */
void output_end(output *o);

/* Prints that the output is longer than what is kept. */
void output_print_cut(void);

#endif
