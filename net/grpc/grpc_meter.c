/* Invariant: between frames, head_len and left are 0. The cost of a frame is known when its head is complete, before
 * its payload. Called by grpc.c. */
#include "net/grpc/grpc_meter.h"

#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/clock.h"

enum {
    HEAD_BYTES = 9,
    PREFACE_BYTES = 24,
    SMALL_DATA = 256,     /* DATA of fewer bytes carries little */
    EARNED_BY_CALL = 4,   /* for its message in pieces, and the end */
    EARNED_BY_ANSWER = 3, /* WINDOW_UPDATEs of the stream and the connection, a PING */
    EARNED_MAX = 100000,
    BYTES_A_STRIKE = 2048,      /* of a payload that is dropped, because reading it costs as much */
    HEADER_BYTES_A_STRIKE = 16, /* of headers that do not begin a call: one byte may encode a field */
};

grpc_meter grpc_meter_new(void)
{
    return (grpc_meter){.strikes_ns = clock_now_ns(), .left = PREFACE_BYTES};
}

static bool strikes(grpc_meter *m, size_t n)
{
    uint64_t now = clock_now_ns();
    double leaked = (double)(now - m->strikes_ns) / 1e9 * GRPC_STRIKES_PER_SECOND;

    m->strikes = m->strikes > leaked ? m->strikes - leaked : 0;
    m->strikes_ns = now;
    m->strikes += (double)n;
    return m->strikes <= GRPC_STRIKES_MAX;
}

bool grpc_meter_strike(grpc_meter *m)
{
    return strikes(m, 1);
}

static void earn(grpc_meter *m, uint32_t n)
{
    m->earned = m->earned + n < EARNED_MAX ? m->earned + n : EARNED_MAX;
}

void grpc_meter_earn(grpc_meter *m)
{
    earn(m, EARNED_BY_ANSWER);
}

void grpc_meter_no_more_calls(grpc_meter *m)
{
    m->last_id = UINT32_MAX;
}

static size_t length_of(const uint8_t *head)
{
    return (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
}

static uint32_t id_of(const uint8_t *head)
{
    return (uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
}

static bool is_padded_data(const uint8_t *head)
{
    return head[3] == NGHTTP2_DATA && head[4] & NGHTTP2_FLAG_PADDED && length_of(head) > 0;
}

static bool pay_for_data(grpc_meter *m)
{
    size_t padding = is_padded_data(m->head) ? 1 + (size_t)m->head[HEAD_BYTES] : 0;

    if (length_of(m->head) >= padding + SMALL_DATA)
        return true;
    if (m->earned == 0)
        return strikes(m, 1);
    m->earned--;
    return true;
}

/* A block of HEADERS and CONTINUATIONs. */
static bool pay_for_headers(grpc_meter *m)
{
    uint32_t id = id_of(m->head);
    bool is_new = m->head[3] == NGHTTP2_HEADERS && id > m->last_id;

    m->block = length_of(m->head) + (m->head[3] == NGHTTP2_HEADERS ? 0 : m->block);
    if (m->block > GRPC_HEADER_BYTES_WORST)
        return false;
    if (!is_new)
        return strikes(m, 1 + (m->head[3] == NGHTTP2_HEADERS ? m->block / HEADER_BYTES_A_STRIKE : 0));
    m->last_id = id;
    earn(m, EARNED_BY_CALL);
    return true;
}

/* The head is complete. */
static bool pay(grpc_meter *m)
{
    switch (m->head[3]) {
    case NGHTTP2_DATA:
        return pay_for_data(m);
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
        return pay_for_headers(m);
    case NGHTTP2_WINDOW_UPDATE:
    case NGHTTP2_PING:
        if (m->earned > 0) {
            m->earned--;
            return true;
        }
        return strikes(m, 1);
    default:
        return strikes(m, 1 + length_of(m->head) / BYTES_A_STRIKE);
    }
}

/* Bytes of the current head, as far as they are known. */
static size_t head_wanted(const grpc_meter *m)
{
    return m->head_len >= HEAD_BYTES && is_padded_data(m->head) ? HEAD_BYTES + 1 : HEAD_BYTES;
}

bool grpc_meter_take(grpc_meter *m, const uint8_t *data, size_t len, size_t *good)
{
    size_t at = 0;

    *good = 0;
    while (at < len) {
        size_t wanted = m->left > 0 ? m->left : head_wanted(m) - m->head_len;
        size_t n = wanted < len - at ? wanted : len - at;
        if (m->left > 0) {
            m->left -= n;
        } else {
            memcpy(m->head + m->head_len, data + at, n);
            m->head_len += n;
        }
        at += n;
        if (m->head_len == head_wanted(m)) {
            if (!pay(m))
                return false;
            m->left = length_of(m->head) - (m->head_len - HEAD_BYTES);
            m->head_len = 0;
        }
        if (m->head_len == 0)
            *good = at;
    }
    *good = len;
    return true;
}
