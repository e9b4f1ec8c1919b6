/* What guard_cpu and wire_cpu share: slices of calls by a client that writes its bytes itself, and the CPU time of the
 * process that serves them. */
#ifndef LOCKSTOCK_BENCH_SLICES_H
#define LOCKSTOCK_BENCH_SLICES_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "conformance/caller.h"

static inline double slice_cpu_of(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        abort();
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* n calls, so many under way; each is what `next` makes. False: the connection is over, or a call failed. */
static inline bool slice_run(const wire_driver *driver, void *caller, int n, int in_flight,
                             call_spec (*next)(const void *arg), const void *arg)
{
    for (int started = 0, ended = 0; ended < n;) {
        outcome got;
        if (started < n && started - ended < in_flight) {
            const call_spec call = next(arg);
            if (driver->start(caller, &call) == 0)
                return false;
            started++;
        } else {
            if (!driver->await(caller, &got) || got.code != LKS_OK) {
                fprintf(stderr, "a call failed: %s\n", got.message);
                return false;
            }
            free(got.payload);
            ended++;
        }
    }
    return true;
}

#endif
