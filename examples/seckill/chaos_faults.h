/* Which messages of a conversation go astray. Knows SP's request ids and
 * lockstock's frames, but no socket. Not thread-safe. */
#ifndef SECKILL_CHAOS_FAULTS_H
#define SECKILL_CHAOS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum chaos_which {
    CHAOS_REQUEST_LOST, /* the message is thrown away */
    CHAOS_REPLY_LOST,
    CHAOS_REQUEST_CUTS, /* its connection is closed in its place */
    CHAOS_REPLY_CUTS,
    CHAOS_REQUEST_TWICE, /* it arrives a second time, under another request id */
} chaos_which;

#define CHAOS_ALWAYS UINT64_MAX

/* {which, after how many, how often}. */
typedef struct chaos_fault {
    chaos_which which;
    uint64_t after;     /* so many messages are spared first */
    uint64_t times;     /* then so many are hit; CHAOS_ALWAYS = all of them */
    bool first_of_call; /* only the first message of each distinct call counts: the same
                           method and payload is the same call, however often it is sent */
} chaos_fault;

typedef enum chaos_verdict { CHAOS_PASS, CHAOS_DROP, CHAOS_CUT, CHAOS_DOUBLE } chaos_verdict;

typedef struct chaos_faults chaos_faults;

/* Requests of one connection that have no answer yet. Zero = none. */
typedef struct chaos_open_requests {
    struct chaos_open_request {
        uint32_t id;
        uint64_t call;
    } * list;
    size_t n, capacity;
} chaos_open_requests;

/* NULL when out of memory. The faults are copied. */
chaos_faults *chaos_faults_new(const chaos_fault faults[], size_t n);

/* What happens to a message; `body` is the SP message, request id first. */
chaos_verdict chaos_faults_request(chaos_faults *faults, chaos_open_requests *open, const uint8_t *body, size_t len);
chaos_verdict chaos_faults_reply(chaos_faults *faults, chaos_open_requests *open, const uint8_t *body, size_t len);

/* How many messages were hit. */
uint64_t chaos_faults_hits(const chaos_faults *faults);

/* Both take NULL or zero. */
void chaos_open_requests_clear(chaos_open_requests *open);
void chaos_faults_free(chaos_faults *faults);

#endif
