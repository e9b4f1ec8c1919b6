/* Invariant: uthash has all items of an entry, fields in the order in which they were added; `members` has the members
 * of a sorted set, sorted. */
#include "machine/keys_state.h"

#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/varint.h"
#include "memory.h"

/* Spreads hashes of similar names, whose first bits are equal, over all numbers. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

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
        return varint_bytes(e->len) + e->len;
    return varint_bytes(e->n_items) + e->item_bytes;
}

static size_t entry_bytes(const entry *e)
{
    size_t own = e->seen.name.len - e->shared;

    return 1 + varint_bytes(e->shared) + varint_bytes(own) + own + (e->seen.end_us ? PACKED_FIXED_BYTES : 0) +
           value_bytes(e);
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
    return KEYS_HEAD_BYTES + varint_bytes(k->n) + k->bytes;
}

uint64_t keys_changes(const keys *k)
{
    return k->changes;
}

/* ---- items of an entry --------------------------------------------------------------- */

int keys_compare_members(const keys_item *a, const keys_item *b)
{
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return keys_compare(a->name, b->name);
}

static size_t item_bytes(const entry *e, const item *it)
{
    size_t name = varint_bytes(it->seen.name.len) + it->seen.name.len;

    if (e->seen.type == KEYS_ZSET)
        return name + PACKED_FIXED_BYTES;
    return name + varint_bytes(it->seen.value.len) + it->seen.value.len;
}

item *keys_item_of(const entry *e, lks_rpc_slice name)
{
    item *it = NULL;

    HASH_FIND(hh, e->items, name.data ? name.data : "", name.len, it);
    return it;
}

