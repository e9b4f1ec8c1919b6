/* Runs a function once for each key, over all processes and machines: the first caller runs it, and all others get its
 * result, byte for byte.
 *
 *     static lks_once_verdict charge(void *arg, lks_once_attempt *attempt)
 *     {
 *         const char *receipt = charge_card(arg, lks_once_fence(attempt));
 *         lks_once_return(attempt, 200, receipt, strlen(receipt));
 *         return LKS_ONCE_STORE;
 *     }
 *
 *     const lks_once_options options = {.scope = "charge", .key = order_id, .wait_ms = 2000};
 *     outcome = lks_once_run(channel, &options, charge, order, &result, &error);
 *
 * An attempt has a lease, which is renewed in the background while the function runs. A process that dies or freezes
 * loses its lease, and then the next caller runs the function again; effects of a dead process before it stored its
 * result are not undone. So if a side effect must not happen twice, use an idempotency key for it (the same key, if the
 * other side supports it), or let the resource refuse late writes by the fence. The stored result is always that of
 * exactly one attempt, and never changes.
 *
 * All functions are thread-safe; functions of an attempt may be called until its function returns, or lks_once_end is
 * called. */
#ifndef LOCKSTOCK_ONCE_H
#define LOCKSTOCK_ONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_once_attempt lks_once_attempt;

enum { LKS_ONCE_BODY_MAX = 256 * 1024, LKS_ONCE_HEADERS_MAX = 32, LKS_ONCE_DETAIL_MAX = 1024 };

/* The verdict of a function on its attempt. */
typedef enum lks_once_verdict {
    LKS_ONCE_STORE = 0, /* the result of lks_once_return is stored for all callers */
    LKS_ONCE_RETRY,     /* it failed for now: nothing is stored, and the next caller runs it again */
    LKS_ONCE_GIVE_UP    /* it failed for good: the failure is stored as the result */
} lks_once_verdict;

/* Runs on the thread that called lks_once_run. */
typedef lks_once_verdict lks_once_function(void *arg, lks_once_attempt *attempt);

typedef struct lks_once_options {
    const char *scope;       /* the kind of operation: 1..128 bytes */
    const char *key;         /* the operation: 1..255 bytes */
    const void *fingerprint; /* of the request's content: a different one for the same key is MISMATCH; may be NULL */
    size_t fingerprint_len;  /* 0..64 */
    uint32_t lease_ms;       /* how soon a dead attempt is taken over: 10..86,400,000; 0 = 30,000 */
    uint64_t retain_ms;      /* how long the result is kept; 0 = 24 hours */
    uint32_t wait_ms;        /* how long to wait while another attempt runs; at most 86,400,000 (24 hours) is used */
    uint32_t reserved;       /* 0 */
} lks_once_options;

typedef struct lks_once_header {
    const char *key, *value;
} lks_once_header;

typedef struct lks_once_result {
    int32_t code;
    const void *body; /* a NUL follows */
    size_t body_len;
    size_t n_headers;
    const lks_once_header *headers;
    const char *failure; /* of LKS_ONCE_GIVE_UP: its detail, and the code is -1; otherwise NULL */
    bool replayed;       /* the result of another attempt: the function did not run, or its result was not stored */
} lks_once_result;

typedef enum lks_once_outcome {
    LKS_ONCE_EXECUTED = 0, /* the function ran, and its result, *ret, is stored */
    LKS_ONCE_REPLAYED,     /* it ran before: *ret is its stored result */
    /* It ran and returned LKS_ONCE_RETRY; no *ret. If no server confirmed this (error->applied is not YES), it is
     * run again when the lease has expired. */
    LKS_ONCE_RETRYABLE,
    /* It ran longer than its lease, and another attempt took over: its result is dropped. *ret is the other
     * attempt's result, NULL while there is none. */
    LKS_ONCE_SUPERSEDED,
    /* It ran, and *ret is its result; no server confirmed that it is stored, so the next caller may run the function
     * again. */
    LKS_ONCE_DOUBTFUL,
    LKS_ONCE_IN_PROGRESS, /* another attempt runs; its lease ends in error->retry_after_ms unless renewed */
    LKS_ONCE_MISMATCH,    /* the key was used with another fingerprint */
    LKS_ONCE_FAILED,      /* the call failed, and the function did not run */
    LKS_ONCE_BEGUN        /* only of lks_once_begin: the caller runs the attempt and ends it */
} lks_once_outcome;

/* Runs `function` once. Blocks: at most wait_ms while another attempt runs, as long as the function runs, and, to store
 * the result, as long as the lease, or the channel's timeout if that is longer. Every transient refusal is retried for
 * that time, because work whose result is not stored will be done twice. With every outcome except the first two,
 * *error says why; error may be NULL. *ret is set with every outcome, to NULL when there is no result; free it with
 * lks_once_result_free; ret may be NULL. *ret is also NULL when out of memory for a copy. An attempt that may have
 * begun and is not run is given back in the background. LKS_ONCE_FAILED with LKS_FAILED_PRECONDITION: on a completion
 * thread, or in a forked child. */
