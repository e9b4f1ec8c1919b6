/* Whatever comes over an http:// connection, in whatever pieces: the answers are the same; each is well-formed, and there
 * is one for each request that was taken; calls end once; nothing is held when the connection is gone.
 *
 *   flags (1)  size of pieces (1)  bytes
 *   flags: 1 calls wait until the turn ends; 2 the listener is this machine's; 4 a page of another site is named;
 *   8 the budget is full while a call runs */
#include <time.h>

#include "fake_stream.h"
#include "fuzz.h"
#include "lockstock/v1/stock.lks.h"
#include "net/http/http_server.h"
#include "support/fake_sink.h"

enum { OUTPUT_MAX = 1 << 18 };

typedef struct output {
    uint8_t data[OUTPUT_MAX];
    size_t len;
} output;

static struct {
    stream stream;
    sink sink;
    http_site site;
    bool waits, is_full;
    sink_done *done; /* a call that waits */
    void *done_arg;
    const sink_lender *lender;
    size_t n_taken, n_done;
    output outputs[2], *out;
} here;

/* Answers have the date. */
time_t __wrap_time(time_t *now);
time_t __wrap_time(time_t *now)
{
    return 1795000000;
}

/* The wire's HTTP/2 is another target's. */
void *grpc_server_adopt(grpc_server *all, stream *s, const struct http_site *site, bool is_local)
{
    return NULL;
}

const stream_protocol *grpc_server_protocol(void)
{
    return NULL;
}

/* ---- the sink ----------------------------------------------------------------------------------- */

static const lks_rpc_method *find(void *arg, const char *path)
{
    static const lks_rpc_method *const methods[] = {&lks_stock_get_item_method, &lks_stock_deduct_method};

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i]->path, path) == 0)
            return methods[i];
    return NULL;
}

static lks_code check(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                      lks_error *error)
{
    if (who->twice)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "metadata %s: twice", who->twice);
    if (who->says_authorization && who->authorization.len == 0)
        return lks_error_set(error, LKS_UNAUTHENTICATED, LKS_APPLIED_NO, "authorization: empty");
    return find(NULL, path) ? LKS_OK : lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "no");
}

static void end(size_t len)
{
    lks_get_item_response item = LKS_GET_ITEM_RESPONSE_INIT;
    lks_error error = {0};

    here.n_done++;
    if (len % 3 == 1) {
        lks_error_set(&error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "sku: \"%zu\"\n", len);
        error.retry_after_ms = (uint32_t)len;
    }
    sink_done *done = here.done;
    here.done = NULL;
    fake_budget_is_full(false);
    done(here.done_arg, &lks_stock_get_item_method, error.code == LKS_OK ? &item.base : NULL, &error, NULL);
}

static void see(void *arg, const char *key, lks_rpc_slice value)
{
    fuzz_expect(!arg && strlen(key) > 0 && (value.len == 0 || value.data));
}

static void take(void *arg, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *done_arg)
{
    fuzz_expect(!here.done && find(NULL, call->path) && (call->payload || call->len == 0));
    call->read_metadata(call->metadata, see, NULL);
    here.n_taken++;
    here.done = done;
    here.done_arg = done_arg;
    here.lender = call->lender;
    fake_budget_is_full(here.is_full);
    if (!here.waits)
        end(call->len);
}

static void abandon(struct running *call)
{
    if (!here.done)
        return;
    fuzz_expect(here.lender->take(here.done_arg));
    end(0);
}

/* ---- the connection ------------------------------------------------------------------------------ */

static void on_output(const uint8_t *data, size_t len)
{
    fuzz_expect(here.out->len + len <= OUTPUT_MAX);
    memcpy(here.out->data + here.out->len, data, len);
    here.out->len += len;
}

/* Calls that wait are parked, and end when the turn does. */
static void turn(void)
{
    do {
        if (here.done) {
            here.lender->give(here.done_arg);
            fuzz_expect(here.lender->take(here.done_arg));
            end(here.n_taken);
        }
    } while (fake_stream_take(&here.stream) || here.done);
}

static void run(const uint8_t *data, size_t len, size_t piece)
{
    fuzz_expect(fake_stream_open(&here.stream, on_output));
    for (size_t at = 0; at < len && !here.stream.closing; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        uint8_t *copy = malloc(n);
        fuzz_expect(copy);
        memcpy(copy, data + at, n);
        turn(); /* unread bytes stay in the kernel */
        fuzz_expect(!here.stream.paused || here.stream.closing);
        fake_stream_bytes(&here.stream, copy, n);
        free(copy);
    }
    turn();
    fake_stream_closed(&here.stream);
    fuzz_expect(!here.done && here.n_done == here.n_taken && fake_callers.held == 0);
}

/* Every answer has a head of lines with CR LF, and as many bytes as it says. */
static void read_answers(const output *out)
{
    size_t at = 0;

    while (at < out->len) {
        const char *from = (const char *)out->data + at, *length;
        const char *head = memmem(from, out->len - at, "\r\n\r\n", 4);
        fuzz_expect(head && strncmp(from, "HTTP/1.1 ", 9) == 0);
        size_t head_len = (size_t)(head - from) + 4;
        length = memmem(from, head_len, "\r\nContent-Length: ", 18);
        for (const char *c = from; c < head; c++)
            fuzz_expect(*c != '\n' || c[-1] == '\r');
        at += head_len + (length ? strtoul(length + 18, NULL, 10) : 0);
        fuzz_expect(at <= out->len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char *origins[] = {(char *)(uintptr_t) "https://shop.example"};
    static http_server *server;
    fuzz_input in = {data, len};
    unsigned flags = fuzz_byte(&in), piece = fuzz_byte(&in);
    lks_error error;
    uint16_t port;

    here.sink = fake_sink;
    here.sink.method = find;
    here.sink.check = check;
    here.sink.take = take;
    here.sink.abandon = abandon;
    here.waits = flags & 1;
    here.is_full = flags & 8;
    here.site =
        (http_site){.sink = &here.sink, .message_bytes_max = 2048, .origins = origins, .n_origins = flags >> 2 & 1};
    const http_server_options options = {.site = &here.site};
    fuzz_expect(http_server_new(&options, &server, &error) == LKS_OK);
    fuzz_expect(http_server_listen(server, &(stream_address){.is_local = flags & 2}, &port, &error) == LKS_OK);
    bool is_http2 = in.len > 0 && memmem(in.data, in.len, "PRI * HTTP/2.0", 14) == in.data;
    for (int i = 0; i < 2 && !is_http2; i++) {
        fake_callers_reset(NULL);
        here.out = &here.outputs[i];
        here.out->len = here.n_taken = here.n_done = 0;
        run(in.data, in.len, i == 0 ? in.len + 1 : piece % 64 + 1U);
    }
    if (!is_http2 && !memmem(in.data, in.len, "HEAD", 4))
        read_answers(&here.outputs[0]);
    fuzz_expect(is_http2 || (here.outputs[0].len == here.outputs[1].len &&
                             memcmp(here.outputs[0].data, here.outputs[1].data, here.outputs[0].len) == 0));
    http_server_free(server);
    return 0;
}
