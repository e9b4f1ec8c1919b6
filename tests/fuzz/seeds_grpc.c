/* Seeds of fuzz_grpc: connections of nghttp2's own client, and steps put together by
 * hand; of fuzz_grpc_message: messages, plain and by gzip. */
#include <nghttp2/nghttp2.h>
#include <zlib.h>

#include "fuzz.h"
#include "seeds.h"

enum {
    RAW = 0,
    RAW_64 = 1,
    TAKE = 2,
    END_PARKED = 3,
    ACT = 4,
    FRAME = 5,
    CALL = 6,
    MESSAGE = 7,
    DRAIN = 8,
    AGAIN = 16,
    TOGETHER = 32,
    PIECES = 64
};
enum { ITS_PREFACE = 1, LOST_ENDS = 2, SMALL = 4, LIMIT_4 = 8, LIMIT_100 = 16 };
enum {
    UNARY = 0,
    ECHO = 1,
    JUDGED = 2,
    NONE = 3,
    GZIP = 4,
    TIMEOUT = 8,
    TOKEN = 16,
    NO_STATE = 32,
    GET = 64,
    END = 128
};

static void put_step(seed *s, unsigned op, unsigned argument)
{
    seed_byte(s, op);
    seed_byte(s, argument);
}

static void put_call(seed *s, unsigned which, unsigned nth)
{
    put_step(s, CALL, which);
    seed_byte(s, nth);
}

static void put_message(seed *s, unsigned which, unsigned nth, const char *text)
{
    put_step(s, MESSAGE, which);
    seed_byte(s, nth);
    seed_byte(s, (unsigned)strlen(text));
    seed_put(s, text, strlen(text));
}

static void put_frame(seed *s, unsigned type, unsigned nth, unsigned flags, const void *data, size_t len)
{
    put_step(s, FRAME, type);
    seed_byte(s, nth);
    seed_byte(s, flags);
    seed_byte(s, (unsigned)len);
    seed_put(s, data, len);
}

static seed begin(unsigned flags)
{
    seed s = {.len = 0};

    seed_byte(&s, ITS_PREFACE | flags);
    put_frame(&s, NGHTTP2_SETTINGS, 0, NGHTTP2_FLAG_ACK, "", 0);
    return s;
}

static void save(const seed *s, const char *name)
{
    seed_save(s, "fuzz_grpc", name);
}

static void make_calls(void)
{
    seed s = begin(LIMIT_4);
    put_call(&s, UNARY, 1);
    put_message(&s, END, 1, "hello");
    put_call(&s, UNARY | GZIP | TIMEOUT, 2);
    put_message(&s, END, 2, "bbbbbbbb");
    put_step(&s, TAKE, 0);
    put_call(&s, UNARY, 3);
    put_message(&s, END, 3, "error: so it is");
    save(&s, "unary");

    s = begin(LIMIT_4);
    put_call(&s, UNARY, 1);
    put_message(&s, 0, 1, "one");
    put_message(&s, END, 1, "two");
    put_call(&s, UNARY | END, 2);
    put_call(&s, NONE, 3);
    put_message(&s, END, 3, "none");
    put_call(&s, UNARY | GET | END, 4);
    put_call(&s, UNARY | TIMEOUT | TOKEN, 5);
    put_message(&s, END, 5, "no such timeout");
    put_call(&s, UNARY, 6);
    put_message(&s, END | 2, 6, "not whole");
    put_call(&s, UNARY, 7);
    put_message(&s, END | 1, 7, "not compressed");
    save(&s, "refusals");
}

static void make_parked_calls(void)
{
    seed s;

    for (unsigned flags = 0; flags <= LOST_ENDS; flags += LOST_ENDS) {
        s = begin(LIMIT_4 | flags);
        for (unsigned nth = 1; nth <= 4; nth++) {
            put_call(&s, UNARY, nth);
            put_message(&s, END, nth, "park");
        }
        put_call(&s, UNARY, 5); /* beyond the limit */
        put_frame(&s, NGHTTP2_RST_STREAM, 2, 0, "\0\0\0\10", 4);
        put_step(&s, END_PARKED, 0);
        put_step(&s, END_PARKED, 1);
        put_step(&s, END_PARKED, END | 2);
        save(&s, flags ? "parked_lost_ends" : "parked");
    }
}

