/* Whatever comes over an SP connection, whenever its messages are answered and its output is taken: it is not read
 * while its calls queue, each reply goes to its request's ids, what was held back comes when there is room again,
 * and nothing is held when the connection is gone.
 *
 *   flags (1)  steps: op (1) argument (1) ...; see step()
 *   flags: 1 unix mapping; 2 any bytes may come, else requests of ours only; 12 how many
 *   messages may wait before they queue */
#include <endian.h>

#include "fake_stream.h"
#include "fuzz.h"
#include "support/fake_sink.h"
#include "net/sp/sp.h"
#include "net/sp/sp_server.h"

enum { PARKED_MAX = 64, FRAME_MAX = 1024, PAYLOAD = 4 };

static struct {
    stream stream;
    sp_server *server;
    struct {
        const frames_port *port;
        void *message; /* NULL: free */
        uint8_t data[FRAME_MAX];
        size_t len;
    } parked[PARKED_MAX];
    size_t n_parked, limit, n_sent, n_taken, n_replied, n_seen;
    caller *caller; /* NULL: lost */
    bool any, is_unix;
    uint8_t out[1 << 16];
    size_t out_len;
    bool greeted;
} here;

/* ---- frames, as the requests say ---------------------------------------------------- */

static void reply(const frames_port *port, void *message, const uint8_t *data, size_t len)
{
    uint8_t *space = port->answer(message, len);

    fuzz_expect(space);
    if (len > 0)
        memcpy(space, data, len);
    here.n_replied += !here.stream.closing;
    port->reply(message);
}

/* "p..." waits, "c..." is no frame, all else is echoed. */
void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns)
{
    const uint8_t *bytes = data;

    fuzz_expect(fake_caller_number(sender->caller) == 1 && received_ns > 0 && len <= FRAME_MAX);
    here.caller = sender->caller;
    here.n_taken++;
    for (size_t i = 0; len > 0 && bytes[0] == 'p' && i < PARKED_MAX; i++) {
        if (!here.parked[i].message) {
            here.parked[i].port = port;
            here.parked[i].message = message;
            memcpy(here.parked[i].data, bytes, len);
            here.parked[i].len = len;
            here.n_parked++;
            fuzz_expect(here.n_parked <= here.limit);
            if (here.n_parked == here.limit)
                fake_caller_queues(sender->caller, true);
            return;
        }
    }
    if (len > 0 && bytes[0] == 'c')
        port->close_peer(message);
    else
        reply(port, message, bytes, len);
}

void frames_refuse(frames *f, const frames_port *port, void *message, size_t n)
{
    fuzz_expect(n >= 1 && n <= 256);
    here.n_taken++;
    reply(port, message, (const uint8_t *)"r", 1);
}

static void end_parked(size_t i, bool closes)
{
    void *message = here.parked[i].message;

    if (!message)
        return;
    here.parked[i].message = NULL;
    here.n_parked--;
    if (closes)
        here.parked[i].port->close_peer(message);
    else
        reply(here.parked[i].port, message, here.parked[i].data, here.parked[i].len);
    if (here.caller && here.n_parked < here.limit)
        fake_caller_queues(here.caller, false);
}

static void on_lost(void)
{
    here.caller = NULL;
}

/* ---- replies ---------------------------------------------------------------------------- */

/* The whole reply at the start of `out`: its length; 0 while it is not whole. */
static size_t read_reply(void)
{
    size_t prefix = here.is_unix ? 9 : 8, ids = 4;
    uint64_t length;

    if (here.out_len < prefix)
        return 0;
    memcpy(&length, here.out + prefix - 8, 8);
    length = be64toh(length);
    fuzz_expect((!here.is_unix || here.out[0] == 1) && length >= 4 && length <= FRAME_MAX + SP_STACK_BYTES_MAX);
    if (here.out_len < prefix + length)
        return 0;
    const uint8_t *body = here.out + prefix;
    while (!(body[ids - 4] & 0x80))
        fuzz_expect((ids += 4) <= length && ids <= SP_STACK_BYTES_MAX);
    /* A request of the target has its number in its id and in its frame, and numbered hops. */
    if (!here.any && length - ids >= PAYLOAD) {
        fuzz_expect(memcmp(body + ids - 2, body + ids + 2, 2) == 0);
        fuzz_expect(body[ids + 1] == ids / 4 - 1);
        for (size_t at = 0; at + 4 < ids; at += 4)
            fuzz_expect(body[at + 3] == at / 4);
    }
    return prefix + (size_t)length;
}

static void on_output(const uint8_t *data, size_t len)
{
    size_t n;

    fuzz_expect(here.out_len + len <= sizeof here.out);
    memcpy(here.out + here.out_len, data, len);
    here.out_len += len;
    if (!here.greeted) {
        fuzz_expect(here.out_len == SP_HANDSHAKE_BYTES && memcmp(here.out, sp_rep_handshake, SP_HANDSHAKE_BYTES) == 0);
        here.greeted = true;
        here.out_len = 0;
    }
    while ((n = read_reply()) > 0) {
        memmove(here.out, here.out + n, here.out_len - n);
        here.out_len -= n;
        here.n_seen++;
    }
}

