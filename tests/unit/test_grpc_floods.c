/* gRPC: what of many small things ends a connection, and what only one call. */
#include "grpc_scene.h"

/* Also when it has acknowledged the limit. */
/* promise G4: headers and calls at a time have limits; a call beyond them is refused alone, whatever was
 * acknowledged */
TEST(a_call_beyond_the_limit_is_refused_alone)
{
    uint8_t frame[64];
    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    for (size_t i = 0; i <= CONCURRENT; i++)
        assert_true(sp_peer_send(fd, frame, put_raw_call(frame, i)));
    frames_seen seen = read_frames(fd);
    assert_int_equal(seen.n_refused, 1);
    assert_int_equal(seen.n_goaways + seen.n_other_resets, 0);
    assert_int_equal(grpc_server_in_flight(here.server), CONCURRENT);
    close(fd);
    run_until(no_call_is_open);
    stop();
}

/* ---- floods ------------------------------------------------------------------------------ */

/* A frame that costs little to send: `data`, or len bytes of `fill`. */
typedef struct cheap {
    uint8_t type, flags, id;
    size_t len;
    const char *data;
    uint8_t fill;
    bool opens, resets; /* stream 1 is opened before it, and reset */
} cheap;

static void flood(const cheap *c)
{
    static const uint8_t reset[] = {0, 0, 4, NGHTTP2_RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, NGHTTP2_CANCEL};
    uint8_t frame[9 + 1600] = {0, (uint8_t)(c->len >> 8), (uint8_t)c->len, c->type, c->flags, 0, 0, 0, c->id};
    h2_peer *p = start();

    memset(frame + 9, c->fill, c->len);
    if (c->data)
        memcpy(frame + 9, c->data, c->len);
    here.answer_len = 1;
    turn();
    if (c->opens) {
        h2_peer_call(p, PATH, NULL, "", 0, true);
        h2_peer_turn(p);
    }
    if (c->resets)
        h2_peer_raw(p, reset, sizeof reset);
    for (size_t i = 0; i < 5000 && h2_peer_turn(p); i++) {
        h2_peer_raw(p, frame, 9 + c->len);
        if (i % 50 == 0)
            turn();
    }
    expect_ended(NGHTTP2_ENHANCE_YOUR_CALM);
    run_until(no_call_is_open);
    stop();
}

/* A call that ends in two ways: its client resets it, or it is no HTTP, so that we do. */
static size_t put_reset_call(uint8_t *out, size_t n, bool ours)
{
    size_t len = put_raw_call(out, n);
    const uint8_t reset[] = {0, 0, 4, NGHTTP2_RST_STREAM, 0, 0, 0, out[7], out[8], 0, 0, 0, NGHTTP2_CANCEL};

    if (ours) {
        out[9] = 0x88; /* :status in a request */
        return len;
    }
    memcpy(out + len, reset, sizeof reset);
    return len + sizeof reset;
}

