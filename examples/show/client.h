/* A client of the show: a process whose threads serve some of a shop's buyers. show.py starts it, and may kill or
 * freeze it; a new client then continues with its buyers. The client reports in lines on standard output. One write
 * prints each line, so that a killed client leaves only whole lines. */
#ifndef SHOW_CLIENT_H
#define SHOW_CLIENT_H

#include "sale.h"

typedef struct buyer {
    size_t index;
    bool asked; /* a killed client sent its order; the answer is not known */
} buyer;

/* Prints a line: "lost 17", "told 17 bought 0"; "hold" before a critical section and "done" after it. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Pays. A few buyers pay for longer than the lease of the lock by hand. */
void pay(const buyer *b);
enum { NAIVE_LEASE_MS = 60, PAY_MS = 2, PAY_SLOWLY_MS = 150, PAY_SLOWLY_ONE_IN = 40 };

/* ---- the shop by hand (naive.c) ---- */

void naive_open(const char *redis_socket);
void naive_serve(const buyer *b); /* any thread */
void naive_leave(void);           /* closes the connection of a thread before it ends */

/* ---- lockstock's shop (exact.c): Deduct with an order id, which is the same for each repeat ---- */

lks_code exact_open(const char *urls, const char *run, const char *group, size_t n_buyers, lks_error *error);
void exact_serve(const buyer *b); /* any thread */
void exact_close(void);

/* Puts the goods on sale; prints "sale RUN GROUP". */
lks_code exact_put(const char *urls, int64_t stock, size_t n_buyers, lks_error *error);

/* Reads "INDEX bought" or "INDEX sold-out" of each buyer from standard input, compares the answers with the records of
 * the servers, and prints "exact SOLD ORDERS" or "flaw WHY". */
lks_code exact_check(const char *urls, const char *run, const char *group, int64_t stock, size_t n_buyers,
                     lks_error *error);

#endif
