/* A grant: something that a chain of calls obtains from a server and that a lease keeps. It is the first member of a
 * hold of locks, an attempt of lks_once, an entry and a reservation. This is the only code that decides which call
 * comes next; a grant_kind says what the requests and answers of its chain are.
 *
 *   ASKING --granted-----------> HELD --Complete, Fail, Confirm, Cancel--> ENDED
 *      |\----refused, failed----------------------------------------------> /
 *      \-----grant_cancel------> CANCELLED
 *
 * The chain while ASKING: `begin`; then `confirm`, if the answer asks for it; then `give_back`, if something may have
 * been granted that the caller does not get. When ASKING ends, the caller gets the result. A chain that was CANCELLED
 * gives back what it obtains.
 *
 * A hold and an entry are freed when they are released or left. A reservation that was perhaps sold is ENDED, and HELD
 * again when a later Confirm says that it is not sold. */
#ifndef LOCKSTOCK_CLIENT_LEASE_GRANT_H
#define LOCKSTOCK_CLIENT_LEASE_GRANT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstock/call.h>

#include "client/lease/lease.h"

typedef enum grant_state { GRANT_ASKING, GRANT_HELD, GRANT_ENDED, GRANT_CANCELLED } grant_state;

struct grant;

/* The answer to a call of a chain: on the completion thread, or in grant_send when the grant waits. `response` is NULL
 * unless code is LKS_OK. */
typedef void grant_next(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error);

typedef enum grant_call_kind {
    GRANT_ASKS,      /* a cancel ends it, unless the grant `asks_on`; it does not insist, all others do */
    GRANT_CONFIRMS,  /* a cancel ends it */
    GRANT_ENDS,      /* a cancel does not end it */
    GRANT_BACKGROUND /* like GRANT_ENDS; no thread waits for it, also when the grant waits */
} grant_call_kind;

/* How a request is sent. A cancelled grant does not send what a cancel ends. */
struct grant_call {
    grant_call_kind kind;
    uint32_t timeout_ms;         /* 0: the channel's */
    grant_next *next;            /* NULL, with GRANT_BACKGROUND: the answer is not used by the chain */
    struct lease_batch *renewal; /* that gets the answer; NULL: none */
};

/* Builds a request and sends it with grant_send. */
typedef lks_code grant_request(struct grant *grant, const struct grant_call *call, lks_error *error);

/* What the answer of a server means. */
typedef enum grant_answer {
    GRANT_FAILED,      /* granted or not: unless error.applied is NO, it is given back in the background */
    GRANT_REFUSED,     /* this try; if an earlier one is in doubt, it is given back before the caller gets the result */
    GRANT_NOTHING,     /* neither this try nor an earlier one is granted */
    GRANT_UNCONFIRMED, /* granted, if `confirm` says so */
    GRANT_GRANTED
} grant_answer;

typedef struct grant_kind {
    grant_request *begin;
    /* Reads the answer. Sets left_ms if it is granted, otherwise the error. */
    grant_answer (*begun)(struct grant *grant, const ProtobufCMessage *response);
    grant_request *confirm; /* also renews the lease */
    /* Reads the answer: how long the lease has to run; 0: it has ended. */
    int64_t (*left_ms)(const struct grant *grant, const ProtobufCMessage *response);
    /* The lease could not be confirmed. answered: it has ended; otherwise the call failed, and the error is set. */
    grant_answer (*unconfirmed)(struct grant *grant, bool answered);
    grant_request *give_back;
    uint32_t give_back_ms; /* the timeout of give_back in the background */
    /* The answer to the `give_back` of a call that was refused. */
    void (*given_back)(struct grant *grant, const ProtobufCMessage *response);
    /* Runs once unless the grant is cancelled: the caller gets the result. */
    void (*settled)(struct grant *grant);
    void (*fini)(struct grant *grant); /* frees what it points to; NULL: nothing */
} grant_kind;

struct grant {
    struct lease lease; /* its references are those of the whole object: the owner's, and one for each call under way */
    const grant_kind *kind;
    bool asks_on; /* constant: a cancel does not end the first call */
    bool waits;   /* a thread waits, and calls run on it, which is fastest; constant while a call is under way */
    _Atomic grant_state state;
    uint64_t until_ns; /* for all calls together; CLOCK_NEVER: each call has the channel's timeout */

    /* Set by the chain. */
    grant_answer answer;
    lks_error error; /* of the last operation */
    int64_t left_ms; /* of the lease, from sent_ns */
    uint64_t sent_ns, confirm_sent_ns;

    pthread_mutex_t lock;
    lks_call *call; /* the call that a cancel ends; under the lock */
};

/* The kind of a lease that `confirm` renews; and its functions, for other kinds. */
extern const lease_kind grant_lease;
lks_code grant_renew(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error);
void grant_free_lease(struct lease *lease);

/* timeout_ms of the whole chain; 0 = the channel's for each call. The object is one allocation that was zeroed,
 * and the constant fields and those of the lease must be set. Fails as lease_expect does; then it is freed. */
lks_code grant_init(struct grant *grant, uint32_t timeout_ms, lks_error *error);

/* For grant_request. If the call cannot start, this function fails, and `next` does not run. */
lks_code grant_send(struct grant *grant, const struct grant_call *call, const lks_rpc_method *method,
                    const ProtobufCMessage *request, lks_error *error);

/* Sends a request; `next` also gets the error of a call that cannot start. */
void grant_step(struct grant *grant, grant_request *request, const struct grant_call *call);

/* Run and start the chain, with a call in which the server waits for wait_ms. grant_start fails as grant_send does; then
 * the grant is freed. */
void grant_run(struct grant *grant, uint32_t wait_ms);
lks_code grant_start(struct grant *grant, uint32_t wait_ms, lks_error *error);

/* Cancels the chain. Returns true once, unless the caller gets the result: it then reports *error, which is
 * CANCELLED. */
bool grant_cancel(struct grant *grant, lks_error *error);

/* Whether the answer came so late that the lease, counted from the sending, may have ended. */
bool grant_is_late(const struct grant *grant);

/* The timeout of a call: the rest of the chain's time, but `most_ms` at most; most_ms 0: the channel's timeout. */
uint32_t grant_timeout_ms(const struct grant *grant, uint64_t most_ms);

/* Sends the request that ends a grant. timeout_ms, the channel's at most, is from now on that of the chain. 0: as long
 * as the lease, the channel's at least, because work whose result is not stored is done again. */
void grant_end(struct grant *grant, uint32_t timeout_ms, grant_request *request, grant_next *next);

/* Repeats in the background the request of a grant_end that failed, if it had a timeout_ms. */
void grant_end_later(struct grant *grant, grant_request *request);

/* Sets whether it is held. The chain has settled it. */
void grant_set_held(struct grant *grant, bool held);

/* Sends the `give_back` in the background. If it cannot be sent, the lease ends by itself. */
void grant_give_back_later(struct grant *grant);

/* Ends the lease, gives back in the background what is HELD, and drops the owner's reference. Does nothing in a forked
 * child. Takes NULL. */
void grant_free(struct grant *grant);

#endif
