/* Attacks that take something and keep it: memory, places for connections and calls; and
 * those that end a server at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <nghttp2/nghttp2.h>

#include "attack.h"
#include "frames.h"
#include "support/counts.h"
#include "support/process.h"

enum {
    PATIENCE_MS = 300,         /* of a sender that the server does not read from */
    UNREAD_PATIENCE_MS = 2000, /* where it is busy with what was sent */
    QUIET_MS = 5000,           /* nothing comes or goes for so long: the server makes no more answers */
    CALLS = 256,               /* that a connection may have */
    REFUSALS_MAX = 100,        /* in a row: the server takes no more */
    WAIT_MS = 60000,
    MESSAGE_MAX = 1 << 20,
    PLACES_MORE = 4200, /* connections: more than --connections */
};

/* ---- holding ---------------------------------------------------------------------------- */

typedef struct holding {
    raw *raws;
    size_t n;
} holding;

/* Takes one thing with a connection; false: it was refused. `i` is its number. */
typedef bool take(attacker *a, raw *r, size_t i);

static void take_all(attacker *a, holding *h, size_t n, take *take_one)
{
    *h = (holding){.raws = calloc(n, sizeof *h->raws)};
    if (!h->raws)
        abort();
    for (size_t i = 0, refused = 0; i < n && refused < REFUSALS_MAX && attacker_goes_on(a); i++) {
        if (take_one(a, &h->raws[h->n], i)) {
            h->n++;
            refused = 0;
        } else {
            raw_close(&h->raws[h->n]);
            refused++;
        }
    }
}

/* Until it is stopped. What the server says is not read. */
static void keep_all(attacker *a, holding *h)
{
    static const atomic_bool go_on;
    size_t left = 0;

    atomic_store(&a->at_peak, true);
    while (attacker_goes_on(a))
        process_pause();
    for (size_t i = 0; i < h->n; i++) {
        h->raws[i].stop = &go_on;
        left += raw_drop(&h->raws[i]);
        raw_close(&h->raws[i]);
    }
    atomic_store(&a->left, left);
    free(h->raws);
}

static void hold(attacker *a, size_t n, take *take_one)
{
    holding h;

    take_all(a, &h, n, take_one);
    keep_all(a, &h);
}

/* Until the server has begun so many answers on each connection and has answered the PING, which came after all
 * else, or says nothing more. */
static void await_answers(attacker *a, const holding *h, size_t n_calls)
{
    bool quiet = false;

    for (size_t i = 0; i < h->n && !quiet; i++) {
        frames in = {.from = &h->raws[i]};
        frame got;
        size_t n = 0;
        bool heard = false;
        while ((n < n_calls || !heard) && !quiet && attacker_goes_on(a)) {
            quiet = !frames_next(&in, &got, QUIET_MS);
            n += !quiet && got.type == NGHTTP2_HEADERS;
            heard = heard || (!quiet && got.type == NGHTTP2_PING);
        }
        frames_free(&in);
    }
}

/* ---- answers that nobody takes (gRPC) ----------------------------------------------------- */

static bool take_answers(attacker *a, raw *r, const char *path, const bytes *request, size_t n_calls)
{
    const h2_call call = {.path = path, .token = TARGET_ATTACKERS_TOKEN};
    bytes b = {0};

    if (!attacker_open(a, r))
        return false;
    h2_put_preface(&b, 0);
    for (size_t i = 0; i < n_calls; i++) {
        h2_put_call(&b, (uint32_t)(2 * i + 1), &call, 0);
        h2_put_message(&b, (uint32_t)(2 * i + 1), request->data, request->len, false, NGHTTP2_FLAG_END_STREAM);
    }
    h2_put_frame(&b, NGHTTP2_PING, 0, 0, "12345678", 8);
    r->patience_ms = QUIET_MS;
    r->deaf = true; /* await_answers reads */
    bool sent = raw_send(r, b.data, b.len) || r->stalled;
    bytes_free(&b);
    return sent;
}

