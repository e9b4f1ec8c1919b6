/* Groups in buckets: an item that is kept in n groups and a pool, and its units that move between them
 * (functions/stock_moves.lua has the keys). Private to stock*.c.
 *
 * A call learns the number of buckets from its group, which is asked first and answers BUCKETED, or from what this server
 * remembers of an earlier answer; a memory that is wrong finds nothing, and then the group is asked.
 *
 *   look: all buckets and the pool --> set: buckets that lack the item, or its settings
 *     ^                            \-> send: from the richest --> receive --> sent, and the method's own call again
 */
#ifndef LOCKSTOCK_SERVER_STOCK_BUCKETS_H
#define LOCKSTOCK_SERVER_STOCK_BUCKETS_H

#include "services/stock.h"

enum { STOCK_BUCKETS_MIN = 2, STOCK_BUCKETS_MAX = 64, STOCK_BUCKETS_LIMIT_MAX = 1000 /* of per_buyer_limit */ };

/* An item in a bucket, or in the pool. */
typedef struct bucket_item {
    bool exists; /* else `version` is that of what was deleted */
    lks_item_state state;
    int64_t available, reserved, sold, version, limit, opens_in_ms, closes_in_ms;
    int64_t born, era, opens, closes, retain;
} bucket_item;

/* Units on their way. */
typedef struct bucket_move {
    size_t sku;
    unsigned from, to;
    int64_t id, units, born;
} bucket_move;

typedef struct buckets buckets;

/* What is done with the replies of a round. True: it asked for a further round, or failed; false: the method's finish has what
 * it needs. */
typedef bool bucket_step(answer *a, buckets *b);

/* What a call knows of its group, in plan.kept. n 0: it is not in buckets. */
struct buckets {
    const char *group;
    unsigned n;
    bool known;   /* n is set */
    bool certain; /* by the group itself, in this call */
    bool applied; /* the method has had its effect */
    unsigned tries;
    bucket_step *step, *then; /* of the replies that are to come; after a look */

    const char *const *skus; /* that are looked at */
    size_t n_skus;
    bucket_item *seen; /* of each sku n + 1: the pool's, the buckets' */
    bucket_move *moves;
    size_t n_moves;

    /* of buckets_pull */
    unsigned to;
    const int64_t *wanted; /* NULL: what it has, and `missing` more */
    int64_t *total;        /* of each sku, when something is short */
    int64_t *versions;     /* of all of seen, when something was short before */
    uint64_t asked_ns;     /* from which it counts that something is short */
    bool is_short;         /* nowhere is what was wanted */
    bool came;             /* the moves were received */

    /* of stock_bucket_limits.c */
    const char *order_id, *buyer_id;
    lks_line *const *lines;
    size_t n_lines;
    int64_t claimed_at; /* 0: nothing is claimed */
    bool verified, is_over;
    bool keeps_claim;     /* when the order is refused */
    struct claim *claims; /* whose orders are looked at */
    size_t n_claims;

    /* of the methods */
    bool looked, replayed, spread, ready, must_be_new;
    int64_t missing, expected, version, lent;
};

/* What a call of StockService keeps from round to round: plan.kept. */
typedef struct stock_kept {
    int64_t known; /* stock_is_known_sold_out */
    struct listing *page;
    /* BatchGetItems of many groups: what was found, how many buckets those have that are still to be looked at, and which is */
    lks_item **items;
    unsigned *split;
    size_t at;
    buckets buckets;
} stock_kept;

stock_kept *stock_kept_of(plan *p);

/* What StockService keeps in a server. */
struct refusals;
typedef struct stock_memory {
    struct refusals *sold_out; /* NULL: it remembers none */
    struct refusals *buckets;  /* how many a group is in */
    bool any_buckets;          /* some were ever remembered */
} stock_memory;

/* The group is asked again after that. */
#define STOCK_BUCKETS_KNOWN_NS (UINT64_C(60) * 1000000000)

/* In prepare, when the group's name is good. */
buckets *stock_buckets(plan *p, const char *group);

/* The same, but the group is asked, not this server's memory. */
buckets *stock_buckets_asked(plan *p, const char *group);

/* As plan_call; where the group is in buckets the call goes to the bucket of the order, or to the pool (order_id NULL). */
void stock_call(plan *p, const plan_function *function, const char *group, const char *only, const char *order_id,
                size_t each_max);

/* 1 to n. */
unsigned stock_bucket_of(const char *order_id, unsigned n);

/* The last part of a bucket's base, "ls:{ns/group/n/name}:": 0 of the pool, and of buckets numbers whose slots lie as far apart as
 * can be, whatever the group. The same for ever: it is where the data is. */
unsigned stock_bucket_name(unsigned bucket);

/* The last call, which was placed by the group, goes to that bucket of n. */
void stock_moves_call(plan *p, unsigned n, unsigned bucket);

/* In finish. Of replies that say BUCKETED: what it says is kept, and the call is made again there. */
bool stock_is_elsewhere(answer *a);

