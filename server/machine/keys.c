#include "machine/keys_state.h"

#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "memory.h"

/* ---- order and sizes -------------------------------------------------------------- */

int keys_compare(lks_rpc_slice a, lks_rpc_slice b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    int order = least > 0 ? memcmp(a.data, b.data, least) : 0;

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

size_t keys_common(lks_rpc_slice a, lks_rpc_slice b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.data[n] == b.data[n])
        n++;
    return n;
}

static size_t value_bytes(const entry *e)
{
    if (e->seen.type == KEYS_STRING)
        return packed_number_bytes(e->len) + e->len;
    return packed_number_bytes(e->n_items) + e->item_bytes;
}

static size_t entry_bytes(const entry *e)
{
    size_t own = e->seen.name.len - e->shared;

    return 1 + packed_number_bytes(e->shared) + packed_number_bytes(own) + own +
           (e->seen.end_us ? PACKED_FIXED_BYTES : 0) + value_bytes(e);
}

void keys_before_change(keys *k, const entry *e)
{
    k->bytes -= entry_bytes(e);
}

void keys_after_change(keys *k, const entry *e)
{
    k->bytes += entry_bytes(e);
    k->changes++;
}

size_t keys_count(const keys *k)
{
    return k->n;
}

size_t keys_bytes(const keys *k)
{
    return KEYS_HEAD_BYTES + packed_number_bytes(k->n) + k->bytes;
}

uint64_t keys_changes(const keys *k)
{
    return k->changes;
}

/* ---- the array of entries --------------------------------------------------------- */

