/* Words in which tests of IdService are written. Requests go through `h`; a request
 * that fails returns NULL and leaves its error in `err`. */
#ifndef LOCKSTOCK_TESTS_ID_SCRIPT_H
#define LOCKSTOCK_TESTS_ID_SCRIPT_H

#include "lockstock/v1/id.lks.h"
#include "services/id.h"
#include "services/script.h"

enum { LEASE_MS = 3000, RANGE_MS = 1000, AHEAD_MS = 1000 }; /* as in id.lua */

/* For cmocka, before each test: the store is emptied, or also old enough for grants. */
int empty_store(void **state);
int started_store(void **state);

/* ---- requests; text is not copied ---- */

const lks_next_response *next(lks_id_kind kind, const char *name, int32_t count);

/* One id, or `count` of them in order, which must not be refused. */
int64_t next_snowflake(void);
const int64_t *next_snowflakes(int32_t count);
int64_t next_of(const char *sequence);

lks_decode_response decode(int64_t id);

/* ---- checks ---- */

/* The last request failed with the code, nothing was applied, and the text begins so. */
void expect_refused(lks_code code, const char *why);

/* Redis' clock as the library sees it. */
int64_t clock_ms(void);

/* How many function calls the store has had so far. */
long store_calls(void);

#endif
