/* What the shop keeps: a file for each kind of goods ("shelf"), and one in which payments are noted. It is ordinary: who
 * reads a shelf, thinks and writes it overwrites what others wrote meanwhile. The one thing that it can do is to refuse
 * a write with a lower fence than it has seen, as a row of a database would with WHERE fence <= ?. */
#ifndef EXAMPLE_SHOP_SHELF_H
#define EXAMPLE_SHOP_SHELF_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

#define SHELF_DELIVERY "+" /* before the id of a delivery, which no name has */

typedef struct shelf {
    const char *sku;
    int64_t left;
    uint64_t fence;      /* the highest seen; 0 = none */
    const char *entries; /* lines "ID WHO QUANTITY": orders, and deliveries */
} shelf;

/* 1..64 letters, digits, "-", "_" and ".", not beginning with ".". */
bool shelf_name_is_plain(const char *name);

/* LKS_NOT_FOUND: there is none. What *ret points to is in the arena. */
lks_code shelf_read(const char *dir, const char *sku, lks_rpc_arena *arena, shelf *ret, lks_error *error);

/* Replaces the file, whole or not at all. fence 0: of somebody who has none, and is not refused.
 * LKS_FAILED_PRECONDITION, applied NO: a higher fence was here. */
lks_code shelf_write(const char *dir, const shelf *s, uint64_t fence, lks_error *error);

/* The entry of that id; "" = there is none. */
const char *shelf_find(const shelf *s, const char *id);

/* The quantity of an entry; 0 of "". */
int64_t shelf_quantity(const char *entry);

/* The same with an entry more, or, where there is one of the id, with that changed. false: out of memory. */
bool shelf_set(shelf *s, lks_rpc_arena *arena, const char *id, const char *who, int64_t quantity);

/* Charges somebody for an order, and gives the receipt; NULL with *error. Called twice, it charges twice. */
const char *payment_make(const char *dir, const char *id, const char *who, lks_rpc_arena *arena, lks_error *error);

/* The receipt of an order that was paid for; NULL = it was not. */
const char *payment_find(const char *dir, const char *id, lks_rpc_arena *arena);

#endif
