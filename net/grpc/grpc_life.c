/* Called by grpc.c. */
#include "net/grpc/grpc_life.h"

#include "base/clock.h"

enum { EARLY_PINGS_MAX = 2 /* as gRPC allows: a late ping makes the next one look early */ };

static uint64_t ns(uint32_t ms)
{
    return ms * CLOCK_NS_PER_MS;
}

grpc_life grpc_life_new(const grpc_life_options *options, uint64_t now_ns, uint64_t random)
{
    uint64_t age_ns = ns(options->connection_age_ms), tenth_ns = age_ns / 10;

    /* Random, so that connections that were opened together do not all end together. */
    return (grpc_life){.heard_ns = now_ns,
                       .leaves_ns = age_ns > 0 ? now_ns + age_ns - tenth_ns + random % (2 * tenth_ns + 1) : UINT64_MAX,
                       .ends_ns = UINT64_MAX};
}

void grpc_life_heard(grpc_life *life, uint64_t now_ns)
{
    life->heard_ns = now_ns;
    life->pinged_ns = 0;
}

bool grpc_life_ping(grpc_life *life, const grpc_life_options *options, uint64_t now_ns)
{
    if (life->ping_ns > 0 && now_ns < life->ping_ns + ns(options->ping_min_ms))
        life->n_early_pings++;
    life->ping_ns = now_ns;
    return life->n_early_pings <= EARLY_PINGS_MAX;
}

void grpc_life_answered(grpc_life *life)
{
    life->ping_ns = 0;
    life->n_early_pings = 0;
}

grpc_life_due grpc_life_look(grpc_life *life, const grpc_life_options *options, uint64_t now_ns)
{
    if (now_ns >= life->ends_ns)
        return LIFE_OVER;
    if (life->pinged_ns > 0 && now_ns >= life->pinged_ns + ns(options->keepalive_timeout_ms))
        return LIFE_GONE;
    if (now_ns >= life->leaves_ns) {
        life->leaves_ns = UINT64_MAX;
        life->ends_ns = now_ns + ns(options->connection_age_grace_ms);
        return LIFE_LEAVE;
    }
    if (options->keepalive_ms == 0 || life->pinged_ns > 0 || now_ns < life->heard_ns + ns(options->keepalive_ms))
        return LIFE_NOTHING;
    life->pinged_ns = now_ns;
    return LIFE_PING;
}
