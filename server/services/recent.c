/* Invariant: a place counts if its end is later than now and its base had no drop since the place was put; so a drop is
 * one addition. At most one place of a key counts. */
#include "services/recent.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "memory.h"

enum {
    SET = 4,      /* places where a key may be */
    BASES = 1024, /* counters of drops; bases with the same hash share one */
};

typedef struct place {
    uint64_t hash;
    uint64_t drops; /* the counter of its base when it was put */
    uint32_t base;
    uint32_t len;
    recent_fact what;
    char key[RECENT_KEY_BYTES_MAX];
} place;

struct recent {
    uint64_t latest_ns; /* all ends are before or at this time */
    uint64_t drops[BASES];
    size_t sets;
    place places[]; /* SET of them form a set */
};

static uint64_t hash_of(const char *data, size_t len)
{
    return hash_folded(hash_more(HASH_START, data, len));
}

/* Writes each part after its length. Returns the total length; 0: too long. */
static uint32_t write_key(char out[RECENT_KEY_BYTES_MAX], const recent_key *key)
{
    size_t len = 0;

    for (size_t i = 0; i < key->n; i++) {
        const lks_rpc_slice *part = &key->part[i];
        if (part->len > RECENT_KEY_BYTES_MAX - 2 || len + 2 + part->len > RECENT_KEY_BYTES_MAX)
            return 0;
        out[len++] = (char)(part->len >> 8);
        out[len++] = (char)(part->len & 255);
        memcpy(out + len, part->data, part->len);
        len += part->len;
    }
    return (uint32_t)len;
}

static place *set_of(recent *r, uint64_t hash)
{
    return &r->places[SET * (hash & (r->sets - 1))];
}

static bool counts(const recent *r, const place *p, uint64_t now_ns)
{
    return now_ns < p->what.until_ns && p->drops == r->drops[p->base];
}

static place *find(recent *r, const char *key, uint32_t len, uint64_t hash, uint64_t now_ns)
{
    place *set = set_of(r, hash);

    for (size_t i = 0; i < SET; i++)
        if (set[i].hash == hash && set[i].len == len && memcmp(set[i].key, key, len) == 0 && counts(r, &set[i], now_ns))
            return &set[i];
    return NULL;
}

static place *find_key(recent *r, const recent_key *key, uint64_t now_ns)
{
    char text[RECENT_KEY_BYTES_MAX];
    uint32_t len = now_ns < r->latest_ns ? write_key(text, key) : 0;

    return len > 0 ? find(r, text, len, hash_of(text, len), now_ns) : NULL;
}

recent *recent_new(size_t places)
{
    size_t sets = 1;

    while (sets * SET < places)
        sets *= 2;
    recent *r = memory_alloc(sizeof *r + sets * SET * sizeof r->places[0]);
    r->sets = sets;
    return r;
}

void recent_free(recent *r)
{
    free(r);
}

const recent_fact *recent_find(recent *r, const recent_key *key, uint64_t now_ns)
{
    place *p = find_key(r, key, now_ns);

    if (p && now_ns >= p->what.ask_ns) {
        p->what.ask_ns = p->what.until_ns;
        return NULL;
    }
    return p ? &p->what : NULL;
}

/* Returns the place for a new key: one that does not count, or else the one that ends first. */
static place *make_room(recent *r, uint64_t hash, uint64_t now_ns)
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

void recent_put(recent *r, lks_rpc_slice base, const recent_key *key, const recent_fact *what, uint64_t now_ns)
{
    char text[RECENT_KEY_BYTES_MAX];
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
    p->len = len;
    p->what = *what;
    memcpy(p->key, text, len);
    if (what->until_ns > r->latest_ns)
        r->latest_ns = what->until_ns;
}

void recent_forget(recent *r, const recent_key *key, uint64_t now_ns)
{
    place *p = find_key(r, key, now_ns);

    if (p)
        p->what.until_ns = 0;
}

void recent_drop(recent *r, lks_rpc_slice base)
{
    r->drops[hash_of(base.data, base.len) % BASES]++;
}

void recent_drop_all(recent *r)
{
    for (size_t i = 0; i < BASES; i++)
        r->drops[i]++;
}