lks_once_outcome lks_once_run_sized(lks_channel *channel, const lks_once_options *options, size_t options_bytes,
                                    lks_once_function *function, void *arg, lks_once_result **ret, lks_error *error);

static inline lks_once_outcome lks_once_run(lks_channel *channel, const lks_once_options *options,
                                            lks_once_function *function, void *arg, lks_once_result **ret,
                                            lks_error *error)
{
    return lks_once_run_sized(channel, options, sizeof(lks_once_options), function, arg, ret, error);
}

/* Takes NULL. */
void lks_once_result_free(lks_once_result *result);

/* ---- without a waiting thread ----------------------------------------------------------------------------
 * lks_once_run in two halves, each with a callback. Callbacks run once, on the channel's completion thread. A callback
 * that a cancel causes runs inside lks_once_cancel, and one of an end that cannot be sent inside lks_once_end. They
 * must not block. Close the channel after its attempts were ended or freed. */

/* Free `result` with lks_once_result_free; it may be NULL. error is valid until the callback returns. */
typedef void lks_once_done(void *arg, lks_once_outcome outcome, lks_once_result *result, const lks_error *error);

/* Starts an attempt. If `done` gets LKS_ONCE_BEGUN, the caller does the work of the function of lks_once_run, on any
 * thread, and calls lks_once_end. If it gets REPLAYED, IN_PROGRESS, MISMATCH or FAILED (with LKS_CANCELLED if the
 * channel was closed), the caller calls lks_once_free. *ret is set before `done` can run. timeout_ms is for everything,
 * including retries; 0 = the channel's, after wait_ms. Copies everything that options points to. On failure nothing was
 * started and `done` does not run: LKS_INVALID_ARGUMENT, LKS_RESOURCE_EXHAUSTED, LKS_FAILED_PRECONDITION (in a forked
 * child), LKS_CANCELLED (the channel is closing). Thread-safe; does not block. */
lks_code lks_once_begin_sized(lks_channel *channel, const lks_once_options *options, size_t options_bytes,
                              uint32_t timeout_ms, lks_once_done *done, void *arg, lks_once_attempt **ret,
                              lks_error *error);

static inline lks_code lks_once_begin(lks_channel *channel, const lks_once_options *options, uint32_t timeout_ms,
                                      lks_once_done *done, void *arg, lks_once_attempt **ret, lks_error *error)
{
    return lks_once_begin_sized(channel, options, sizeof(lks_once_options), timeout_ms, done, arg, ret, error);
}

/* Cancels beginning: unless `done` has run or is about to, runs it now, on this thread, with LKS_ONCE_FAILED and
 * LKS_CANCELLED. An attempt that still begins is given back in the background. Thread-safe; does not block. */
void lks_once_cancel(lks_once_attempt *attempt);

/* Ends an attempt that has begun, and frees it when `done` has returned; `done` gets EXECUTED, RETRYABLE, SUPERSEDED
 * or DOUBTFUL. timeout_ms: how long to try, the channel's timeout at most; 0 = as long as lks_once_run. If it is not 0,
 * trying continues in the background, as long as the lease, at least 30 s. Does not block. */
void lks_once_end(lks_once_attempt *attempt, lks_once_verdict verdict, uint32_t timeout_ms, lks_once_done *done,
                  void *arg);

/* Frees an attempt after `done` has run. An attempt that has begun is given back in the background, so that the next
 * caller runs it. Takes NULL. */
void lks_once_free(lks_once_attempt *attempt);

/* For the function: sets its result; copies it; a later call replaces it. LKS_INVALID_ARGUMENT: more than
 * LKS_ONCE_BODY_MAX bytes, or more than a message of the channel holds with the headers (message_bytes_max);
 * LKS_RESOURCE_EXHAUSTED: out of memory. On failure the previous result stays. */
lks_code lks_once_return(lks_once_attempt *attempt, int32_t code, const void *body, size_t len);

/* Adds a header to the result; copies it. The key has 1..128 bytes and does not begin with "lockstock-", the value up
 * to 4,096 bytes; both are UTF-8. LKS_INVALID_ARGUMENT: the header is invalid, there are already LKS_ONCE_HEADERS_MAX,
 * or the result would be too long; then it is not added. */
lks_code lks_once_add_header(lks_once_attempt *attempt, const char *key, const char *value);

/* Sets the reason of a failure, for LKS_ONCE_RETRY and LKS_ONCE_GIVE_UP: copied, and cut to LKS_ONCE_DETAIL_MAX bytes
 * at a whole character. LKS_INVALID_ARGUMENT: not UTF-8; the previous reason stays. */
lks_code lks_once_set_detail(lks_once_attempt *attempt, const char *detail);

/* True once another attempt may take over, or has: the function should stop. Does not block, sends nothing. */
bool lks_once_is_lost(const lks_once_attempt *attempt);

/* 1 for the key's first attempt; a later attempt may find effects of a dead one. */
int64_t lks_once_number(const lks_once_attempt *attempt);

/* Greater than that of every earlier attempt, for a resource that refuses late writes. */
uint64_t lks_once_fence(const lks_once_attempt *attempt);

#ifdef __cplusplus
}
#endif

#endif
