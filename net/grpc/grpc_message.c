/* Invariant: `room` is at most twice the bytes that arrived, or ROOM_MIN. The size of a decompressed message is
 * limited to bytes_max before memory is allocated. Called by grpc_call.c. */
#include "net/grpc/grpc_message.h"

#include <stdlib.h>
#include <string.h>

#include "net/gzip.h"
#include "net/too_long.h"

enum { ROOM_MIN = 512, COMPRESSED = 1 };

static lks_code fail(lks_error *error, lks_code code, lks_reason reason, const char *why)
{
    return lks_error_set_reason(error, code, LKS_APPLIED_NO, reason, "%s", why);
}

void grpc_reader_encoding(grpc_reader *r, lks_rpc_slice encoding)
{
    r->gzip = encoding.len == 4 && memcmp(encoding.data, "gzip", 4) == 0;
    r->other = !r->gzip && encoding.len > 0 && !(encoding.len == 8 && memcmp(encoding.data, "identity", 8) == 0);
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

/* The prefix is complete. */
static lks_code begin(grpc_reader *r, lks_error *error)
{
    uint32_t length =
        (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 | (uint32_t)r->prefix[3] << 8 | r->prefix[4];

    if (r->prefix[0] == COMPRESSED && !r->gzip && !r->other)
        return fail(error, LKS_INTERNAL, LKS_REASON_NONE,
                    "the message is compressed, but grpc-encoding does not say how");
    if (r->prefix[0] > COMPRESSED || r->other)
        return fail(error, LKS_UNIMPLEMENTED, LKS_REASON_NONE, "grpc-encoding: only gzip and identity are supported");
    if (length > r->bytes_max)
        return too_long(error, r->bytes_max);
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
        code = gzip_inflate(data, r->len, r->bytes_max, message, message_len, error);
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
    compressed = gzip ? gzip_deflate(message, len, out + GRPC_PREFIX_BYTES) : 0;
    if (compressed == 0)
        memcpy(out + GRPC_PREFIX_BYTES, message, len);
    size_t n = compressed > 0 ? compressed : len;
    grpc_write_prefix(n, out);
    if (compressed > 0)
        out[0] = COMPRESSED;
    *ret_len = GRPC_PREFIX_BYTES + n;
    return out;
}
