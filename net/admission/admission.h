/* Admits connections to a server: places, bytes, turns of the loop, and penalties of addresses. lockstockd and each
 * host have one, owned by their streams. Loop thread only.
 *
 *   admission_enter --NULL--> has a place --admission_leave--> has bytes only --budget_close--> gone
 *                   \--wait_ms > 0--> has a place, put off
 *                    \--a reason--> refused
 */
#ifndef LOCKSTOCK_NET_ADMISSION_H
#define LOCKSTOCK_NET_ADMISSION_H

#include "net/admission/budget.h"
#include "net/admission/penalties.h"
#include "net/admission/places.h"
#include "net/admission/turns.h"

typedef struct admission {
    places *places;
    penalties *penalties;
    turns *turns;
} admission;

typedef struct admission_options {
    places_options places;
    turns_options turns;
} admission_options;

/* The state of a connection; a member of its struct, zero at first. */
typedef struct guest {
    place place;
    turn_taker turn;
    budget_share *bytes;      /* from budget_open to budget_close, which the owner calls */
    const place_origin *from; /* the connection's */
    bool put_off;             /* its address opens connections too fast; nothing is done for it until the owner, after
                               * the wait, clears this */
} guest;

/* False when out of memory; then admission_close frees what was made. *all is zero at first. */
bool admission_init(admission *all, const admission_options *options);

/* Frees everything. `closed` runs on the loop when it is done, or at once when there are no turns. */
void admission_close(admission *all, void (*closed)(void *arg), void *arg);

/* Admits a new connection. `from` and `origin_text`, the origin as text, must outlive the guest. Returns NULL, or the
 * reason for a refusal. *wait_ms: how long to wait before serving it. now_ms: of any clock that does not step back. */
const char *admission_enter(admission *all, guest *g, const char *wire, const place_origin *from,
                            const char *origin_text, uint64_t now_ms, uint64_t *wait_ms);

/* Sets whether the connection is idle. A new connection may take the place of an idle one that has no principal,
 * neither from its certificate nor from its calls. */
void admission_set_idle(admission *all, guest *g, bool idle, bool has_certificate);

/* Call it after a call may have set the connection's principal (budget_set_principal): from then on the connection
 * takes turns under that principal. */
void admission_follow_principal(admission *all, guest *g);

/* The connection ends. offended: it broke the protocol. */
void admission_leave(admission *all, guest *g, bool offended, uint64_t now_ms);

#endif