static bool take_uuids(attacker *a, raw *r, size_t i)
{
    bytes request = {0};
    (void)i;

    pack_uuids(&request);
    bool taken = take_answers(a, r, PATH_NEXT, &request, CALLS);
    bytes_free(&request);
    return taken;
}

static void pack_get(bytes *b)
{
    lks_get_request request = LKS_GET_REQUEST_INIT;

    request.scope = "floods";
    request.key = "large";
    pack(b, &request.base);
}

static bool take_results(attacker *a, raw *r, size_t i)
{
    bytes request = {0};
    (void)i;

    pack_get(&request);
    bool taken = take_answers(a, r, PATH_GET, &request, CALLS);
    bytes_free(&request);
    return taken;
}

/* Three streams, each with so many questions that the answers are just below what it may keep. */
static bool take_descriptions(attacker *a, raw *r, size_t i)
{
    static const char symbol[] = "\42\37lockstock.v1.IdempotencyService"; /* file_containing_symbol */
    const h2_call call = {.path = PATH_REFLECTION, .token = TARGET_ATTACKERS_TOKEN};
    bytes b = {0};
    (void)i;

    if (!attacker_open(a, r))
        return false;
    h2_put_preface(&b, 0);
    for (uint32_t id = 1; id <= 5; id += 2) {
        h2_put_call(&b, id, &call, 0);
        for (size_t n = 0; n < 290; n++)
            h2_put_message(&b, id, symbol, sizeof symbol - 1, false, 0);
    }
    h2_put_frame(&b, NGHTTP2_PING, 0, 0, "12345678", 8);
    r->patience_ms = QUIET_MS;
    r->deaf = true; /* await_answers reads */
    bool sent = raw_send(r, b.data, b.len) || r->stalled;
    bytes_free(&b);
    return sent;
}

static void hold_answers(attacker *a, size_t n, take *take_one, size_t n_calls)
{
    holding h;

    take_all(a, &h, n, take_one);
    await_answers(a, &h, n_calls);
    keep_all(a, &h);
}

static void held_uuids(attacker *a)
{
    hold_answers(a, counts_of(4, 10), take_uuids, CALLS);
}

static void held_results(attacker *a)
{
    hold_answers(a, counts_of(4, 10), take_results, CALLS);
}

static void held_descriptions(attacker *a)
{
    hold_answers(a, counts_of(150, 600), take_descriptions, 3);
}

/* ---- preparations ------------------------------------------------------------------------- */

static void prepared(wire w, const char *path, const bytes *request, outcome *ret)
{
    const wire_driver *driver = target_driver(w);
    const call_spec spec = {.method = path,
                            .payload = request->data,
                            .len = request->len,
                            .timeout_ms = 20000,
                            .authorization = "Bearer " TARGET_OTHERS_TOKEN};
    void *caller = driver->open(target_url(w), target_certificate(w));

    if (!caller || driver->start(caller, &spec) == 0 || !driver->await(caller, ret) || ret->code != LKS_OK) {
        fprintf(stderr, "%s is refused\n", path);
        abort();
    }
    driver->close(caller);
}

