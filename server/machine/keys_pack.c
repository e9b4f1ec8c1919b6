/* The packed form. Numbers are LEB128 without needless bytes; an end and a score take 8 bytes, little-endian.
 *
 *   keys    'K' 1 number-of-keys key...
 *   key     kind shared rest-length rest [end] value
 *             kind    1 string, 2 hash, 3 sorted set; plus 0x10 when the key has an end
 *             shared  how many bytes of the name are those of the name before; `rest` has the others
 *             end     microseconds, an integer over 0
 *   value   string       length bytes
 *           hash         number-of-fields (length field length value)...    in the order in which the fields came
 *           sorted set   number-of-members (score length member)...         in their order; a score is a double
 *
 * Keys are in the order of their names. A hash or sorted set has an item at least. So equal keys have one packed form,
 * and keys_unpack refuses any other. */
#include "machine/keys_state.h"

#include <math.h>
#include <string.h>

#include "memory.h"

enum { MARK = 'K', VERSION = 1, HAS_END = 0x10, BITS = 7, MORE = 0x80, NUMBER_BITS = 64 };

/* ---- pack ------------------------------------------------------------------------- */

static char *put_number(char *at, uint64_t number)
{
    for (; number > MORE - 1; number >>= BITS)
        *at++ = (char)(number | MORE);
    *at++ = (char)number;
    return at;
}

static char *put_bytes(char *at, lks_rpc_slice bytes)
{
    if (bytes.len > 0)
        memcpy(at, bytes.data, bytes.len);
    return at + bytes.len;
}

static char *put_slice(char *at, lks_rpc_slice bytes)
{
    return put_bytes(put_number(at, bytes.len), bytes);
}

static char *put_fixed(char *at, uint64_t bits)
{
    for (unsigned shift = 0; shift < NUMBER_BITS; shift += 8)
        *at++ = (char)(bits >> shift);
    return at;
}

static char *put_score(char *at, double score)
{
    uint64_t bits;

    memcpy(&bits, &score, sizeof bits);
    return put_fixed(at, bits);
}

static char *put_value(char *at, const entry *e)
{
    if (e->seen.type == KEYS_STRING)
        return put_slice(at, (lks_rpc_slice){e->value, e->len});
    at = put_number(at, e->n_items);
    if (e->seen.type == KEYS_HASH)
        for (const item *it = e->items; it; it = it->hh.next)
            at = put_slice(put_slice(at, it->seen.name), it->seen.value);
    else
        for (size_t i = 0; i < e->n_items; i++)
            at = put_slice(put_score(at, e->members[i]->seen.score), e->members[i]->seen.name);
    return at;
}

static char *put_entry(char *at, const entry *e)
{
    *at++ = (char)((unsigned)e->seen.type | (e->seen.end_us ? HAS_END : 0U));
    at = put_number(at, e->shared);
    at = put_slice(at, (lks_rpc_slice){e->name + e->shared, e->seen.name.len - e->shared});
    if (e->seen.end_us)
        at = put_fixed(at, (uint64_t)e->seen.end_us);
    return put_value(at, e);
}

static char *reserve(keys_buffer *buffer, size_t more)
{
    if (buffer->room - buffer->len < more) {
        size_t room = buffer->len + more;
        room += room / 2;
        char *data = memory_alloc(room);
        if (buffer->len > 0)
            memcpy(data, buffer->data, buffer->len);
        free(buffer->data);
        buffer->data = data;
        buffer->room = room;
    }
    return buffer->data + buffer->len;
}

void keys_pack(const keys *k, keys_buffer *buffer)
{
    size_t len = keys_bytes(k);
    char *begin = reserve(buffer, len), *at = begin;

    *at++ = MARK;
    *at++ = VERSION;
    at = put_number(at, k->n);
    for (size_t i = 0; i < k->n; i++)
        at = put_entry(at, k->entries[i]);
    if ((size_t)(at - begin) != len)
        abort(); /* keys_bytes is wrong, and memory may be overwritten */
    buffer->len += len;
}

/* ---- unpack ----------------------------------------------------------------------- */

/* After a failure every read fails. */
typedef struct reader {
    const unsigned char *at, *end;
    bool failed;
} reader;

static size_t left(const reader *r)
{
    return r->failed ? 0 : (size_t)(r->end - r->at);
}

static void refuse_unless(reader *r, bool is_right)
{
    r->failed = r->failed || !is_right;
}

static unsigned read_byte(reader *r)
{
    refuse_unless(r, left(r) > 0);
    return r->failed ? 0 : *r->at++;
}

