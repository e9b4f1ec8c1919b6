/* The crowd, twice: each buyer wants one phone of the naive shop, and one of lockstock's, at the same moments. It is
 * memory that show and its clients share. A buyer is written by the one client that it belongs to, so whatever
 * was told to it is kept when that client is killed: it is the buyer's own receipt. */
#ifndef SHOW_CROWD_H
#define SHOW_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

typedef enum shop_side { NAIVE, EXACT, SIDES } shop_side;

enum { CLIENTS = 4, CLIENT_THREADS = 8, SERVERS = 2 };

typedef enum naive_form { NAIVE_SETNX, NAIVE_GETSET, NAIVE_DECR, NAIVE_FORMS } naive_form;

/* From BUYER_BOUGHT on nothing changes any more. */
typedef enum buyer_state {
    BUYER_AWAY,
    BUYER_ASKS, /* it came, and was told nothing yet */
    BUYER_BOUGHT,
    BUYER_SOLD_OUT,
    BUYER_NO_ANSWER, /* it gave up */
    BUYER_WRONG,     /* an answer that no flash sale should give */
} buyer_state;

typedef struct buyer {
    _Atomic uint8_t state;
    atomic_bool lost;           /* an answer was lost at least once: it may have bought, or not */
    atomic_bool replayed;       /* was told an answer that had been given before */
    _Atomic uint32_t waited_ms; /* from its arrival to its answer */
} buyer;

typedef struct crowd {
    /* Written before the first client is started. */
    size_t n_buyers;
    int64_t stock;
    int64_t run_ms; /* over which they come */
    naive_form form;
    char run[24]; /* of the flash_sale that lockstock sells, as the two next */
    char group[48];
    char sku[48];
    char redis[108];          /* the naive shop's socket */
    char urls[SERVERS][128];  /* lockstock's */
    _Atomic int64_t opens_ms; /* CLOCK_MONOTONIC at which the first buyers come; 0 = not yet */

    atomic_uint ready;           /* clients that were */
    atomic_uint asking[CLIENTS]; /* calls under way at lockstock, of each client */
    /* The client, counted from 1, that is sure to write yet under the lock it took; 0 = none. NAIVE: the shelf's
     * new count; EXACT: the till. */
    atomic_uint holder[SIDES];

    _Atomic int64_t naive_left;      /* the naive shop's last count of the shelf */
    _Atomic int64_t naive_answer_ms; /* when it told a buyer something */
    atomic_bool naive_stuck;         /* its lock is never given back: buyers give up */

    /* The till: a thing that refuses a lower fence than the highest that wrote to it. */
    _Atomic uint64_t till_fence;
    atomic_uint till_writes, till_late;

    buyer buyers[]; /* SIDES * n_buyers */
} crowd;

/* What became of a side's buyers: the first five add up to all. */
typedef struct totals {
    size_t away, asks, bought, sold_out, no_answer; /* no_answer: BUYER_WRONG too */
    size_t wrong;
    size_t lost, known; /* whose answer was lost; of these, who has one now */
    size_t replayed;
} totals;

/* Memory for so many; `*fd` is to be inherited by clients. LKS_RESOURCE_EXHAUSTED. */
lks_code crowd_new(size_t n_buyers, int *fd, crowd **ret, lks_error *error);

/* A client's view of what it inherited; NULL when it is none. */
crowd *crowd_attach(int fd);

buyer *crowd_buyer(crowd *c, shop_side side, size_t index);
bool buyer_is_done(const buyer *b);
totals crowd_totals(crowd *c, shop_side side);

/* When buyer `index` comes, by CLOCK_MONOTONIC. They come in waves, and both sides' at once. */
int64_t crowd_arrival_ms(const crowd *c, size_t index);

/* Pays: a few pay slowly, longer than the lease of the naive lock. Blocks. */
void crowd_pay(size_t index);
enum { NAIVE_LEASE_MS = 60, PAY_MS = 2, PAY_SLOWLY_MS = 150, PAY_SLOWLY_ONE_IN = 40 };

/* Writes to the till; false, late: a higher fence has written. */
bool crowd_write_till(crowd *c, uint64_t fence);

/* How many more a side has sold than it had. */
size_t crowd_oversold(const crowd *c, const totals *t);

/* Sales of the naive shop that its own count of the shelf has missed so far: two buyers read the same number. */
size_t crowd_missed(const crowd *c, const totals *naive);

#endif
