/* Ids of 41 bits of ms, 10 of worker, 12 of sequence (after Twitter's Snowflake, 2010). Invariant: `next` never
 * decreases, and no id is made at or after `end`. So this server uses no (ms, sequence) twice, whatever its worker, and
 * other owners of the worker have other ranges (server/functions/id.lua).
 *
 * The time is Redis' clock at the grant plus what has passed since by CLOCK_MONOTONIC. More than 4096 ids in a ms
 * continue in the next ms, up to the end of the range. */
#include "services/id.h"

enum { SEQUENCE_BITS = 12, WORKER_BITS = 10, SEQUENCES = 1 << SEQUENCE_BITS, WORKERS = 1 << WORKER_BITS };

static const int64_t EPOCH_MS = 1704067200000;      /* 2024-01-01, as in id.lua */
static const uint64_t RANGE_NS = 1000 * 1000000ull; /* id.lua: RANGE_MS */

void snowflake_init(snowflake *s)
{
    *s = (snowflake){.worker = -1};
    lks_rpc_random_id(s->owner);
}

/* Returns the minimum age of the grant. */
static uint64_t age_ns(const snowflake *s, uint64_t now_ns)
{
    return now_ns > s->granted_ns ? now_ns - s->granted_ns : 0;
}

/* Advances `next` to the clock, within the range. */
static void follow(snowflake *s, uint64_t now_ns)
{
    int64_t ms = s->clock_ms - EPOCH_MS + (int64_t)(age_ns(s, now_ns) / 1000000);
    uint64_t time = ms > 0 ? (uint64_t)ms * SEQUENCES : 0;

    if (time > s->end - SEQUENCES)
        time = s->end - SEQUENCES;
    if (time > s->next)
        s->next = time;
}

bool snowflake_left(snowflake *s, uint64_t now_ns, size_t count)
{
    if (s->worker < 0)
        return false;
    follow(s, now_ns);
    return s->next < s->end && s->end - s->next >= count;
}

bool snowflake_has(snowflake *s, uint64_t now_ns, size_t count)
{
    return age_ns(s, now_ns) < RANGE_NS && snowflake_left(s, now_ns, count);
}

int64_t snowflake_unused_ms(const snowflake *s)
{
    return EPOCH_MS + (int64_t)((s->next + SEQUENCES - 1) / SEQUENCES);
}

void snowflake_grant(snowflake *s, const snowflake_range *range)
{
    uint64_t first = (uint64_t)(range->first_ms - EPOCH_MS) * SEQUENCES;
    /* The remaining ids of a ms that was begun belong to this worker only. */
    uint64_t next = s->worker == range->worker ? s->next : (uint64_t)(snowflake_unused_ms(s) - EPOCH_MS) * SEQUENCES;

    s->worker = range->worker;
    s->next = next > first ? next : first;
    s->end = (uint64_t)(range->end_ms - EPOCH_MS) * SEQUENCES;
    s->granted_ns = range->asked_ns;
    s->clock_ms = range->clock_ms;
}

bool snowflake_take(snowflake *s, uint64_t now_ns, size_t count, int64_t *ids)
{
    if (!snowflake_left(s, now_ns, count))
        return false;
    for (size_t i = 0; i < count; i++, s->next++)
        ids[i] = (int64_t)(s->next / SEQUENCES << (WORKER_BITS + SEQUENCE_BITS) | (uint64_t)s->worker << SEQUENCE_BITS |
                           s->next % SEQUENCES);
    return true;
}

snowflake_parts snowflake_parts_of(int64_t id)
{
    return (snowflake_parts){
        .at_ms = EPOCH_MS + (id >> (WORKER_BITS + SEQUENCE_BITS)),
        .worker = (int32_t)(id >> SEQUENCE_BITS) & (WORKERS - 1),
        .sequence = (int32_t)(id & (SEQUENCES - 1)),
    };
}