static void store_large_result(void)
{
    lks_begin_request begin = LKS_BEGIN_REQUEST_INIT;
    lks_complete_request complete = LKS_COMPLETE_REQUEST_INIT;
    lks_result_header headers[32], *list[32];
    bytes b = {0}, body = {0}, value = {0};
    outcome answer;

    begin.scope = complete.scope = "floods";
    begin.key = complete.key = "large";
    begin.attempt_token = "attempt-of-a-large-one";
    begin.lease_ms = 60000;
    pack(&b, &begin.base);
    prepared(WIRE_TCP, PATH_BEGIN, &b, &answer);
    lks_begin_response *begun = lockstock__v1__begin_response__unpack(NULL, answer.len, answer.payload);
    if (!begun)
        abort();
    free(answer.payload);
    complete.fence = begun->fence;
    lockstock__v1__begin_response__free_unpacked(begun, NULL);
    bytes_fill(&body, 'b', 256 * 1024);
    complete.body = (ProtobufCBinaryData){.len = body.len, .data = body.data};
    bytes_fill(&value, 'v', 4000);
    bytes_fill(&value, '\0', 1);
    char keys[32][16];
    for (size_t i = 0; i < 32; i++) {
        lockstock__v1__result_header__init(&headers[i]);
        snprintf(keys[i], sizeof keys[i], "header-%zu", i);
        headers[i].key = keys[i];
        headers[i].value = (const char *)value.data;
        list[i] = &headers[i];
    }
    complete.headers = list;
    complete.n_headers = 32;
    b.len = 0;
    pack(&b, &complete.base);
    prepared(WIRE_TCP, PATH_COMPLETE, &b, &answer);
    free(answer.payload);
    bytes_free(&b);
    bytes_free(&body);
    bytes_free(&value);
}

void hold_the_lock(void)
{
    bytes b = {0};
    outcome answer;

    pack_waiting_acquire(&b, UINT32_MAX, 0, 0);
    prepared(WIRE_TCP, PATH_ACQUIRE, &b, &answer);
    free(answer.payload);
    bytes_free(&b);
}

/* ---- requests that do not end ------------------------------------------------------------- */

static bool take_patiently(attacker *a, raw *r, const bytes *b)
{
    if (!attacker_open(a, r))
        return false;
    r->patience_ms = PATIENCE_MS;
    return raw_send(r, b->data, b->len);
}

/* A message of 1 MiB less its last byte; over gRPC three of them, which the window allows. */
static bool take_unfinished(attacker *a, raw *r, size_t i)
{
    static const h2_call call = {.path = PATH_DECODE, .token = TARGET_ATTACKERS_TOKEN};
    bytes b = {0}, message = {0};
    (void)i;

    bytes_fill(&message, 'x', MESSAGE_MAX - 1);
    if (target_speaks_h2(a->wire)) {
        h2_put_preface(&b, -1);
        for (uint32_t id = 1; id < 6; id += 2) {
            bytes framed = {0};
            h2_put_call(&b, id, &call, 0);
            h2_put_message(&framed, id, message.data, message.len, false, 0);
            framed.data[9 + 2] = 16; /* its length: 1 MiB */
            framed.data[9 + 3] = framed.data[9 + 4] = 0;
            bytes_put(&b, framed.data, framed.len);
            bytes_free(&framed);
        }
    } else {
        sp_put_greeting(&b, a->wire);
        sp_put_length(&b, a->wire, MESSAGE_MAX);
        bytes_put(&b, message.data, message.len);
    }
    bool taken = take_patiently(a, r, &b);
    bytes_free(&message);
    bytes_free(&b);
    return taken;
}

static void unfinished_messages(attacker *a)
{
    hold(a, target_speaks_h2(a->wire) ? counts_of(120, 400) : counts_of(500, 1000), take_unfinished);
}

/* One connection: as many waiting calls as it may have, each in a message of 1 MiB. */
static bool take_waiting(attacker *a, raw *r, size_t i)
{
    static const h2_call h2 = {.path = PATH_ACQUIRE, .token = TARGET_ATTACKERS_TOKEN};
    sp_call sp = {.path = PATH_ACQUIRE, .token = TARGET_ATTACKERS_TOKEN, .timeout_ms = WAIT_MS + 5000};
    bytes b = {0}, request = {0};

    if (target_speaks_h2(a->wire))
        h2_put_preface(&b, -1);
    else
        sp_put_greeting(&b, a->wire);
    bool sent = take_patiently(a, r, &b);
    for (unsigned n = 0; sent && n < 256; n++) {
        b.len = request.len = 0;
        pack_waiting_acquire(&request, (unsigned)(i * 256 + n), WAIT_MS, MESSAGE_MAX - 1024);
        sp.payload = request.data;
        sp.len = request.len;
        if (target_speaks_h2(a->wire)) {
            h2_put_call(&b, 2 * n + 1, &h2, 0);
            h2_put_message(&b, 2 * n + 1, request.data, request.len, false, NGHTTP2_FLAG_END_STREAM);
        } else {
            sp_put_frame(&b, a->wire, n + 1, &sp, 1);
        }
        sent = raw_send(r, b.data, b.len);
    }
    bool stalled = r->stalled;
    bytes_free(&request);
    bytes_free(&b);
    return sent || stalled;
}

