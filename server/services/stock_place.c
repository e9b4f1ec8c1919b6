#include "services/stock_place.h"

#include <string.h>

#include "base/hash.h"
#include "services/recent.h"

/* How long this server remembers the number of buckets of a group. */
#define REMEMBERED_NS (UINT64_C(60) * 1000000000)

unsigned stock_bucket_of(const char *id, unsigned n)
{
    return 1 + (unsigned)(hash_folded(hash_more(HASH_START, id, strlen(id))) % n);
}

unsigned stock_bucket_name(unsigned bucket)
{
    /* Chosen so that the six highest bits of the slot (CRC16) of name i differ from those of name 0 by the bits of i in
     * reverse. */
    static const uint16_t names[STOCK_BUCKETS_MAX] = {
        100, 102, 101, 103, 179, 322, 178, 323, 139, 362, 138, 363, 140, 142, 141, 143, 342, 119, 343, 118, 162, 160,
        163, 161, 122, 120, 123, 121, 302, 159, 303, 158, 108, 353, 109, 352, 171, 173, 170, 172, 131, 133, 130, 132,
        148, 313, 149, 312, 113, 111, 112, 110, 333, 168, 332, 169, 373, 128, 372, 129, 153, 151, 152, 150,
    };

    return bucket == 0 ? 0 : names[bucket - 1];
}

void stock_place_in_bucket(plan *p, unsigned n, unsigned bucket)
{
    plan_moves_call(p, n, stock_bucket_name(bucket));
}

static recent_key key_of(const plan *p, const char *group)
{
    return (recent_key){{p->ns, lks_rpc_slice_of(group)}, 2};
}

unsigned stock_remembered_buckets(const plan *p, const char *group)
{
    const stock_memory *memory = p->state;

    if (!memory || !memory->any_buckets)
        return 0;
    const recent_key key = key_of(p, group);
    const recent_fact *known = recent_find(memory->buckets, &key, p->now_ns);
    return known ? (unsigned)known->number[0] : 0;
}

void stock_remember_buckets(const answer *a, const char *group, unsigned n)
{
    stock_memory *memory = a->plan->state;

    if (!memory)
        return;
    const recent_key key = key_of(a->plan, group);
    const uint64_t until_ns = a->now_ns + REMEMBERED_NS;
    const recent_fact known = {.ask_ns = until_ns, .until_ns = until_ns, .number = {n}};
    if (n == 0)
        recent_forget(memory->buckets, &key, a->now_ns);
    else
        recent_put(memory->buckets, lks_rpc_slice_of(""), &key, &known, a->now_ns);
    memory->any_buckets |= n > 0;
}

unsigned stock_buckets_in(answer *a, const store_value *reply)
{
    const int64_t n = answer_int(a, reply, 1);

    if (n >= STOCK_BUCKETS_MIN && n <= STOCK_BUCKETS_MAX)
        return (unsigned)n;
    answer_at(a, reply, answer_count(a, reply)); /* an unexpected reply */
    return STOCK_BUCKETS_MIN;
}
