/* SP's bytes, as libnng sends them and as nobody should. */

#include "support/fake_sink.h"
#include "net/sp/sp.h"
#include "test.h"

enum { FRAME_MAX = 1000, TAKEN_MAX = 16 };

static const uint8_t handshake[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

/* ---- what was taken ------------------------------------------------------------- */

static struct {
    sp_message *message[TAKEN_MAX];
    size_t n, enough; /* `take` has enough from the n-th on */
} took;

static bool take(void *arg, sp_message *message)
{
    assert_ptr_equal(arg, &took);
    assert_true(took.n < TAKEN_MAX);
    took.message[took.n++] = message;
    return took.n < took.enough;
}

static int setup(void **state)
{
    memset(&took, 0, sizeof took);
    took.enough = TAKEN_MAX;
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < took.n; i++)
        free(took.message[i]);
    return 0;
}

static sp_verdict read_all(sp_reader *r, const void *data, size_t len)
{
    size_t taken;

    return sp_read(r, data, len, &taken, take, &took);
}

static sp_reader reader(sp_mapping mapping)
{
    sp_reader r;

    sp_reader_init(&r, mapping, FRAME_MAX);
    assert_int_equal(read_all(&r, handshake, sizeof handshake), SP_FINE);
    return r;
}

/* Appends "[01] length ids frame" to out; gives its length. */
static size_t put_message(uint8_t *out, sp_mapping mapping, const uint32_t *ids, size_t n_ids, const char *frame)
{
    size_t len = 0, body = n_ids * 4 + strlen(frame);

    if (mapping == SP_OVER_UNIX)
        out[len++] = 1;
    for (int shift = 56; shift >= 0; shift -= 8)
        out[len++] = (uint8_t)((uint64_t)body >> shift);
    for (size_t i = 0; i < n_ids; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            out[len++] = (uint8_t)(ids[i] >> shift);
    memcpy(out + len, frame, strlen(frame));
    return len + strlen(frame);
}

static void expect_frame(size_t i, size_t ids_len, const char *frame)
{
    assert_true(i < took.n);
    const sp_message *m = took.message[i];
    assert_int_equal(m->ids_len, ids_len);
    assert_int_equal(m->len - m->ids_len, strlen(frame));
    assert_memory_equal(m->bytes + m->ids_len, frame, strlen(frame));
}

static const uint32_t one_id[] = {0x80000001};

/* ---- tests ---------------------------------------------------------------------- */

TEST(messages_may_come_in_any_pieces)
{
    const sp_mapping mappings[] = {SP_OVER_TCP, SP_OVER_UNIX};
    for (size_t m = 0; m < 2; m++) {
        for (size_t piece = 1; piece < 60; piece++) {
            uint8_t bytes[256];
            size_t len = sizeof handshake;
            sp_reader r;
            teardown(NULL);
            setup(NULL);
            memcpy(bytes, handshake, len);
            len += put_message(bytes + len, mappings[m], one_id, 1, "hello");
            len += put_message(bytes + len, mappings[m], one_id, 1, "");
            len += put_message(bytes + len, mappings[m], one_id, 1, "a third one");
            sp_reader_init(&r, mappings[m], FRAME_MAX);
            for (size_t at = 0; at < len; at += piece)
                assert_int_equal(read_all(&r, bytes + at, len - at < piece ? len - at : piece), SP_FINE);
            assert_int_equal(took.n, 3);
            expect_frame(0, 4, "hello");
            expect_frame(1, 4, "");
            expect_frame(2, 4, "a third one");
            assert_true(sp_reader_idle(&r));
            sp_reader_end(&r);
        }
    }
}

/* The client's: it expects what a server says, and says what a server expects. */
/* promise C33: a message over the limit, or a server of another protocol, ends the connection */
TEST(a_client_reads_replies)
{
    const sp_mapping mappings[] = {SP_OVER_TCP, SP_OVER_UNIX};

    for (size_t m = 0; m < 2; m++) {
        for (size_t piece = 1; piece < 60; piece++) {
            uint8_t bytes[256], said[SP_OUTPUT_BYTES_MAX];
            size_t len = sizeof sp_rep_handshake;
            sp_reader r;
            teardown(NULL);
            setup(NULL);
            memcpy(bytes, sp_rep_handshake, len);
            len += put_message(bytes + len, mappings[m], one_id, 1, "hello");
            len += put_message(bytes + len, mappings[m], (const uint32_t[]){7}, 1, "no id"); /* somebody else's */
            len += put_message(bytes + len, mappings[m], one_id, 1, "");
            sp_reader_init_client(&r, mappings[m], FRAME_MAX);
            assert_int_equal(sp_output(&r, said), sizeof handshake);
            assert_memory_equal(said, handshake, sizeof handshake);
            assert_int_equal(sp_output(&r, said), 0);
            for (size_t at = 0; at < len; at += piece)
                assert_int_equal(read_all(&r, bytes + at, len - at < piece ? len - at : piece), SP_FINE);
            assert_int_equal(took.n, 3);
            expect_frame(0, SP_ID_BYTES, "hello");
            expect_frame(1, SP_ID_BYTES, "no id");
            expect_frame(2, SP_ID_BYTES, "");
            assert_int_equal(sp_id_read(took.message[0]->bytes), one_id[0]);
            assert_int_equal(sp_id_read(took.message[1]->bytes), 7);
            sp_reader_end(&r);
        }
    }
}

/* promise C33 */
TEST(a_client_takes_no_request_and_nothing_too_long)
{
    static char longest[FRAME_MAX + 2];
    uint8_t bytes[FRAME_MAX + 64];
    sp_reader r;

    sp_reader_init_client(&r, SP_OVER_TCP, FRAME_MAX);
    assert_int_equal(read_all(&r, handshake, sizeof handshake), SP_BROKEN);
    assert_false(r.handshake_done);
    sp_reader_end(&r);
    memset(longest, 'x', FRAME_MAX + 1);
    for (size_t len = FRAME_MAX; len <= FRAME_MAX + 1; len++) {
        longest[len] = '\0';
        longest[len - 1] = 'x';
        sp_reader_init_client(&r, SP_OVER_TCP, FRAME_MAX);
        assert_int_equal(read_all(&r, sp_rep_handshake, sizeof sp_rep_handshake), SP_FINE);
        size_t n = put_message(bytes, SP_OVER_TCP, one_id, 1, longest);
        assert_int_equal(read_all(&r, bytes, n), len == FRAME_MAX ? SP_FINE : SP_BROKEN);
        assert_int_equal(r.too_long, len > FRAME_MAX);
        sp_reader_end(&r);
    }
    assert_int_equal(took.n, 1);
}

TEST(a_request_has_the_id_that_its_reply_has)
{
    const sp_mapping mappings[] = {SP_OVER_TCP, SP_OVER_UNIX};

    for (size_t m = 0; m < 2; m++) {
        uint8_t id[SP_ID_BYTES], bytes[SP_HEADER_BYTES_MAX + 5];
        sp_reader r = reader(mappings[m]);

        sp_id_write(SP_ID_MARK | 0x123456, id);
        size_t n = sp_write_header(mappings[m], id, sizeof id, 5, bytes);
        assert_int_equal(n, sp_prefix_bytes(mappings[m]) + SP_ID_BYTES);
        memcpy(bytes + n, "hello", 5);
        assert_int_equal(read_all(&r, bytes, n + 5), SP_FINE);
        expect_frame(m, SP_ID_BYTES, "hello");
        assert_int_equal(sp_id_read(took.message[m]->bytes), SP_ID_MARK | 0x123456);
        sp_reader_end(&r);
    }
}

TEST(what_is_no_handshake_is_broken_at_its_first_wrong_byte)
{
    for (size_t i = 0; i < sizeof handshake; i++) {
        uint8_t wrong[sizeof handshake];
        sp_reader r;
        memcpy(wrong, handshake, sizeof wrong);
        wrong[i] ^= 1;
        sp_reader_init(&r, SP_OVER_TCP, FRAME_MAX);
        assert_int_equal(read_all(&r, wrong, i), SP_FINE);
        assert_false(sp_reader_idle(&r));
        assert_int_equal(read_all(&r, wrong + i, 1), SP_BROKEN);
    }
}

TEST(hop_ids_come_back_with_the_answer)
{
    uint32_t ids[SP_HOPS_MAX + 2];
    uint8_t bytes[256], out[SP_HEADER_BYTES_MAX], wanted[256];
    for (size_t hops = 0; hops <= SP_HOPS_MAX; hops++) {
        sp_reader r = reader(SP_OVER_TCP);
        for (size_t i = 0; i < hops; i++)
            ids[i] = (uint32_t)(i + 1);
        ids[hops] = 0x80abcdef;
        size_t len = put_message(bytes, SP_OVER_TCP, ids, hops + 1, "x");
        assert_int_equal(read_all(&r, bytes, len), SP_FINE);
        expect_frame(hops, 4 * (hops + 1), "x");
        size_t header = sp_write_header(SP_OVER_TCP, took.message[hops]->bytes, took.message[hops]->ids_len, 3, out);
        size_t whole = put_message(wanted, SP_OVER_TCP, ids, hops + 1, "abc");
        assert_int_equal(header + 3, whole);
        assert_memory_equal(out, wanted, header);
        sp_reader_end(&r);
    }
    /* One hop more than is served; none with the mark. */
    for (size_t i = 0; i <= SP_HOPS_MAX; i++)
        ids[i] = 1;
    ids[SP_HOPS_MAX + 1] = 0x80000000;
    sp_reader r = reader(SP_OVER_TCP);
    assert_int_equal(read_all(&r, bytes, put_message(bytes, SP_OVER_TCP, ids, SP_HOPS_MAX + 2, "")), SP_BROKEN);
    sp_reader_end(&r);
    r = reader(SP_OVER_TCP);
    assert_int_equal(read_all(&r, bytes, put_message(bytes, SP_OVER_TCP, ids, 2, "ab")), SP_BROKEN);
    sp_reader_end(&r);
}

TEST(a_unix_message_has_its_mark)
{
    uint8_t bytes[64], out[SP_HEADER_BYTES_MAX], wanted[64];
    sp_reader r = reader(SP_OVER_UNIX);
    size_t len = put_message(bytes, SP_OVER_UNIX, one_id, 1, "x");
    assert_int_equal(read_all(&r, bytes, len), SP_FINE);
    size_t header = sp_write_header(SP_OVER_UNIX, took.message[0]->bytes, took.message[0]->ids_len, 3, out);
    assert_int_equal(header + 3, put_message(wanted, SP_OVER_UNIX, one_id, 1, "abc"));
    assert_memory_equal(out, wanted, header);
    bytes[0] = 2;
    assert_int_equal(read_all(&r, bytes, len), SP_BROKEN);
    sp_reader_end(&r);
}

/* promise W9 */
TEST(a_length_is_checked_before_anything_is_allocated)
{
    const uint64_t lengths[] = {0,
                                3,
                                FRAME_MAX + SP_STACK_BYTES_MAX + 1,
                                UINT64_C(1) << 32,
                                UINT64_C(1) << 63,
                                UINT64_C(0xFFFFFFFFFFFFFFE0),
                                UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t bytes[8];
        sp_reader r = reader(SP_OVER_TCP);
        for (int b = 0; b < 8; b++)
            bytes[b] = (uint8_t)(lengths[i] >> (56 - 8 * b));
        assert_int_equal(read_all(&r, bytes, 8), SP_BROKEN);
        assert_null(r.message);
        sp_reader_end(&r);
    }
}

/* The frame is measured, not the message: a hop more does not make it too long. */
/* promise W9: frame over the size limit: the connection is closed, and only that one */
TEST(the_longest_frame)
{
    static char frame[FRAME_MAX + 2];
    static uint8_t bytes[FRAME_MAX + 64];
    const uint32_t ids[] = {1, 0x80000001};
    memset(frame, 'x', FRAME_MAX);
    for (size_t n_ids = 1; n_ids <= 2; n_ids++) {
        sp_reader r = reader(SP_OVER_TCP);
        size_t len = put_message(bytes, SP_OVER_TCP, ids + 2 - n_ids, n_ids, frame);
        assert_int_equal(read_all(&r, bytes, len), SP_FINE);
        expect_frame(n_ids - 1, 4 * n_ids, frame);
        sp_reader_end(&r);
    }
    frame[FRAME_MAX] = 'x';
    sp_reader r = reader(SP_OVER_TCP);
    assert_int_equal(read_all(&r, bytes, put_message(bytes, SP_OVER_TCP, one_id, 1, frame)), SP_BROKEN);
    sp_reader_end(&r);
}

TEST(memory_grows_with_what_comes)
{
    static uint8_t bytes[4096];
    static const uint8_t prefix[] = {0, 0, 0, 0, 0, 0x10, 0, 0}; /* a MiB is announced */
    sp_reader r;
    sp_reader_init(&r, SP_OVER_TCP, 1 << 20);
    assert_int_equal(read_all(&r, handshake, sizeof handshake), SP_FINE);
    assert_int_equal(read_all(&r, prefix, sizeof prefix), SP_FINE);
    assert_true(r.room <= 1024);
    for (size_t have = sizeof bytes; have <= 16 * sizeof bytes; have += sizeof bytes) {
        assert_int_equal(read_all(&r, bytes, sizeof bytes), SP_FINE);
        assert_true(r.room >= have && r.room <= 2 * have);
    }
    sp_reader_end(&r);
}

TEST(who_had_enough_is_given_no_more)
{
    uint8_t bytes[128];
    size_t taken;
    sp_reader r = reader(SP_OVER_TCP);
    size_t first = put_message(bytes, SP_OVER_TCP, one_id, 1, "one");
    size_t len = first + put_message(bytes + first, SP_OVER_TCP, one_id, 1, "two");
    took.enough = 1;
    assert_int_equal(sp_read(&r, bytes, len, &taken, take, &took), SP_FINE);
    assert_int_equal(took.n, 1);
    assert_int_equal(taken, first);
    assert_int_equal(sp_read(&r, bytes + taken, len - taken, &taken, take, &took), SP_FINE);
    expect_frame(1, 4, "two");
    sp_reader_end(&r);
}

/* Wherever in a message the room ends, and however it comes: its ids are known, its bytes
 * are not kept, and the next one is as ever. */
/* promise CN4: a message without room is skipped and each of its calls refused with RESOURCE_EXHAUSTED, NO; the next
 * message is served normally */
TEST(what_finds_no_room_is_skipped_but_for_its_ids)
{
    static const uint32_t hops[] = {1, 2, 0x80000003};
    static char frame[FRAME_MAX + 1];
    for (size_t i = 0; i < FRAME_MAX; i += 5)
        memcpy(frame + i,
               "\x12\x03"
               "abc",
               5); /* a call */
    for (size_t full_at = 0; full_at < FRAME_MAX; full_at += 90) {
        for (size_t piece = 1; piece < FRAME_MAX; piece *= 3) {
            uint8_t bytes[2 * FRAME_MAX];
            size_t first = put_message(bytes, SP_OVER_TCP, hops, 3, frame);
            size_t len = first + put_message(bytes + first, SP_OVER_TCP, one_id, 1, "next");
            teardown(NULL);
            setup(NULL);
            fake_callers_reset(NULL);
            budget_share *share = budget_open(NULL);
            sp_reader r = reader(SP_OVER_TCP);
            sp_reader_charge(&r, share);
            fake_budget_is_full(true);
            for (size_t at = 0; at < len; at += piece) {
                if (at >= full_at || at >= first)
                    fake_budget_is_full(at < first);
                assert_int_equal(read_all(&r, bytes + at, piece < len - at ? piece : len - at), SP_FINE);
                assert_true(r.held <= (r.message ? r.room : 0));
            }
            assert_int_equal(took.n, 2);
            assert_int_equal(took.message[0]->ids_len, 12);
            assert_memory_equal(took.message[0]->bytes, bytes + 8, 12);
            assert_true(took.message[0]->skipped);
            assert_int_equal(took.message[0]->n_results, FRAME_MAX / 5);
            if (piece == 1) {
                assert_false(took.message[1]->skipped);
                expect_frame(1, 4, "next");
            }
            sp_reader_end(&r);
            budget_close(share);
            assert_int_equal(fake_callers.shares_closed, 1);
        }
    }
}

/* Each call has a result, whatever else is in the frame, and however it comes. */
/* promise CN4 */
TEST(the_calls_of_what_is_skipped_are_counted)
{
    static const struct {
        const char *frame;
        size_t len, results;
    } cases[] = {
        {"\x12\x00", 2, 1},
        {"\x12\x03"
         "abc"
         "\x12\x00\x12\x01x",
         10, 3},
        {"\x08\x00\x12\x02\x12\x00\x1d"
         "abcd"
         "\x21"
         "abcdefgh"
         "\x12\x00",
         22, 2},
        {"\x12\x80\x01", 3, 1},         /* is not whole */
        {"\x13\x12\x00\x12\x00", 5, 1}, /* a group */
        {"", 0, 1},
    };
    static char many[2 * 300];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t piece = 1; piece < 40; piece++) {
            sp_calls c = {0};
            uint8_t bytes[64] = {0, 0, 0, 1, 0x80, 0, 0, 2};
            memcpy(bytes + 8, cases[i].frame, cases[i].len);
            size_t len = 8 + cases[i].len;
            for (size_t at = 0; at < len; at += piece)
                sp_calls_pass(&c, bytes + at, piece < len - at ? piece : len - at);
            assert_int_equal(sp_calls_results(&c), cases[i].results);
        }
    }
    for (size_t i = 0; i < sizeof many; i += 2)
        many[i] = 0x12;
    for (size_t n = 255; n <= 257; n++) {
        sp_calls c = {0};
        sp_calls_pass(&c, (const uint8_t *)"\x80\0\0\0", 4);
        sp_calls_pass(&c, (const uint8_t *)many, 2 * n);
        assert_int_equal(sp_calls_results(&c), n <= 256 ? n : 1);
    }
}

