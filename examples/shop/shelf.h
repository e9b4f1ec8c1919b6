/* The shop's files: one for each kind of goods ("shelf"), and one for payments. A caller that reads a shelf and
 * writes it later overwrites what others wrote meanwhile. The shelf only refuses a write with a lower fence than it
 * has seen, as a row of a database does with WHERE fence <= ?. */
#ifndef EXAMPLE_SHOP_SHELF_H
#define EXAMPLE_SHOP_SHELF_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

#define SHELF_DELIVERY "+" /* before the id of a delivery; no name begins with it */

typedef struct shelf {
    const char *sku;
    int64_t left;
    uint64_t fence;      /* the highest seen; 0 = none */
    const char *entries; /* lines "ID WHO QUANTITY": orders, and deliveries */
} shelf;

/* 1..64 letters, digits, "-", "_" and ".", not beginning with ".". */
bool shelf_name_is_plain(const char *name);

/* LKS_NOT_FOUND: there is no such shelf. *ret points into the arena. */
lks_code shelf_read(const char *dir, const char *sku, lks_rpc_arena *arena, shelf *ret, lks_error *error);

/* Replaces the file, whole or not at all. fence 0: the caller has none and is not refused.
 * LKS_FAILED_PRECONDITION, applied NO: a higher fence has written. */
lks_code shelf_write(const char *dir, const shelf *s, uint64_t fence, lks_error *error);

/* The entry of that id, or "". */
const char *shelf_find(const shelf *s, const char *id);

/* Adds an entry. false: out of memory. */
bool shelf_add(shelf *s, lks_rpc_arena *arena, const char *id, const char *who, int64_t quantity);

/* Charges the buyer and returns the receipt; NULL with *error. Two calls charge twice. */
const char *payment_make(const char *dir, const char *id, const char *who, lks_rpc_arena *arena, lks_error *error);

/* The receipt of an order that was paid for; NULL = it was not. */
const char *payment_find(const char *dir, const char *id, lks_rpc_arena *arena);

#endif