/* ---- what comes --------------------------------------------------------------------------- */

/* Several requests at once: argument: 3 waits, is no frame or is echoed; 28 hops; 224 how many more. */
static void send_requests(unsigned argument, unsigned piece)
{
    static uint8_t bytes[8 * (9 + SP_STACK_BYTES_MAX + PAYLOAD)];
    static const char kinds[] = {'p', 'e', 'c', 'p'};
    unsigned hops = argument >> 2 & 7;
    size_t len = 0;

    for (unsigned i = 0; i <= argument >> 5; i++) {
        uint8_t number[2] = {(uint8_t)(here.n_sent >> 8), (uint8_t)here.n_sent};
        uint64_t length = htobe64((hops + 1) * 4 + PAYLOAD);
        if (here.is_unix)
            bytes[len++] = 1;
        memcpy(bytes + len, &length, 8);
        len += 8;
        for (unsigned h = 0; h < hops; h++, len += 4)
            memcpy(bytes + len, (uint8_t[]){0, 0, 0, (uint8_t)h}, 4);
        memcpy(bytes + len,
               (uint8_t[]){0x80, 0, number[0], number[1], (uint8_t)kinds[argument & 3], (uint8_t)hops, number[0],
                           number[1]},
               8);
        len += 8;
        here.n_sent++;
    }
    fake_stream_pieces(&here.stream, bytes, len, piece > 0 ? piece : len);
}

static void step(fuzz_input *in)
{
    unsigned op = fuzz_byte(in), argument = fuzz_byte(in);
    size_t n;

    switch (op % 6) {
    case 0:
        send_requests(argument, op >> 4);
        break;
    case 1:
        if (here.any) {
            uint8_t *data = fuzz_bytes(in, argument, &n);
            fake_stream_bytes(&here.stream, data, n);
            free(data);
        }
        break;
    case 2:
        fake_stream_take(&here.stream);
        break;
    case 3:
        end_parked(argument % PARKED_MAX, false);
        break;
    case 4:
        end_parked(argument % PARKED_MAX, argument >> 6 == 3);
        break;
    case 5:
        fake_budget_is_full(argument & 1);
        break;
    }
    fuzz_expect(sp_server_in_flight(here.server) == here.n_parked);
    fuzz_expect(here.stream.closing || here.n_parked < here.limit || here.stream.paused);
}

/* All that was sent is answered once there is room, if it is not over before. */
static void settle(void)
{
    for (bool more = true; more && !here.stream.closing;) {
        more = here.n_parked > 0;
        more = fake_stream_take(&here.stream) || more;
        for (size_t i = 0; i < PARKED_MAX; i++)
            end_parked(i, false);
    }
    if (!here.stream.closing) {
        fuzz_expect(!here.stream.paused && here.n_replied == here.n_seen && here.out_len == 0);
        fuzz_expect(here.any || here.n_taken == here.n_sent);
        fuzz_expect(!here.stream.ready || here.any || here.stream.idle);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint32_t limits[] = {1, 2, 5, PARKED_MAX};
    fuzz_input in = {.data = data, .len = len};
    unsigned flags = fuzz_byte(&in);
    uint16_t bound;
    lks_error error;

    memset(&here, 0, sizeof here);
    here.is_unix = flags & 1;
    here.any = flags & 2;
    here.limit = limits[flags >> 2 & 3];
    const sp_server_options options = {.sink = &fake_sink, .message_bytes_max = FRAME_MAX};
    fake_callers_reset(on_lost);
    fuzz_expect(sp_server_new(&options, &here.server, &error) == LKS_OK);
    fuzz_expect(sp_server_listen(here.server, &(stream_address){.is_unix = here.is_unix}, &bound, &error) == LKS_OK);
    fuzz_expect(fake_stream_open(&here.stream, on_output));
    fake_stream_pieces(&here.stream, (const uint8_t *)"\0SP\0\0\x30\0\0", SP_HANDSHAKE_BYTES,
                       flags >> 4 ? flags >> 4 : SP_HANDSHAKE_BYTES);
    fuzz_expect(here.stream.ready);
    while (in.len > 0 && !here.stream.closing)
        step(&in);
    if (!(flags & 16))
        settle();
    fake_stream_closed(&here.stream);
    fuzz_expect(fake_callers.lost == 1);
    for (size_t i = 0; i < PARKED_MAX; i++)
        end_parked(i, i % 2);
    fuzz_expect(fake_callers.lost == 1 && sp_server_in_flight(here.server) == 0);
    fuzz_expect(fake_callers.shares_closed == 1 && fake_callers.held == 0);
    sp_server_free(here.server);
    return 0;
}
