/* Invariant: `room` is at most twice the bytes that arrived, or ROOM_MIN. The size of a decompressed message is
 * limited to bytes_max before memory is allocated. Called by grpc_call.c. */
#include "net/grpc/grpc_message.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

enum {
    ROOM_MIN = 512,
    GZIP_WINDOW = 15 + 16,
    COMPRESSED = 1,
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

bool grpc_reader_idle(const grpc_reader *r)
{
    return !r->data && r->prefix_len == 0;
}

void grpc_reader_end(grpc_reader *r)
{
    free(r->data);
    r->data = NULL;
}

static bool make_room(grpc_reader *r, size_t more)
{
    size_t room = 2 * (r->len + more) > ROOM_MIN ? 2 * (r->len + more) : ROOM_MIN;

    if (r->data && r->room - r->len >= more)
        return true;
    if (room > r->wanted)
        room = r->wanted;
    uint8_t *grown = realloc(r->data, room + 1); /* an empty message is not NULL */
    if (!grown)
        return false;
    r->data = grown;
    r->room = room;
    return true;
}

/* Decompresses up to the end of a block, the message or the memory. */
static int inflate_block(z_stream *z, size_t *blocks)
{
    int state = inflate(z, Z_BLOCK);

    if (state == Z_OK && z->data_type & END_OF_BLOCK && ++*blocks > BLOCKS_FREE + z->total_out / BLOCK_BYTES)
        return Z_DATA_ERROR;
    return state;
}

/* Decompresses into memory that doubles up to bytes_max. */
static lks_code inflate_all(const uint8_t *data, size_t len, size_t bytes_max, uint8_t **ret, size_t *ret_len,
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
        room = room < bytes_max / 2 ? 2 * room : bytes_max + 1; /* one more byte shows that it is too long */
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
        return fail(error, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_LARGE, "the message is too long once decompressed");
    return fail(error, LKS_INTERNAL, LKS_REASON_NONE, "the message is not gzip");
}

/* The prefix is complete. */
static lks_code begin(grpc_reader *r, lks_error *error)
{
    uint32_t length =
        (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 | (uint32_t)r->prefix[3] << 8 | r->prefix[4];

    if (r->prefix[0] > COMPRESSED || (r->prefix[0] == COMPRESSED && !r->gzip))
        return fail(error, LKS_UNIMPLEMENTED, LKS_REASON_NONE, "grpc-encoding: only gzip and identity are known");
    if (length > r->bytes_max)
        return fail(error, LKS_RESOURCE_EXHAUSTED, LKS_REASON_TOO_LARGE, "the message is too long");
    r->wanted = length;
    r->len = 0;
    return make_room(r, 0) ? LKS_OK : fail(error, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM, "out of memory");
}

/* The message is complete. */
static lks_code end(grpc_reader *r, uint8_t **message, size_t *message_len, lks_error *error)
{
    uint8_t *data = r->data;
    lks_code code = LKS_OK;

    *message = data;
    *message_len = r->len;
    r->data = NULL;
    r->prefix_len = 0;
    if (r->prefix[0] == COMPRESSED) {
        *message = NULL;
        code = inflate_all(data, r->len, r->bytes_max, message, message_len, error);
        if (code != LKS_OK)
            *message = NULL;
        free(data);
    }
    return code;
}

lks_code grpc_read(grpc_reader *r, const uint8_t *data, size_t len, size_t *used, uint8_t **message,
                   size_t *message_len, lks_error *error)
{
    size_t n = 0;

    *message = NULL;
    *used = 0;
    if (!r->data) {
        n = GRPC_PREFIX_BYTES - r->prefix_len < len ? GRPC_PREFIX_BYTES - r->prefix_len : len;
        memcpy(r->prefix + r->prefix_len, data, n);
        r->prefix_len += n;
        *used = n;
        if (r->prefix_len < GRPC_PREFIX_BYTES)
            return LKS_OK;
        lks_code code = begin(r, error);
        if (code != LKS_OK)
            return code;
    }
    n = r->wanted - r->len < len - *used ? r->wanted - r->len : len - *used;
    if (!make_room(r, n))
        return fail(error, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM, "out of memory");
    memcpy(r->data + r->len, data + *used, n);
    r->len += n;
    *used += n;
    return r->len == r->wanted ? end(r, message, message_len, error) : LKS_OK;
}

/* Compresses into `out`, which has room for len bytes. 0 when that is not enough. */
static size_t deflate_all(const void *message, size_t len, uint8_t *out)
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

void grpc_write_prefix(size_t len, uint8_t prefix[GRPC_PREFIX_BYTES])
{
    prefix[0] = 0;
    for (int i = 0; i < 4; i++)
        prefix[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

uint8_t *grpc_write(const void *message, size_t len, bool gzip, size_t *ret_len)
{
    uint8_t *out = malloc(GRPC_PREFIX_BYTES + len);
    size_t compressed;

    if (!out)
        return NULL;
    compressed = gzip ? deflate_all(message, len, out + GRPC_PREFIX_BYTES) : 0;
    if (compressed == 0)
        memcpy(out + GRPC_PREFIX_BYTES, message, len);
    size_t n = compressed > 0 ? compressed : len;
    grpc_write_prefix(n, out);
    if (compressed > 0)
        out[0] = COMPRESSED;
    *ret_len = GRPC_PREFIX_BYTES + n;
    return out;
}
