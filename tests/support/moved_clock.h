/* The clock of a program that a test starts, moved by the test (shifted_clock.c). */
#ifndef LOCKSTOCK_TESTS_MOVED_CLOCK_H
#define LOCKSTOCK_TESTS_MOVED_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct moved_clock {
    const char *env[3];        /* for the program's start; ends with NULL */
    _Atomic int64_t *shift_us; /* how far its clock is from the system's */
    char preload[400], shift[400];
} moved_clock;

/* library: the path of shifted_clock's; dir: a temporary directory, which must outlive the program. False: it
 * cannot be made. */
bool moved_clock_open(moved_clock *c, const char *library, const char *dir);

/* After the program has ended. Takes one that is all zero or was not opened. */
void moved_clock_close(moved_clock *c);

#endif
