/* The reader of HTTP/1.1: what it accepts, and the ambiguous input that it refuses. */
#include "net/http/http1.h"
#include "test.h"

#define HOST "Host: localhost\r\n"

typedef struct result {
    unsigned status;
    http1_head head;
    size_t n_fields;
    char body[64];
    bool whole;
    size_t used;
} result;

/* Reads a request whose bytes arrive in pieces. */
static result read_in_pieces(const char *bytes, size_t len, size_t piece)
{
    http_fields fields = TAILQ_HEAD_INITIALIZER(fields);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    size_t head_len = 0, seen = 0, at, body_len = 0;
    http1_verdict v = {0};
    result r = {0};
    const http_field *f;

    for (at = 0; at < len && head_len == 0 && v.status == 0; seen = at) {
        at = at + piece < len ? at + piece : len;
        v = http1_find_head(bytes, at, seen, &head_len);
    }
    if (v.status == 0 && head_len > 0)
        v = http1_read_head(bytes, head_len, arena, &r.head, &fields);
    if (v.status == 0 && head_len > 0) {
        http1_body body = http1_body_of(&r.head);
        at = head_len;
        while (at < len && body.state != HTTP1_BODY_WHOLE && v.status == 0) {
            const char *data;
            size_t used, data_len;
            v = http1_read_body(&body, bytes + at, piece < len - at ? piece : len - at, &used, &data, &data_len);
            memcpy(r.body + body_len, data, data_len);
            body_len += data_len;
            at += used;
        }
        r.whole = body.state == HTTP1_BODY_WHOLE;
        r.used = at;
    }
    TAILQ_FOREACH(f, &fields, next)
        r.n_fields++;
    r.status = v.status;
    r.head.method = r.head.target = NULL;
    lks_rpc_arena_free(arena);
    return r;
}

/* All sizes of pieces give the same. */
static result read_all(const char *bytes, size_t len)
{
    result whole = read_in_pieces(bytes, len, len);

    for (size_t piece = 1; piece < 5; piece++) {
        result r = read_in_pieces(bytes, len, piece);
        if (r.status != whole.status || strcmp(r.body, whole.body) != 0 || r.used != whole.used)
            fail_msg("in pieces of %zu: %u, not %u: %s", piece, r.status, whole.status, bytes);
    }
    return whole;
}

TEST(requests_that_are_refused)
{
    static const struct {
        const char *bytes;
        unsigned status;
    } rows[] = {
        {"GET / HTTP/1.1\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
        {"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"\x16\x03\x01", 400},
        {"get / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
        {"GET /\r\n" HOST "\r\n", 400},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
        {"GET / HTTP/1.2\r\n" HOST "\r\n", 505},
        {"GET / HTTP/11\r\n" HOST "\r\n", 400},
        {"GET / HTTX/1.1\r\n" HOST "\r\n", 400},
        {"GET http://localhost/ HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /a\tb HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /%g0 HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /% HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /#a HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST " a: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: b\x01\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", 501},
        {"GET / HTTP/1.1\r\nHost: localhost\t\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\nx", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\nx", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\nx", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1844674407370955161600\r\n\r\n", 413},
        {"POST / HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n", 417},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nxy\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\nxy\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-2\r\nxy\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2\nxy\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2 \r\nxy\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2\r\nxyz\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2\r\nxy\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n000000002\r\nxy\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\nA: b\r\n\r\n", 400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        result r = read_all(rows[i].bytes, strlen(rows[i].bytes));
        if (r.status != rows[i].status)
            fail_msg("%u, not %u: %s", r.status, rows[i].status, rows[i].bytes);
    }
    static const char in_target[] = "GET /\0 HTTP/1.1\r\n" HOST "\r\n",
                      in_value[] = "GET / HTTP/1.1\r\n" HOST "A: \0\r\n\r\n";
    assert_int_equal(read_all(in_target, sizeof in_target - 1).status, 400);
    assert_int_equal(read_all(in_value, sizeof in_value - 1).status, 400);
}

TEST(requests_that_are_read)
{
    static const struct {
        const char *bytes, *body;
        size_t n_fields;
        bool closes, expects;
    } rows[] = {
        {"GET / HTTP/1.1\r\n" HOST "\r\n", "", 1, false, false},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "", 1, false, false},
        {"GET /a?b=%20 HTTP/1.1\r\nHost: [::1]:80\r\nA:\r\nB: \t c d \t\r\n\r\n", "", 3, false, false},
        {"GET / HTTP/1.0\r\n\r\n", "", 0, true, false},
        {"GET / HTTP/1.1\r\n" HOST "Connection: a, CLOSE\r\n\r\n", "", 2, true, false},
        {"POST / HTTP/1.1\r\n" HOST "content-length: 03\r\n\r\nabc", "abc", 2, false, false},
        {"POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\na", "a", 3, false, true},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n00A\r\n0123456789\r\n0\r\n\r\n",
         "ab0123456789", 2, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *more = NULL;
        size_t len = strlen(rows[i].bytes);
        assert_true(asprintf(&more, "%sGET /next", rows[i].bytes) > 0); /* a pipelined request is left alone */
        result r = read_all(more, strlen(more));
        free(more);
        if (r.status != 0 || !r.whole || r.used != len || strcmp(r.body, rows[i].body) != 0 ||
            r.n_fields != rows[i].n_fields || r.head.closes != rows[i].closes || r.head.expects != rows[i].expects)
            fail_msg("%u, %zu of %zu bytes, %zu fields, body %s: %s", r.status, r.used, len, r.n_fields, r.body,
                     rows[i].bytes);
    }
}

/* A field, or so many of them that the head is 16 KiB and one byte. */
TEST(a_head_is_at_most_16_KiB_and_100_fields)
{
    enum { MAX = HTTP1_HEAD_BYTES_MAX };
    static const char begin[] = "GET / HTTP/1.1\r\n" HOST "A: ", end[] = "\r\n\r\n";
    static char bytes[MAX + 64];
    size_t fixed = sizeof begin + sizeof end - 2;

    for (size_t len = MAX; len <= MAX + 1; len++) {
        memset(bytes, 'x', sizeof bytes);
        memcpy(bytes, begin, sizeof begin - 1);
        memcpy(bytes + len - sizeof end + 1, end, sizeof end - 1);
        assert_true(len > fixed);
        assert_int_equal(read_in_pieces(bytes, len, len).status, len > MAX ? 431 : 0);
        assert_int_equal(read_in_pieces(bytes, len, 1000).status, len > MAX ? 431 : 0);
    }
    for (int n = 100; n <= 101; n++) {
        int len = sprintf(bytes, "GET / HTTP/1.0\r\n");
        for (int i = 0; i < n; i++)
            len += sprintf(bytes + len, "A: b\r\n");
        len += sprintf(bytes + len, "\r\n");
        assert_int_equal(read_in_pieces(bytes, (size_t)len, (size_t)len).status, n > 100 ? 431 : 0);
    }
}

TEST(lists_of_tokens)
{
    static const struct {
        const char *list;
        bool has;
    } rows[] = {{"gzip", true},
                {"GZIP", true},
                {"br, gzip;q=0.5", true},
                {"gzip;q=0", false},
                {"gzip; q=0.0", false},
                {"gzip;q=0.001", true},
                {"xgzip", false},
                {"gzipx,", false},
                {"", false},
                {" , ,gzip , br", true},
                {"*", false}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (http_list_has((lks_rpc_slice){.data = rows[i].list, .len = strlen(rows[i].list)}, "gzip") != rows[i].has)
            fail_msg("%s", rows[i].list);
}

TEST_MAIN()
