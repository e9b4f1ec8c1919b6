/* What a node is asked every second, so that what is wrong is known before a caller meets it: does it answer, does it take
 * writes, what time is it there. Nothing is written: the question is a write that changes nothing, which Redis refuses as it
 * would refuse any other. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_PROBE_H
#define LOCKSTOCK_SERVER_STORE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/connection.h"

typedef struct probe {
    void (*on_change)(void *arg); /* an answer has come, or none has come for too long; set by the caller, as arg */
    void *arg;
    unsigned patience; /* probe_look that many times without a reply of any kind: it does not answer */

    bool answered;                    /* on this connection; of the following, each is as of the last answer */
    bool silent;                      /* it does not answer */
    const struct errors_row *refusal; /* why it refuses writes; NULL: it takes them; static */
    bool refuses_all;                 /* all of them; else those that need memory */
    int64_t round_trip_us;            /* 0: not known */
    int64_t clock_ms;                 /* its clock, milliseconds since 1970, ... */
    uint64_t clock_ns;                /* ... and CLOCK_MONOTONIC at that moment; clock_ms 0: not known */
    uint64_t asked_ns;                /* from here on probe.c's own */
    bool asks;
    bool skips;       /* the next look does not ask */
    unsigned looks;   /* since the last reply */
    uint64_t replies; /* of the connection, at the last look */
} probe;

/* A fresh connection: nothing is known. Asks at once. base: of keys that the node has. */
void probe_start(probe *p, connection *c, const char *base);

/* Twice a second: looks whether anything was answered, and asks each second time. Only after probe_start, while the connection
 * lives. */
void probe_look(probe *p, connection *c, const char *base);

/* What its clock shows now: milliseconds since 1970; 0: not known. */
int64_t probe_clock_ms(const probe *p);

#endif
