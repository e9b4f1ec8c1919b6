/* IdempotencyService as a script: each call of a test is one line, and what it answers
 * is one line of text in the contract's own words, to be compared as such.
 *
 *     says(begin("k", "T1"), "EXECUTE 1");
 *     says(complete("k", fence(), 200, "paid"), "STORED");
 *     says(begin("k", "T2"), "REPLAY 1 200 paid");
 *
 * "T1" is short for an attempt token of 16 bytes. All is in the scope "s". A call that
 * fails says its code, applied and message. Text and responses live until the harness
 * is reset or forgets. Main thread only. */
#ifndef LOCKSTOCK_TESTS_IDEMPOTENCY_SCRIPT_H
#define LOCKSTOCK_TESTS_IDEMPOTENCY_SCRIPT_H

#include "lockstock/v1/idempotency.lks.h"
#include "services/script.h"
#include "services/servers.h"

/* The lease of begin. Tests stay hundreds of seconds away from its end, on either side,
 * so that the time they take themselves is of no matter. */
enum { LEASE_MS = 1000000, DAY_MS = 86400000 };

/* The last response of each kind, for what the line does not say. */
extern const lks_begin_response *begun;
extern const lks_record *got;

/* "EXECUTE 1", "REPLAY 1 200 body h=v", "IN_PROGRESS 1", "MISMATCH" */
const char *begin(const char *key, const char *token);
const char *begin_of(const char *key, const char *token, const char *fingerprint, int64_t lease_ms, int64_t retain_ms);

/* The fence of the last EXECUTE. */
uint64_t fence(void);

/* "EXTENDED", "LOST" */
const char *extend(const char *key, uint64_t of_fence, int64_t lease_ms);

/* "STORED", "STORED again", "SUPERSEDED". headers: "a=1 b=2" */
const char *complete(const char *key, uint64_t of_fence, int32_t code, const char *body);
const char *complete_with(const char *key, uint64_t of_fence, int32_t code, const char *body, const char *headers);
const char *fail_retryable(const char *key, uint64_t of_fence, const char *detail);
const char *fail_final(const char *key, uint64_t of_fence, const char *detail);

/* "IN_PROGRESS 1", "COMPLETED 1 200 body h=v", "FAILED_RETRYABLE 1 (detail)", "NONE" */
const char *get(const char *key);

/* Delete: "OK" */
const char *forget(const char *key);

/* "OK", with the ticket; "CONSUMED", "CONSUMED again", "ALREADY_CONSUMED", "UNKNOWN" */
const char *issue(const char *scope, const char *subject, int64_t ttl_ms, char ticket[static 64]);
const char *consume(const char *scope, const char *subject, const char *ticket, const char *consumer);

/* What a key ("idem:r") of a record holds, as PTTL, MEMORY USAGE...: "PTTL", "idem:r", "k". */
int64_t key_number(const char *command, const char *name, const char *key);

/* ---- waiting: the servers of servers.h park calls ------------------------------- */

/* A Begin that waits: "WAITS", or as begin. */
const char *wait_at(const char *server, const char *key, const char *token);
const char *wait_of(const char *server, const char *key, const char *token, const char *fingerprint, int64_t lease_ms,
                    int64_t wait_ms);

/* Events of the call of that token which that server parks, the last of several. */
const char *woken(const char *server, const char *token);
const char *timed_out(const char *server, const char *token);
const char *abandoned(const char *server, const char *token);

/* What the servers were sent since, by server, in order: "S1:k S2:k". */
const char *messages(void);

/* Wakes all that are told, until nobody is; gives what each was answered, by server and
 * in the order of its calls: "S1 T2 EXECUTE 2, S2 T3 REPLAY 2 200 paid". */
const char *deliver(void);

/* Rings the alarm that the last wait_at asked for; ms until again. */
int64_t ring(void);

/* The same alarm for any record. */
int64_t ring_at(const char *server, const char *key);

/* Keys that tell who waits: 0 when nobody does. */
int waiting_keys(void);

#endif
