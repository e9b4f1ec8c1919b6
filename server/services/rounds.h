/* The rounds of one call: a plan, its store calls, their replies, and then an answer, another round or a wait. The
 * caller makes the store calls, so dispatch, the tests of the services and the fuzzer run the same code.
 *
 *   rounds_plan --> rounds_start --> CALLS --rounds_reply, of each call--> ANSWERED or FAILED
 *                                      ^                |
 *                                      |<- next round --+
 *                                      |                |
 *                                      \- rounds_wake - WAITS <--rounds_unpack-- packed */
#ifndef LOCKSTOCK_SERVER_ROUNDS_H
#define LOCKSTOCK_SERVER_ROUNDS_H

#include "services/service.h"

typedef enum rounds_state {
    ROUNDS_CALLS,    /* make the store calls of `plan` */
    ROUNDS_EXPECTS,  /* waits for more replies of this round */
    ROUNDS_WAITS,    /* waits for an event */
    ROUNDS_ANSWERED, /* ended with `response` */
    ROUNDS_FAILED,   /* ended with `error` */
} rounds_state;

typedef struct rounds {
    const service_method *method;
    const ProtobufCMessage *request;
    plan plan;
    const store_value **replies;
    size_t missing;        /* replies that have not come */
    bool any_succeeded;    /* a call of this round succeeded */
    bool had_effect;       /* an earlier round had an effect */
    bool has_waited;       /* the store may have an entry of the call that an answer would end */
    service_alarm *alarms; /* requested by the last step */
    const ProtobufCMessage *response;
    uint64_t units; /* answer.units, of an answer */
    lks_error error;
} rounds;

/* Plans the first round. The caller may read its store calls before rounds_start. `settings` is a plan whose arena, ns,
 * server, service, state, now_ns and repeat_ms are set. Returns false if FAILED. Everything is in the arena. */
bool rounds_plan(rounds *r, const service_method *method, const ProtobufCMessage *request, const plan *settings);

/* The steps. now_ns: CLOCK_MONOTONIC. A result's value lives in the arena; its message is copied. */
rounds_state rounds_start(rounds *r, uint64_t now_ns);
rounds_state rounds_reply(rounds *r, size_t call, const store_result *result, uint64_t now_ns);
rounds_state rounds_wake(rounds *r, service_event event, uint64_t now_ns);

/* A call that WAITS, packed: its request and the values that a plan cannot compute again. */
typedef struct rounds_packed rounds_packed;

/* Packs a call into `place`, which has rounds_packed_bytes bytes. The call's arena is not needed any more. */
size_t rounds_packed_bytes(const rounds *r);
void rounds_pack(const rounds *r, rounds_packed *place);

/* Unpacks a call, which WAITS, into the arena of `settings`, a plan whose arena, server, service, state and now_ns are
 * set. `packed` must outlive the call. The only step that may follow is rounds_wake. */
void rounds_unpack(rounds *r, const service_method *method, const rounds_packed *packed, const plan *settings);

/* Returns the function to call in the store after the call has FAILED; NULL: none. */
const service_alarm *rounds_undo(const rounds *r);

#endif