static void make_streams(void)
{
    seed s = begin(LIMIT_4);
    put_call(&s, ECHO, 1);
    put_message(&s, 0, 1, "echo");
    put_message(&s, 0, 1, "b");
    put_message(&s, 0, 1, "b");
    put_step(&s, ACT, 0);
    put_step(&s, TAKE, 0);
    put_frame(&s, NGHTTP2_WINDOW_UPDATE, 1, 0, "\0\1\0\0", 4);
    put_frame(&s, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\1\0\0", 4);
    put_message(&s, END, 1, "last");
    put_call(&s, JUDGED, 2);
    put_call(&s, JUDGED | TOKEN, 3);
    put_message(&s, 0, 3, "f");
    put_call(&s, ECHO | NO_STATE, 4);
    put_call(&s, ECHO | GZIP, 5);
    put_message(&s, 0, 5, "e");
    save(&s, "streaming");

    s = begin(LIMIT_4);
    put_call(&s, ECHO, 1);
    put_call(&s, UNARY, 2);
    put_message(&s, END, 2, "park");
    put_step(&s, TAKE | DRAIN, 0);
    put_call(&s, UNARY, 3);
    put_frame(&s, NGHTTP2_PING, 0, NGHTTP2_FLAG_ACK, "\0\0\0\0\0\0\0\0", 8);
    put_step(&s, END_PARKED, 0);
    put_step(&s, TAKE, 0);
    save(&s, "drain");

    s = begin(LIMIT_100);
    for (unsigned nth = 1; nth <= 20; nth++) {
        put_call(&s, UNARY, nth);
        put_frame(&s, NGHTTP2_RST_STREAM, nth, 0, "\0\0\0\10", 4);
        put_frame(&s, NGHTTP2_PING, 0, 0, "12345678", 8);
        put_frame(&s, NGHTTP2_SETTINGS, 0, 0, "\0\1\0\0\0\0\0\3\0\0\0\1", 12);
        put_frame(&s, NGHTTP2_DATA, nth, 0, "", 0);
        put_frame(&s, NGHTTP2_CONTINUATION, nth, 0, "\0\1a\1b", 5);
    }
    save(&s, "costly");
}

/* A frame many times, and in the same read one that is malformed. */
static void put_flood(seed *s, unsigned type, unsigned flags, const char *data, size_t len)
{
    put_step(s, FRAME | AGAIN | TOGETHER, type);
    seed_byte(s, type == NGHTTP2_PING || type == NGHTTP2_SETTINGS ? 0 : 1);
    seed_byte(s, flags);
    seed_byte(s, (unsigned)len);
    seed_put(s, data, len);
    seed_byte(s, 250);
}

static void make_floods(void)
{
    static const struct {
        const char *name;
        unsigned type, flags;
        const char *data;
        size_t len;
    } floods[] = {
        {"flood_empty_data", NGHTTP2_DATA, 0, "", 0},
        {"flood_padding", NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, "\3\0\0\0", 4},
        {"flood_window_updates", NGHTTP2_WINDOW_UPDATE, 0, "\0\0\0\1", 4},
        {"flood_pings", NGHTTP2_PING, 0, "12345678", 8},
        {"flood_settings", NGHTTP2_SETTINGS, 0, "", 0},
        {"flood_resets", NGHTTP2_RST_STREAM, 0, "\0\0\0\10", 4},
        {"flood_priorities", NGHTTP2_PRIORITY, 0, "\0\0\0\0\1", 5},
        {"flood_unknown", 14, 0, "x", 1},
        {"flood_continuations", NGHTTP2_CONTINUATION, 0, "\202", 1},
        {"flood_trailers", NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, "\220\220", 2},
    };
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) {
        seed s = begin(LIMIT_4);
        put_call(&s, ECHO, 1);
        put_flood(&s, floods[i].type, floods[i].flags, floods[i].data, floods[i].len);
        put_frame(&s, NGHTTP2_PRIORITY, 1, 0, "\0\0\0\0", 4);
        put_step(&s, TAKE, 0);
        save(&s, floods[i].name);
    }

    seed s = begin(LIMIT_100); /* a call in pieces, and time that passes */
    put_step(&s, CALL | TOGETHER, UNARY);
    seed_byte(&s, 1);
    put_step(&s, MESSAGE | PIECES, 0);
    seed_byte(&s, 1);
    seed_byte(&s, 5);
    seed_put(&s, "piece", 5);
    seed_byte(&s, 6);
    put_step(&s, TAKE, 128 | 31);
    put_call(&s, ECHO, 2);
    put_message(&s, 0, 2, "b");
    put_step(&s, TAKE, 128 | 11);
    put_call(&s, UNARY, 3);
    put_message(&s, END, 3, "park");
    put_step(&s, TAKE, 64);
    put_frame(&s, NGHTTP2_HEADERS, 4, 0, "\203", 1);
    put_step(&s, TAKE, 128 | 31);
    save(&s, "late");
}

