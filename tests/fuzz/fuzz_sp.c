/* For any pieces of a stream of bytes, and whenever the callback stops, the
 * SP reader, a server's or a client's, finds the same messages as in the whole stream, fails
 * at the same place, and holds at most twice the received bytes.
 *
 *   flags (1)  n (1)  n sizes of pieces, 0 = 256, in turn  enough (1)  the stream
 *   flags: 1 unix mapping, 6 which limit, 8 a client's
 *   enough: bit i % 8: after message i the callback stops */
#include <endian.h>

#include "fuzz.h"
#include "net/sp/sp.h"

enum { SIZES_MAX = 255, ROOM_MIN = 1024 };

typedef struct run {
    sp_mapping mapping;
    bool of_client;
    size_t frame_max;
    const uint8_t *stream;
    size_t len;
    size_t at; /* where the next message begins in the stream */
    size_t n_taken;
    uint8_t enough;
    bool has_enough; /* until the next sp_read */
} run;

/* The most bytes of a message. */
static size_t longest(const run *r)
{
    return r->frame_max + (r->of_client ? 4 : SP_STACK_BYTES_MAX);
}

/* The message that begins at `at`, by the text of the mapping: its length with the
 * prefix; 0: it is not whole; -1: it is none. */
static long long whole_message(const run *r, size_t at, size_t *ids_len)
{
    size_t prefix = r->mapping == SP_OVER_UNIX ? 9 : 8;
    const uint8_t *p = r->stream + at;
    uint64_t length;

    if (r->len - at < prefix)
        return 0;
    if (prefix == 9 && p[0] != 1)
        return -1;
    memcpy(&length, p + prefix - 8, 8);
    length = be64toh(length);
    if (length < 4 || length > longest(r))
        return -1;
    if (r->len - at - prefix < length)
        return 0;
    if (r->of_client) {
        *ids_len = 4;
        return (long long)(prefix + length);
    }
    for (size_t i = 0; i < 9 && (i + 1) * 4 <= length; i++) {
        if (p[prefix + i * 4] & 0x80) {
            *ids_len = (i + 1) * 4;
            return length - *ids_len <= r->frame_max ? (long long)(prefix + length) : -1;
        }
    }
    return -1;
}

static bool take(void *arg, sp_message *message)
{
    run *r = arg;
    size_t ids_len = 0;
    long long len = whole_message(r, r->at, &ids_len);
    uint8_t header[SP_HEADER_BYTES_MAX];

    fuzz_expect(len > 0 && !r->has_enough);
    size_t prefix = (size_t)len - message->len;
    fuzz_expect(prefix == (r->mapping == SP_OVER_UNIX ? 9U : 8U));
    fuzz_expect(message->ids_len == ids_len && message->len >= ids_len);
    fuzz_expect(memcmp(message->bytes, r->stream + r->at + prefix, message->len) == 0);
    /* An answer of the same length has the same header. */
    fuzz_expect(sp_write_header(r->mapping, message->bytes, ids_len, message->len - ids_len, header) ==
                prefix + ids_len);
    fuzz_expect(memcmp(header, r->stream + r->at, prefix + ids_len) == 0);
    r->at += (size_t)len;
    free(message);
    r->has_enough = r->enough >> (r->n_taken++ % 8) & 1;
    return !r->has_enough;
}

static void check_memory(const sp_reader *r, const run *made, size_t fed)
{
    if (!r->message)
        return;
    fuzz_expect(r->wanted <= longest(made));
    fuzz_expect(r->room <= r->wanted && r->message->len <= r->room && r->message->len < r->wanted);
    fuzz_expect(r->room <= ROOM_MIN || r->room <= 2 * (fed - made->at));
}

/* Feeds the stream in pieces; whether the reader broke with it. */
static bool feed(run *r, const uint8_t *sizes, size_t n_sizes)
{
    fuzz_input left = {.data = r->stream, .len = r->len};
    sp_reader reader;
    sp_verdict verdict = SP_FINE;
    size_t fed = 0;

    (r->of_client ? sp_reader_init_client : sp_reader_init)(&reader, r->mapping, r->frame_max);
    for (size_t i = 0; left.len > 0 && verdict == SP_FINE; i++) {
        size_t size = n_sizes > 0 ? sizes[i % n_sizes] : 0, taken, n;
        uint8_t *piece = fuzz_bytes(&left, size > 0 ? size : 256, &n);
        for (size_t done = 0; done < n && verdict == SP_FINE; done += taken) {
            size_t before = r->n_taken;
            r->has_enough = false;
            verdict = sp_read(&reader, piece + done, n - done, &taken, take, r);
            fuzz_expect(verdict == SP_FINE || verdict == SP_BROKEN);
            fuzz_expect(taken <= n - done);
            fuzz_expect(verdict == SP_BROKEN || done + taken == n || r->n_taken > before);
            fed += taken;
            if (verdict == SP_FINE)
                check_memory(&reader, r, fed);
        }
        free(piece);
    }
    fuzz_expect(verdict == SP_BROKEN || fed == r->len);
    fuzz_expect(verdict == SP_BROKEN || sp_reader_idle(&reader) == (r->len >= 8 && r->at == r->len));
    sp_reader_end(&reader);
    return verdict == SP_BROKEN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint8_t handshakes[][8] = {{0, 'S', 'P', 0, 0, 0x30, 0, 0}, {0, 'S', 'P', 0, 0, 0x31, 0, 0}};
    static const size_t limits[] = {0, 100, 4096, 70000};
    fuzz_input in = {.data = data, .len = len};
    uint8_t flags = fuzz_byte(&in), sizes[SIZES_MAX];
    size_t n_sizes = fuzz_byte(&in), ids_len;

    for (size_t i = 0; i < n_sizes; i++)
        sizes[i] = fuzz_byte(&in);
    uint8_t enough = fuzz_byte(&in); /* before the rest is measured */
    run r = {.mapping = flags & 1 ? SP_OVER_UNIX : SP_OVER_TCP,
             .of_client = flags & 8,
             .frame_max = limits[flags >> 1 & 3],
             .enough = enough,
             .stream = in.data,
             .len = in.len,
             .at = sizeof handshakes[0]};
    const uint8_t *handshake = handshakes[r.of_client];
    bool broke = feed(&r, sizes, n_sizes);
    size_t handshake_done = r.len < sizeof handshakes[0] ? r.len : sizeof handshakes[0];
    if (memcmp(r.stream, handshake, handshake_done) != 0)
        fuzz_expect(broke && r.n_taken == 0);
    else if (r.len >= sizeof handshakes[0])
        fuzz_expect(whole_message(&r, r.at, &ids_len) == (broke ? -1 : 0));
    else
        fuzz_expect(!broke);
    return 0;
}