static void waiting_acquires(attacker *a)
{
    hold(a, counts_of(1, 2), take_waiting);
}

/* Reads one message of SP over TCP. */
static bool await_answer(raw *r)
{
    uint8_t byte;
    uint64_t len = 0;

    for (size_t i = 0; i < 8; i++) {
        if (raw_receive(r, &byte, 1, QUIET_MS) != 1)
            return false;
        len = len << 8 | byte;
    }
    while (len-- > 0)
        if (raw_receive(r, &byte, 1, QUIET_MS) != 1)
            return false;
    return true;
}

/* Calls that wait, and behind them one that does not: when that is answered they are parked. */
static bool park(attacker *a, raw *r, size_t first, size_t n_calls)
{
    sp_call call = {.path = PATH_ACQUIRE, .token = TARGET_ATTACKERS_TOKEN, .timeout_ms = WAIT_MS + 5000};
    bytes b = {0}, request = {0};

    for (size_t n = 0; n <= n_calls; n++) {
        request.len = 0;
        pack_waiting_acquire(&request, (unsigned)(first + n), n < n_calls ? WAIT_MS : 0, 0);
        call.payload = request.data;
        call.len = request.len;
        sp_put_frame(&b, a->wire, (uint32_t)(first + n + 1), &call, 1);
    }
    bool parked = raw_send(r, b.data, b.len) && await_answer(r);
    bytes_free(&request);
    bytes_free(&b);
    return parked;
}

static bool take_parked(attacker *a, raw *r, size_t i)
{
    enum { AT_A_TIME = 500 };
    size_t n_calls = counts_of(500, 15000);
    uint8_t greeting[8];
    bytes b = {0};

    sp_put_greeting(&b, a->wire);
    bool goes = attacker_open(a, r);
    if (goes) {
        r->deaf = true;
        goes = raw_send(r, b.data, b.len) && raw_receive(r, greeting, sizeof greeting, QUIET_MS) == sizeof greeting;
    }
    for (size_t n = 0; goes && n < n_calls; n += AT_A_TIME)
        goes = park(a, r, (i * n_calls + n) * 2, AT_A_TIME);
    bytes_free(&b);
    return goes;
}

/* As many waiting calls as one principal may have, on a few connections that then close at once; and again. */
static void parked_closes(attacker *a)
{
    holding h;

    for (size_t n = 0; attacker_goes_on(a); n++) {
        take_all(a, &h, 4, take_parked);
        for (size_t i = 0; i < h.n; i++)
            raw_close(&h.raws[i]);
        free(h.raws);
        atomic_store(&a->at_peak, n > 0);
    }
}

/* Calls whose message does not come: as many as a connection may have. */
static bool take_bodiless(attacker *a, raw *r, size_t i)
{
    static const h2_call call = {
        .path = PATH_DECODE, .token = TARGET_ATTACKERS_TOKEN, .name = "grpc-timeout", .value = "1000H"};
    bytes b = {0};
    (void)i;

    h2_put_preface(&b, -1);
    for (uint32_t n = 0; n < 256; n++)
        h2_put_call(&b, 2 * n + 1, &call, 0);
    bool taken = take_patiently(a, r, &b);
    bytes_free(&b);
    return taken;
}

static void bodiless_calls(attacker *a)
{
    hold(a, counts_of(16, 20), take_bodiless);
}

/* ---- answers that nobody reads (SP) ------------------------------------------------------- */

