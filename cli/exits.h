/* How lockstock ends, and how it says why. docs/cli.md has the codes. */
#ifndef LOCKSTOCK_CLI_EXITS_H
#define LOCKSTOCK_CLI_EXITS_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

typedef enum exit_code {
    EXIT_DONE = 0,
    EXIT_REFUSED = 1,     /* a server has answered: no */
    EXIT_USAGE = 2,       /* what was asked for is not right */
    EXIT_UNAVAILABLE = 3, /* no server has answered, or none has room; nothing was done */
    EXIT_UNKNOWN = 4,     /* it may have been done */
    EXIT_OTHER = 5,

    /* Commands that run another program end with its code. Their own are these: */
    EXIT_AROUND = 120, /* the codes above, and so much */
    EXIT_LOST = 120,   /* the lock was lost while the program ran */
    EXIT_CANNOT_RUN = 126,
    EXIT_NO_PROGRAM = 127,
    EXIT_SIGNAL = 128 /* and the signal's number */
} exit_code;

/* What each code says, for the manual page. Those behind EXIT_AROUND are of commands that run a program. */
typedef struct exits_row {
    exit_code code;
    const char *meaning;
} exits_row;
extern const exits_row exits_rows[];
extern const size_t exits_rows_len;

/* Says "lockstock: WHAT: WHY" on standard error, one line. Returns EXIT_USAGE. */
exit_code exits_wrong(const char *what, const char *why);

/* Says "lockstock: BEFORE WHY", where a server has said why; cut to 1,024 bytes of it. Returns EXIT_REFUSED. */
exit_code exits_refused(const char *before, const char *why);

/* From now on exits_failed says it in JSON: one object on standard error. */
void exits_in_json(void);

/* Says what became of a call that failed. Of a read nothing can have been done. */
exit_code exits_failed(const lks_error *error, bool is_read);

#endif
