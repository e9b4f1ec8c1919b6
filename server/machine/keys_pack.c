/* The packed form, made of numbers and texts as in packed.h. An end and a score take 8 bytes, little-endian.
 *
 *   keys    'K' 1 number-of-keys key...
 *   key     kind shared rest-length rest [end] value
 *             kind    1 string, 2 hash, 3 sorted set; plus 0x10 when the key has an end
 *             shared  length of the common prefix with the previous name; `rest` has the other bytes
 *             end     microseconds, more than 0
 *   value   string       length bytes
 *           hash         number-of-fields (length field length value)...    in the order in which fields were added
 *           sorted set   number-of-members (score length member)...         sorted; a score is a double
 *
 * Keys are sorted by name. A hash or sorted set has at least one item. So equal keys have one packed form, and
 * keys_unpack refuses any other. */
#include "machine/keys_state.h"

#include <math.h>

#include "base/varint.h"
#include "machine/packed.h"
#include "memory.h"

enum { MARK = 'K', VERSION = 1, HAS_END = 0x10 };

/* ---- pack ------------------------------------------------------------------------- */

static char *put_value(char *at, const entry *e)
{
    if (e->seen.type == KEYS_STRING)
        return packed_put_text(at, (lks_rpc_slice){e->value, e->len});
    at = varint_put(at, e->n_items);
    if (e->seen.type == KEYS_HASH)
        for (const item *it = e->items; it; it = it->hh.next)
            at = packed_put_text(packed_put_text(at, it->seen.name), it->seen.value);
    else
        for (size_t i = 0; i < e->n_items; i++)
            at = packed_put_text(packed_put_double(at, e->members[i]->seen.score), e->members[i]->seen.name);
    return at;
}

static char *put_entry(char *at, const entry *e)
{
    *at++ = (char)((unsigned)e->seen.type | (e->seen.end_us ? HAS_END : 0U));
    at = varint_put(at, e->shared);
    at = packed_put_text(at, (lks_rpc_slice){e->name + e->shared, e->seen.name.len - e->shared});
    if (e->seen.end_us)
        at = packed_put_fixed(at, (uint64_t)e->seen.end_us);
    return put_value(at, e);
}

char *keys_pack(const keys *k, char *at)
{
    const char *end = at + keys_bytes(k);

    *at++ = MARK;
    *at++ = VERSION;
    at = varint_put(at, k->n);
    for (size_t i = 0; i < k->n; i++)
        at = put_entry(at, k->entries[i]);
    if (at != end)
        abort(); /* keys_bytes is wrong, and memory may be overwritten */
    return at;
}

/* ---- unpack ----------------------------------------------------------------------- */

static double read_score(packed_reader *r)
{
    double score = packed_double(r);

    packed_refuse_unless(r, !isnan(score) && !(score == 0 && signbit(score)));
    return r->failed ? 0 : score;
}

static void read_item(packed_reader *r, entry *e)
{
    double score = e->seen.type == KEYS_ZSET ? read_score(r) : 0;
    lks_rpc_slice name = packed_text(r), value = {"", 0};

    if (e->seen.type == KEYS_HASH)
        value = packed_text(r);
    packed_refuse_unless(r, !keys_item_of(e, name));
    if (e->seen.type == KEYS_ZSET && e->n_items > 0) {
        const keys_item next = {.name = name, .score = score};
        packed_refuse_unless(r, keys_compare_members(&e->members[e->n_items - 1]->seen, &next) < 0);
    }
    if (!r->failed)
        keys_add_item(e, name, value, score, e->n_items);
}

static void read_value(packed_reader *r, entry *e)
{
    if (e->seen.type == KEYS_STRING) {
        lks_rpc_slice value = packed_text(r);
        e->value = memory_copy(value.data, value.len);
        e->len = value.len;
        return;
    }
    uint64_t n = packed_number(r);
    packed_refuse_unless(r, n > 0);
    for (uint64_t i = 0; i < n && !r->failed; i++)
        read_item(r, e);
}

/* Reads the name of the next key. The caller frees it. */
static char *read_name(packed_reader *r, const keys *k, size_t *len)
{
    const lks_rpc_slice last = k->n > 0 ? k->entries[k->n - 1]->seen.name : (lks_rpc_slice){"", 0};
    const uint64_t shared = packed_number(r);
    const lks_rpc_slice rest = packed_text(r);

    packed_refuse_unless(r, shared <= last.len);
    if (r->failed)
        return NULL;
    *len = (size_t)shared + rest.len;
    char *name = memory_alloc(*len + 1);
    packed_put_bytes(packed_put_bytes(name, (lks_rpc_slice){last.data, (size_t)shared}), rest);
    const lks_rpc_slice now = {name, *len};
    packed_refuse_unless(r, k->n == 0 || (keys_compare(last, now) < 0 && keys_common(last, now) == shared));
    return name;
}

static void read_entry(packed_reader *r, keys *k)
{
    size_t len = 0;
    unsigned kind = packed_byte(r), type = kind & ~(unsigned)HAS_END;

    packed_refuse_unless(r, type >= KEYS_STRING && type <= KEYS_ZSET);
    char *name = read_name(r, k, &len);
    int64_t end_us = kind & HAS_END ? (int64_t)packed_fixed(r) : 0;
    packed_refuse_unless(r, end_us > 0 || !(kind & HAS_END));
    if (!r->failed) {
        entry *e = keys_append(k, (lks_rpc_slice){name, len}, (keys_type)type);
        keys_before_change(k, e);
        keys_move_end(k, e, end_us);
        read_value(r, e);
        keys_after_change(k, e);
    }
    free(name);
}

keys *keys_unpack(const void *data, size_t len)
{
    packed_reader r = packed_reader_of(data, len);
    keys *k = keys_new();

    packed_refuse_unless(&r, packed_byte(&r) == MARK);
    packed_refuse_unless(&r, packed_byte(&r) == VERSION);
    uint64_t n = packed_number(&r);
    for (uint64_t i = 0; i < n && !r.failed; i++)
        read_entry(&r, k);
    packed_refuse_unless(&r, packed_left(&r) == 0);
    k->changes = 0;
    if (r.failed) {
        keys_free(k);
        return NULL;
    }
    return k;
}
