/* WebSocket's bytes, as browsers and libnng send them, and invalid ones. */

#include "net/sp/websocket.h"
#include "test.h"

enum { MESSAGE_MAX = 100000, GOT_MAX = 1 << 18, MESSAGES_MAX = 16 };
enum { FINAL = 0x80, CONTINUED = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };

#define FIRST_LINE "GET /lockstock HTTP/1.1\r\n"
#define UPGRADE "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define PROTOCOL "Sec-WebSocket-Protocol: rep.example\r\n"
#define REST UPGRADE KEY VERSION PROTOCOL "\r\n"
#define REQUEST FIRST_LINE "Host: localhost\r\n" REST

static const char accepted[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" PROTOCOL "\r\n";

static char *origins[] = {(char *)(uintptr_t) "https://shop.example", (char *)(uintptr_t) "http://localhost:3000"};
static const websocket_site site = {
    .path = "/lockstock", .subprotocol = "rep.example", .origins = origins, .n_origins = 2};

/* The output of one connection. */
static struct {
    uint8_t message[GOT_MAX]; /* all of them, one after the other */
    size_t len, ends[MESSAGES_MAX], n;
    uint8_t said[4096];
    size_t said_len;
    websocket_event event;
    bool opened;
} got;

static void say(websocket *w)
{
    uint8_t bytes[WEBSOCKET_OUTPUT_BYTES_MAX];
    size_t len = websocket_output(w, bytes);

    assert_true(got.said_len + len <= sizeof got.said);
    memcpy(got.said + got.said_len, bytes, len);
    got.said_len += len;
}

/* In memory of exactly its size. */
static void read_piece(websocket *w, const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len);
    size_t at = 0, taken;
    websocket_piece piece;

    assert_non_null(copy);
    memcpy(copy, data, len);
    while (at < len && got.event != WEBSOCKET_OVER) {
        got.event = websocket_read(w, copy + at, len - at, &taken, &piece);
        at += taken;
        assert_true(at <= len);
        got.opened = got.opened || got.event == WEBSOCKET_OPENED;
        if (got.event != WEBSOCKET_PIECE)
            continue;
        assert_true(got.len + piece.len <= sizeof got.message);
        websocket_unmask(&piece, got.message + got.len);
        got.len += piece.len;
        assert_true(piece.announced <= MESSAGE_MAX);
        if (piece.last) {
            size_t begin = got.n > 0 ? got.ends[got.n - 1] : 0;
            assert_int_equal(piece.announced, got.len - begin);
            got.ends[got.n++] = got.len;
        }
    }
    say(w);
    free(copy);
}

/* Reads it all, `piece` bytes at a time. */
static void read_all(const void *data, size_t len, size_t piece)
{
    websocket *w = websocket_new(&site, MESSAGE_MAX);
    const uint8_t *bytes = data;

    assert_non_null(w);
    memset(&got, 0, sizeof got);
    for (size_t at = 0; at < len; at += piece)
        read_piece(w, bytes + at, len - at < piece ? len - at : piece);
    websocket_free(w);
}

static void expect_said(const void *bytes, size_t len)
{
    assert_int_equal(got.said_len, len);
    assert_memory_equal(got.said, bytes, len);
}

/* ---- the request -------------------------------------------------------------------- */

static void expect_status(const char *request, unsigned status)
{
    char line[32];

    for (size_t piece = 1; piece < 400; piece = piece * 3 + 1) {
        read_all(request, strlen(request), piece);
        snprintf(line, sizeof line, "HTTP/1.1 %u ", status);
        if (got.said_len < strlen(line) || memcmp(got.said, line, strlen(line)) != 0)
            fail_msg("%.*s instead of %u for\n%s", (int)got.said_len, (const char *)got.said, status, request);
        assert_true((status == 101) == got.opened && (status != 101) == (got.event == WEBSOCKET_OVER));
        /* An answer is complete: its Content-Length is correct. */
        const char *length = memmem(got.said, got.said_len, "Content-Length: ", 16);
        const uint8_t *body = memmem(got.said, got.said_len, "\r\n\r\n", 4);
        assert_non_null(body);
        size_t body_len = got.said_len - (size_t)(body + 4 - got.said);
        assert_int_equal(length ? strtoul(length + 16, NULL, 10) : 0, body_len);
        assert_true((status == 101) == (!length));
    }
}

