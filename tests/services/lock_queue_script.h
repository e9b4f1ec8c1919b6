/* Waiting for locks as a script, over lock_script.h: the servers of servers.h
 * park calls. Nothing moves but by a line of the test:
 *
 *     says(wait_at("S1", "T2", "a"), "QUEUED");
 *     release("T1", "");
 *     says(messages(), "S1:W T2");
 *     says(woken("S1", "T2"), "ACQUIRED");
 *
 * Main thread only. */
#ifndef LOCKSTOCK_TESTS_LOCK_QUEUE_SCRIPT_H
#define LOCKSTOCK_TESTS_LOCK_QUEUE_SCRIPT_H

#include "services/lock_script.h"
#include "services/servers.h"

/* For cmocka's setup of each test, with servers_close at the end: S1 and S2 listen. Time
 * passes by pass_seconds alone. */
int queue_reset(void **state);

/* "QUEUED", or as acquire. */
const char *wait_at(const char *server, const char *token, const char *targets);
const char *wait_for_ms(const char *server, const char *token, const char *targets, int64_t lease_ms, int64_t wait_ms);

/* Events of the calls of that token which that server parks: "QUEUED" while it still
 * waits, or as acquire. All copies are woken; of the other events, the last has it. */
const char *woken(const char *server, const char *token);
bool parks(const char *server, const char *token); /* any of them */
const char *timed_out(const char *server, const char *token);
const char *abandoned(const char *server, const char *token);

/* What the last message which granted the token its turn makes of the calls that the server parks with it. */
const char *told_of_grant(const char *server, const char *token);

/* release, by way of that server. */
const char *release_at(const char *server, const char *token, const char *names);

/* What the servers were sent since, by server, in order: "S1:W T2 S2:A a S2:R T3". */
const char *messages(void);

/* Wakes all that are told, or tells them of their grant, until nobody is; gives the tokens that acquired, in order. */
const char *deliver(void);

/* As an alarm does: ms until again, or -1. */
int64_t promote(const char *name);

/* Promotes what the servers have been asked to look at by now, in answers and in
 * messages, until nothing is due. */
void ring_alarms(void);

/* Who stands for the name: "T2 T3". */
const char *queue_of(const char *name);

/* Keys of the queue that exist: 0 when nobody waits. */
int queue_keys(void);

/* Commands that Redis has run, also those inside of functions. */
long commands_run(void);

#endif
