/* What is too long for SP's reader, and what finds no room. All else of it: tests/fuzz/fuzz_sp.c. */

#include "support/fake_sink.h"
#include "net/sp/sp.h"
#include "test.h"

enum { FRAME_MAX = 1000, TAKEN_MAX = 16 };

static const uint8_t handshake[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

/* ---- what was taken ------------------------------------------------------------- */

static struct {
    sp_message *message[TAKEN_MAX];
    size_t n;
} took;

static bool take(void *arg, sp_message *message)
{
    assert_ptr_equal(arg, &took);
    assert_true(took.n < TAKEN_MAX);
    took.message[took.n++] = message;
    return true;
}

static int setup(void **state)
{
    memset(&took, 0, sizeof took);
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

static sp_reader reader(void)
{
    sp_reader r;

    sp_reader_init(&r, SP_OVER_TCP, FRAME_MAX);
    assert_int_equal(read_all(&r, handshake, sizeof handshake), SP_FINE);
    return r;
}

/* Writes "length ids frame"; gives its length. */
static size_t put_message(uint8_t *out, const uint32_t *ids, size_t n_ids, const char *frame)
{
    size_t len = 0, body = n_ids * 4 + strlen(frame);

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

/* promise C33: a message over the limit, or a server of another protocol, ends the connection */
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
        size_t n = put_message(bytes, one_id, 1, longest);
        assert_int_equal(read_all(&r, bytes, n), len == FRAME_MAX ? SP_FINE : SP_BROKEN);
        assert_int_equal(r.too_long, len > FRAME_MAX);
        sp_reader_end(&r);
    }
    assert_int_equal(took.n, 1);
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
        sp_reader r = reader();
        size_t len = put_message(bytes, ids + 2 - n_ids, n_ids, frame);
        assert_int_equal(read_all(&r, bytes, len), SP_FINE);
        expect_frame(n_ids - 1, 4 * n_ids, frame);
        sp_reader_end(&r);
    }
    frame[FRAME_MAX] = 'x';
    sp_reader r = reader();
    assert_int_equal(read_all(&r, bytes, put_message(bytes, one_id, 1, frame)), SP_BROKEN);
    sp_reader_end(&r);
}

/* Wherever in a message the room ends, and however it comes: its ids are known, its bytes
 * are not kept, and the next one is as ever. */
/* promise CN4: a message without room is skipped and each of its calls refused with RESOURCE_EXHAUSTED, NO; the next
 * message is served normally */
TEST(message_without_room_is_skipped_and_its_ids_are_kept)
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
            size_t first = put_message(bytes, hops, 3, frame);
            size_t len = first + put_message(bytes + first, one_id, 1, "next");
            teardown(NULL);
            setup(NULL);
            fake_callers_reset(NULL);
            budget_share *share = budget_open(NULL);
            sp_reader r = reader();
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
TEST(calls_of_a_skipped_message_are_counted)
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

TEST_MAIN(.setup = setup, .teardown = teardown)
