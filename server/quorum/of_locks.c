/* A separate file, because the tests of services replace quorum.c. */
#include <string.h>

#include "functions/arguments.h"
#include "quorum/quorum.h"

static bool has_only_locks(const store_call *call, size_t targets, size_t record, size_t stock, size_t rates)
{
    const lks_rpc_slice *args = call->args;

    return args[targets].len > 0 && args[targets].data[0] != '0' && args[record].len == 0 && args[stock].len == 0 &&
           args[rates].len == 0;
}

static bool is_of_lock_entry(const store_call *call)
{
    if (strcmp(call->function, fn_guard_enter.name) == 0)
        return has_only_locks(call, ARG_GUARD_ENTER_TARGETS, ARG_GUARD_ENTER_RECORD, ARG_GUARD_ENTER_STOCK,
                              ARG_GUARD_ENTER_RATES);
    if (strcmp(call->function, fn_guard_renew.name) == 0)
        return has_only_locks(call, ARG_GUARD_RENEW_LOCKS, ARG_GUARD_RENEW_RECORD, ARG_GUARD_RENEW_STOCK,
                              ARG_GUARD_RENEW_STOCK);
    if (strcmp(call->function, fn_guard_leave.name) == 0 || strcmp(call->function, fn_guard_leave_unseen.name) == 0)
        return has_only_locks(call, ARG_GUARD_LEAVE_LOCKS, ARG_GUARD_LEAVE_RECORD, ARG_GUARD_LEAVE_STOCK,
                              ARG_GUARD_LEAVE_STOCK);
    return false;
}

bool quorum_is_of_locks(const store_call *call)
{
    return strncmp(call->function, "lock_", strlen("lock_")) == 0 || is_of_lock_entry(call);
}
