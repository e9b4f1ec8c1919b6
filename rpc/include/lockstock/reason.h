/* Why a call failed. The code is the kind of failure, the reason is the specific failure, for programs; the message
 * is for people. Words and numbers do not change; new ones are added at the end. */
#ifndef LOCKSTOCK_REASON_H
#define LOCKSTOCK_REASON_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, word, help). docs/contract.md has the same list; tests/unit/test_contract.c compares them. */
#define LKS_REASONS(X)                                                                                                 \
    X(INVALID_FIELD, 1, "invalid_field", "A field is missing, malformed, out of range or contradicts another")         \
    X(NOT_SUPPORTED, 2, "not_supported", "The server has no such method, frame version or encoding")                   \
    X(NOT_AUTHENTICATED, 3, "not_authenticated", "The server does not know the caller")                                \
    X(PERMISSION_DENIED, 4, "permission_denied", "The policy does not allow the caller this method or namespace")      \
    X(NOT_FOUND, 5, "not_found", "There is no such item, order, record or policy")                                     \
    X(ALREADY_EXISTS, 6, "already_exists", "It exists already, and the call asks for a new one")                       \
    X(ID_REUSED, 7, "id_reused", "The id was used before for a call with other content")                               \
    X(VERSION_MISMATCH, 8, "version_mismatch", "`expected_version` is not the current version")                        \
    X(WRONG_STATE, 9, "wrong_state", "The state of an item, order, lock or object does not allow the call")            \
    X(FOREIGN_DATA, 10, "foreign_data", "The store has data under this name that lockstock did not write")             \
    X(LEASE_LOST, 11, "lease_lost", "The lease of a lock or attempt ended, or another took over")                      \
    X(BUSY, 12, "busy", "Others have what the call needs: a lock, an attempt, units that move")                        \
    X(TOO_MANY_CALLS, 13, "too_many_calls", "Too many calls or bytes are under way; call later, after a pause")        \
    X(QUOTA_EXCEEDED, 14, "quota_exceeded", "The namespace has used up its quota")                                     \
    X(RATE_LIMITED, 15, "rate_limited", "The call is over the limit of a guard")                                       \
    X(TOO_LARGE, 16, "too_large", "A request or response is longer than the limit of a message")                       \
    X(NO_ROOM, 17, "no_room", "A limited resource is used up: memory, threads, holders, ids")                          \
    X(DEADLINE_BEFORE_START, 18, "deadline_before_start", "The deadline passed before the call began")                 \
    X(DEADLINE_EXCEEDED, 19, "deadline_exceeded", "The deadline passed while the call ran")                            \
    X(CANCELLED, 20, "cancelled", "The caller, or the end of its connection or channel, cancelled the call")           \
    X(SHUTTING_DOWN, 21, "shutting_down", "The server is shutting down; another one may serve the call")               \
    X(SERVER_UNREACHABLE, 22, "server_unreachable", "The client could not connect to any server")                      \
    X(CONNECTION_LOST, 23, "connection_lost", "The connection was lost after the call was sent")                       \
    X(INTERNAL, 24, "internal", "An error that should not happen; the log of the server has more")                     \
    X(STORE_UNREACHABLE, 25, "store_unreachable", "The server has no connection to the store")                         \
    X(STORE_SILENT, 26, "store_silent", "The store is connected and does not answer")                                  \
    X(STORE_LOADING, 27, "store_loading", "The store reads its data from disk")                                        \
    X(STORE_BUSY, 28, "store_busy", "A script blocks the store, or an operator killed one")                            \
    X(STORE_OUT_OF_MEMORY, 29, "store_out_of_memory", "The store has no memory left (maxmemory)")                      \
    X(STORE_DISK_FAILED, 30, "store_disk_failed", "The store cannot write to its disk")                                \
    X(STORE_LOGIN_REFUSED, 31, "store_login_refused", "The store refuses the user, password or address of the server") \
    X(STORE_PERMISSION_DENIED, 32, "store_permission_denied", "The store denies the server's user a command or key")   \
    X(STORE_NO_DATABASE, 33, "store_no_database", "The store has no database of the number in --store")                \
    X(STORE_TOO_FEW_REPLICAS, 34, "store_too_few_replicas", "Too few replicas are connected or have confirmed")        \
    X(STORE_IS_REPLICA, 35, "store_is_replica", "The server is connected to a read-only replica")                      \
    X(STORE_FAILING_OVER, 36, "store_failing_over", "The store's primary is being replaced")                           \
    X(STORE_CLUSTER_DOWN, 37, "store_cluster_down", "The store's cluster does not serve all slots")                    \
    X(STORE_SLOT_MOVING, 38, "store_slot_moving", "The group's slot is moving to another node of the store")           \
    X(STORE_UNSAFE, 39, "store_unsafe", "The settings of the store would lose data")                                   \
    X(STORE_MISFIT, 40, "store_misfit", "The store's kind, version, data layout or functions do not fit the server")

typedef enum lks_reason {
    LKS_REASON_NONE = 0, /* the code is specific enough, or the peer is older */
#define LKS_REASON_NUMBER(name, number, word, help) LKS_REASON_##name = (number),
    LKS_REASONS(LKS_REASON_NUMBER)
#undef LKS_REASON_NUMBER
} lks_reason;

/* Returns a word such as "store_loading"; "" for NONE and for an unknown number. Static text. Thread-safe. */
const char *lks_reason_name(lks_reason reason);

/* Returns the reason for a word; NONE for an unknown word. Thread-safe. */
lks_reason lks_reason_of(const char *word);

#ifdef __cplusplus
}
#endif

#endif
