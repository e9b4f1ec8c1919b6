/* Fields of hashes and members of sorted sets. Invariant: uthash has all items of an entry, fields in the order in
 * which they were added; `members` has the members of a sorted set, sorted. */
#include "machine/keys_state.h"

#include <string.h>

#include "memory.h"

int keys_compare_members(const keys_item *a, const keys_item *b)
{
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return keys_compare(a->name, b->name);
}

static size_t item_bytes(const entry *e, const item *it)
{
    size_t name = packed_number_bytes(it->seen.name.len) + it->seen.name.len;

    if (e->seen.type == KEYS_ZSET)
        return name + PACKED_FIXED_BYTES;
    return name + packed_number_bytes(it->seen.value.len) + it->seen.value.len;
}

item *keys_item_of(const entry *e, lks_rpc_slice name)
{
    item *it = NULL;

    HASH_FIND(hh, e->items, name.data ? name.data : "", name.len, it);
    return it;
}

/* Returns the index of the first member that is not before this one. */
static size_t place_of(const entry *e, const keys_item *member)
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
    size_t place = place_of(e, &it->seen);

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

void keys_free_items(entry *e)
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

/* Returns the item of a key of that type, or NULL if it is absent or the key has another type; *found tells which. */
static item *find_item(const keys *k, lks_rpc_slice name, keys_type type, lks_rpc_slice item_name, entry **e,
                       keys_found *found)
{
    *e = keys_entry_as(k, name, type, found);
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
        keys_remove(k, e);
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
    keys_found found;
    entry *e = keys_entry_as(k, name, KEYS_HASH, &found);

    if (found == KEYS_WRONG_TYPE)
        return found;
    if (!e)
        e = keys_insert(k, name, KEYS_HASH);
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
    const entry *e = keys_entry_as(k, name, KEYS_HASH, &found);

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
    keys_found found;
    entry *e = keys_entry_as(k, name, KEYS_ZSET, &found);

    if (found == KEYS_WRONG_TYPE)
        return found;
    if (!e)
        e = keys_insert(k, name, KEYS_ZSET);
    item *it = keys_item_of(e, member);
    if (it && it->seen.score == score)
        return KEYS_FOUND;
    keys_before_change(k, e);
    if (it)
        drop_item(e, it);
    keys_add_item(e, member, (lks_rpc_slice){NULL, 0}, score,
                  place_of(e, &(keys_item){.name = member, .score = score}));
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
    const entry *e = keys_entry_as(k, name, KEYS_ZSET, &found);

    *members = NULL;
    *n = e ? e->n_items : 0;
    if (e)
        *members = (const keys_item *const *)(const void *)e->members; /* each begins with its keys_item */
    return found;
}
