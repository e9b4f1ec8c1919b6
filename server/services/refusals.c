/* Invariant: a place that counts has an end later than now and the number of drops that its base had when it was
 * put; so a drop is one addition, whatever the table holds. Of one key at most one place counts. */
#include "services/refusals.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "memory.h"

enum {
    SET = 4,      /* places that a key may be in */
    BASES = 1024, /* counters of drops; bases whose hashes meet share one */
};

typedef struct place {
    uint64_t hash;
    uint64_t drops, all_drops; /* when it was put */
    uint32_t base;             /* the counter of its base */
    uint32_t len;
    refusal what;
    char key[REFUSAL_KEY_BYTES_MAX];
} place;

struct refusals {
    uint64_t latest_ns; /* nothing is known from then on */
    uint64_t all_drops;
    uint64_t drops[BASES];
    size_t sets;
    place places[]; /* SET of them a set */
};

static uint64_t hash_of(const char *data, size_t len)
{
    return hash_folded(hash_more(HASH_START, data, len));
}

/* The parts behind one another, each after its length; 0: it is too long. */
static uint32_t write_key(char out[REFUSAL_KEY_BYTES_MAX], const refusal_key *key)
{
    size_t len = 0;

    for (size_t i = 0; i < key->n; i++) {
        const lks_rpc_slice *part = &key->part[i];
        if (part->len > REFUSAL_KEY_BYTES_MAX - 2 || len + 2 + part->len > REFUSAL_KEY_BYTES_MAX)
            return 0;
        out[len++] = (char)(part->len >> 8);
        out[len++] = (char)(part->len & 255);
        memcpy(out + len, part->data, part->len);
        len += part->len;
    }
    return (uint32_t)len;
}

static place *set_of(refusals *r, uint64_t hash)
{
    return &r->places[SET * (hash & (r->sets - 1))];
}

static bool counts(const refusals *r, const place *p, uint64_t now_ns)
{
    return now_ns < p->what.until_ns && p->drops == r->drops[p->base] && p->all_drops == r->all_drops;
}

/* NULL: it is not known. */
static place *find(refusals *r, const char *key, uint32_t len, uint64_t hash, uint64_t now_ns)
{
    place *set = set_of(r, hash);

    for (size_t i = 0; i < SET; i++)
        if (set[i].hash == hash && set[i].len == len && memcmp(set[i].key, key, len) == 0 && counts(r, &set[i], now_ns))
            return &set[i];
    return NULL;
}

static place *find_key(refusals *r, const refusal_key *key, uint64_t now_ns)
{
    char text[REFUSAL_KEY_BYTES_MAX];
    uint32_t len = now_ns < r->latest_ns ? write_key(text, key) : 0;

    return len > 0 ? find(r, text, len, hash_of(text, len), now_ns) : NULL;
}

refusals *refusals_new(size_t places)
{
    size_t sets = 1;

    while (sets * SET < places)
        sets *= 2;
    refusals *r = memory_alloc(sizeof *r + sets * SET * sizeof r->places[0]);
    r->sets = sets;
    return r;
}

void refusals_free(refusals *r)
{
    free(r);
}

const refusal *refusals_find(refusals *r, const refusal_key *key, uint64_t now_ns)
{
    place *p = find_key(r, key, now_ns);

    if (p && now_ns >= p->what.ask_ns) {
        p->what.ask_ns = p->what.until_ns;
        return NULL;
    }
    return p ? &p->what : NULL;
}

/* Where a key that is not there goes: what does not count, else what ends first. */
static place *make_room(refusals *r, uint64_t hash, uint64_t now_ns)
{
    place *set = set_of(r, hash);
    place *first = &set[0];

    for (size_t i = 0; i < SET; i++) {
        if (!counts(r, &set[i], now_ns))
            return &set[i];
        if (set[i].what.until_ns < first->what.until_ns)
            first = &set[i];
    }
    return first;
}

void refusals_put(refusals *r, lks_rpc_slice base, const refusal_key *key, const refusal *what, uint64_t now_ns)
{
    char text[REFUSAL_KEY_BYTES_MAX];
    uint32_t len = what->until_ns > now_ns ? write_key(text, key) : 0;

    if (len == 0)
        return;
    uint64_t hash = hash_of(text, len);
    place *p = find(r, text, len, hash, now_ns);
    if (!p)
        p = make_room(r, hash, now_ns);
    p->hash = hash;
    p->base = (uint32_t)(hash_of(base.data, base.len) % BASES);
    p->drops = r->drops[p->base];
    p->all_drops = r->all_drops;
    p->len = len;
    p->what = *what;
    memcpy(p->key, text, len);
    if (what->until_ns > r->latest_ns)
        r->latest_ns = what->until_ns;
}

void refusals_forget(refusals *r, const refusal_key *key, uint64_t now_ns)
{
    place *p = find_key(r, key, now_ns);

    if (p)
        p->what.until_ns = 0;
}

void refusals_drop(refusals *r, lks_rpc_slice base)
{
    r->drops[hash_of(base.data, base.len) % BASES]++;
}

void refusals_drop_all(refusals *r)
{
    r->all_drops++;
}