/* promise CN5 */
TEST(what_is_half_read_is_held)
{
    static char frame[FRAME_MAX + 1];
    uint8_t bytes[2 * FRAME_MAX];
    memset(frame, 'f', FRAME_MAX);
    size_t len = put_message(bytes, SP_OVER_TCP, one_id, 1, frame);
    fake_callers_reset(NULL);
    budget_share *share = budget_open(NULL);
    sp_reader r = reader(SP_OVER_TCP);
    sp_reader_charge(&r, share);
    assert_int_equal(read_all(&r, bytes, len - 1), SP_FINE);
    assert_int_equal(budget_share_held(share), FRAME_MAX + 4);
    assert_int_equal(read_all(&r, bytes + len - 1, 1), SP_FINE);
    assert_int_equal(budget_share_held(share), 0);
    assert_int_equal(read_all(&r, bytes, len - 1), SP_FINE);
    assert_int_equal(budget_share_held(share), FRAME_MAX + 4);
    sp_reader_end(&r);
    assert_int_equal(budget_share_held(share), 0);
    budget_close(share);
}

static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n";

/* A connection that is open. */
static sp_reader websocket_reader(void)
{
    static const websocket_site site = {.path = "/", .subprotocol = sp_rep_subprotocol};
    uint8_t said[SP_OUTPUT_BYTES_MAX];
    sp_reader r;

    assert_true(sp_reader_init_websocket(&r, &site, FRAME_MAX));
    assert_int_equal(sp_output(&r, said), 0);
    assert_int_equal(read_all(&r, request, sizeof request - 1), SP_FINE);
    assert_true(r.handshake_done);
    assert_true(sp_output(&r, said) > 0);
    assert_memory_equal(said, "HTTP/1.1 101 ", 13);
    return r;
}