/* promise WS1 */
TEST(a_page_is_refused_unless_it_is_named)
{
#define FROM(origin) FIRST_LINE "Host: localhost\r\nOrigin: " origin "\r\n" REST
    expect_status(FROM("https://shop.example"), 101);
    expect_status(FROM("HTTPS://Shop.Example"), 101);
    expect_status(FROM("http://localhost:3000"), 101);
    expect_status(FROM("http://evil.example"), 403);
    expect_status(FROM("http://shop.example"), 403);
    expect_status(FROM("https://shop.example:444"), 403);
    expect_status(FROM("https://shop.example.evil.example"), 403);
    expect_status(FROM("https://shop.exampl"), 403);
    expect_status(FROM("http://localhost"), 403);
    expect_status(FROM("null"), 403);
    expect_status(FROM(""), 403);
    /* It is undefined which of two would count. */
    expect_status(FROM("https://shop.example\r\nOrigin: http://evil.example"), 400);
    /* Whoever it is for: a page may have its name lead here. */
    expect_status(FIRST_LINE "Host: evil.example\r\nOrigin: http://evil.example\r\n" REST, 403);
    expect_status(FIRST_LINE "host: 192.0.2.1:1\r\norigin:https://shop.example\r\n" REST, 101);
}

/* promise WS2: a request is HTTP/1.1, for the path, with one key, version and our subprotocol, no body, in 8 KiB;
 * else its status */