static uint64_t read_number(reader *r)
{
    uint64_t number = 0;
    unsigned byte = MORE;

    for (unsigned shift = 0; byte & MORE; shift += BITS) {
        byte = read_byte(r);
        refuse_unless(r, shift < NUMBER_BITS - BITS && (byte != 0 || shift == 0)); /* at most 2^63 - 1 */
        if (r->failed)
            return 0;
        number |= (uint64_t)(byte & (MORE - 1)) << shift;
    }
    return number;
}

static lks_rpc_slice read_slice(reader *r)
{
    uint64_t len = read_number(r);

    refuse_unless(r, len <= left(r));
    if (r->failed)
        return (lks_rpc_slice){"", 0};
    lks_rpc_slice slice = {(const char *)r->at, (size_t)len};
    r->at += len;
    return slice;
}

static uint64_t read_fixed(reader *r)
{
    uint64_t bits = 0;

    for (unsigned shift = 0; shift < NUMBER_BITS; shift += 8)
        bits |= (uint64_t)read_byte(r) << shift;
    return bits;
}

static double read_score(reader *r)
{
    uint64_t bits = read_fixed(r);
    double score;

    memcpy(&score, &bits, sizeof score);
    refuse_unless(r, !isnan(score) && !(score == 0 && signbit(score)));
    return r->failed ? 0 : score;
}

static void read_item(reader *r, entry *e)
{
    double score = e->seen.type == KEYS_ZSET ? read_score(r) : 0;
    lks_rpc_slice name = read_slice(r), value = {"", 0};

    if (e->seen.type == KEYS_HASH)
        value = read_slice(r);
    refuse_unless(r, !keys_item_of(e, name));
    if (e->seen.type == KEYS_ZSET && e->n_items > 0) {
        const keys_item next = {.name = name, .score = score};
        refuse_unless(r, keys_compare_members(&e->members[e->n_items - 1]->seen, &next) < 0);
    }
    if (!r->failed)
        keys_add_item(e, name, value, score, e->n_items);
}

static void read_value(reader *r, entry *e)
{
    if (e->seen.type == KEYS_STRING) {
        lks_rpc_slice value = read_slice(r);
        e->value = memory_copy(value.data, value.len);
        e->len = value.len;
        return;
    }
    uint64_t n = read_number(r);
    refuse_unless(r, n > 0);
    for (uint64_t i = 0; i < n && !r->failed; i++)
        read_item(r, e);
}

/* The name of the next key, into `name`, which has the one before. */
static void read_name(reader *r, const keys *k, keys_buffer *name)
{
    const lks_rpc_slice before = {name->data, name->len};
    uint64_t shared = read_number(r);
    lks_rpc_slice rest = read_slice(r);

    refuse_unless(r, shared <= before.len);
    if (r->failed)
        return;
    name->len = (size_t)shared;
    memcpy(reserve(name, rest.len + 1), rest.data, rest.len);
    name->len += rest.len;
    if (k->n > 0) {
        const lks_rpc_slice last = k->entries[k->n - 1]->seen.name, now = {name->data, name->len};
        refuse_unless(r, keys_compare(last, now) < 0 && keys_common(last, now) == shared);
    }
}

static void read_entry(reader *r, keys *k, keys_buffer *name)
{
    unsigned kind = read_byte(r), type = kind & ~(unsigned)HAS_END;

    refuse_unless(r, type >= KEYS_STRING && type <= KEYS_ZSET);
    read_name(r, k, name);
    int64_t end_us = kind & HAS_END ? (int64_t)read_fixed(r) : 0;
    refuse_unless(r, end_us > 0 || !(kind & HAS_END));
    if (r->failed)
        return;
    entry *e = keys_append(k, (lks_rpc_slice){name->data, name->len}, (keys_type)type);
    keys_before_change(k, e);
    keys_move_end(k, e, end_us);
    read_value(r, e);
    keys_after_change(k, e);
}

keys *keys_unpack(const void *data, size_t len)
{
    const unsigned char *begin = data ? data : (const void *)"";
    reader r = {.at = begin, .end = begin + len};
    keys_buffer name = {0};
    keys *k = keys_new();

    refuse_unless(&r, read_byte(&r) == MARK);
    refuse_unless(&r, read_byte(&r) == VERSION);
    uint64_t n = read_number(&r);
    for (uint64_t i = 0; i < n && !r.failed; i++)
        read_entry(&r, k, &name);
    refuse_unless(&r, left(&r) == 0);
    free(name.data);
    k->changes = 0;
    if (r.failed) {
        keys_free(k);
        return NULL;
    }
    return k;
}
