/* Runs a function once for each key, over all processes and machines: the first caller
 * runs it, all others get what it returned, byte for byte.
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
 * An attempt is kept by a lease, which is renewed in the background while the function
 * runs. A process that dies or freezes loses its lease, and then the next caller runs
 * the function again: what a dead process did before it could store its result is not
 * undone. So a side effect that must not happen twice is to be keyed itself (by the
 * same key, where the other side can), or refused by fence where a late one comes after
 * its successor's. What is stored is always one attempt's result, and always the same.
 *
 * All functions are thread-safe; those of an attempt until its function returns, or
 * lks_once_end is called. */
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

/* What a function says of its attempt. */
typedef enum lks_once_verdict {
    LKS_ONCE_STORE = 0, /* what was given to lks_once_return is the result, for all who ask */
    LKS_ONCE_RETRY,     /* it failed for now: nothing is stored, and the next caller runs it again */
    LKS_ONCE_GIVE_UP    /* it failed for good: that is the result */
} lks_once_verdict;

/* Runs on the thread that called lks_once_run. */
typedef lks_once_verdict lks_once_function(void *arg, lks_once_attempt *attempt);

typedef struct lks_once_options {
    const char *scope;       /* what kind of thing: 1..128 bytes */
    const char *key;         /* which one: 1..255 bytes */
    const void *fingerprint; /* of the request's content: another one for the same key is MISMATCH; may be NULL */
    size_t fingerprint_len;  /* 0..64 */
    uint32_t lease_ms;       /* how soon a dead attempt is taken over: 10..86,400,000; 0 = 30,000 */
    uint64_t retain_ms;      /* how long the result is kept; 0 = 24 hours */
    uint32_t wait_ms;        /* how long to wait while another attempt runs; over 86,400,000 (24 hours) is that */
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
    const char *failure; /* of LKS_ONCE_GIVE_UP: its detail, and the code is -1; else NULL */
    bool replayed;       /* another attempt's: the function did not run, or its result was not stored */
} lks_once_result;

typedef enum lks_once_outcome {
    LKS_ONCE_EXECUTED = 0, /* the function ran, and *ret, what it returned, is stored */
    LKS_ONCE_REPLAYED,     /* it ran before: *ret is what it returned then */
    LKS_ONCE_RETRYABLE,    /* it ran and returned LKS_ONCE_RETRY; no *ret. If no server knows it
                              (error->applied is not YES), it is run again when the lease is over */
    LKS_ONCE_SUPERSEDED,   /* it ran for longer than it had its lease, and another attempt took over: what it
                              returned is dropped. *ret is the other's result, NULL while there is none */
    LKS_ONCE_DOUBTFUL,     /* it ran, and *ret is what it returned; no server said that it is stored, so that
                              the function may be run again by the next caller */
    LKS_ONCE_IN_PROGRESS,  /* another attempt runs, at most error->retry_after_ms longer unless it is kept */
    LKS_ONCE_MISMATCH,     /* the key was used with another fingerprint */
    LKS_ONCE_FAILED,       /* the call failed, and the function did not run */
    LKS_ONCE_BEGUN         /* of lks_once_begin only: the caller runs the attempt and ends it */
} lks_once_outcome;

/* Runs `function` once. Blocks: for wait_ms at most while another attempt runs, as long as the function runs, and for
 * the result to be stored as long as the lease, or the channel's timeout if that is longer, since a result that is not
 * stored is work that will be done twice: every refusal that may pass is tried again for so long. With every outcome
 * but the first two *error says why; error may be NULL. *ret is set with every outcome, to NULL where there is no
 * result, and is to be freed with lks_once_result_free; ret may be NULL. Where there is no memory for a copy it is
 * NULL too. An attempt that may have begun and is not run is given back in the background. LKS_ONCE_FAILED with
 * LKS_FAILED_PRECONDITION: on a completion thread, or in a forked child. */
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

/* ---- without a thread that waits ---------------------------------------------------------------------------
 * lks_once_run in two halves, each with a callback. Callbacks run once, on the channel's completion thread; one that a
 * cancel causes runs inside lks_once_cancel, and one of an end that cannot be sent inside lks_once_end. They must not
 * block. The channel must be closed after its attempts were ended or freed. */

