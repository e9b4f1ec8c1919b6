/* The rounds of a StockService call, above all those of a group in buckets: one item that is kept in n groups and a
 * pool (functions/stock_moves.lua), and its units that move between them.
 *
 * A method plans its own call, CALL, and reads the last reply in its finish, when the transfer is DONE. In between the
 * transfer runs other steps, of which each has a row in the table of stock_transfer.c. Two functions of the method
 * decide where to go: `replied` when its own call has a reply, `looked` when all buckets were looked at.
 *
 *    CALL --reply--> replied --+--> DONE: the method's finish
 *     ^                        |
 *     |                        v            has a bucket lost its settings, or are units under way (transfer_settle):
 *     +----- looked <-------- LOOK            UPDATE -> LOOK
 *     |         |              ^              RECEIVE -> ACKNOWLEDGE -> LOOK
 *     |         v              |
 *     |       SEND -------> RECEIVE -------> ACKNOWLEDGE
 *     |                        |
 *     +-- the next CALL acknowledges the units
 *
 * A step may run again, in this call or another one, and has no effect of the method: units only move, and each move
 * has an id. */
#ifndef LOCKSTOCK_SERVER_STOCK_TRANSFER_H
#define LOCKSTOCK_SERVER_STOCK_TRANSFER_H

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

/* Return the transfer of a call. transfer_in makes it if there is none. */
transfer *transfer_in(plan *p);
transfer *transfer_of(const answer *a);

/* In prepare: sets the group of the call. The second one does not use this server's memory: it asks the group. */
transfer *transfer_begin(plan *p, const char *group);
transfer *transfer_begin_asked(plan *p, const char *group);

/* Like plan_call; if the group is in buckets the call goes to the bucket of the order, or to the pool (order_id
 * NULL). */
void transfer_call(plan *p, const plan_function *function, const char *group, const char *only, const char *order_id,
                   size_t each_max);

/* Runs before the finish of every method. Returns false if there is no answer yet, or the call failed. */
bool transfer_finished(const ProtobufCMessage *request, answer *a);

/* In finish: makes the method's call again. */
void transfer_again(answer *a);

/* Makes room for the lines of an order. */
void transfer_set_lines(lks_rpc_arena *arena, transfer_order *order, size_t n);

/* Used in stock_transfer.c: asks the group when nothing was found and this server only remembers that the group is in
 * buckets. */
transfer_step transfer_ask_group(answer *a, transfer *t);

/* ---- stock_moves.c ---- */

/* Look at all buckets; then `looked` decides. In prepare the first one plans the look in place of the method's call. */
void transfer_plan_look(plan *p, transfer *t, const char *const *skus, size_t n, transfer_decide *looked);
transfer_step transfer_look(transfer *t, const char *const *skus, size_t n, transfer_decide *looked);

/* Plans a call in a bucket, or the pool (0), that is not an effect of the method. */
void transfer_plan_call(plan *p, const transfer *t, const plan_function *function, unsigned bucket, size_t each_max);

/* In `looked`: finishes moves under way, and gives buckets the pool's settings. DONE: nothing was left to do. */
transfer_step transfer_settle(transfer *t);

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

#endif
