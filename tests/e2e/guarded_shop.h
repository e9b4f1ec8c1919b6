/* A shop whose methods have guards, in a process of its own (guarded_host.c). Each effect is a line in a file: "ORDER
 * ATTEMPT". What it does it prints, a line each: "running ORDER attempt=ATTEMPT", "deferred ORDER", "cancelled ORDER",
 * "stale ORDER attempt=ATTEMPT lost=1". */
#ifndef LOCKSTOCK_TESTS_GUARDED_SHOP_H
#define LOCKSTOCK_TESTS_GUARDED_SHOP_H

#include <lockstock/channel.h>
#include <lockstock/host.h>

#include "guarded.pb-c.h"

typedef Lockstock__Test__BuyRequest buy_request;
typedef Lockstock__Test__BuyResponse buy_response;

enum { SHORT_MS = 1500 }; /* the leases of Short */

typedef struct guarded_shop {
    lks_channel *channel; /* to ask about fences */
    const char *effects;  /* a file */
    const char *gate;     /* waiting handlers continue when this file exists */
} guarded_shop;

/* Buy: limit (of buyer_id, 100,000 an hour), idempotency (order_id, waits 60 s), locks (items, wait 60 s).
 * Once: idempotency alone, waits 60 s. Short: idempotency and locks with leases of SHORT_MS, waits 60 s.
 * Told: as Buy with a limit of 3 and no waits, refusals told by the outcome. Coded: the same by codes.
 * Lock: locks alone, no wait. Queue: locks alone, wait 60 s. Open: a limit that opens. Limit: one that does not.
 * Alone: a key alone, of buyer_id and order_id, in group "shop". Free: no guard. */
extern const lks_rpc_method *const guarded_methods[];
extern const size_t guarded_methods_len;

lks_rpc_service guarded_service(guarded_shop *shop);

#endif
