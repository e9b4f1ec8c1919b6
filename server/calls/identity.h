/* Identifies callers and checks their rights. A caller is identified by a bearer token, by the name in its client
 * certificate, or, on a unix socket, by its user id. Without a policy file everyone has full access; with one,
 * callers have only the rights that it grants. Loop thread only.
 *
 * The policy file (ini) has a section for each principal:
 *
 *     [billing]
 *     namespace = billing            ; of all its calls; without it the caller chooses
 *     certificate = billing.internal ; common name or DNS name; several lines: several
 *     uid = 1001
 *     StockService = READ, WRITE     ; or ADMIN; * = every service; its package may precede it
 *
 * The token file has a line for each token: SHA-256 of the token in hex, the principal, and optionally when it ends
 * (seconds since 1970). A principal may have two tokens, so that one can replace the other. # begins a comment.
 * Ambiguous files are refused: a certificate, uid or token that is given more than once, a line too long for its
 * buffer.
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
#include "services/service.h"

typedef struct identity identity;

typedef struct principal principal;

/* Reads the files. policy NULL: callers are not identified, and there are no tokens. LKS_INVALID_ARGUMENT names the
 * file and the line. */
lks_code identity_load(const char *policy_file, const char *token_file, identity **ret, lks_error *error);

/* Takes NULL. */
void identity_free(identity *i);

/* The result for an admitted call; valid as long as the credentials. */
typedef struct identity_verdict {
    lks_rpc_slice ns;      /* the namespace of the call */
    service_caller caller; /* also of a refused call, and of an ended token; principal NULL: unknown, or no policy */
} identity_verdict;

/* Checks a call. method NULL: only the caller is identified. `now` is in seconds since 1970. LKS_UNAUTHENTICATED: no
 * principal, or a token that is unknown or has ended; a token takes precedence over the certificate or user id.
 * LKS_PERMISSION_DENIED: another namespace than the principal's, or no right to the method. Neither error reveals
 * whether something exists. */
lks_code identity_admit(const identity *i, const credentials *c, const lks_rpc_method *method, int64_t now,
                        identity_verdict *ret, lks_error *error);

/* A principal of the policy file, and what it did since the file was read. */
typedef struct identity_use {
    const char *principal;
    uint64_t admitted, refused; /* calls, and pages over HTTP */
    int64_t token_ends; /* of its token that ends last, seconds since 1970; 0: it has none, or one without an end */
} identity_use;

/* The principal after another one; before NULL: the first. Returns NULL, and leaves *ret, when there are no more. */
const principal *identity_next(const identity *i, const principal *before, identity_use *ret);

/* SHA-256 of the policy's file, in hex; "" without one. */
const char *identity_policy(const identity *i);

/* Whether a policy is in force. */
bool identity_required(const identity *i);

#endif
