/* The place of a group's data: one place, or n buckets and a pool (functions/stock_moves.lua has the keys). */
#ifndef LOCKSTOCK_SERVER_STOCK_PLACE_H
#define LOCKSTOCK_SERVER_STOCK_PLACE_H

#include "services/service.h"

enum { STOCK_BUCKETS_MIN = 2, STOCK_BUCKETS_MAX = 64, STOCK_BUCKETS_LIMIT_MAX = 1000 /* of per_buyer_limit */ };

/* The state of StockService in a server. */
struct recent;
typedef struct stock_memory {
    struct recent *sold_out; /* NULL: the server does not remember refusals */
    struct recent *buckets;  /* the number of buckets of groups in buckets */
    bool any_buckets;        /* `buckets` has had an entry */
} stock_memory;

/* Returns the bucket of an order, or of a buyer's claims: 1 to n. */
unsigned stock_bucket_of(const char *id, unsigned n);

/* Returns the last part of a bucket's base, "ls:{ns/group/n/name}:": 0 for the pool; names of buckets are numbers whose
 * slots are as far apart as possible, for any group. They never change: they are part of the data layout. */
unsigned stock_bucket_name(unsigned bucket);

/* Moves the last call, which was placed by the group, to that bucket of n. */
void stock_place_in_bucket(plan *p, unsigned n, unsigned bucket);

/* Returns the remembered number of buckets of the group; 0: not remembered. An old memory may be wrong, for example if
 * the store was emptied since. */
unsigned stock_remembered_buckets(const plan *p, const char *group);
void stock_remember_buckets(const answer *a, const char *group, unsigned n); /* n 0: forget */

/* Reads {'BUCKETED', n}. */
unsigned stock_buckets_in(answer *a, const store_value *reply);

#endif