TEST(incomplete_upgrade_request_is_refused)
{
#define HOST "Host: localhost\r\n"
    expect_status("GET /lockstock?a=b HTTP/1.1\r\n" HOST REST, 101);
    expect_status("GET /lockstock/ HTTP/1.1\r\n" HOST REST, 404);
    expect_status("GET / HTTP/1.1\r\n" HOST REST, 404);
    expect_status("GET /LOCKSTOCK HTTP/1.1\r\n" HOST REST, 404);
    expect_status("GET /lockstock HTTP/1.0\r\n" HOST REST, 505);
    expect_status("GET /lockstock HTTP/2.0\r\n" HOST REST, 505);
    expect_status("POST /lockstock HTTP/1.1\r\n" HOST REST, 405);
    expect_status("GETS /lockstock HTTP/1.1\r\n" HOST REST, 405);
    expect_status(FIRST_LINE REST, 400);
    expect_status(FIRST_LINE HOST HOST REST, 400);
    expect_status(FIRST_LINE HOST KEY VERSION PROTOCOL "\r\n", 426);
    expect_status(FIRST_LINE HOST "Upgrade: h2c\r\nConnection: Upgrade\r\n" KEY VERSION PROTOCOL "\r\n", 426);
    expect_status(FIRST_LINE HOST "Upgrade: websocket\r\nConnection: close\r\n" KEY VERSION PROTOCOL "\r\n", 426);
    expect_status(FIRST_LINE HOST UPGRADE KEY PROTOCOL "\r\n", 426);
    expect_status(FIRST_LINE HOST UPGRADE KEY "Sec-WebSocket-Version: 8\r\n" PROTOCOL "\r\n", 426);
    expect_status(FIRST_LINE HOST UPGRADE KEY VERSION VERSION PROTOCOL "\r\n", 426);
    expect_status(FIRST_LINE HOST UPGRADE VERSION PROTOCOL "\r\n", 400);
    expect_status(FIRST_LINE HOST UPGRADE KEY KEY VERSION PROTOCOL "\r\n", 400);
    expect_status(FIRST_LINE HOST UPGRADE "Sec-WebSocket-Key: short==\r\n" VERSION PROTOCOL "\r\n", 400);
    expect_status(FIRST_LINE HOST UPGRADE "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQA=\r\n" VERSION PROTOCOL "\r\n",
                  400);
    expect_status(FIRST_LINE HOST UPGRADE "Sec-WebSocket-Key: dGhlIHNhbXBs-SBub25jZQ==\r\n" VERSION PROTOCOL "\r\n",
                  400);
    expect_status(FIRST_LINE HOST UPGRADE KEY VERSION "\r\n", 400);
    expect_status(FIRST_LINE HOST UPGRADE KEY VERSION "Sec-WebSocket-Protocol: pub.example\r\n\r\n", 400);
    expect_status(FIRST_LINE HOST UPGRADE KEY VERSION "Sec-WebSocket-Protocol: rep.example.org\r\n\r\n", 400);
    expect_status(FIRST_LINE HOST "Content-Length: 0\r\n" REST, 400);
    expect_status(FIRST_LINE HOST "Transfer-Encoding: chunked\r\n" REST, 400);
    /* What is no HTTP: tests/unit/test_http1.c. */
    expect_status("GET /lockstock HTTP/1.1\n" HOST REST, 400);
    expect_status("GET /lock stock HTTP/1.1\r\n" HOST REST, 505);
    expect_status(FIRST_LINE HOST "A: b\r\n folded\r\n" REST, 400);
    /* As browsers do: lists, several lines, extensions that are not answered. */
    expect_status(FIRST_LINE HOST "upgrade: h2c, WebSocket\r\nConnection: keep-alive , Upgrade\r\n" KEY VERSION
                                  "Sec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Protocol: c,rep.example\r\n"
                                  "Sec-WebSocket-Extensions: permessage-deflate\r\nCookie: a=\xC3\xA4\tb\r\n\r\n",
                  101);
}

/* The answer comes before the end of the request. */
/* promise WS2 */
TEST(a_request_has_a_limit)
{
    static char bytes[WEBSOCKET_REQUEST_BYTES_MAX + 1];
    static const char begin[] = FIRST_LINE HOST "Cookie: ", end[] = "\r\n" REST;
    size_t len;
    for (size_t over = 0; over < 2; over++) {
        len = sizeof bytes - 1 + over;
        memset(bytes, 'c', len);
        memcpy(bytes, begin, strlen(begin));
        memcpy(bytes + len - strlen(end), end, strlen(end));
        for (size_t piece = 1; piece < 10000; piece *= 21) {
            read_all(bytes, len, piece);
            if (over)
                assert_memory_equal(got.said, "HTTP/1.1 431 ", 13);
            else
                expect_said(accepted, strlen(accepted));
        }
    }
}

/* ---- frames --------------------------------------------------------------------------- */

static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};

typedef struct bytes {
    size_t len;
    uint8_t at[GOT_MAX];
} bytes;

static bytes *begin(void)
{
    static bytes b;

    b.len = strlen(REQUEST);
    memcpy(b.at, REQUEST, b.len);
    return &b;
}

/* "length" bytes are as said, whatever would do. */
static void put_head(bytes *b, unsigned first, unsigned second, size_t length_bytes, uint64_t len)
{
    b->at[b->len++] = (uint8_t)first;
    b->at[b->len++] = (uint8_t)second;
    for (size_t i = length_bytes; i-- > 0;)
        b->at[b->len++] = (uint8_t)(len >> (8 * i));
    memcpy(b->at + b->len, mask, sizeof mask);
    b->len += sizeof mask;
}

