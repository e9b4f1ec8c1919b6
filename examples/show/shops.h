/* The two shops, as a client process has them: each serves one buyer after another on each of its threads. */
#ifndef SHOW_SHOPS_H
#define SHOW_SHOPS_H

#include "crowd.h"

/* ---- lockstock's: Deduct by an order id, which is the same however often it is asked (exact.c) ---- */

typedef struct exact_shop exact_shop;

/* `client` counts from 0. With `keeps_till` a thread takes its turns at the till. The caller closes. */
lks_code exact_open(crowd *c, unsigned client, bool keeps_till, exact_shop **ret, lks_error *error);

/* Serves one buyer to its end; asks again, by the same id, as long as there is no answer. Any thread. */
void exact_buy(exact_shop *shop, size_t index);

/* Takes NULL. */
void exact_close(exact_shop *shop);

/* ---- the naive one: a lock on Redis by hand, and a count of the shelf (naive.c) ---- */

typedef struct naive_worker naive_worker;

/* The forms by name, and what they do. */
extern const char *const naive_names[NAIVE_FORMS];
extern const char *const naive_titles[NAIVE_FORMS];

/* Puts c->stock on the shelf. */
lks_code naive_put(crowd *c, lks_error *error);

/* One thread's, which alone uses it. NULL: out of memory. The caller closes. */
naive_worker *naive_open(crowd *c, unsigned client);

/* Serves one buyer to its end. When the connection breaks it begins anew, as nothing tells whether it has bought. */
void naive_buy(naive_worker *worker, size_t index);

/* Takes NULL. */
void naive_close(naive_worker *worker);

#endif
