/* gRPC's messages, compressed or not, and what is too long; that any pieces do: tests/fuzz/fuzz_grpc_message.c. */
/* promise G11 */

#include <zlib.h>

#include "net/grpc/grpc_message.h"
#include "test.h"

enum { MAX = 100000 };

TEST(incompressible_message_is_sent_uncompressed)
{
    uint8_t text[64];
    size_t n;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 37);
    for (size_t len = 0; len <= sizeof text; len++) {
        uint8_t *written = grpc_write(text, len, true, &n);
        assert_non_null(written);
        assert_int_equal(written[0], 0);
        assert_int_equal(n, GRPC_PREFIX_BYTES + len);
        assert_memory_equal(written + GRPC_PREFIX_BYTES, text, len);
        free(written);
    }
}

static lks_code code_of(const uint8_t *data, size_t len, bool gzip, size_t *allocated)
{
    grpc_reader r = {.bytes_max = MAX, .gzip = gzip};
    lks_code code = LKS_OK;
    lks_error error;

    for (size_t at = 0; at < len && code == LKS_OK;) {
        uint8_t *message;
        size_t used, message_len;
        code = grpc_read(&r, data + at, len - at, &used, &message, &message_len, &error);
        at += used;
        if (code == LKS_OK)
            free(message);
        else
            assert_null(message);
    }
    if (allocated)
        *allocated = r.data ? r.room : 0;
    grpc_reader_end(&r);
    return code;
}

TEST(too_long_message_is_refused_at_its_prefix)
{
    const uint8_t just[] = {0, 0, 1, 0x86, 0xa0}, more[] = {0, 0, 1, 0x86, 0xa1}, most[] = {0, 255, 255, 255, 255};
    size_t allocated;
    assert_int_equal(code_of(just, sizeof just, false, &allocated), LKS_OK);
    assert_in_range(allocated, 0, 1024); /* nothing came yet */
    assert_int_equal(code_of(more, sizeof more, false, NULL), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(code_of(most, sizeof most, false, NULL), LKS_RESOURCE_EXHAUSTED);
}

TEST(compression_that_was_not_announced)
{
    const uint8_t compressed[] = {1, 0, 0, 0, 1, 0}, unknown[] = {2, 0, 0, 0, 0};
    assert_int_equal(code_of(compressed, sizeof compressed, false, NULL), LKS_INTERNAL);
    assert_int_equal(code_of(unknown, sizeof unknown, true, NULL), LKS_UNIMPLEMENTED);
}

/* `len` zeros, compressed, with a prefix. */
static uint8_t *bomb(size_t len, size_t *ret_len)
{
    z_stream z = {0};
    uint8_t *zeros = calloc(1, len), *out;

    assert_non_null(zeros);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, len);
    out = malloc(GRPC_PREFIX_BYTES + room);
    assert_non_null(out);
    z.next_in = zeros;
    z.avail_in = (uInt)len;
    z.next_out = out + GRPC_PREFIX_BYTES;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *ret_len = GRPC_PREFIX_BYTES + z.total_out;
    const uint8_t prefix[] = {1, 0, (uint8_t)(z.total_out >> 16), (uint8_t)(z.total_out >> 8), (uint8_t)z.total_out};
    memcpy(out, prefix, sizeof prefix);
    deflateEnd(&z);
    free(zeros);
    return out;
}

TEST(gzip_bombs)
{
    static const struct {
        size_t len;
        lks_code code;
    } rows[] = {{1, LKS_OK},
                {MAX - 1, LKS_OK},
                {MAX, LKS_OK},
                {MAX + 1, LKS_RESOURCE_EXHAUSTED},
                {2 * MAX, LKS_RESOURCE_EXHAUSTED},
                {50 << 20, LKS_RESOURCE_EXHAUSTED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len;
        uint8_t *data = bomb(rows[i].len, &len);
        assert_int_equal(code_of(data, len, true, NULL), rows[i].code);
        free(data);
    }
}

/* Blocks that make nothing cost their tables: a message is not read to its end for them. */
TEST(blocks_of_nothing_are_no_gzip)
{
    static const uint8_t header[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3}, stored[] = {0, 0, 0, 0xff, 0xff},
                         last[] = {1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0};
    for (size_t blocks = 1; blocks < 40; blocks++) {
        uint8_t data[GRPC_PREFIX_BYTES + sizeof header + 40 * sizeof stored + sizeof last] = {1};
        size_t len = GRPC_PREFIX_BYTES;
        grpc_reader r = {.bytes_max = MAX, .gzip = true};
        uint8_t *message;
        size_t used, message_len;
        lks_error error;
        memcpy(data + len, header, sizeof header), len += sizeof header;
        for (size_t i = 0; i + 1 < blocks; i++, len += sizeof stored)
            memcpy(data + len, stored, sizeof stored);
        memcpy(data + len, last, sizeof last), len += sizeof last;
        data[3] = (uint8_t)((len - GRPC_PREFIX_BYTES) >> 8);
        data[4] = (uint8_t)(len - GRPC_PREFIX_BYTES);
        lks_code code = grpc_read(&r, data, len, &used, &message, &message_len, &error);
        assert_int_equal(code, blocks < 16 ? LKS_OK : LKS_INTERNAL); /* the header counts */
        free(code == LKS_OK ? message : NULL);
        grpc_reader_end(&r);
    }
}

/* Whatever zlib's settings make is read, but for the smallest memory. */
TEST(gzip_of_any_level)
{
    static uint8_t text[MAX], out[2 * MAX];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * i >> 7 ^ i);
    for (int level = 0; level <= 9; level++) {
        z_stream z = {.next_in = text,
                      .avail_in = sizeof text,
                      .next_out = out + GRPC_PREFIX_BYTES,
                      .avail_out = sizeof out - GRPC_PREFIX_BYTES};
        assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, 15 + 16, level > 5 ? 8 : 9, Z_DEFAULT_STRATEGY), Z_OK);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        deflateEnd(&z);
        const uint8_t prefix[] = {1, 0, (uint8_t)(z.total_out >> 16), (uint8_t)(z.total_out >> 8),
                                  (uint8_t)z.total_out};
        memcpy(out, prefix, sizeof prefix);
        grpc_reader r = {.bytes_max = 10 * MAX, .gzip = true};
        uint8_t *message;
        size_t used, len;
        lks_error error;
        assert_int_equal(grpc_read(&r, out, GRPC_PREFIX_BYTES + z.total_out, &used, &message, &len, &error), LKS_OK);
        assert_int_equal(len, sizeof text);
        assert_memory_equal(message, text, len);
        free(message);
    }
}

TEST(invalid_gzip_is_refused)
{
    const uint8_t noise[] = {1, 0, 0, 0, 4, 'n', 'o', 'n', 'e'}, empty[] = {1, 0, 0, 0, 0};
    size_t len;
    assert_int_equal(code_of(noise, sizeof noise, true, NULL), LKS_INTERNAL);
    assert_int_equal(code_of(empty, sizeof empty, true, NULL), LKS_INTERNAL);
    uint8_t *data = bomb(1000, &len);
    for (size_t cut = 1; cut < len - GRPC_PREFIX_BYTES; cut++) {
        data[4] = (uint8_t)(len - GRPC_PREFIX_BYTES - cut);
        assert_int_equal(code_of(data, len - cut, true, NULL), LKS_INTERNAL);
    }
    free(data);
}

TEST_MAIN()