static void put(bytes *b, unsigned first, const void *payload, size_t len)
{
    const uint8_t *from = payload;

    put_head(b, first,
             0x80 | (len < 126     ? (unsigned)len
                     : len < 65536 ? 126
                                   : 127),
             len < 126     ? 0
             : len < 65536 ? 2
                           : 8,
             len);
    for (size_t i = 0; i < len; i++)
        b->at[b->len++] = from[i] ^ mask[i % 4];
}

static void read_bytes(const bytes *b, size_t piece)
{
    read_all(b->at, b->len, piece);
    assert_memory_equal(got.said, accepted, strlen(accepted));
    got.said_len -= strlen(accepted);
    memmove(got.said, got.said + strlen(accepted), got.said_len);
}

static void expect_close(const bytes *b, unsigned code)
{
    const uint8_t close[] = {0x88, 2, (uint8_t)(code >> 8), (uint8_t)code};

    for (size_t piece = 1; piece < 1000; piece = piece * 4 + 3) {
        read_bytes(b, piece);
        assert_int_equal(got.event, WEBSOCKET_OVER);
        expect_said(close, sizeof close);
    }
}

/* promise WS6 */
TEST(a_ping_is_answered_between_the_frames_of_a_message)
{
    static const uint8_t pong[] = {0x8a, 3, 't', 'w', 'o'};
    static const uint8_t pongs[] = {0x8a, 3, 'o', 'n', 'e', 0x8a, 3, 't', 'w', 'o'};
    bytes *b = begin();
    put(b, BINARY, "he", 2);
    put(b, FINAL | PING, "one", 3);
    put(b, CONTINUED, "l", 1);
    put(b, FINAL | PING, "two", 3);
    put(b, FINAL | CONTINUED, "lo", 2);
    read_bytes(b, b->len);
    assert_int_equal(got.n, 1);
    assert_memory_equal(got.message, "hello", 5);
    expect_said(pong, sizeof pong); /* the last of those that came at once */
    read_bytes(b, 1);
    assert_memory_equal(got.message, "hello", 5);
    expect_said(pongs, sizeof pongs);
    b = begin();
    put(b, FINAL | PING, "", 0);
    read_bytes(b, 1);
    expect_said("\x8a", 2);
}

/* promise WS6: a ping is answered, also inside a message; a close with its own code */
TEST(a_close_is_answered_with_its_code)
{
    static const unsigned good[] = {1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999};
    static const unsigned bad[] = {0, 999, 1004, 1005, 1006, 1015, 2999, 5000, 65535};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bytes *b = begin();
        put(b, FINAL | CLOSE, (uint8_t[]){(uint8_t)(good[i] >> 8), (uint8_t)good[i], 'b', 'y', 'e'}, i % 2 ? 5 : 2);
        put(b, FINAL | BINARY, "after", 5);
        expect_close(b, good[i]);
        assert_int_equal(got.n, 0);
        b = begin();
        put(b, FINAL | CLOSE, (uint8_t[]){(uint8_t)(bad[i] >> 8), (uint8_t)bad[i]}, 2);
        expect_close(b, 1002);
    }
    bytes *b = begin();
    put(b, FINAL | CLOSE, "x", 1);
    expect_close(b, 1002);
    b = begin();
    put(b, FINAL | CLOSE, "", 0);
    read_bytes(b, 1);
    expect_said("\x88", 2);
}