/* Appends a frame of fewer than 126 bytes, its mask zeros. */
static size_t put_frame(uint8_t *out, unsigned first, const void *payload, size_t len)
{
    memcpy(out, (uint8_t[]){(uint8_t)first, (uint8_t)(0x80 | len), 0, 0, 0, 0}, 6);
    memcpy(out + 6, payload, len);
    return 6 + len;
}

/* promise WS7 */
TEST(websocket_frames_make_messages)
{
    static const uint8_t message[] = {0, 0, 0, 1, 0x80, 0, 0, 2, 'h', 'e', 'l', 'l', 'o'};
    for (size_t piece = 1; piece < 80; piece++) {
        uint8_t bytes[256];
        teardown(NULL);
        setup(NULL);
        size_t len = put_frame(bytes, 0x02, message, 3);
        len += put_frame(bytes + len, 0x00, message + 3, 6);
        len += put_frame(bytes + len, 0x80, message + 9, 4);
        len += put_frame(bytes + len, 0x82, message + 4, 9);
        sp_reader r = websocket_reader();
        for (size_t at = 0; at < len; at += piece)
            assert_int_equal(read_all(&r, bytes + at, len - at < piece ? len - at : piece), SP_FINE);
        assert_int_equal(took.n, 2);
        expect_frame(0, 8, "hello");
        expect_frame(1, 4, "hello");
        sp_reader_end(&r);
    }
}

