/* Invariant: the size of a decompressed message is limited to bytes_max before memory is allocated. */
#include "net/gzip.h"

#include <stdlib.h>

#include <zlib.h>

#include "net/too_long.h"

enum {
    ROOM_MIN = 512,
    GZIP_WINDOW = 15 + 16,
    LEVEL = 1,
    MEMORY = 8,
    BLOCKS_FREE = 16,   /* deflate blocks of a message: each may contain a table, which costs as much as kilobytes */
    BLOCK_BYTES = 1024, /* bytes that each further block must give; compressors give 16 KiB and more */
    END_OF_BLOCK = 128, /* of z_stream.data_type (zlib.h, inflate) */
};

static lks_code fail(lks_error *error, lks_code code, lks_reason reason, const char *why)
{
    return lks_error_set_reason(error, code, LKS_APPLIED_NO, reason, "%s", why);
}

/* Decompresses up to the end of a block, the message or the memory. */
static int inflate_block(z_stream *z, size_t *blocks)
{
    int state = inflate(z, Z_BLOCK);

    if (state == Z_OK && z->data_type & END_OF_BLOCK && ++*blocks > BLOCKS_FREE + z->total_out / BLOCK_BYTES)
        return Z_DATA_ERROR;
    return state;
}

lks_code gzip_inflate(const uint8_t *data, size_t len, size_t bytes_max, uint8_t **ret, size_t *ret_len,
                      lks_error *error)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len};
    size_t room = len < ROOM_MIN ? ROOM_MIN : len;
    uint8_t *out = NULL;
    size_t blocks = 0;
    int state = inflateInit2(&z, GZIP_WINDOW);

    if (state != Z_OK)
        return fail(error, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM, "out of memory");
    do {
        room = room < bytes_max / 2 ? 2 * room : bytes_max + 1; /* the extra byte detects a message that is too long */
        uint8_t *grown = realloc(out, room);
        if (!grown) {
            state = Z_MEM_ERROR;
            break;
        }
        out = grown;
        z.next_out = out + z.total_out;
        z.avail_out = (uInt)(room - z.total_out);
        do
            state = inflate_block(&z, &blocks);
        while (state == Z_OK && z.avail_out > 0);
    } while (state == Z_OK && z.total_out <= bytes_max);
    *ret_len = z.total_out;
    inflateEnd(&z);
    *ret = out;
    if (state == Z_STREAM_END && z.avail_in == 0 && *ret_len <= bytes_max)
        return LKS_OK;
    free(out);
    if (state == Z_MEM_ERROR)
        return fail(error, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM, "out of memory");
    if (*ret_len > bytes_max)
        return too_long(error, bytes_max);
    return fail(error, LKS_INTERNAL, LKS_REASON_NONE, "the message is not gzip");
}

size_t gzip_deflate(const void *message, size_t len, uint8_t *out)
{
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)message, .avail_in = (uInt)len, .next_out = out, .avail_out = (uInt)len};

    if (deflateInit2(&z, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    int state = deflate(&z, Z_FINISH);
    size_t n = z.total_out;
    deflateEnd(&z);
    return state == Z_STREAM_END ? n : 0;
}
