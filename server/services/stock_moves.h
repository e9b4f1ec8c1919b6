/* The state of a transfer (stock_transfer.h), and its steps that look at buckets and move units between them: the calls
 * of functions/stock_moves.lua. */
#ifndef LOCKSTOCK_SERVER_STOCK_MOVES_H
#define LOCKSTOCK_SERVER_STOCK_MOVES_H

#include "functions/arguments.h"
#include "memory.h"
#include "services/stock_look.h"
#include "services/stock_place.h"

typedef enum transfer_step {
    TRANSFER_CALL,        /* the method's own call */
    TRANSFER_EXPIRE,      /* returns the units of expired holds, for a reader, which cannot write */
    TRANSFER_LOOK,        /* reads the items of all buckets and of the pool */
    TRANSFER_UPDATE,      /* gives buckets the pool's settings, and deletes their items that the pool has deleted */
    TRANSFER_SEND,        /* takes the units of `moves` out of buckets */
    TRANSFER_RECEIVE,     /* adds them at their destinations */
    TRANSFER_ACKNOWLEDGE, /* tells the sources that the units were received */
    TRANSFER_CLAIM,       /* stock_claims.h */
    TRANSFER_LOOK_AT_CLAIMS,
    TRANSFER_SETTLE_CLAIMS,
    TRANSFER_UNCLAIM,
    TRANSFER_DONE,
} transfer_step;

/* The answer to an order, as the transfer found it. */
typedef enum transfer_result {
    TRANSFER_REPLY,      /* the reply of the method's own call */
    TRANSFER_SHORT,      /* SOLD_OUT: all buckets together have too few units, see `look` */
    TRANSFER_OVER_LIMIT, /* BUYER_LIMIT: the reply of stock_claim */
    TRANSFER_REMEMBERED, /* SOLD_OUT, from this server's memory: order.remembered units are available */
} transfer_result;

typedef struct transfer transfer;

/* Returns the next step. An error in `a` ends the call, with any step. */
typedef transfer_step transfer_decide(answer *a, transfer *t);

/* An order whose lines may need units of other buckets. */
typedef struct transfer_order {
    const char *id, *buyer;
    const char **skus;   /* of each line */
    int64_t *quantities; /* of each line */
    size_t n;
    int64_t remembered;
    bool asked_again, unseen;
} transfer_order;

/* Several items, each in a separate group. Those in buckets are looked at one after another. */
typedef struct transfer_list {
    lks_item **items;  /* NULL: it does not exist. Until a look only group and sku are valid. */
    unsigned *buckets; /* > 0: the item must be looked at, in that many buckets */
    size_t n, at;
} transfer_list;

struct transfer {
    transfer_step step;
    transfer_decide *replied, *looked;
    const ProtobufCMessage *request;
    void *kept; /* state that a method keeps between rounds */
    int rounds;
    bool applied;         /* the method has had its effect */
    bool more_is_applied; /* the reply MORE means that the method has had a part of its effect */

    const char *group;  /* NULL: the call names several groups */
    unsigned n_buckets; /* 0: the group is not in buckets, or that is not known yet */
    bool is_guess;      /* n_buckets is from this server's memory; the group has not confirmed it in this call */

    bucket_look look;
    unsigned looks; /* since transfer_look */
    bucket_moves moves;
    bool call_follows;   /* CALL follows RECEIVE */
    bool unacknowledged; /* `moves` were received; CALL or ACKNOWLEDGE tells their sources */

    struct {
        unsigned to;           /* a bucket, or the pool */
        const int64_t *wanted; /* for each sku; NULL: its own units and `missing` more */
        int64_t missing;
    } pull;

    transfer_result result;
    transfer_order order;
    transfer_list list;
    struct claims *claims;    /* stock_claims.c */
    struct pool_change *pool; /* stock_pool.c */
};

/* Look at all buckets; then `looked` decides. In prepare the first one plans the look in place of the method's call. */
void transfer_plan_look(plan *p, transfer *t, const char *const *skus, size_t n, transfer_decide *looked);
transfer_step transfer_look(transfer *t, const char *const *skus, size_t n, transfer_decide *looked);

/* In `looked`: returns false if the counts cannot be from the same moment, and another look may fix that. */
bool transfer_look_is_done(const transfer *t);

/* Plans a call in a bucket, or the pool (0), that is not an effect of the method. */
void transfer_plan_call(plan *p, const transfer *t, const plan_function *function, unsigned bucket, size_t each_max);

/* In `looked`: finishes moves under way, and gives buckets the pool's settings. DONE: nothing was left to do. */
transfer_step transfer_settle(transfer *t);

/* A bucket does not know items of the order: gives it the pool's items. Then CALL. */
transfer_step transfer_update(transfer *t);

/* In `looked`: move units[k] of the first sku from bucket k to the pool; or `units` from the pool to each bucket. Then
 * LOOK. */
transfer_step transfer_collect(answer *a, transfer *t, const int64_t *units);
transfer_step transfer_spread(answer *a, transfer *t, int64_t units);

/* Bucket `to` needs wanted[i] units of skus[i] or, if wanted is NULL, `missing` more of each. `looked` is called after
 * each look, and calls transfer_pull, which makes the moves and then CALL, or returns DONE: all buckets together have
 * too few. */
transfer_step transfer_need(transfer *t, unsigned to, const char *const *skus, size_t n, const int64_t *wanted,
                            int64_t missing, transfer_decide *looked);
transfer_step transfer_pull(answer *a, transfer *t);

/* The prepare and finish of the steps, for the table in stock_transfer.c. prepare plans the store calls of a step;
 * finish reads their replies and returns the next step. */
typedef void transfer_prepare(plan *p, transfer *t);
transfer_prepare look_prepare, update_prepare, send_prepare, receive_prepare, acknowledge_prepare;
transfer_decide look_finish, send_finish, receive_finish;

#endif
