/* Addresses whose connections were thrown out for what they did. Each such connection costs
 * its address a second; who owes much may open new connections at a limited rate only: one
 * that comes too early is put off for as long as it came too early, and where that is
 * too long it is refused. Never a ban: the address may be a proxy or a NAT that honest peers
 * share. Sans I/O; what is kept is bounded. */
#ifndef LOCKSTOCK_NET_ADMISSION_PENALTIES_H
#define LOCKSTOCK_NET_ADMISSION_PENALTIES_H

#include <stdbool.h>
#include <stdint.h>

#include "net/admission/places.h"

enum {
    PENALTY_MS = 1000,         /* owed for each connection that was thrown out */
    PENALTIES_FREE_MS = 10000, /* who owes no more is not bound */
    PENALTIES_OWED_MAX_MS = 60000,
    PENALTIES_INTERVAL_MS = 5,    /* between the new connections of who is bound */
    PENALTIES_WAIT_MAX_MS = 5000, /* many come at once behind one address: who waits comes in */
    PENALTIES_ADDRESSES = 4096,   /* the one that was thrown out longest ago is forgotten for one more */
};

typedef struct penalties penalties;

/* NULL when out of memory. */
penalties *penalties_new(void);

/* Takes NULL. */
void penalties_free(penalties *all);

/* A connection from there was thrown out. now_ms: of any clock that does not step back. */
void penalties_add(penalties *all, const place_origin *from, uint64_t now_ms);

/* A new connection from there: how long it has to wait before anything is done for it. False: it is
 * refused. */
bool penalties_let_in(penalties *all, const place_origin *from, uint64_t now_ms, uint64_t *wait_ms);

/* One that had to wait left before: those who come next wait less. */
void penalties_left(penalties *all, const place_origin *from);

#endif