/* `result` is to be freed with lks_once_result_free, and may be NULL; error is valid until the callback returns. */
typedef void lks_once_done(void *arg, lks_once_outcome outcome, lks_once_result *result, const lks_error *error);

/* Starts an attempt. `done` gets LKS_ONCE_BEGUN, and then the caller does what the function of lks_once_run does, on
 * any thread, and calls lks_once_end; or REPLAYED, IN_PROGRESS, MISMATCH or FAILED (with LKS_CANCELLED if the channel
 * was closed), and then the caller calls lks_once_free. *ret is set before `done` can run. timeout_ms is for
 * everything, retries included; 0 = the channel's, after wait_ms. What options points to is copied. On failure nothing
 * was started and `done` does not run: LKS_INVALID_ARGUMENT, LKS_RESOURCE_EXHAUSTED, LKS_FAILED_PRECONDITION (in a
 * forked child), LKS_CANCELLED (the channel is closing). Thread-safe; does not block. */
lks_code lks_once_begin_sized(lks_channel *channel, const lks_once_options *options, size_t options_bytes,
                              uint32_t timeout_ms, lks_once_done *done, void *arg, lks_once_attempt **ret,
                              lks_error *error);

static inline lks_code lks_once_begin(lks_channel *channel, const lks_once_options *options, uint32_t timeout_ms,
                                      lks_once_done *done, void *arg, lks_once_attempt **ret, lks_error *error)
{
    return lks_once_begin_sized(channel, options, sizeof(lks_once_options), timeout_ms, done, arg, ret, error);
}

/* Gives up beginning: unless `done` has run or is about to, runs it now, on this thread, with LKS_ONCE_FAILED and
 * LKS_CANCELLED. An attempt that still begins is given back in the background. Thread-safe; does not block. */
void lks_once_cancel(lks_once_attempt *attempt);

/* Ends an attempt that has begun, and frees it when `done` has returned; `done` gets EXECUTED, RETRYABLE, SUPERSEDED
 * or DOUBTFUL. timeout_ms: how long to try, the channel's timeout at most; 0 = as long as lks_once_run. After another
 * time than 0 it is tried on in the background, for as long as the lease, at least 30 s. Does not block. */
void lks_once_end(lks_once_attempt *attempt, lks_once_verdict verdict, uint32_t timeout_ms, lks_once_done *done,
                  void *arg);

/* Frees an attempt after `done` has run; one that has begun is given back in the background, so that the next caller
 * runs it. Takes NULL. */
void lks_once_free(lks_once_attempt *attempt);

/* For the function: its result, copied; the last counts. LKS_INVALID_ARGUMENT: more than
 * LKS_ONCE_BODY_MAX bytes, or more than a message of the channel holds with its headers
 * (message_bytes_max); LKS_RESOURCE_EXHAUSTED: out of memory. Both leave what was. */
lks_code lks_once_return(lks_once_attempt *attempt, int32_t code, const void *body, size_t len);

/* One more header of it, copied: a key of 1..128 bytes that does not begin with "lockstock-",
 * a value of up to 4,096, both UTF-8. LKS_INVALID_ARGUMENT: it is not so, there are
 * LKS_ONCE_HEADERS_MAX, or the result would be too long; then it is not added. */
lks_code lks_once_add_header(lks_once_attempt *attempt, const char *key, const char *value);

/* Why it failed, for LKS_ONCE_RETRY and LKS_ONCE_GIVE_UP: copied, and cut to
 * LKS_ONCE_DETAIL_MAX bytes at a whole character. LKS_INVALID_ARGUMENT: not UTF-8, and
 * what was stays. */
lks_code lks_once_set_detail(lks_once_attempt *attempt, const char *detail);

/* True from the moment on at which another attempt may take over, or has: the time to
 * stop. Does not block, sends nothing. */
bool lks_once_is_lost(const lks_once_attempt *attempt);

/* 1 for the key's first attempt: a greater one may find what a dead one left. */
int64_t lks_once_number(const lks_once_attempt *attempt);

/* Greater than that of every earlier attempt: for a resource that refuses late ones. */
uint64_t lks_once_fence(const lks_once_attempt *attempt);

#ifdef __cplusplus
}
#endif

#endif
