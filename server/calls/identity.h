/* Who calls, and what they may do. A caller proves to be a principal by a bearer token,
 * by the name in its client certificate, or, on a unix socket, by its user id. Without
 * a policy file everybody may do everything; with one, nobody may do anything that it
 * does not say. Loop thread only.
 *
 * The policy file (ini), a section a principal:
 *
 *     [billing]
 *     namespace = billing            ; all it calls is in this one; none: it chooses
 *     certificate = billing.internal ; common name or DNS name; several lines: several
 *     uid = 1001
 *     StockService = READ, WRITE     ; or ADMIN; * = every service; its package may stand before
 *
 * The token file, a line a token, at most two of a principal, so that one can follow the
 * other: SHA-256 of the token in hex, the principal, and, if it ends, when (seconds since
 * 1970). # begins a comment.
 * Whatever could be read in two ways is refused: a certificate, uid or token that stands
 * twice, a line too long for its buffer.
 *
 *     9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 billing 1798761600
 */
#ifndef LOCKSTOCK_SERVER_IDENTITY_H
#define LOCKSTOCK_SERVER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "net/sink.h"

typedef struct identity identity;

typedef struct principal principal;

/* Reads the files. policy NULL: callers are not identified, and there are no tokens. LKS_INVALID_ARGUMENT names the
 * file and the line or section. */
lks_code identity_load(const char *policy_file, const char *token_file, identity **ret, lks_error *error);

/* Takes NULL. */
void identity_free(identity *i);

/* The principal that a connection's own evidence names; NULL when it names none. */
const principal *identity_of_certificate(const identity *i, const char *name);
const principal *identity_of_uid(const identity *i, uid_t uid);

/* The result for an admitted call; valid as long as the credentials. */
typedef struct identity_verdict {
    lks_rpc_slice ns;      /* the namespace that it is made in */
    const char *principal; /* the caller, also of a refused call; NULL: unknown, or there is no policy */
} identity_verdict;

/* Whether the call may be made. method NULL: of none, only who calls is looked at. `now` is in
 * seconds since 1970.
 *
 * LKS_UNAUTHENTICATED: no principal, or a token that is unknown or has ended; a token
 * counts before the connection's evidence. LKS_PERMISSION_DENIED: another namespace than
 * the principal's, or a method it has no right to. Neither says what exists. */
lks_code identity_admit(const identity *i, const credentials *c, const lks_rpc_method *method, int64_t now,
                        identity_verdict *ret, lks_error *error);

/* Whether a policy is in force. */
bool identity_required(const identity *i);

#endif