/* Returns the index of the first member that is not before this one. */
static size_t place_of_member(const entry *e, const keys_item *member)
{
    size_t from = 0, to = e->n_items;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (keys_compare_members(&e->members[middle]->seen, member) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void put_member(entry *e, item *it, size_t place)
{
    if (e->n_items == e->room) {
        size_t room = e->room ? 2 * e->room : 4;
        item **members = memory_alloc(room * sizeof(item *));
        if (e->n_items > 0)
            memcpy(members, e->members, e->n_items * sizeof(item *));
        free(e->members);
        e->members = members;
        e->room = room;
    }
    memmove(e->members + place + 1, e->members + place, (e->n_items - place) * sizeof(item *));
    e->members[place] = it;
}

static void take_member(entry *e, const item *it)
{
    size_t place = place_of_member(e, &it->seen);

    memmove(e->members + place, e->members + place + 1, (e->n_items - 1 - place) * sizeof(item *));
}

item *keys_add_item(entry *e, lks_rpc_slice name, lks_rpc_slice value, double score, size_t place)
{
    item *it = memory_alloc(sizeof *it + name.len + 1);

    if (name.len > 0)
        memcpy(it->name, name.data, name.len);
    it->seen = (keys_item){.name = {it->name, name.len}, .score = score};
    if (e->seen.type == KEYS_HASH)
        it->seen.value = (lks_rpc_slice){memory_copy(value.len > 0 ? value.data : "", value.len), value.len};
    else
        put_member(e, it, place);
    HASH_ADD_KEYPTR(hh, e->items, it->name, name.len, it);
    e->n_items++;
    e->item_bytes += item_bytes(e, it);
    return it;
}

static void free_item(item *it)
{
    free((char *)(uintptr_t)it->seen.value.data);
    free(it);
}

static void drop_item(entry *e, item *it)
{
    e->item_bytes -= item_bytes(e, it);
    if (e->seen.type == KEYS_ZSET)
        take_member(e, it);
    HASH_DELETE(hh, e->items, it);
    e->n_items--;
    free_item(it);
}

static void free_items(entry *e)
{
    item *it = e->items;

    HASH_CLEAR(hh, e->items); /* does not free the items or unlink them */
    while (it) {
        item *next = it->hh.next;
        free_item(it);
        it = next;
    }
    free(e->members);
    e->members = NULL;
    e->n_items = e->room = e->item_bytes = 0;
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

static entry *entry_of(const keys *k, lks_rpc_slice name)
{
    bool exists;
    size_t place = place_of(k, name, &exists);

    return exists ? k->entries[place] : NULL;
}

/* Returns NULL if the key is absent or has another type; *found tells which. */
static entry *entry_as(const keys *k, lks_rpc_slice name, keys_type type, keys_found *found)
{
    entry *e = entry_of(k, name);

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
    e->hash = SPREAD * hash_folded(hash_more(HASH_START, name.data, name.len)) >> (64 - KEYS_HASH_BITS);
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

/* Adds an entry without value and items, at its place in the order. The name must be new. */
static entry *insert(keys *k, lks_rpc_slice name, keys_type type)
{
    bool exists;
    size_t place = place_of(k, name, &exists);

    return insert_at(k, place, name, type);
}

/* Returns the key's entry, which is made if the key is absent; NULL: the key has another type. */
static entry *entry_to_change(keys *k, lks_rpc_slice name, keys_type type)
{
    keys_found found;
    entry *e = entry_as(k, name, type, &found);

    return found == KEYS_ABSENT ? insert(k, name, type) : e;
}

entry *keys_append(keys *k, lks_rpc_slice name, keys_type type)
{
    return insert_at(k, k->n, name, type);
}

static void free_entry(entry *e)
{
    free_items(e);
    free(e->value);
    free(e);
}

static void remove_entry(keys *k, entry *e)
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
    const entry *e = entry_of(k, name);

    return e ? &e->seen : NULL;
}

const keys_entry *keys_at(const keys *k, size_t i)
{
    return &k->entries[i]->seen;
}

void keys_scan(const keys *k, uint64_t *cursor, size_t count, void (*take)(void *arg, const keys_entry *key), void *arg)
{
    const uint64_t hashes = UINT64_C(1) << KEYS_HASH_BITS, steps = k->n / count + 1;
    const uint64_t from = *cursor, to = from + hashes / steps + 1;

    for (size_t i = 0; i < k->n; i++)
        if (k->entries[i]->hash >= from && k->entries[i]->hash < to)
            take(arg, &k->entries[i]->seen);
    *cursor = to < hashes ? to : 0;
}

bool keys_delete(keys *k, lks_rpc_slice name)
{
    entry *e = entry_of(k, name);

    if (e) {
        remove_entry(k, e);
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
    entry *e = entry_of(k, name);

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
        remove_entry(k, container_of(first, entry, end));
}

/* ---- strings ---------------------------------------------------------------------- */

keys_found keys_get(const keys *k, lks_rpc_slice name, lks_rpc_slice *ret)
{
    keys_found found;
    const entry *e = entry_as(k, name, KEYS_STRING, &found);

    if (e)
        *ret = (lks_rpc_slice){e->value, e->len};
    return found;
}

void keys_set(keys *k, lks_rpc_slice name, lks_rpc_slice value, int64_t end_us)
{
    entry *e = entry_of(k, name);
    char *copy = memory_copy(value.len > 0 ? value.data : "", value.len);

    if (!e)
        e = insert(k, name, KEYS_STRING);
    keys_before_change(k, e);
    free_items(e);
    free(e->value);
    e->seen.type = KEYS_STRING;
    e->value = copy;
    e->len = value.len;
    if (end_us != KEYS_KEEP_END)
        keys_move_end(k, e, end_us);
    keys_after_change(k, e);
}

/* ---- items of a key ----------------------------------------------------------------- */

/* Returns the item of a key of that type, or NULL if it is absent or the key has another type; *found tells which. */
static item *find_item(const keys *k, lks_rpc_slice name, keys_type type, lks_rpc_slice item_name, entry **e,
                       keys_found *found)
{
    *e = entry_as(k, name, type, found);
    item *it = *e ? keys_item_of(*e, item_name) : NULL;

    if (*found == KEYS_FOUND && !it)
        *found = KEYS_ABSENT;
    return it;
}

static keys_found delete_item(keys *k, lks_rpc_slice name, keys_type type, lks_rpc_slice item_name)
{
    keys_found found;
    entry *e;
    item *it = find_item(k, name, type, item_name, &e, &found);

    if (!it)
        return found;
    if (e->n_items == 1) {
        remove_entry(k, e);
        k->changes++;
    } else {
        keys_before_change(k, e);
        drop_item(e, it);
        keys_after_change(k, e);
    }
    return KEYS_FOUND;
}

/* ---- hashes ------------------------------------------------------------------------ */

keys_found keys_field(const keys *k, lks_rpc_slice name, lks_rpc_slice field, lks_rpc_slice *ret)
{
    keys_found found;
    entry *e;
    const item *it = find_item(k, name, KEYS_HASH, field, &e, &found);

    if (it)
        *ret = it->seen.value;
    return found;
}

keys_found keys_set_field(keys *k, lks_rpc_slice name, lks_rpc_slice field, lks_rpc_slice value)
{
    entry *e = entry_to_change(k, name, KEYS_HASH);

    if (!e)
        return KEYS_WRONG_TYPE;
    item *it = keys_item_of(e, field);
    keys_before_change(k, e);
    if (it) {
        char *copy = memory_copy(value.len > 0 ? value.data : "", value.len);
        e->item_bytes -= item_bytes(e, it);
        free((char *)(uintptr_t)it->seen.value.data);
        it->seen.value = (lks_rpc_slice){copy, value.len};
        e->item_bytes += item_bytes(e, it);
    } else {
        keys_add_item(e, field, value, 0, 0);
    }
    keys_after_change(k, e);
    return it ? KEYS_FOUND : KEYS_ABSENT;
}

keys_found keys_delete_field(keys *k, lks_rpc_slice name, lks_rpc_slice field)
{
    return delete_item(k, name, KEYS_HASH, field);
}

keys_found keys_fields(const keys *k, lks_rpc_slice name, const keys_item **first, size_t *n)
{
    keys_found found;
    const entry *e = entry_as(k, name, KEYS_HASH, &found);

    *first = e ? &e->items->seen : NULL;
    *n = e ? e->n_items : 0;
    return found;
}

const keys_item *keys_next_field(const keys_item *field)
{
    const item *it = (const item *)(const void *)field; /* `seen` is the first member */
    const item *next = it->hh.next;

    return next ? &next->seen : NULL;
}

/* ---- sorted sets ------------------------------------------------------------------- */

keys_found keys_score(const keys *k, lks_rpc_slice name, lks_rpc_slice member, double *ret)
{
    keys_found found;
    entry *e;
    const item *it = find_item(k, name, KEYS_ZSET, member, &e, &found);

    if (it)
        *ret = it->seen.score;
    return found;
}

keys_found keys_set_member(keys *k, lks_rpc_slice name, lks_rpc_slice member, double score)
{
    entry *e = entry_to_change(k, name, KEYS_ZSET);

    if (!e)
        return KEYS_WRONG_TYPE;
    item *it = keys_item_of(e, member);
    if (it && it->seen.score == score)
        return KEYS_FOUND;
    keys_before_change(k, e);
    if (it)
        drop_item(e, it);
    keys_add_item(e, member, (lks_rpc_slice){NULL, 0}, score,
                  place_of_member(e, &(keys_item){.name = member, .score = score}));
    keys_after_change(k, e);
    return it ? KEYS_FOUND : KEYS_ABSENT;
}

keys_found keys_delete_member(keys *k, lks_rpc_slice name, lks_rpc_slice member)
{
    return delete_item(k, name, KEYS_ZSET, member);
}

keys_found keys_members(const keys *k, lks_rpc_slice name, const keys_item *const **members, size_t *n)
{
    keys_found found;
    const entry *e = entry_as(k, name, KEYS_ZSET, &found);

    *members = NULL;
    *n = e ? e->n_items : 0;
    if (e)
        *members = (const keys_item *const *)(const void *)e->members; /* each begins with its keys_item */
    return found;
}