static bool take_unread(attacker *a, raw *r, size_t n_calls, size_t n_frames)
{
    bytes request = {0}, b = {0};

    pack_uuids(&request);
    const sp_call call = {.path = PATH_NEXT,
                          .payload = request.data,
                          .len = request.len,
                          .token = TARGET_ATTACKERS_TOKEN,
                          .timeout_ms = 30000};
    sp_put_greeting(&b, a->wire);
    for (uint32_t id = 1; id <= n_frames; id++)
        sp_put_frame(&b, a->wire, id, &call, n_calls);
    bool sent = false;
    if (attacker_open(a, r)) {
        r->deaf = true;
        r->patience_ms = UNREAD_PATIENCE_MS;
        sent = raw_send(r, b.data, b.len) || r->stalled;
    }
    bytes_free(&request);
    bytes_free(&b);
    return sent;
}

static bool take_unread_calls(attacker *a, raw *r, size_t i)
{
    (void)i;
    return take_unread(a, r, 1, 1000);
}

static bool take_unread_frames(attacker *a, raw *r, size_t i)
{
    (void)i;
    return take_unread(a, r, 256, 10);
}

static void unread_uuids(attacker *a)
{
    hold(a, counts_of(3, 20), take_unread_calls);
}

static void unread_uuid_frames(attacker *a)
{
    hold(a, counts_of(1, 4), take_unread_frames);
}

/* ---- places ------------------------------------------------------------------------------- */

/* As much of a connection's beginning as leaves the server waiting. */
static bool begin_only(attacker *a, raw *r, wire w, unsigned address)
{
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    bytes b = {0};

    if (!raw_connect(r, w, address, a->stop))
        return false;
    atomic_fetch_add(&a->connections, 1);
    if (target_has_tls(w)) {
        bytes_put(&b, hello, sizeof hello);
    } else if (target_speaks_h2(w)) { /* of HEADERS the nine bytes that say how long they are */
        h2_put_preface(&b, -1);
        h2_put_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "", 0);
        b.data[b.len - 7] = 100;
    } else {
        bytes_put(&b, "\0SP\0", 4);
    }
    bool sent = raw_send(r, b.data, b.len);
    bytes_free(&b);
    return sent;
}

static bool take_place(attacker *a, raw *r, size_t i)
{
    (void)i;
    return begin_only(a, r, a->wire, 1);
}

/* All of one address. */
static void half_beginnings(attacker *a)
{
    hold(a, counts_of(600, PLACES_MORE), take_place);
}

static bool take_idle_place(attacker *a, raw *r, size_t i)
{
    bytes b = {0};
    (void)i;

    if (target_speaks_h2(a->wire))
        h2_put_preface(&b, -1);
    else
        sp_put_greeting(&b, a->wire);
    bool taken = take_patiently(a, r, &b);
    bytes_free(&b);
    return taken;
}

/* Greeted, and then nothing. */
static void idle_connections(attacker *a)
{
    hold(a, counts_of(600, PLACES_MORE), take_idle_place);
}

/* Of forty addresses, on all wires but the unix socket, whichever wire the newcomers of the row take. */
static bool take_place_in_crowd(attacker *a, raw *r, size_t i)
{
    static const wire wires[] = {WIRE_TCP, WIRE_TLS, WIRE_GRPC, WIRE_GRPCS};

    return begin_only(a, r, wires[i % 4], 1 + (unsigned)(i / 4 % 40));
}

static void crowd(attacker *a)
{
    hold(a, counts_of(1000, 10000), take_place_in_crowd);
}

/* ---- what ends a server ------------------------------------------------------------------- */

typedef struct frame_kind {
    uint8_t type, flags;
    uint32_t id;
    size_t len;
} frame_kind;

