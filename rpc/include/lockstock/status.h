/* How a call ended, for client, host and server. The codes are those of google.rpc.Code. A business refusal (sold
 * out, busy) is an outcome in an OK response, not a code. */
#ifndef LOCKSTOCK_STATUS_H
#define LOCKSTOCK_STATUS_H

#include <stdint.h>

#include <lockstock/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lks_code {
    LKS_OK = 0,
    LKS_CANCELLED = 1,
    LKS_UNKNOWN = 2,
    LKS_INVALID_ARGUMENT = 3,
    LKS_DEADLINE_EXCEEDED = 4,
    LKS_NOT_FOUND = 5,
    LKS_ALREADY_EXISTS = 6,
    LKS_PERMISSION_DENIED = 7,
    LKS_RESOURCE_EXHAUSTED = 8,
    LKS_FAILED_PRECONDITION = 9,
    LKS_ABORTED = 10,
    LKS_OUT_OF_RANGE = 11,
    LKS_UNIMPLEMENTED = 12,
    LKS_INTERNAL = 13,
    LKS_UNAVAILABLE = 14,
    LKS_DATA_LOSS = 15,
    LKS_UNAUTHENTICATED = 16
} lks_code;

/* Whether a call may have changed state. The numbers are those of lockstock.rpc.v1.Applied. UNSPECIFIED means MAYBE. */
typedef enum lks_applied {
    LKS_APPLIED_UNSPECIFIED = 0,
    LKS_APPLIED_YES = 1,
    LKS_APPLIED_NO = 2,
    LKS_APPLIED_MAYBE = 3
} lks_applied;

/* Who found the error: this library, or the server that was called. */
typedef enum lks_origin { LKS_ORIGIN_LOCAL = 0, LKS_ORIGIN_PEER = 1 } lks_origin;

enum { LKS_ERROR_MESSAGE_MAX = 256, LKS_ERROR_FIELD_MAX = 128 };

/* Describes a failure. It owns no memory. The returned code of a function tells whether it failed. On success,
 * functions of <lockstock/rpc/...> do not change *error, and functions of the client and the host clear it: code
 * LKS_OK, an empty message. A generated stub then sets one member: `applied` is MAYBE (or YES) if an earlier try of
 * the call was not answered. If the response is a refusal, that try may still take effect. */
typedef struct lks_error {
    lks_code code;
    lks_origin origin;
    lks_applied applied;
    uint32_t retry_after_ms; /* 0: not given */
    char message[LKS_ERROR_MESSAGE_MAX];
    lks_reason reason;
    char field[LKS_ERROR_FIELD_MAX]; /* "targets[0].name": the path of the invalid field; "": none */
} lks_error;

/* Returns "OK", "INVALID_ARGUMENT", ...; "UNKNOWN" for an unknown number. Static text. Thread-safe. */
const char *lks_code_name(lks_code code);

/* Returns "YES", "NO" or "MAYBE" (also for UNSPECIFIED). Static text. Thread-safe. */
const char *lks_applied_name(lks_applied applied);

/* Sets all members of *error (origin LOCAL, retry_after_ms 0) and returns `code`, so that a function can `return
 * lks_error_set(...)`. A longer text is cut at a whole UTF-8 character. error may be NULL. `reason` is the one that
 * the code implies (NOT_FOUND: LKS_REASON_NOT_FOUND), and NONE for UNAVAILABLE, ABORTED, UNKNOWN, DATA_LOSS and
 * OUT_OF_RANGE. `field` is the path at the beginning of the message, as in "lines[0].sku: must not be empty", for
 * codes that a field can cause: INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, RESOURCE_EXHAUSTED,
 * FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE. */
lks_code lks_error_set(lks_error *error, lks_code code, lks_applied applied, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/* The same with a reason; NONE: the one that the code implies. */
lks_code lks_error_set_reason(lks_error *error, lks_code code, lks_applied applied, lks_reason reason,
                              const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;

/* Sets code LKS_OK and an empty message. error may be NULL. */
void lks_error_clear(lks_error *error);

#ifdef __cplusplus
}
#endif

#endif
