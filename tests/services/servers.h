/* The servers of a script where calls wait: "S1" to "S4" are a subscription each, and park calls. Nothing moves but by
 * a line of the test. Main thread only. */
#ifndef LOCKSTOCK_TESTS_SERVERS_H
#define LOCKSTOCK_TESTS_SERVERS_H

#include "services/script.h"

enum { WAIT_MS = 80000000, TEXT_BYTES = 65536 };

/* For cmocka, instead of script_reset and script_close: S1 and S2 listen, and nobody waits. */
int servers_reset(void **state);
int servers_close(void **state);

/* It listens, or not: what was not read is lost; its calls stay parked. */
void server_up(const char *server);
void server_down(const char *server);

/* Gives `take` what the servers were sent since, by server ('1' to '4'), in order. */
void servers_read(void (*take)(char server, const char *text));

/* ---- calls that wait ---- */

typedef struct parked {
    char server[4], key[32], token[16];
    harness_waiting *call;
} parked;

/* Starts a call; it may be answered at once. Key and token are for finding it. */
const parked *park(const char *server, const char *key, const char *token, const void *request);

bool is_waiting(const parked *p);

/* Of a server and a token, the last that waits; where none does any more, the last that did. */
const parked *find(const char *server, const char *token);

/* The i-th of all that were started; NULL behind the last. */
const parked *parked_at(size_t i);

/* What an event makes of it. */
void happen(const parked *p, service_event event);

/* What a wake message with the reply makes of it. */
void happen_with(const parked *p, const char *numbers);

#endif
