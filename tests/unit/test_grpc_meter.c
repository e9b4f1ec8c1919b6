/* The cost of a connection's frames, in any pieces, with a test clock. */
/* promise G7 */

#include <nghttp2/nghttp2.h>

#include "base/clock.h"
#include "net/grpc/grpc_meter.h"
#include "test.h"

enum { PADDED = NGHTTP2_FLAG_PADDED, MANY = 100000 };

static uint64_t now_ns;
uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

static grpc_meter begin(void)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    size_t good;

    now_ns = 1000000000;
    grpc_meter m = grpc_meter_new();
    assert_true(grpc_meter_take(&m, (const uint8_t *)preface, 24, &good));
    assert_int_equal(good, 24);
    return m;
}

/* A frame; its payload is zeros. */
static bool take(grpc_meter *m, uint8_t type, uint8_t flags, uint32_t id, size_t len)
{
    static uint8_t frame[9 + 16384];
    const uint8_t head[] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
                            (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    size_t good;

    assert_true(len <= 16384);
    memcpy(frame, head, sizeof head);
    memset(frame + 9, 0, len);
    bool fine = grpc_meter_take(m, frame, 9 + len, &good);
    assert_int_equal(good, fine ? 9 + len : 0);
    return fine;
}

/* How many of a frame are taken at once. */
static size_t count(grpc_meter *m, uint8_t type, uint8_t flags, uint32_t id, size_t len)
{
    size_t n = 0;

    while (n < MANY && take(m, type, flags, id, len))
        n++;
    return n;
}

static size_t count_new(uint8_t type, uint8_t flags, uint32_t id, size_t len)
{
    grpc_meter m = begin();

    return count(&m, type, flags, id, len);
}

TEST(frames_without_content_are_counted_as_strikes)
{
    assert_int_equal(count_new(NGHTTP2_RST_STREAM, 0, 1, 4), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_PING, 0, 0, 8), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, 8), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_SETTINGS, 0, 0, 0), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_PRIORITY, 0, 1, 5), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_WINDOW_UPDATE, 0, 0, 4), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_GOAWAY, 0, 0, 8), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(0x10, 0, 1, 4), GRPC_STRIKES_MAX); /* PRIORITY_UPDATE */
    assert_int_equal(count_new(0xee, 0xff, 7, 0), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(0xee, 0, 7, 16384), GRPC_STRIKES_MAX / 9);
    assert_int_equal(count_new(NGHTTP2_DATA, 0, 1, 0), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_DATA, 0, 1, 255), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, 0), GRPC_STRIKES_MAX);
}

TEST(padding_does_not_count_as_data)
{
    uint8_t frame[9 + 512] = {0, 1, 255, NGHTTP2_DATA, PADDED, 0, 0, 0, 1, 255}; /* 511: length, 255 of data */
    assert_int_equal(count_new(NGHTTP2_DATA, 0, 1, 256), MANY);
    assert_int_equal(count_new(NGHTTP2_DATA, PADDED, 1, 257), MANY);
    assert_int_equal(count_new(NGHTTP2_DATA, PADDED, 1, 256), GRPC_STRIKES_MAX);
    assert_int_equal(count_new(NGHTTP2_DATA, PADDED, 1, 0), GRPC_STRIKES_MAX);
    grpc_meter m = begin();
    size_t good, n = 0;
    while (n < MANY && grpc_meter_take(&m, frame, 9 + 511, &good))
        n++;
    assert_int_equal(n, GRPC_STRIKES_MAX);
    m = begin();
    frame[2] = 0, frame[1] = 2; /* 512: 256 of data */
    for (n = 0; n < 5000; n++)
        assert_true(grpc_meter_take(&m, frame, 9 + 512, &good));
}

TEST(calls_and_answers_earn)
{
    grpc_meter m = begin();
    for (uint32_t i = 0; i < 5000; i++) {
        assert_true(take(&m, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1, 50));
        for (int piece = 0; piece < 3; piece++) /* prefix, message, end */
            assert_true(take(&m, NGHTTP2_DATA, 0, 2 * i + 1, 5));
        grpc_meter_earn(&m);
        assert_true(take(&m, NGHTTP2_WINDOW_UPDATE, 0, 0, 4));
        assert_true(take(&m, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1, 4));
        assert_true(take(&m, NGHTTP2_PING, 0, 0, 8));
    }
    /* One left of each call; what was earned is no pardon for resets. */
    grpc_meter same = m;
    assert_int_equal(count(&same, NGHTTP2_RST_STREAM, 0, 1, 4), GRPC_STRIKES_MAX);
    assert_int_equal(count(&m, NGHTTP2_PING, 0, 0, 8), 5000 + GRPC_STRIKES_MAX);
}

TEST(headers_that_begin_no_call_cost_their_bytes)
{
    grpc_meter m = begin();
    assert_true(take(&m, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 9, 16000));
    assert_true(m.strikes < 1);
    assert_int_equal(count(&m, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 9, 16 * 99), 10);
    m = begin();
    assert_int_equal(count(&m, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 0, 0), GRPC_STRIKES_MAX);
    m = begin();
    grpc_meter_no_more_calls(&m);
    assert_int_equal(count(&m, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 11, 16 * 99), 10);
    m = begin();
    assert_true(take(&m, NGHTTP2_HEADERS, 0, 1, 16384));
    for (int i = 0; i < 3; i++)
        assert_true(take(&m, NGHTTP2_CONTINUATION, 0, 1, 16384));
    assert_false(take(&m, NGHTTP2_CONTINUATION, 0, 1, 1));
}

TEST(strikes_leak_away)
{
    grpc_meter m = begin();
    for (int i = 0; i < 20 * GRPC_STRIKES_PER_SECOND; i++, now_ns += 1000000000 / GRPC_STRIKES_PER_SECOND)
        assert_true(take(&m, NGHTTP2_RST_STREAM, 0, 1, 4));
    assert_in_range(count(&m, NGHTTP2_RST_STREAM, 0, 1, 4), GRPC_STRIKES_MAX - 2, GRPC_STRIKES_MAX);
    m = begin();
    int n = 0;
    for (; n < MANY && take(&m, NGHTTP2_RST_STREAM, 0, 1, 4); n++)
        now_ns += 1000000000 / (2 * GRPC_STRIKES_PER_SECOND);
    assert_in_range(n, 2 * GRPC_STRIKES_MAX - 10, 2 * GRPC_STRIKES_MAX + 10);
}

/* In any pieces the same frames are taken, and the good part ends before the
 * first frame over the limit. */
TEST(pieces_do_not_matter)
{
    uint8_t bytes[4096];
    size_t len = 0;
    for (int i = 0; i < 40; i++) {
        const uint8_t frame[] = {0, 0, 3, i % 2 ? NGHTTP2_DATA : 0xee, PADDED, 0, 0, 0, 1, 2, 0, 0};
        memcpy(bytes + len, frame, sizeof frame);
        len += sizeof frame;
    }
    for (size_t piece = 1; piece < 60; piece++) {
        grpc_meter m = begin();
        size_t taken = 0, good = 0;
        bool fine = true;
        m.strikes = GRPC_STRIKES_MAX - 30;
        for (size_t at = 0; at < len && fine; at += piece) {
            size_t n = len - at < piece ? len - at : piece;
            fine = grpc_meter_take(&m, bytes + at, n, &good);
            taken += good;
        }
        assert_false(fine);
        /* Of the frame that is one too many no more than its head was handed on, in earlier pieces. */
        assert_in_range(taken, 30 * 12, 30 * 12 + (piece < 12 ? 9 : 11));
    }
}

TEST_MAIN()
