/* Invariant: a skipped value is a field of Frame; the inside of a call is not parsed. Called by sp.c. */
#include "net/sp/sp_calls.h"

#include <stdbool.h>

#include <lockstock/rpc/frame.h>

enum { ID_BYTES = 4, VARINT_BYTES_MAX = 10, CALLS_FIELD = 2 };
enum { WIRE_VARINT, WIRE_FIXED64, WIRE_LENGTH, WIRE_FIXED32 = 5 };

/* The first byte of the last id has the high bit. */
static void pass_id_byte(sp_calls *c, uint8_t byte)
{
    if (c->n == 0)
        c->number = byte & 0x80;
    c->n = (c->n + 1) % ID_BYTES;
    if (c->n == 0 && c->number)
        c->state = SP_CALLS_TAG;
    if (c->n == 0)
        c->number = 0;
}

static void skip(sp_calls *c, uint64_t bytes)
{
    c->left = bytes;
    c->state = bytes > 0 ? SP_CALLS_SKIP : SP_CALLS_TAG;
}

static void on_tag(sp_calls *c, uint64_t tag)
{
    c->calls += tag == (CALLS_FIELD << 3 | WIRE_LENGTH);
    switch (tag & 7) {
    case WIRE_VARINT:
        c->state = SP_CALLS_VARINT;
        break;
    case WIRE_FIXED64:
        skip(c, 8);
        break;
    case WIRE_LENGTH:
        c->state = SP_CALLS_LENGTH;
        break;
    case WIRE_FIXED32:
        skip(c, 4);
        break;
    default:
        c->state = SP_CALLS_LOST;
    }
}

static void pass_varint_byte(sp_calls *c, uint8_t byte)
{
    uint64_t number = c->number | (c->n < VARINT_BYTES_MAX ? (uint64_t)(byte & 0x7F) << (7 * c->n) : 0);

    if (++c->n > VARINT_BYTES_MAX) {
        c->state = SP_CALLS_LOST;
        return;
    }
    c->number = number;
    if (byte & 0x80)
        return;
    c->number = c->n = 0;
    if (c->state == SP_CALLS_TAG)
        on_tag(c, number);
    else if (c->state == SP_CALLS_LENGTH)
        skip(c, number);
    else
        c->state = SP_CALLS_TAG;
}

void sp_calls_pass(sp_calls *c, const uint8_t *data, size_t len)
{
    for (size_t at = 0; at < len && c->state != SP_CALLS_LOST;) {
        if (c->state == SP_CALLS_SKIP) {
            size_t n = c->left < len - at ? (size_t)c->left : len - at;
            at += n;
            skip(c, c->left - n);
        } else if (c->state == SP_CALLS_IDS) {
            pass_id_byte(c, data[at++]);
        } else {
            pass_varint_byte(c, data[at++]);
        }
    }
}

size_t sp_calls_results(const sp_calls *c)
{
    bool whole = c->state == SP_CALLS_TAG && c->n == 0;

    return whole && c->calls > 0 && c->calls <= LKS_RPC_FRAME_CALLS_MAX ? c->calls : 1;
}
