/* Slows down addresses whose connections broke the protocol. Each such connection adds a second to the penalty of
 * its address. An address with a large penalty may open new connections only at a limited rate: a connection that
 * comes too early is delayed, and refused when the delay would be too long. An address is never banned, because
 * honest clients may share it behind a proxy or NAT. No I/O; memory is bounded. */
#ifndef LOCKSTOCK_NET_ADMISSION_PENALTIES_H
#define LOCKSTOCK_NET_ADMISSION_PENALTIES_H

#include <stdbool.h>
#include <stdint.h>

#include "net/admission/places.h"

enum {
    PENALTY_MS = 1000,         /* for each connection that broke the protocol */
    PENALTIES_FREE_MS = 10000, /* a penalty up to this has no effect */
    PENALTIES_OWED_MAX_MS = 60000,
    PENALTIES_INTERVAL_MS = 5,    /* between new connections of a limited address */
    PENALTIES_WAIT_MAX_MS = 5000, /* the longest delay; clients behind one address may come all at once */
    PENALTIES_ADDRESSES = 4096,   /* the oldest offender makes room for a new one */
};

typedef struct penalties penalties;

/* NULL when out of memory. */
penalties *penalties_new(void);

/* Takes NULL. */
void penalties_free(penalties *all);

/* A connection from `from` broke the protocol. now_ms: of any clock that does not step back. */
void penalties_add(penalties *all, const place_origin *from, uint64_t now_ms);

/* A new connection from `from`. *wait_ms: how long to delay it. False: refuse it. */
bool penalties_let_in(penalties *all, const place_origin *from, uint64_t now_ms, uint64_t *wait_ms);

/* A delayed connection closed before its delay ended: later connections wait less. */
void penalties_cancel_wait(penalties *all, const place_origin *from);

#endif
