/* A load that creates and ends everything that the services keep, for
 * test_memory_flat.c. Main thread only: it asserts. */
#ifndef LOCKSTOCK_TESTS_MEMORY_LOAD_H
#define LOCKSTOCK_TESTS_MEMORY_LOAD_H

#include <stddef.h>

#include <lockstock/channel.h>

enum { LOAD_SERVERS = 2 };

/* One round: what it makes bears the round's number, and no other round meets it, but
 * for what stays by contract: registers, sequences. Afterwards everything is released,
 * ended or deleted, or ends by itself within `LOAD_DAYS`. */
typedef void load_round(lks_channel *const channels[LOAD_SERVERS], size_t round);

enum { LOAD_DAYS = 41 };

load_round load_locks, load_stock, load_idempotency, load_rates, load_ids;

/* Called where most is kept: looks at every key until one of that kind is there, for each
 * kind once a cycle. */
void load_look(const char *kind);

/* Fails the test unless code is LKS_OK. */
void load_ok(lks_code code, const lks_error *error, const char *what);

#endif
