/* Those who only want to be served while somebody is attacked: on each of two wires a
 * client that makes one call at a time (Decode; Acquire and Release of a lock of its own), and on the first
 * of them a newcomer that connects for each call. All have a token. */
#ifndef LOCKSTOCK_TESTS_FLOODS_OTHERS_H
#define LOCKSTOCK_TESTS_FLOODS_OTHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target.h"

/* Latencies of calls, in microseconds. Zeroed is empty. */
typedef struct latencies {
    uint32_t *us;
    size_t n, room;
} latencies;

/* In microseconds, of the share p of the calls; 0 when there were none. */
uint32_t latencies_at(latencies *l, double p);
void latencies_free(latencies *l);

enum { OTHERS_SAME, OTHERS_ELSEWHERE, OTHERS_NEWCOMER, N_OTHERS };

/* The results of one of them since the phase began. */
typedef struct others_phase {
    latencies calls[N_OTHERS];                 /* that were answered OK; their count outlives latencies_free */
    size_t failed[N_OTHERS];                   /* otherwise, or not at all */
    char why[N_OTHERS][LKS_ERROR_MESSAGE_MAX]; /* the last of these */
} others_phase;

/* Connects those with a connection. False when they cannot. */
bool others_open(wire same, wire elsewhere);

/* They call, adding to `phase`, until others_pause. */
void others_go(others_phase *phase);

/* Each of them has been answered in this phase. May be asked while they call. */
bool others_were_served(void);

/* Returns when the calls under way have ended. */
void others_pause(void);
void others_close(void);

#endif