/* Returns the index of the first entry that is not before the name. */
static size_t place_of(const keys *k, lks_rpc_slice name, bool *exists)
{
    size_t from = 0, to = k->n;

    *exists = false;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = keys_compare(k->entries[middle]->seen.name, name);
        if (order == 0) {
            *exists = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

entry *keys_entry_of(const keys *k, lks_rpc_slice name)
{
    bool exists;
    size_t place = place_of(k, name, &exists);

    return exists ? k->entries[place] : NULL;
}

entry *keys_entry_as(const keys *k, lks_rpc_slice name, keys_type type, keys_found *found)
{
    entry *e = keys_entry_of(k, name);

    *found = !e ? KEYS_ABSENT : e->seen.type == type ? KEYS_FOUND : KEYS_WRONG_TYPE;
    return *found == KEYS_FOUND ? e : NULL;
}

/* Updates the common prefix of the entry at `place`, whose predecessor has changed. */
static void update_shared(keys *k, size_t place)
{
    if (place >= k->n)
        return;
    entry *e = k->entries[place];
    k->bytes -= entry_bytes(e);
    e->shared = place > 0 ? keys_common(k->entries[place - 1]->seen.name, e->seen.name) : 0;
    k->bytes += entry_bytes(e);
}

static entry *insert_at(keys *k, size_t place, lks_rpc_slice name, keys_type type)
{
    entry *e = memory_alloc(sizeof *e + name.len + 1);

    if (name.len > 0)
        memcpy(e->name, name.data, name.len);
    e->seen = (keys_entry){.name = {e->name, name.len}, .type = type};
    e->hash = hash_folded(hash_more(HASH_START, name.data, name.len)) >> (64 - KEYS_HASH_BITS);
    if (k->n == k->room) {
        size_t room = k->room ? 2 * k->room : 16;
        entry **entries = memory_alloc(room * sizeof(entry *));
        if (k->n > 0)
            memcpy(entries, k->entries, k->n * sizeof(entry *));
        free(k->entries);
        k->entries = entries;
        k->room = room;
        memory_reserve_timers(&k->ends, room);
    }
    memmove(k->entries + place + 1, k->entries + place, (k->n - place) * sizeof(entry *));
    k->entries[place] = e;
    k->n++;
    k->bytes += entry_bytes(e);
    update_shared(k, place);
    update_shared(k, place + 1);
    return e;
}

entry *keys_insert(keys *k, lks_rpc_slice name, keys_type type)
{
    bool exists;
    size_t place = place_of(k, name, &exists);

    return insert_at(k, place, name, type);
}

entry *keys_append(keys *k, lks_rpc_slice name, keys_type type)
{
    return insert_at(k, k->n, name, type);
}

static void free_entry(entry *e)
{
    keys_free_items(e);
    free(e->value);
    free(e);
}

void keys_remove(keys *k, entry *e)
{
    bool exists;
    size_t place = place_of(k, e->seen.name, &exists);

    k->bytes -= entry_bytes(e);
    k->n--;
    memmove(k->entries + place, k->entries + place + 1, (k->n - place) * sizeof(entry *));
    update_shared(k, place);
    heap_clear(&k->ends, &e->end);
    free_entry(e);
}

keys *keys_new(void)
{
    return memory_alloc(sizeof(keys));
}

void keys_free(keys *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->n; i++)
        free_entry(k->entries[i]);
    heap_free(&k->ends);
    free(k->entries);
    free(k);
}

/* ---- any key ---------------------------------------------------------------------- */

const keys_entry *keys_find(const keys *k, lks_rpc_slice name)
{
    const entry *e = keys_entry_of(k, name);

    return e ? &e->seen : NULL;
}

const keys_entry *keys_at(const keys *k, size_t i)
{
    return &k->entries[i]->seen;
}

/* *last: the highest hash of the first `count` keys from the cursor on, in the order of hashes. Returns their number,
 * at most `count`. */
static size_t last_of_step(const keys *k, uint64_t cursor, size_t count, uint64_t *last)
{
    uint64_t least[KEYS_SCAN_MAX];
    size_t n = 0;

    for (size_t i = 0; i < k->n; i++) {
        uint64_t hash = k->entries[i]->hash;
        if (hash < cursor || (n == count && hash >= least[n - 1]))
            continue;
        size_t place = n < count ? n++ : n - 1;
        for (; place > 0 && least[place - 1] > hash; place--)
            least[place] = least[place - 1];
        least[place] = hash;
    }
    *last = n > 0 ? least[n - 1] : 0;
    return n;
}

void keys_scan(const keys *k, uint64_t *cursor, size_t count, void (*take)(void *arg, const keys_entry *key), void *arg)
{
    uint64_t last, from = *cursor;

    count = count < 1 ? 1 : count > KEYS_SCAN_MAX ? KEYS_SCAN_MAX : count;
    size_t n = last_of_step(k, from, count, &last);
    for (size_t i = 0; n > 0 && i < k->n; i++)
        if (k->entries[i]->hash >= from && k->entries[i]->hash <= last)
            take(arg, &k->entries[i]->seen);
    *cursor = n < count ? 0 : last + 1;
}

bool keys_delete(keys *k, lks_rpc_slice name)
{
    entry *e = keys_entry_of(k, name);

    if (e) {
        keys_remove(k, e);
        k->changes++;
    }
    return e;
}

void keys_move_end(keys *k, entry *e, int64_t end_us)
{
    e->seen.end_us = end_us;
    if (end_us != 0)
        heap_set(&k->ends, &e->end, (uint64_t)end_us);
    else
        heap_clear(&k->ends, &e->end);
}

bool keys_set_end(keys *k, lks_rpc_slice name, int64_t end_us)
{
    entry *e = keys_entry_of(k, name);

    if (e) {
        keys_before_change(k, e);
        keys_move_end(k, e, end_us);
        keys_after_change(k, e);
    }
    return e;
}

void keys_expire(keys *k, int64_t now_us)
{
    for (const struct timer *first = heap_first(&k->ends); first && (int64_t)first->at_ns < now_us;
         first = heap_first(&k->ends))
        keys_remove(k, container_of(first, entry, end));
}

/* ---- strings ---------------------------------------------------------------------- */

keys_found keys_get(const keys *k, lks_rpc_slice name, lks_rpc_slice *ret)
{
    keys_found found;
    const entry *e = keys_entry_as(k, name, KEYS_STRING, &found);

    if (e)
        *ret = (lks_rpc_slice){e->value, e->len};
    return found;
}

void keys_set(keys *k, lks_rpc_slice name, lks_rpc_slice value, int64_t end_us)
{
    entry *e = keys_entry_of(k, name);
    char *copy = memory_copy(value.len > 0 ? value.data : "", value.len);

    if (!e)
        e = keys_insert(k, name, KEYS_STRING);
    keys_before_change(k, e);
    keys_free_items(e);
    free(e->value);
    e->seen.type = KEYS_STRING;
    e->value = copy;
    e->len = value.len;
    if (end_us != KEYS_KEEP_END)
        keys_move_end(k, e, end_us);
    keys_after_change(k, e);
}