/* promise WS4: frames against the protocol close: mask, reserved bits, opcodes, order, shortest length */
TEST(protocol_violation_closes)
{
    static const struct {
        unsigned first, second; /* of a frame, alone */
        unsigned code;
    } heads[] = {
        {FINAL | BINARY, 5, 1002}, /* no mask */
        {FINAL | 0x40 | BINARY, 0x85, 1002},
        {FINAL | 0x20 | BINARY, 0x85, 1002},
        {FINAL | 0x10 | BINARY, 0x85, 1002},
        {FINAL | 0x40 | PING, 0x85, 1002},
        {FINAL | 3, 0x85, 1002},
        {FINAL | 7, 0x85, 1002},
        {FINAL | 11, 0x85, 1002},
        {FINAL | 15, 0x85, 1002},
        {PING, 0x85, 1002},
        {CLOSE, 0x80, 1002},
        {FINAL | PING, 0xfe, 1002},
        {FINAL | PING, 0xff, 1002},
        {FINAL | CONTINUED, 0x85, 1002}, /* of nothing */
        {FINAL | TEXT, 0x85, 1003},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        bytes *b = begin();
        b->at[b->len++] = (uint8_t)heads[i].first;
        b->at[b->len++] = (uint8_t)heads[i].second;
        expect_close(b, heads[i].code);
    }
    bytes *b = begin();
    put(b, BINARY, "he", 2);
    put(b, FINAL | BINARY, "llo", 3);
    expect_close(b, 1002);
    b = begin();
    put(b, FINAL | BINARY, "over", 4);
    put(b, FINAL | CONTINUED, "more", 4);
    expect_close(b, 1002);
    /* A length that has a shorter form. */
    b = begin();
    put_head(b, FINAL | BINARY, 0xfe, 2, 125);
    expect_close(b, 1002);
    b = begin();
    put_head(b, FINAL | BINARY, 0xff, 8, 65535);
    expect_close(b, 1002);
}

/* Judged by its head, before a byte of it came. */
/* promise WS5: a message too long closes by its frames' heads; one that does not get on, too */
TEST(a_message_too_long_closes)
{
    static const uint64_t lengths[] = {MESSAGE_MAX + 1, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
    static uint8_t half[MESSAGE_MAX];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bytes *b = begin();
        put_head(b, FINAL | BINARY, 0xff, 8, lengths[i]);
        expect_close(b, 1009);
        /* Also as the rest of a message. */
        b = begin();
        put(b, BINARY, half, 10);
        put_head(b, FINAL | CONTINUED, 0xff, 8, lengths[i] - 10);
        expect_close(b, 1009);
    }
    bytes *b = begin();
    put(b, BINARY, half, MESSAGE_MAX / 2);
    put(b, FINAL | CONTINUED, half, MESSAGE_MAX / 2);
    read_bytes(b, 1000);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.len, MESSAGE_MAX);
}

/* promise WS5 */
TEST(a_message_must_get_on)
{
    for (unsigned over = 0; over < 2; over++) {
        bytes *b = begin();
        put(b, BINARY, "x", 1);
        for (unsigned i = 0; i < WEBSOCKET_EMPTY_MAX + over; i++)
            put(b, CONTINUED, "", 0);
        put(b, FINAL | CONTINUED, "y", 1);
        if (over) {
            expect_close(b, 1008);
        } else {
            read_bytes(b, 1);
            assert_int_equal(got.n, 1);
            assert_memory_equal(got.message, "xy", 2);
        }
    }
}

/* promise WS7: a message may come in any frames and pieces; the first answer is to the request; long answers go in
 * frames */
TEST(written_frame_has_the_shortest_length)
{
    static const struct {
        bool first, last;
        size_t len;
        const char *header;
        size_t header_len;
    } rows[] = {
        {true, true, 0, "\x82\x00", 2},
        {true, true, 125, "\x82\x7d", 2},
        {true, true, 126, "\x82\x7e\x00\x7e", 4},
        {true, true, 65535, "\x82\x7e\xff\xff", 4},
        {true, true, 65536, "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10},
        {true, false, 1, "\x02\x01", 2},
        {false, false, 1, "\x00\x01", 2},
        {false, true, 1, "\x80\x01", 2},
    };
    uint8_t header[WEBSOCKET_HEADER_BYTES_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(websocket_write_header(rows[i].first, rows[i].last, rows[i].len, header), rows[i].header_len);
        assert_memory_equal(header, rows[i].header, rows[i].header_len);
    }
}

TEST_MAIN()
