/* Called once by main, before anything is opened. The hard limit is the administrator's choice and is not changed. */
#include "descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "log.h"

lks_code descriptors_raise(long *connections, lks_error *error)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_NO, "descriptors: %s", strerror(errno));
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (before != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = before;
    if (limit.rlim_cur >= (rlim_t)*connections + DESCRIPTORS_RESERVE) /* also true without a limit */
        return LKS_OK;
    if (limit.rlim_cur <= DESCRIPTORS_RESERVE)
        return lks_error_set(
            error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
            "descriptors: the limit of this process is %llu (ulimit -Hn, LimitNOFILE); it needs more than %d",
            (unsigned long long)limit.rlim_cur, DESCRIPTORS_RESERVE);
    long wanted = *connections;
    *connections = (long)(limit.rlim_cur - DESCRIPTORS_RESERVE);
    log_warn("few-descriptors",
             "limit=%llu wanted=%ld connections=%ld reason=\"raise ulimit -Hn or LimitNOFILE, or lower --connections\"",
             (unsigned long long)limit.rlim_cur, wanted, *connections);
    return LKS_OK;
}