/* ---- what nghttp2's client says ------------------------------------------------------------ */

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *data, size_t len, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    const char *text = source->ptr;
    size_t n = strlen(text);
    (void)session;
    (void)id;
    (void)user;

    fuzz_expect(n + 5 <= len);
    memcpy(data, (uint8_t[]){0, 0, 0, 0, (uint8_t)n}, 5);
    memcpy(data + 5, text, n);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n + 5;
}

#define FIELD(name, value)                                                                                  \
    {                                                                                                       \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1, 0 \
    }

static void make_client(void)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    const uint8_t *data;
    seed bytes = {.len = 0}, s = {.len = 0};
    ssize_t n;
    nghttp2_nv fields[] = {FIELD(":method", "POST"),
                           FIELD(":scheme", "http"),
                           FIELD(":path", "/f.S/Unary"),
                           FIELD(":authority", "localhost:7701"),
                           FIELD("te", "trailers"),
                           FIELD("content-type", "application/grpc+proto"),
                           FIELD("grpc-timeout", "1S"),
                           FIELD("grpc-accept-encoding", "gzip"),
                           FIELD("lockstock-namespace", "billing")};
    nghttp2_data_provider body = {.source = {.ptr = (void *)(uintptr_t) "hello"}, .read_callback = read_body};

    fuzz_expect(nghttp2_session_callbacks_new(&callbacks) == 0);
    fuzz_expect(nghttp2_session_client_new(&session, callbacks, NULL) == 0);
    fuzz_expect(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0) == 0);
    for (int i = 0; i < 3; i++) /* the later ones by HPACK's index */
        fuzz_expect(nghttp2_submit_request(session, NULL, fields, sizeof fields / sizeof *fields, &body, NULL) > 0);
    fuzz_expect(nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, NULL) == 0);
    while ((n = nghttp2_session_mem_send(session, &data)) > 0)
        seed_put(&bytes, data, (size_t)n);
    nghttp2_session_del(session);
    nghttp2_session_callbacks_del(callbacks);

    seed_byte(&s, LIMIT_4);
    for (size_t at = 0; at < bytes.len; at += 255) {
        size_t len = bytes.len - at < 255 ? bytes.len - at : 255;
        put_step(&s, RAW, (unsigned)len);
        seed_put(&s, bytes.data + at, len);
    }
    save(&s, "client");
    s = (seed){.len = 0};
    seed_byte(&s, LIMIT_4);
    for (size_t at = 0; at < bytes.len; at += 7) {
        size_t len = bytes.len - at < 7 ? bytes.len - at : 7;
        put_step(&s, at % 2 ? RAW : RAW | 128, (unsigned)len);
        seed_put(&s, bytes.data + at, len);
    }
    save(&s, "client_in_pieces");
}

/* ---- fuzz_grpc_message --------------------------------------------------------------------- */

static void put_prefixed(seed *s, unsigned compressed, const void *data, size_t len)
{
    seed_byte(s, compressed);
    seed_put(s, (uint8_t[]){0, 0, (uint8_t)(len >> 8), (uint8_t)len}, 4);
    seed_put(s, data, len);
}

static size_t gzip(const void *data, size_t len, uint8_t *out, size_t room)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len, .next_out = out, .avail_out = (uInt)room};

    fuzz_expect(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    fuzz_expect(deflate(&z, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static void make_messages(void)
{
    static const char zeros[20000];
    uint8_t packed[4096];
    seed s = {.len = 0};

    seed_put(&s, "\2\3", 2);
    put_prefixed(&s, 0, "hello", 5);
    put_prefixed(&s, 0, "", 0);
    put_prefixed(&s, 0, zeros, 1500);
    seed_save(&s, "fuzz_grpc_message", "plain");

    s.len = 0;
    seed_put(&s, "\3\0", 2);
    put_prefixed(&s, 1, packed, gzip("hello", 5, packed, sizeof packed));
    put_prefixed(&s, 1, packed, gzip("", 0, packed, sizeof packed));
    put_prefixed(&s, 1, packed, gzip(zeros, 3000, packed, sizeof packed));
    put_prefixed(&s, 1, packed, gzip(zeros, sizeof zeros, packed, sizeof packed)); /* too long */
    seed_save(&s, "fuzz_grpc_message", "gzip");

    s.len = 0;
    seed_put(&s, "\1\1", 2);
    put_prefixed(&s, 1, "not gzip", 8);
    seed_save(&s, "fuzz_grpc_message", "not_gzip");

    s.len = 0;
    seed_put(&s, "\0\1", 2);
    put_prefixed(&s, 0, zeros, 200); /* longer than is allowed */
    seed_save(&s, "fuzz_grpc_message", "too_long");
}

void seeds_grpc(void)
{
    make_calls();
    make_parked_calls();
    make_streams();
    make_floods();
    make_client();
    make_messages();
}