/* promise WS7 */
TEST(a_websocket_message_that_is_no_request_closes)
{
    static const char *const messages[] = {"", "abc", "abcd", "abcdefgh"};
    static const uint8_t close[] = {0x88, 2, 1002 >> 8, 1002 & 0xFF};
    uint8_t bytes[64], said[SP_OUTPUT_BYTES_MAX];
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        sp_reader r = websocket_reader();
        size_t len = put_frame(bytes, 0x82, messages[i], strlen(messages[i]));
        assert_int_equal(read_all(&r, bytes, len), SP_BROKEN);
        assert_int_equal(sp_output(&r, said), sizeof close);
        assert_memory_equal(said, close, sizeof close);
        sp_reader_end(&r);
    }
    assert_int_equal(took.n, 0);
}

/* What was announced is checked, and then only what comes takes room. */
TEST(websocket_memory_grows_with_what_comes)
{
    static const websocket_site site = {.path = "/", .subprotocol = sp_rep_subprotocol};
    static const uint8_t head[] = {0x82, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0}; /* a MiB */
    static uint8_t bytes[4096];
    sp_reader r;
    assert_true(sp_reader_init_websocket(&r, &site, 1 << 20));
    assert_int_equal(read_all(&r, request, sizeof request - 1), SP_FINE);
    assert_int_equal(read_all(&r, head, sizeof head), SP_FINE);
    assert_null(r.message);
    for (size_t have = sizeof bytes; have <= 16 * sizeof bytes; have += sizeof bytes) {
        assert_int_equal(read_all(&r, bytes, sizeof bytes), SP_FINE);
        assert_true(r.room >= have && r.room <= 2 * have);
    }
    sp_reader_end(&r);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
