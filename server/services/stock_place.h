/* Where the data of a group is: in one place, or in n buckets and a pool (functions/stock_moves.lua has the keys). */
#ifndef LOCKSTOCK_SERVER_STOCK_PLACE_H
#define LOCKSTOCK_SERVER_STOCK_PLACE_H

#include "services/service.h"

enum { STOCK_BUCKETS_MIN = 2, STOCK_BUCKETS_MAX = 64, STOCK_BUCKETS_LIMIT_MAX = 1000 /* of per_buyer_limit */ };

/* What StockService keeps in a server. */
struct recent;
typedef struct stock_memory {
    struct recent *sold_out; /* NULL: the server does not remember recent */
    struct recent *buckets;  /* the number of buckets of groups that have some */
    bool any_buckets;        /* some number was put there */
} stock_memory;

/* The bucket of an order, or of a buyer's claims: 1 to n. */
unsigned stock_bucket_of(const char *id, unsigned n);

/* The last part of a bucket's base, "ls:{ns/group/n/name}:": 0 of the pool; names of buckets are numbers whose slots
 * lie as far apart as possible, whatever the group. They never change: they are part of the data layout. */
unsigned stock_bucket_name(unsigned bucket);

/* Places the last call, which was placed by the group, in that bucket of n. */
void stock_place_in_bucket(plan *p, unsigned n, unsigned bucket);

/* How many buckets the group has, as far as this server remembers; 0: it does not. Old memories may be wrong, as when
 * the store was emptied since. */
unsigned stock_remembered_buckets(const plan *p, const char *group);
void stock_remember_buckets(const answer *a, const char *group, unsigned n); /* n 0: forget */

/* Reads {'BUCKETED', n}. */
unsigned stock_buckets_in(answer *a, const store_value *reply);

#endif
