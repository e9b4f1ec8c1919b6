/* CLUSTER NODES contains epochs, unlike CLUSTER SLOTS, so that the old view of a node that was cut off can be
 * recognized. Its lines:
 *
 *   <id> <host>:<port>[@<bus port>[,<name>...]] <flag>[,<flag>...] <its primary> <ping> <pong> <epoch> <link> <slot>...
 *
 * slot: "5", "0-99", or "[5->-<id>]" and "[5-<-<id>]" for a slot that moves, which do not change its owner. */
#include "store/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "memory.h"
#include "slice.h"

enum { WORDS_BEFORE_SLOTS = 8 };

/* CRC16 (XMODEM), four bits a step. */
static uint16_t crc16(const char *text, size_t len)
{
    static const uint16_t step[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                      0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)text[i];
        crc = (crc << 4 ^ step[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ step[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return (uint16_t)crc;
}

uint16_t slots_of(lks_rpc_slice key)
{
    const char *open = memchr(key.data, '{', key.len);
    const char *close = open ? memchr(open, '}', key.len - (size_t)(open - key.data)) : NULL;

    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % SLOTS;
    return crc16(key.data, key.len) % SLOTS;
}

void slots_tag(uint16_t slot, char tag[SLOTS_TAG_BYTES])
{
    unsigned n = 0;

    do
        snprintf(tag, SLOTS_TAG_BYTES, "%u", n++);
    while (crc16(tag, strlen(tag)) % SLOTS != slot);
}

/* ---- CLUSTER NODES --------------------------------------------------------------- */

/* Removes and returns the text before `end`, or all of it. */
static lks_rpc_slice cut(lks_rpc_slice *rest, char end)
{
    const char *at = memchr(rest->data, end, rest->len);
    lks_rpc_slice part = {.data = rest->data, .len = at ? (size_t)(at - rest->data) : rest->len};

    rest->data += part.len + !!at;
    rest->len -= part.len + !!at;
    return part;
}

static int64_t number_of(lks_rpc_slice text, int64_t max)
{
    return number_parse(text.data, text.len, max);
}

static bool copy_text(char *to, size_t bytes, lks_rpc_slice text)
{
    if (text.len >= bytes)
        return false;
    memcpy(to, text.data, text.len);
    to[text.len] = '\0';
    return true;
}

/* Reads "<host>:<port>"; the host may contain colons. */
static bool read_address(lks_rpc_slice text, char host[SLOTS_HOST_BYTES], uint16_t *port)
{
    const char *colon = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;

    if (!colon)
        return false;
    lks_rpc_slice before = {.data = text.data, .len = (size_t)(colon - text.data)};
    lks_rpc_slice after = {.data = colon + 1, .len = text.len - before.len - 1};
    int64_t number = number_of(after, UINT16_MAX);
    if (number < 0 || !copy_text(host, SLOTS_HOST_BYTES, before))
        return false;
    *port = (uint16_t)number;
    return true;
}

static bool has_flag(lks_rpc_slice flags, const char *flag)
{
    while (flags.len > 0)
        if (slice_is(cut(&flags, ','), flag))
            return true;
    return false;
}

static bool read_slots(slots_map *map, uint16_t place, lks_rpc_slice slots)
{
    while (slots.len > 0) {
        lks_rpc_slice last = cut(&slots, ' ');
        if (last.len == 0 || *last.data == '[')
            continue;
        lks_rpc_slice first = cut(&last, '-');
        int64_t from = number_of(first, SLOTS - 1), to = last.len > 0 ? number_of(last, SLOTS - 1) : from;
        if (from < 0 || to < 0)
            return false;
        for (int64_t slot = from; slot <= to; slot++)
            map->owner[slot] = place;
    }
    return true;
}

static bool read_line(slots_map *map, lks_rpc_slice line, const char *asked)
{
    slots_node *node = &map->node[map->n];
    lks_rpc_slice word[WORDS_BEFORE_SLOTS];

    for (size_t i = 0; i < WORDS_BEFORE_SLOTS; i++)
        word[i] = cut(&line, ' ');
    lks_rpc_slice address = cut(&word[1], '@');
    address = cut(&address, ',');
    int64_t epoch = number_of(word[6], INT64_MAX);
    if (!copy_text(node->id, sizeof node->id, word[0]) || strlen(node->id) != SLOTS_ID_BYTES - 1 ||
        !read_address(address, node->host, &node->port) || epoch < 0)
        return false;
    node->epoch = (uint64_t)epoch;
    if (node->host[0] == '\0' && has_flag(word[2], "myself"))
        snprintf(node->host, sizeof node->host, "%s", asked);
    node->failed = has_flag(word[2], "fail") || has_flag(word[2], "noaddr") || has_flag(word[2], "handshake");
    return read_slots(map, (uint16_t)map->n++, line);
}

bool slots_read(slots_map *ret, const char *text, size_t len, const char *asked)
{
    lks_rpc_slice rest = {.data = text, .len = len};
    size_t lines = 0;

    *ret = (slots_map){0};
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n' || i + 1 == len;
    if (lines > SLOTS_NODES_MAX)
        return false;
    ret->node = memory_alloc((lines + 1) * sizeof *ret->node);
    memset(ret->owner, 0xff, sizeof ret->owner);
    while (rest.len > 0) {
        lks_rpc_slice line = cut(&rest, '\n');
        if (line.len > 0 && !read_line(ret, line, asked)) {
            slots_clear(ret);
            return false;
        }
    }
    if (ret->n == 0)
        slots_clear(ret);
    return ret->n > 0;
}

void slots_clear(slots_map *map)
{
    free(map->node);
    map->node = NULL;
    map->n = 0;
}

/* Reads "<kind> <slot>", and removes it. */
static bool read_slot(lks_rpc_slice *text, const char *kind, uint16_t *slot)
{
    int64_t number = slice_is(cut(text, ' '), kind) ? number_of(cut(text, ' '), SLOTS - 1) : -1;

    *slot = (uint16_t)number;
    return number >= 0;
}

bool slots_read_ask(const char *text, size_t len, uint16_t *slot)
{
    lks_rpc_slice rest = {.data = text, .len = len};

    return read_slot(&rest, "ASK", slot);
}

bool slots_read_moved(const char *text, size_t len, uint16_t *slot, char host[SLOTS_HOST_BYTES], uint16_t *port)
{
    lks_rpc_slice rest = {.data = text, .len = len};

    return read_slot(&rest, "MOVED", slot) && read_address(rest, host, port);
}
