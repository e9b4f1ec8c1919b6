/* Whether many calls at once are answered as if one came after the other. Threads sell, hold, confirm, cancel, take
 * back, adjust and read a few items on two servers of one store; each call is written down: what was asked, when it
 * began and ended, what was told. Then an order of all calls is looked for in which a sequential model
 * (e2e/stock_model.h) gives each of them the same answer, number by number. The ledger has the order of those
 * that changed something; any other call must fit between two of them while it was under way.
 *
 *   sequential_calls.c     one call, or the same one on both servers at once
 *   sequential_threads.c   what a thread does
 *   sequential_witness.c   the order
 *   test_sequential.c      the tests; it alone asserts
 */
#ifndef LOCKSTOCK_TESTS_SEQUENTIAL_H
#define LOCKSTOCK_TESTS_SEQUENTIAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/v1/lock.lks_client.h>
#include <lockstock/v1/ratelimit.lks_client.h>
#include <lockstock/v1/stock.lks_client.h>

#include "e2e/stock_model.h"

enum {
    SEQ_SERVERS = 2,
    SEQ_CHANNELS = 4, /* of one server: 0 and 2, of the other: 1 and 3 */
    SEQ_GROUPS = 2,   /* in the second one the first server hears of changes by asking only */
    SEQ_TOLD_BYTES = 120,
    SEQ_LOCKS = 3,
    SEQ_BUYER_LIMIT = 1000,
    SEQ_LIMIT = 150, /* checks that are allowed in the whole test */
    /* The items, by their place in model_skus. */
    SEQ_SCARCE = 0,
    SEQ_PLENTY = 1,
    SEQ_LIMITED = 2,
};
extern const char *const sequential_groups[SEQ_GROUPS];

typedef enum op_kind { OP_DEDUCT, OP_RESERVE, OP_CONFIRM, OP_CANCEL, OP_RETURN, OP_ADJUST, OP_GET_ITEM } op_kind;

typedef struct op_line {
    int sku;
    int64_t quantity; /* Adjust: the delta; GetItem: 0 */
} op_line;

typedef struct op {
    op_kind kind;
    int group, server;
    bool fresh;
    uint32_t order; /* "o7"; Adjust: "a7" */
    uint32_t back;  /* of a Return: "r7" */
    int buyer, n_lines;
    op_line lines[MODEL_SKUS];

    uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
    lks_code code;
    int outcome; /* number of the method's own enum; 0 for Adjust and GetItem */
    bool replayed;
    char told[SEQ_TOLD_BYTES];                  /* its lines or its order, as the model tells them */
    int64_t available, reserved, sold, version; /* of an item */

    bool is_effect;     /* it stands in the ledger */
    size_t first, last; /* else where it may stand: behind so many of the ledger's effects */
    bool placed;
} op;

typedef struct sequential {
    lks_channel *channels[SEQ_CHANNELS];
    size_t calls_each;
    int64_t on_hand[MODEL_SKUS], versions[SEQ_GROUPS][MODEL_SKUS]; /* at first */
    op *ops;
    size_t room;
    atomic_size_t n_ops, n_orders, n_returns;
    atomic_int holders[SEQ_LOCKS]; /* who believe to hold the lock: one at most */
    atomic_llong fences[SEQ_LOCKS];
    atomic_size_t n_checks, n_allowed;
    atomic_size_t n_faults; /* the first one ends the threads */
    char fault[1024];
    pthread_mutex_t mutex; /* of fault */
    struct {
        size_t effects, sold_out, fresh_sold_out, older, replays;
    } seen;
} sequential;

bool sequential_open(sequential *s, size_t n_threads, size_t calls_each);
void sequential_close(sequential *s);
void sequential_fault(sequential *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- any thread ---- */

/* Makes the call and writes it down; NULL after a fault. `asked` has what was asked, and its server. */
const op *sequential_call(sequential *s, int channel, const op *asked);

/* The same call on the next channel too, of the other server, at once; that one's record is ret[1]. */
void sequential_race(sequential *s, int channel, const op *asked, const op *ret[2]);

typedef struct sequential_worker {
    sequential *all;
    uint64_t seed;
} sequential_worker;

void *sequential_run(void *arg); /* sequential_worker */

/* Whether it says that something was changed. */
bool op_had_effect(const op *o);

/* ---- one thread, when the others have ended ---- */

/* Finds the order, or writes down which call fits nowhere. */
void sequential_judge(sequential *s);

#endif
