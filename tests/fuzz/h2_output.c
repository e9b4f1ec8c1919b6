#include "h2_output.h"

#include <nghttp2/nghttp2.h>

#include "fuzz.h"

enum { FRAME_BYTES_MAX = 16384, HEAD = 9, STREAMS_MAX = 4096 };

/*   NEW --HEADERS--> RESPONDING --END_STREAM--> ENDED; RST_STREAM --> ENDED */
typedef enum phase { NEW, RESPONDING, ENDED } phase;

static struct {
    uint8_t frame[HEAD + FRAME_BYTES_MAX];
    size_t len, n_frames;
    uint8_t phases[STREAMS_MAX]; /* of stream 2 * i + 1 */
    nghttp2_hd_inflater *inflater;
} out;

void h2_output_begin(void)
{
    out.len = out.n_frames = 0;
    memset(out.phases, NEW, sizeof out.phases);
    fuzz_expect(nghttp2_hd_inflate_new(&out.inflater) == 0);
}

void h2_output_end(void)
{
    nghttp2_hd_inflate_del(out.inflater);
}

typedef struct seen {
    char http_status, grpc_status; /* first character; 0 = none */
} seen;

static seen read_headers(const uint8_t *data, size_t len)
{
    seen s = {0, 0};
    int flags = 0;

    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv nv;
        ssize_t used = nghttp2_hd_inflate_hd2(out.inflater, &nv, &flags, data, len, 1);
        fuzz_expect(used >= 0 && (size_t)used <= len);
        data += used;
        len -= (size_t)used;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
            continue;
        if (nv.namelen == 7 && memcmp(nv.name, ":status", 7) == 0)
            s.http_status = (char)nv.value[0];
        if (nv.namelen == 11 && memcmp(nv.name, "grpc-status", 11) == 0)
            s.grpc_status = (char)nv.value[0];
        for (size_t i = 0; i < nv.valuelen; i++)
            fuzz_expect(nv.value[i] >= ' ' && nv.value[i] <= '~');
    }
    nghttp2_hd_inflate_end_headers(out.inflater);
    return s;
}

static void take_headers(uint8_t *at, const uint8_t *data, size_t len, uint8_t flags)
{
    fuzz_expect(flags & NGHTTP2_FLAG_END_HEADERS && !(flags & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY)));
    seen s = read_headers(data, len);
    fuzz_expect((*at == NEW) == (s.http_status != 0));
    if (flags & NGHTTP2_FLAG_END_STREAM)
        fuzz_expect(s.grpc_status != 0 || s.http_status == '4');
    else
        fuzz_expect(*at == NEW && s.grpc_status == 0);
    *at = flags & NGHTTP2_FLAG_END_STREAM ? ENDED : RESPONDING;
}

static void take_frame(const uint8_t *head, const uint8_t *data, size_t len)
{
    uint32_t id = (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    uint8_t type = head[3], flags = head[4], elsewhere = NEW;
    /* Streams of high numbers are not followed. */
    uint8_t *at = id / 2 < STREAMS_MAX ? &out.phases[id / 2] : &elsewhere;

    fuzz_expect(out.n_frames++ > 0 || type == NGHTTP2_SETTINGS);
    switch (type) {
    case NGHTTP2_HEADERS:
        fuzz_expect(id % 2 == 1 && *at != ENDED);
        if (at == &elsewhere)
            read_headers(data, len);
        else
            take_headers(at, data, len, flags);
        break;
    case NGHTTP2_DATA:
        fuzz_expect(id % 2 == 1 && (at == &elsewhere || *at == RESPONDING));
        fuzz_expect(!(flags & NGHTTP2_FLAG_END_STREAM)); /* the trailers end it */
        break;
    case NGHTTP2_RST_STREAM:
        fuzz_expect(id > 0 && len == 4);
        *at = ENDED;
        break;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
    case NGHTTP2_GOAWAY:
        fuzz_expect(id == 0);
        break;
    default:
        fuzz_expect(type == NGHTTP2_WINDOW_UPDATE);
    }
}

void h2_output_bytes(const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t wanted = HEAD;
        if (out.len >= HEAD)
            wanted += (size_t)out.frame[0] << 16 | (size_t)out.frame[1] << 8 | out.frame[2];
        fuzz_expect(wanted <= sizeof out.frame);
        size_t n = wanted - out.len < len ? wanted - out.len : len;
        memcpy(out.frame + out.len, data, n);
        out.len += n;
        data += n;
        len -= n;
        if (out.len >= HEAD) {
            size_t body = (size_t)out.frame[0] << 16 | (size_t)out.frame[1] << 8 | out.frame[2];
            if (out.len == HEAD + body) {
                take_frame(out.frame, out.frame + HEAD, body);
                out.len = 0;
            }
        }
    }
}