/* So many a second; how many before the connection ends. */
static size_t count_resets(size_t n, uint64_t a_second, bool ours)
{
    frames_seen seen = {0};

    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    size_t i = 0;
    while (i < n && !seen.over) {
        for (size_t end = i + 100; i < end; i++, here.ahead_ns += 1000000000 / a_second) {
            uint8_t bytes[128];
            sp_peer_send(fd, bytes, put_reset_call(bytes, i, ours));
        }
        seen = read_frames(fd);
        if (seen.n_goaways > 0)
            assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    close(fd);
    run_until(no_call_is_open);
    stop();
    return i;
}

/* A hundred deadlines a second are no flood. */
/* promise G7: frames without effect are charged before nghttp2 reads them; too many end the connection, and the rest
 * of the input is ignored */
TEST(resets_have_a_rate)
{
    assert_int_equal(count_resets(4000, 100, false), 4000);
    assert_in_range(count_resets(4000, 10000, false), 1000, 1200);
    assert_in_range(count_resets(4000, 10000, true), 1000, 1200);
}

/* promise G7 */
TEST(floods_of_cheap_frames_are_bounded)
{
    static const cheap all[] = {
        {NGHTTP2_WINDOW_UPDATE, 0, 0, 4, .data = "\0\0\0\1"},
        {NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, 256, .data = NULL, .fill = 255, .opens = true},
        {NGHTTP2_DATA, 0, 1, 0, .data = "", .opens = true},
        {0xee, 0, 1, 1, .data = "\0"},
        {NGHTTP2_PRIORITY, 0, 3, 5, .data = "\0\0\0\0\1"},
        {NGHTTP2_PING, 0, 0, 8, .data = "12345678"},
        {NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, 8, .data = "12345678"},
        {NGHTTP2_SETTINGS, 0, 0, 0, .data = ""},
        /* Trailers of a stream that is gone: accept-encoding: gzip, deflate. */
        {NGHTTP2_HEADERS, 5, 1, 1600, .data = NULL, .fill = 0x90, .opens = true, .resets = true},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        flood(&all[i]);
}

enum { VALUE = 127 + 0x21 + (0x1e << 7) }; /* an integer of HPACK: 7f a1 1e */

/* HEADERS of the nth call: POST http /, then a field with a name of one letter and a long value for HPACK's table,
 * unless the name is '\0', then references to that field. */
static size_t put_references(uint8_t *out, size_t nth, char name, size_t references)
{
    const uint8_t entry[] = {0x40, 1, (uint8_t)name, 0x7f, 0xa1, 0x1e};
    const size_t len = 3 + (name ? sizeof entry + VALUE : 0) + references;
    const uint8_t head[] = {0,
                            (uint8_t)(len >> 8),
                            (uint8_t)len,
                            NGHTTP2_HEADERS,
                            NGHTTP2_FLAG_END_HEADERS,
                            0,
                            0,
                            (uint8_t)((2 * nth + 1) >> 8),
                            (uint8_t)(2 * nth + 1),
                            0x83,
                            0x86,
                            0x84};
    uint8_t *at = out;

    memcpy(at, head, sizeof head);
    at += sizeof head;
    if (name) {
        memcpy(at, entry, sizeof entry);
        memset(at + sizeof entry, 'v', VALUE);
        at += sizeof entry + VALUE;
    }
    memset(at, 0xbe, references); /* the newest of the table */
    return 9 + len;
}

/* A block of references is not decoded to its end, whoever it is for. Of a field whose name is no name nghttp2 tells
 * nobody by itself. */
/* promise G4 */
TEST(headers_by_reference_are_not_decoded_without_end)
{
    static const char names[] = {'x', '"'};
    static uint8_t frame[2 * VALUE];

    for (size_t i = 0; i < sizeof names; i++) {
        start_with(NULL, 0);
        int fd = open_raw();
        read_frames(fd);
        assert_true(sp_peer_send(fd, frame, put_references(frame, 0, names[i], 1000)));
        expect_calmed(fd);
    }
}

/* Calls whose headers exceed the announced limit, but are short enough to refuse only the call. */
TEST(long_headers_by_reference_are_a_flood)
{
    static uint8_t frame[2 * VALUE];
    frames_seen seen = {0};
    size_t n = 0;
    start_with(NULL, 0);
    int fd = open_raw();
    read_frames(fd);
    for (; n < 1000 && !seen.over; n++) {
        sp_peer_send(fd, frame, put_references(frame, n, n == 0 ? 'x' : '\0', 12));
        if (n % 10 == 9)
            seen = read_frames(fd);
    }
    assert_in_range(n, 20, 200);
    assert_int_equal(seen.error, NGHTTP2_ENHANCE_YOUR_CALM);
    close(fd);
    run_until(no_call_is_open);
    stop();
}

/* nghttp2 reads on after the frame that ends the connection, unless it is stopped. */
/* promise G7 */
TEST(bytes_after_a_flood_in_one_read_are_ignored)
{
    static const uint8_t empty[] = {0, 0, 0, 0, 0, 0, 0, 0, 1};
    static const struct {
        uint8_t bytes[17];
        size_t len;
    } last[] = {
        {{0, 0, 4, 2, 0, 0, 0, 0, 1, 1, 2, 3, 4}, 13},          /* PRIORITY of 4 bytes */
        {{0, 0, 3, 3, 0, 0, 0, 0, 1, 1, 2, 3}, 12},             /* RST_STREAM of 3 */
        {{0, 0, 3, 8, 0, 0, 0, 0, 1, 1, 2, 3}, 12},             /* WINDOW_UPDATE of 3 */
        {{0, 0, 7, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7}, 16}, /* PING of 7 */
        {{0, 0, 5, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5}, 14},       /* SETTINGS of 5 */
        {{0, 0, 7, 7, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7}, 16}, /* GOAWAY of 7 */
        {{0, 0, 1, 9, 0, 0, 0, 0, 1, 1}, 10},                   /* CONTINUATION of nothing */
        {{0, 0, 1, 0, 8, 0, 0, 0, 1, 9}, 10},                   /* DATA, padded beyond its end */
        {{0, 0, 3, 1, 4, 0, 0, 0, 5, 0x83, 0x86, 0x84}, 12},    /* HEADERS of another call */
    };
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        uint8_t bytes[1010 * sizeof empty + sizeof last[0].bytes];
        size_t len = 0;
        start_with(NULL, 0);
        int fd = open_raw();
        assert_true(sp_peer_send(fd, bytes, put_raw_call(bytes, 0)));
        read_frames(fd);
        for (size_t n = 0; n < 1010; n++, len += sizeof empty)
            memcpy(bytes + len, empty, sizeof empty);
        memcpy(bytes + len, last[i].bytes, last[i].len);
        assert_true(sp_peer_send(fd, bytes, len + last[i].len));
        expect_calmed(fd);
    }
}
