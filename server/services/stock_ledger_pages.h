/* StockService: the ledger of a group, or those of its n buckets and the pool, read as one. An entry that has the id
 * ms-seq in bucket k has ms-(seq * SHIFT + k) in the group: so ids of the group are unique, and those of each bucket
 * increase.
 *
 * Invariant: an answer is final: no bucket can write an entry later that belongs before one that was given. A bucket's
 * reply has a time, and its later entries have no earlier id; only entries from before the earliest of these times are
 * given.
 *
 * A reader continues from a position: "ms-seq,ms-seq,...", the last id that was read of the pool and of each bucket.
 * Each ledger has given its own id, so a ledger that has lost its history answers TRIMMED, and a bucket whose clock was
 * set back continues from its own position. A single id of the group is accepted as well: to the buckets that have not
 * given it, it is a moment. */
#ifndef LOCKSTOCK_SERVER_STOCK_LEDGER_PAGES_H
#define LOCKSTOCK_SERVER_STOCK_LEDGER_PAGES_H

#include "lockstock/v1/stock.lks.h"
#include "services/service.h"

/* Returns where to continue in the ledger of bucket k. n 0: the group is not in buckets. */
typedef struct ledger_place {
    const char *id;
    bool loose; /* this ledger need not have used the id */
} ledger_place;

ledger_place ledger_place_in(lks_rpc_arena *arena, unsigned n, unsigned k, const char *after);

typedef enum ledger_reading {
    LEDGER_READ,
    LEDGER_WAITS,   /* no ledger has an entry, and the server waits at all of them */
    LEDGER_TOO_NEW, /* read, but more entries follow that are not final yet */
} ledger_reading;

/* Reads the replies of stock_read_ledger, one for each ledger. */
ledger_reading ledger_read(answer *a, unsigned n_buckets, size_t limit, lks_read_ledger_response *response);

#endif