/* A strike for each of the cheap ones, then what is no frame of HTTP/2, in one write. */
static void many_and_malformed(attacker *a)
{
    static const frame_kind cheap[] = {{NGHTTP2_DATA, 0, 1, 0},
                                       {NGHTTP2_PING, 0, 0, 8},
                                       {NGHTTP2_SETTINGS, 0, 0, 0},
                                       {NGHTTP2_PRIORITY, 0, 3, 5},
                                       {0xEE, 0, 0, 0},
                                       {NGHTTP2_WINDOW_UPDATE, 0, 0, 4},
                                       {NGHTTP2_GOAWAY, 0, 0, 8},
                                       {NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, 1}},
                            malformed[] = {{NGHTTP2_PRIORITY, 0, 1, 4},      {NGHTTP2_RST_STREAM, 0, 1, 3},
                                           {NGHTTP2_WINDOW_UPDATE, 0, 0, 3}, {NGHTTP2_PING, 0, 0, 7},
                                           {NGHTTP2_SETTINGS, 0, 0, 5},      {NGHTTP2_SETTINGS, 1, 0, 6},
                                           {NGHTTP2_GOAWAY, 0, 0, 4},        {NGHTTP2_DATA, 0, 0, 1},
                                           {NGHTTP2_HEADERS, 4, 0, 1},       {NGHTTP2_HEADERS, 4, 2, 1},
                                           {NGHTTP2_HEADERS, 0x0C, 3, 1},    {NGHTTP2_CONTINUATION, 4, 1, 1},
                                           {NGHTTP2_PUSH_PROMISE, 4, 1, 4},  {NGHTTP2_DATA, 8, 1, 0},
                                           {NGHTTP2_DATA, 0, 1, 20000},      {NGHTTP2_RST_STREAM, 0, 99, 4}};
    static const uint8_t body[20000] = {0, 0, 0, 1};
    static const h2_call call = {.path = PATH_DECODE};
    bytes b = {0};

    for (size_t i = 0; i < sizeof cheap / sizeof *cheap * (sizeof malformed / sizeof *malformed); i++) {
        const frame_kind *c = &cheap[i % (sizeof cheap / sizeof *cheap)],
                         *m = &malformed[i / (sizeof cheap / sizeof *cheap)];
        raw r;
        if (!attacker_goes_on(a) || !attacker_open(a, &r))
            continue;
        b.len = 0;
        h2_put_preface(&b, -1);
        h2_put_call(&b, 1, &call, 0);
        for (size_t n = 0; n < 1001; n++)
            h2_put_frame(&b, c->type, c->flags, c->id, body, c->len);
        h2_put_frame(&b, m->type, m->flags, m->id, body, m->len);
        (void)raw_send(&r, b.data, b.len);
        (void)raw_ends(&r, PATIENCE_MS);
        raw_close(&r);
    }
    bytes_free(&b);
    atomic_store(&a->at_peak, true);
}

const attack holds[] = {
    {.name = "many_and_malformed", .wires = ON_H2, .run = many_and_malformed},
    {.name = "held_results", .wires = ON_H2, .run = held_results, .prepare = store_large_result},
    {.name = "held_uuids", .wires = ON_H2, .run = held_uuids},
    {.name = "held_descriptions", .wires = ON_H2, .run = held_descriptions},
    {.name = "unfinished_messages", .wires = ON_SP | ON_H2, .run = unfinished_messages},
    {.name = "waiting_acquires", .wires = ON_SP | ON_H2, .run = waiting_acquires, .prepare = hold_the_lock},
    {.name = "parked_closes", .wires = ON_TCP, .run = parked_closes, .prepare = hold_the_lock},
    {.name = "bodiless_calls", .wires = ON_H2, .run = bodiless_calls},
    {.name = "unread_uuids", .wires = ON_SP, .run = unread_uuids},
    {.name = "unread_uuid_frames", .wires = ON_SP, .run = unread_uuid_frames},
    {.name = "half_beginnings", .wires = ON_PORTS, .run = half_beginnings, .fills_places = true},
    {.name = "idle_connections", .wires = ON_PORTS, .run = idle_connections, .fills_places = true},
    {.name = "crowd", .wires = ON_TCP | ON_UNIX | ON_GRPCS, .run = crowd, .fills_places = true},
    {.name = NULL},
};
