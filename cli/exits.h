/* Exit codes and error messages (docs/cli.md). */
#ifndef LOCKSTOCK_CLI_EXITS_H
#define LOCKSTOCK_CLI_EXITS_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

typedef enum exit_code {
    EXIT_DONE = 0,
    EXIT_REFUSED = 1,     /* a server refused */
    EXIT_USAGE = 2,       /* invalid call */
    EXIT_UNAVAILABLE = 3, /* no server could be reached, or none has room; not applied */
    EXIT_UNKNOWN = 4,     /* it may have been applied */
    EXIT_OTHER = 5,

    /* Commands that run a program end with its code, or with one of these. */
    EXIT_AROUND = 120, /* added to the codes above */
    EXIT_LOST = 120,   /* the lock was lost while the program ran, or before */
    EXIT_CANNOT_RUN = 126,
    EXIT_NO_PROGRAM = 127,
    EXIT_SIGNAL = 128 /* plus the number of the signal */
} exit_code;

/* The meaning of each code, for the manual page. Codes above EXIT_AROUND are those of commands that run a program. */
typedef struct exits_row {
    exit_code code;
    const char *meaning;
} exits_row;
extern const exits_row exits_rows[];
extern const size_t exits_rows_len;

/* Prints "lockstock: " and a line. */
void exits_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints "lockstock: WHAT: WHY". Returns EXIT_USAGE. */
exit_code exits_wrong(const char *what, const char *why);

/* Prints "lockstock: BEFORE WHY" with at most 1,024 bytes of WHY, the text of a server. Returns EXIT_REFUSED. */
exit_code exits_refused(const char *before, const char *why);

/* Prints that a server refused the call, but an earlier try may have been applied. Returns EXIT_UNKNOWN. */
exit_code exits_doubtful(void);

/* Runs the program in place of this process. On failure prints why, and returns EXIT_NO_PROGRAM or EXIT_CANNOT_RUN. */
exit_code exits_exec(char *const argv[]);

/* Makes exits_failed print JSON: one object on standard error. */
void exits_in_json(void);

/* Flushes standard output. If it could not be written, prints that, and returns `failed` instead of EXIT_DONE. */
exit_code exits_flush(exit_code code, exit_code failed);

/* Prints why a call failed. Returns the exit code; EXIT_UNKNOWN only if it is not a read. */
exit_code exits_failed(const lks_error *error, bool is_read);

#endif
