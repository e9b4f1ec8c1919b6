/* Invariant: `ns` is measured only while the queue is never empty. Called by
 * server/calls/callers.c and client/call/channel.c. */
#include "base/pace.h"

enum {
    WINDOW_NS = 20 * 1000000, /* the shortest time */
    WINDOW_CALLS = 32,        /* the fewest calls over which the pace is measured */
    OLD_PART = 3,             /* of four: the weight of earlier windows */
};

void pace_begin(pace *p, uint64_t now_ns)
{
    *p = (pace){.since_ns = now_ns};
}

void pace_note(pace *p, uint64_t now_ns)
{
    uint64_t took_ns = now_ns - p->since_ns;

    if (++p->calls < WINDOW_CALLS || took_ns < WINDOW_NS)
        return;
    uint64_t ns = took_ns / p->calls;
    p->ns = p->ns ? (p->ns * OLD_PART + ns) / (OLD_PART + 1) : ns;
    p->since_ns = now_ns;
    p->calls = 0;
}

uint64_t pace_expected_ns(const pace *p, uint64_t calls)
{
    return calls * p->ns;
}

bool pace_too_long(uint64_t queue_ns, uint64_t left_ns, unsigned part)
{
    return queue_ns > left_ns / part;
}
