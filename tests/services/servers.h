/* The servers of a script where calls wait (lock_queue_script.h, idempotency_script.h):
 * "S1" to "S4" are a subscription each. Main thread only. */
#ifndef LOCKSTOCK_TESTS_SERVERS_H
#define LOCKSTOCK_TESTS_SERVERS_H

/* For cmocka, instead of script_reset and script_close: S1 and S2 listen. */
int servers_reset(void **state);
int servers_close(void **state);

/* It listens, or not: what was not read is lost; its calls stay parked. */
void server_up(const char *server);
void server_down(const char *server);

/* Gives `take` what the servers were sent since, by server ('1' to '4'), in order. */
void servers_read(void (*take)(char server, const char *text));

#endif
