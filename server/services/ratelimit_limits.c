/* RateLimitService: limits. Invariant: numbers that pass here are exact in the functions: periods in microseconds are
 * below 2^45, units below 2^40, and no counter matters longer than a few SPAN_MAX_MS. */
#include <string.h>

#include "services/ratelimit.h"

enum { LOG_LIMIT_MAX = 100000, FACTOR_MAX = 1000 };
#define SPAN_MAX_MS (366LL * 24 * 3600 * 1000)

/* The product of units and milliseconds needs 75 bits. */
__extension__ typedef __int128 wide;

static void check_penalty(plan *p, const char *field, const lks_penalty *penalty, limit_spec *spec)
{
    plan_check_range(p, plan_path(p, "%s.penalty.after", field), penalty->after, 0, RATELIMIT_UNITS_MAX);
    if (penalty->after == 0) {
        if (penalty->ban_ms != 0 || penalty->factor != 0 || penalty->max_ban_ms != 0)
            plan_invalid(p, "%s: must be set, because the penalty has other fields",
                         plan_path(p, "%s.penalty.after", field));
        return;
    }
    plan_check_range(p, plan_path(p, "%s.penalty.ban_ms", field), penalty->ban_ms, 1, SPAN_MAX_MS);
    plan_check_range(p, plan_path(p, "%s.penalty.factor", field), penalty->factor, 0, FACTOR_MAX);
    if (penalty->max_ban_ms != 0)
        plan_check_range(p, plan_path(p, "%s.penalty.max_ban_ms", field), penalty->max_ban_ms, penalty->ban_ms,
                         SPAN_MAX_MS);
    spec->after = penalty->after;
    spec->ban_ms = penalty->ban_ms;
    spec->factor = penalty->factor != 0 ? penalty->factor : 1;
    spec->max_ban_ms = penalty->max_ban_ms != 0 ? penalty->max_ban_ms : SPAN_MAX_MS;
}

limit_spec ratelimit_check_limit(plan *p, const char *field, const lks_limit *limit)
{
    limit_spec spec = {.algorithm = limit->algorithm, .limit = limit->limit, .period_ms = limit->period_ms};
    bool bucket = limit->algorithm == LKS_ALGORITHM_TOKEN_BUCKET;
    bool log = limit->algorithm == LKS_ALGORITHM_SLIDING_LOG;

    if (limit->algorithm == LKS_ALGORITHM_UNSPECIFIED)
        plan_invalid(p, "%s: must be set", plan_path(p, "%s.algorithm", field));
    plan_check_range(p, plan_path(p, "%s.limit", field), limit->limit, 1, log ? LOG_LIMIT_MAX : RATELIMIT_UNITS_MAX);
    plan_check_range(p, plan_path(p, "%s.period_ms", field), limit->period_ms, 1, SPAN_MAX_MS);
    if (!bucket && limit->burst != 0)
        plan_invalid(p, "%s: only with ALGORITHM_TOKEN_BUCKET", plan_path(p, "%s.burst", field));
    plan_check_range(p, plan_path(p, "%s.burst", field), limit->burst, 0, RATELIMIT_UNITS_MAX);
    if (bucket && !plan_failed(p)) {
        spec.burst = limit->burst != 0 ? limit->burst : limit->limit;
        if ((wide)spec.burst * spec.period_ms > (wide)spec.limit * SPAN_MAX_MS)
            plan_invalid(p, "%s: must be refilled within 366 days", plan_path(p, "%s.burst", field));
    }
    if (limit->penalty)
        check_penalty(p, field, limit->penalty, &spec);
    return spec;
}

static char letter_of(lks_algorithm algorithm)
{
    switch ((int)algorithm) {
    case LKS_ALGORITHM_FIXED_WINDOW:
        return 'F';
    case LKS_ALGORITHM_SLIDING_LOG:
        return 'L';
    case LKS_ALGORITHM_SLIDING_WINDOW:
        return 'S';
    default:
        return 'B';
    }
}

/* Redis stores a hash with values and names of up to 64 bytes in a third of the size: so the text is short. */
char *ratelimit_spec_text(lks_rpc_arena *arena, const limit_spec *spec)
{
    char letter = letter_of(spec->algorithm);
    long long limit = spec->limit, period = spec->period_ms, burst = spec->burst;

    if (spec->algorithm == LKS_ALGORITHM_UNSPECIFIED)
        return memory_printf_in(arena, "U");
    if (spec->after != 0)
        return memory_printf_in(arena, "%c,%lld,%lld,%lld,%lld,%lld,%lld,%lld", letter, limit, period, burst,
                                (long long)spec->after, (long long)spec->ban_ms, (long long)spec->factor,
                                (long long)spec->max_ban_ms);
    if (burst != 0)
        return memory_printf_in(arena, "%c,%lld,%lld,%lld", letter, limit, period, burst);
    return memory_printf_in(arena, "%c,%lld,%lld", letter, limit, period);
}

char *ratelimit_policy_text(lks_rpc_arena *arena, const char *name, bool shadow, const char *spec)
{
    return memory_printf_in(arena, "@%s %s%s", name, shadow ? "!" : "", spec);
}