/* In finish of a call that found nothing: where only this server's memory says that the group is in buckets, the group is
 * asked. */
bool stock_asks_group(answer *a);

/* {'BUCKETED', n} */
unsigned buckets_told(answer *a, const store_value *reply);

/* A further round. */
bool buckets_go_on(answer *a, buckets *b, service_next *next);

/* All buckets are looked at, then `then` runs. In prepare, and in finish. */
void buckets_plan_look(plan *p, buckets *b, const char *const *skus, size_t n, bucket_step *then);
bool buckets_look(answer *a, buckets *b, bucket_step *then);

const bucket_item *buckets_seen(const buckets *b, size_t sku, unsigned bucket);

/* A call at a bucket, or the pool (0), that is no effect of the method's own. */
void buckets_plan_call(plan *p, const buckets *b, const plan_function *function, unsigned bucket, size_t each_max);

/* After a look: what is under way is brought to its end, buckets get the item and its settings, and lose one that the pool has
 * deleted; then it is looked at again.
 * False: there was nothing to do. */
bool buckets_settle(answer *a, buckets *b);

/* Makes moves: units[k] of the sku from bucket k to the pool, or `units` from the pool to each bucket; then all is looked at. */
bool buckets_collect(answer *a, buckets *b, size_t sku, const int64_t *units, bucket_step *then);
bool buckets_spread(answer *a, buckets *b, size_t sku, int64_t units, bucket_step *then);

/* Bucket `to` is to have wanted[i] of skus[i]: then the method is called again. Or nothing moves any more, and not all
 * of it is there: is_short, with total[], and finish goes on. */
bool buckets_pull(answer *a, buckets *b, unsigned to, const char *const *skus, const int64_t *wanted, size_t n);

/* In prepare of a method that is called again: the moves that were received are forgotten where they came from. */
void buckets_plan_sent(plan *p);

/* The item that all buckets are together, as they were seen; NULL: there is none. */
lks_item *buckets_item(answer *a, const buckets *b, size_t sku);

/* What a bucket, or the pool, has of the item that the pool knows; 0 of one that was deleted, or that a failover has left. */
int64_t buckets_available(const buckets *b, size_t sku, unsigned k);

/* Whether all is as it was at the look before: then there was a moment between the two at which all of it was so at once. */
bool buckets_unchanged(answer *a, buckets *b);

/* Whether the counts that were seen can be of one moment. */
bool buckets_fit(const buckets *b);

/* The version of the item that all buckets are together. */
int64_t buckets_version(const buckets *b, size_t sku);

/* stock_bucket_items.c: PutItem, Adjust and DeleteItem. In prepare: starts the call of `function`, or of `in_pool`, with which
 * version it is to expect; NULL: another call was planned, with its arguments. */
const plan_function *bucket_item_call(plan *p, const char *group, const char *const *sku, const plan_function *function,
                                      const plan_function *in_pool, int32_t n, int64_t *version);

/* In finish, where the group is in buckets: true when there is no answer yet; else the item is what was seen. */
bool bucket_put_goes_on(answer *a);
bool bucket_adjust_goes_on(answer *a);

/* stock_bucket_limits.c: limits a buyer. In finish of an order that its bucket has told to claim its units first: then it is made
 * again with the claim, b->claimed_at; or is_over is set, the reply is {'OVER', {place, available...}...}, and finish goes on. */
bool buckets_claim(answer *a, buckets *b, const char *order_id, const char *buyer_id, lks_line *const *lines, size_t n);

/* In finish of an order that was refused: false when it has no claim any more. */
bool buckets_unclaim(answer *a, buckets *b);

/* stock_ledger.c: an id of a ledger, "ms-seq". */
typedef struct ledger_id {
    int64_t ms, seq;
} ledger_id;

/* What a function has read of a ledger; the entries have no id yet. */
typedef struct ledger_page {
    bool waits;
    lks_read_ledger_outcome outcome;
    const char *oldest; /* "" = none */
    int64_t time_ms;    /* what is written later has no id below it */
    const char *after;  /* the id after which was read, which this ledger has given; "0-0" = none before */
    lks_ledger_entry **entries;
    ledger_id *ids;
    size_t n;
} ledger_page;

ledger_page ledger_page_of(answer *a, const store_value *reply, size_t limit);

/* stock_bucket_ledger.c: the ledgers of n buckets and the pool as one. n 0: the group is not in buckets, and its ids are its
 * ledger's own. */
ledger_id ledger_id_of(const char *id);
const char *ledger_id_text(lks_rpc_arena *arena, ledger_id id);

/* Where to go on in bucket k's ledger, after an id of the group's, or one of each bucket; loose: it need not be an id that this
 * one has given. */
typedef struct ledger_place {
    const char *id;
    bool loose;
} ledger_place;
ledger_place ledger_place_in(lks_rpc_arena *arena, unsigned n, unsigned k, const char *after);

void read_buckets_ledger(answer *a, size_t limit, lks_read_ledger_response *response);

#endif
