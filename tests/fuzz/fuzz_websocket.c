/* For any pieces of a stream of bytes, a WebSocket connection gives the same
 * messages and ends at the same place; none is longer than allowed; its output is
 * valid for a client: one answer, then whole frames without a mask. SP over it takes
 * the same messages up to the first that is no request, in memory at most twice what came.
 *
 *   flags (1)  n (1)  n sizes of pieces, 0 = 256, in turn  the stream
 *   flags: 1 the stream begins after a good request; 6 which limit */
/* promise WS7 */
#include "fuzz.h"
#include "net/sp/sp.h"

static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Protocol: p\r\n\r\n";
static char *origins[] = {(char *)(uintptr_t) "http://a"};
static const websocket_site site = {.path = "/", .subprotocol = "p", .origins = origins, .n_origins = 1};

enum { ROOM_MIN = 1024 };

typedef struct run {
    websocket *w;
    size_t message_max;
    bool opened, over;
    uint8_t *messages; /* their bytes, each with an end of 0xFF */
    size_t len, n, of_message;
} run;

static run begin(size_t message_max, size_t stream_len)
{
    run r = {.w = websocket_new(&site, message_max), .message_max = message_max};

    r.messages = malloc(2 * stream_len + 1);
    fuzz_expect(r.w && r.messages);
    return r;
}

/* The output is an answer, and then whole frames: a pong, a close. */
static void check_said(run *r, const uint8_t *said, size_t len)
{
    bool answered = len > 5 && memcmp(said, "HTTP/", 5) == 0;
    const uint8_t *end = answered ? memmem(said, len, "\r\n\r\n", 4) : said;

    fuzz_expect(end && len <= WEBSOCKET_OUTPUT_BYTES_MAX);
    if (answered && memcmp(said, "HTTP/1.1 101 ", 13) != 0) {
        fuzz_expect(r->over && !r->opened);
        return;
    }
    size_t at = (size_t)(end - said) + (answered ? 4 : 0);
    while (at < len) {
        fuzz_expect(r->opened && len - at >= 2 && (said[at] == 0x8A || said[at] == 0x88) && said[at + 1] <= 125);
        fuzz_expect(said[at] != 0x88 || (r->over && said[at + 1] != 1));
        at += 2U + said[at + 1];
    }
    fuzz_expect(at == len);
}

static void say(run *r)
{
    uint8_t said[WEBSOCKET_OUTPUT_BYTES_MAX];
    size_t len = websocket_output(r->w, said);

    check_said(r, said, len);
    fuzz_expect(websocket_output(r->w, said) == 0);
}

static void take(run *r, const websocket_piece *piece)
{
    fuzz_expect(piece->announced <= r->message_max);
    websocket_unmask(piece, r->messages + r->len);
    r->len += piece->len;
    r->of_message += piece->len;
    fuzz_expect(r->of_message <= piece->announced);
    if (piece->last) {
        fuzz_expect(r->of_message == piece->announced);
        r->messages[r->len++] = 0xFF;
        r->n++;
        r->of_message = 0;
    }
}

/* Bytes in memory of exactly their size. */
static void feed(run *r, const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len);
    websocket_piece piece;

    fuzz_expect(copy);
    memcpy(copy, data, len);
    for (size_t at = 0, taken; at < len && !r->over; at += taken) {
        websocket_event event = websocket_read(r->w, copy + at, len - at, &taken, &piece);
        fuzz_expect(taken <= len - at && event != WEBSOCKET_NO_MEMORY);
        fuzz_expect(event != WEBSOCKET_MORE || taken == len - at);
        if (event == WEBSOCKET_OPENED) {
            fuzz_expect(!r->opened);
            r->opened = true;
            say(r);
        }
        if (event == WEBSOCKET_PIECE) {
            fuzz_expect(r->opened && piece.bytes >= copy && piece.bytes + piece.len <= copy + len);
            take(r, &piece);
        }
        r->over = event == WEBSOCKET_OVER;
    }
    say(r);
    free(copy);
}

/* For SP: the messages that are taken are those of `whole`, in order. */
typedef struct sp_run {
    const run *whole;
    const uint8_t *next;
    size_t n;
} sp_run;

static bool take_request(void *arg, sp_message *message)
{
    sp_run *r = arg;

    fuzz_expect(r->n < r->whole->n && message->ids_len >= SP_ID_BYTES && message->ids_len <= message->len);
    fuzz_expect(message->bytes[message->ids_len - SP_ID_BYTES] & 0x80);
    fuzz_expect(memcmp(message->bytes, r->next, message->len) == 0 && r->next[message->len] == 0xFF);
    r->next += message->len + 1;
    r->n++;
    free(message);
    return r->n % 3 != 0;
}

static void read_as_sp(const run *whole, size_t frame_max, const uint8_t *stream, size_t len)
{
    sp_run r = {.whole = whole, .next = whole->messages};
    uint8_t said[SP_OUTPUT_BYTES_MAX];
    sp_verdict verdict = SP_FINE;
    sp_reader reader;

    fuzz_expect(sp_reader_init_websocket(&reader, &site, frame_max));
    for (size_t at = 0, n; at < len && verdict == SP_FINE; at += n) {
        verdict = sp_read(&reader, stream + at, len - at < 100 ? len - at : 100, &n, take_request, &r);
        fuzz_expect(verdict != SP_NO_MEMORY);
        fuzz_expect(verdict != SP_FINE || n > 0);
        fuzz_expect(!reader.message || reader.room <= 2 * reader.message->len || reader.room <= ROOM_MIN);
        sp_output(&reader, said);
    }
    fuzz_expect(verdict == SP_BROKEN || r.n == whole->n);
    sp_reader_end(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const size_t limits[] = {SP_STACK_BYTES_MAX, 100, 1000, 100000};
    fuzz_input in = {.data = data, .len = len};
    unsigned flags = fuzz_byte(&in);
    size_t n_sizes = fuzz_byte(&in), n_in;
    uint8_t *sizes = fuzz_bytes(&in, n_sizes, &n_in);
    size_t before = flags & 1 ? sizeof request - 1 : 0, total = before + in.len;
    uint8_t *stream = malloc(total + 1);

    fuzz_expect(stream);
    memcpy(stream, request, before);
    if (in.len > 0)
        memcpy(stream + before, in.data, in.len);
    run whole = begin(limits[flags >> 1 & 3], total), cut = begin(limits[flags >> 1 & 3], total);
    if (total > 0)
        feed(&whole, stream, total);
    for (size_t at = 0, i = 0; at < total && !cut.over; i++) {
        size_t size = n_in == 0 || sizes[i % n_in] == 0 ? 256 : sizes[i % n_in];
        size_t n = total - at < size ? total - at : size;
        feed(&cut, stream + at, n);
        at += n;
    }
    fuzz_expect(whole.over == cut.over && whole.opened == cut.opened && whole.n == cut.n && whole.len == cut.len);
    fuzz_expect(memcmp(whole.messages, cut.messages, cut.len) == 0);
    fuzz_expect(!(flags & 1) || cut.opened);
    read_as_sp(&whole, whole.message_max - SP_STACK_BYTES_MAX, stream, total);
    websocket_free(whole.w);
    websocket_free(cut.w);
    free(whole.messages);
    free(cut.messages);
    free(stream);
    free(sizes);
    return 0;
}
