/* Invariant: NO only if Redis refuses the command before it runs it. An error that is not listed may follow a write.
 * WRONGTYPE and out-of-memory are reported by the functions themselves (server/functions/common.lua). */
#include "store/errors.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

bool fault_keep(kept_fault *kept, store_fault fault)
{
    const char *text = fault.text ? fault.text : "";
    bool another = strcmp(kept->text, text) != 0;

    kept->reason = fault.reason;
    if (another)
        snprintf(kept->text, sizeof kept->text, "%s", text);
    return another;
}

store_fault fault_of(const kept_fault *kept)
{
    return kept->text[0] ? (store_fault){kept->reason, kept->text} : (store_fault){0};
}

static const errors_row rows[] = {
    {"ERR Function not found", ERRORS_RELOAD, LKS_INTERNAL, LKS_APPLIED_NO, 0, LKS_REASON_INTERNAL,
     "the store does not know the function"},
    /* Redis kills only a function that has written nothing. */
    {"ERR Script killed by user", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500, LKS_REASON_STORE_BUSY,
     "the store's operator has ended the function (FUNCTION KILL)"},
    {"LOADING", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500, LKS_REASON_STORE_LOADING,
     "the store is loading its data"},
    {"BUSY", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500, LKS_REASON_STORE_BUSY,
     "the store is busy with a script"},
    {"CLUSTERDOWN", ERRORS_DOWN, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500, LKS_REASON_STORE_CLUSTER_DOWN,
     "the store's cluster is down"},
    {"MASTERDOWN", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500, LKS_REASON_STORE_FAILING_OVER,
     "the store's primary is down"},
    {"NOREPLICAS", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 500, LKS_REASON_STORE_TOO_FEW_REPLICAS,
     "the store has too few replicas"},
    {"MISCONF", ERRORS_FAIL, LKS_UNAVAILABLE, LKS_APPLIED_NO, 1000, LKS_REASON_STORE_DISK_FAILED,
     "the store cannot write its data to disk"},
    {"OOM", ERRORS_FAIL, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, 1000, LKS_REASON_STORE_OUT_OF_MEMORY,
     "the store is out of memory"},
    {"READONLY", ERRORS_ELSEWHERE, LKS_UNAVAILABLE, LKS_APPLIED_NO, 200, LKS_REASON_STORE_IS_REPLICA,
     "the store is a read-only replica"},
    {"MOVED", ERRORS_MOVED, LKS_UNAVAILABLE, LKS_APPLIED_NO, 200, LKS_REASON_STORE_SLOT_MOVING,
     "another node of the store has the slot"},
    {"ASK", ERRORS_MOVING, LKS_UNAVAILABLE, LKS_APPLIED_NO, 200, LKS_REASON_STORE_SLOT_MOVING, ERRORS_SLOT_MOVES},
    {"TRYAGAIN", ERRORS_RETRY, LKS_UNAVAILABLE, LKS_APPLIED_NO, 200, LKS_REASON_STORE_SLOT_MOVING, ERRORS_SLOT_MOVES},
    {"NOAUTH", ERRORS_DENIED, LKS_INTERNAL, LKS_APPLIED_NO, 0, LKS_REASON_STORE_LOGIN_REFUSED,
     "the store wants credentials"},
    {"WRONGPASS", ERRORS_DENIED, LKS_INTERNAL, LKS_APPLIED_NO, 0, LKS_REASON_STORE_LOGIN_REFUSED,
     "the store refuses the credentials"},
    {"ERR AUTH", ERRORS_DENIED, LKS_INTERNAL, LKS_APPLIED_NO, 0, LKS_REASON_STORE_LOGIN_REFUSED,
     "the store has no password, and one was given"},
    {"NOPERM", ERRORS_FORBIDDEN, LKS_INTERNAL, LKS_APPLIED_NO, 0, LKS_REASON_STORE_PERMISSION_DENIED,
     "the store denies a permission"},
    {"DENIED", ERRORS_DENIED, LKS_INTERNAL, LKS_APPLIED_NO, 0, LKS_REASON_STORE_LOGIN_REFUSED,
     "the store is in protected mode: it serves its own machine only"},
};

static const errors_row unknown = {.prefix = "",
                                   .code = LKS_INTERNAL,
                                   .applied = LKS_APPLIED_MAYBE,
                                   .reason = LKS_REASON_INTERNAL,
                                   .message = "the store failed"};

const errors_row *errors_find(const char *text, size_t len)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].prefix);
        if (len >= n && memcmp(text, rows[i].prefix, n) == 0 && (len == n || text[n] == ' '))
            return &rows[i];
    }
    return &unknown;
}

store_fault errors_fault(const errors_row *row)
{
    return (store_fault){row->reason, row->message};
}

store_fault errors_of_reply(const redisReply *reply, const char *otherwise)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return errors_fault(errors_find(reply->str, reply->len));
    return STORE_FAULT(STORE_MISFIT, otherwise);
}
