/* What a server shares out among its connections: places, bytes, turns of the loop, and penalties for addresses. lockstockd and
 * hosts have one each, owned by their streams. Loop thread only.
 *
 *   admission_enter --NULL--> has a place --admission_leave--> has bytes only --admission_forget--> gone
 *                   \--wait_ms > 0--> put off --admission_begin--> has a place
 *                    \--a reason--> refused                                                               */
#ifndef LOCKSTOCK_NET_ADMISSION_H
#define LOCKSTOCK_NET_ADMISSION_H

#include "net/admission/budget.h"
#include "net/admission/penalties.h"
#include "net/admission/places.h"
#include "net/admission/turns.h"

typedef struct admission {
    budget *budget;
    places *places;
    penalties *penalties;
    turns *turns;
} admission;

typedef struct admission_options {
    budget *budget; /* outlives it, and every share */
    places_options places;
    turns_options turns;
} admission_options;

/* A connection's part; inside its struct, zero at first. */
typedef struct guest {
    place place;
    turn_taker turn;
    budget_share *bytes;
    const place_origin *from; /* the connection's */
    bool put_off;             /* its address opens connections too often: nothing is done for it yet */
} guest;

/* False when out of memory; then admission_close frees what was made. *all is zero at first. */
bool admission_init(admission *all, const admission_options *options);

/* Frees everything. `closed` runs on the loop when it is done, or at once when there are no turns. */
void admission_close(admission *all, void (*closed)(void *arg), void *arg);

/* Gives a new connection its share of bytes. False when out of memory. */
bool admission_share(admission *all, guest *g);

/* A new connection of that wire, from there; `from` and `whose`, the origin as text, outlive the guest. Returns NULL, or why it is
 * refused. *wait_ms: how long nothing may be done for it. now_ms: of any clock that does not step back. */
const char *admission_enter(admission *all, guest *g, const char *wire, const place_origin *from, const char *whose,
                            uint64_t now_ms, uint64_t *wait_ms);

/* A connection that was put off may begin. */
void admission_begin(guest *g);

/* Whether another may take its place: while it is idle and has no principal, by its certificate or by its calls. */
void admission_set_idle(admission *all, guest *g, bool idle, bool has_certificate);

/* A call may have named the connection's principal (budget_set_principal): it takes turns with the others of that one. */
void admission_follow_principal(admission *all, guest *g);

/* The connection ends. offended: it was thrown out for what it did. */
void admission_leave(admission *all, guest *g, bool offended, uint64_t now_ms);

/* Its share is freed once all its bytes are given back. */
void admission_forget(guest *g);

#endif
