/* Attacks that take something and keep it: memory, places for connections and calls; and
 * those that end a server at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/idempotency.lks.h>
#include <nghttp2/nghttp2.h>

#include "attack.h"
#include "support/counts.h"

enum {
    PATIENCE_MS = 300,         /* of a sender that the server does not read from */
    UNREAD_PATIENCE_MS = 2000, /* where it is busy with what was sent */
    QUIET_MS = 5000,           /* where the answers are read later */
    CALLS = 256,               /* that a connection may have */
    WAIT_MS = 60000,
    MESSAGE_MAX = 1 << 20,
    PLACES_MORE = 4200, /* connections: more than --connections */
};

/* Sends what `b` has, all of it, and frees it. */
static bool take_patiently(attacker *a, raw *r, bytes *b)
{
    bool taken = attacker_open(a, r);

    if (taken) {
        r->patience_ms = PATIENCE_MS;
        taken = raw_send(r, b->data, b->len);
    }
    bytes_free(b);
    return taken;
}

/* The same, as much as the server takes of it, and without reading what it says. */
static bool take_deaf(attacker *a, raw *r, bytes *b, int patience_ms)
{
    bool taken = attacker_open(a, r);

    if (taken) {
        r->patience_ms = patience_ms;
        r->deaf = true;
        taken = raw_send(r, b->data, b->len) || r->stalled;
    }
    bytes_free(b);
    return taken;
}

/* ---- answers that are not taken (gRPC) ----------------------------------------------------- */

/* Sends it and a PING; attacker_run reads the answers that have begun. */
static bool take_unanswered(attacker *a, raw *r, bytes *b)
{
    h2_put_frame(b, NGHTTP2_PING, 0, 0, "12345678", 8);
    return take_deaf(a, r, b, QUIET_MS);
}

static bool take_answers(attacker *a, raw *r, const char *path, bytes *request)
{
    const wire_call call = {
        .path = path, .payload = request->data, .len = request->len, .token = TARGET_ATTACKERS_TOKEN};
    bytes b = {0};

    h2_put_preface(&b, 0);
    for (uint32_t i = 0; i < CALLS; i++)
        put_call(&b, a->wire, i, &call);
    bytes_free(request);
    return take_unanswered(a, r, &b);
}

static bool take_uuids(attacker *a, raw *r, size_t i)
{
    bytes request = {0};

    pack_uuids(&request);
    return take_answers(a, r, PATH_NEXT, &request);
}

static bool take_results(attacker *a, raw *r, size_t i)
{
    lks_get_request get = LKS_GET_REQUEST_INIT;
    bytes request = {0};

    get.scope = "floods";
    get.key = "large";
    pack(&request, &get.base);
    return take_answers(a, r, PATH_GET, &request);
}

/* Three streams, each with so many questions that the answers are just below what it may keep. */
static bool take_descriptions(attacker *a, raw *r, size_t i)
{
    static const char symbol[] = "\42\37lockstock.v1.IdempotencyService"; /* file_containing_symbol */
    const wire_call call = {.path = PATH_REFLECTION, .token = TARGET_ATTACKERS_TOKEN};
    bytes b = {0};

    h2_put_preface(&b, 0);
    for (uint32_t id = 1; id <= 5; id += 2) {
        h2_put_headers(&b, id, &call);
        for (size_t n = 0; n < 290; n++)
            h2_put_message(&b, id, symbol, sizeof symbol - 1, false, 0);
    }
    return take_unanswered(a, r, &b);
}

/* ---- preparations ------------------------------------------------------------------------- */

/* A call of the others', which must be OK. Frees the request; the answer's payload is to be freed. */
static outcome prepared(const char *path, bytes *request)
{
    const wire_driver *driver = target_driver(WIRE_TCP);
    void *caller = driver->open(target_url(WIRE_TCP), NULL);
    outcome ret;
    const call_spec spec = {.method = path,
                            .payload = request->data,
                            .len = request->len,
                            .timeout_ms = 20000,
                            .authorization = "Bearer " TARGET_OTHERS_TOKEN};
    if (!caller || driver->start(caller, &spec) == 0 || !driver->await(caller, &ret) || ret.code != LKS_OK) {
        fprintf(stderr, "%s is refused\n", path);
        abort();
    }
    driver->close(caller);
    bytes_free(request);
    return ret;
}

static void store_large_result(void)
{
    lks_begin_request begin = LKS_BEGIN_REQUEST_INIT;
    lks_complete_request complete = LKS_COMPLETE_REQUEST_INIT;
    lks_result_header headers[32], *list[32];
    static uint8_t body[256 * 1024];
    static char value[4001];
    char keys[32][16];
    bytes request = {0};

    begin.scope = complete.scope = "floods";
    begin.key = complete.key = "large";
    begin.attempt_token = "attempt-of-a-large-one";
    begin.lease_ms = 60000;
    pack(&request, &begin.base);
    outcome answer = prepared(PATH_BEGIN, &request);
    lks_begin_response *begun = lockstock__v1__begin_response__unpack(NULL, answer.len, answer.payload);
    if (!begun)
        abort();
    free(answer.payload);
    complete.fence = begun->fence;
    lockstock__v1__begin_response__free_unpacked(begun, NULL);
    complete.body = (ProtobufCBinaryData){.len = sizeof body, .data = body};
    memset(value, 'v', sizeof value - 1);
    for (size_t i = 0; i < 32; i++) {
        lockstock__v1__result_header__init(&headers[i]);
        snprintf(keys[i], sizeof keys[i], "header-%zu", i);
        headers[i].key = keys[i];
        headers[i].value = value;
        list[i] = &headers[i];
    }
    complete.headers = list;
    complete.n_headers = 32;
    pack(&request, &complete.base);
    free(prepared(PATH_COMPLETE, &request).payload);
}

void hold_the_lock(void)
{
    bytes request = {0};

    pack_acquire(&request, HELD_LOCK, "the-token-of-who-holds", 0);
    free(prepared(PATH_ACQUIRE, &request).payload);
}

/* ---- requests that do not end ------------------------------------------------------------- */

/* A message of 1 MiB less its last byte; over gRPC three of them, which the window allows. */
static bool take_unfinished(attacker *a, raw *r, size_t i)
{
    static const wire_call call = {.path = PATH_DECODE, .token = TARGET_ATTACKERS_TOKEN};
    static const uint8_t message[MESSAGE_MAX - 1];
    bytes b = {0};

    put_beginning(&b, a->wire);
    if (target_uses_h2(a->wire)) {
        for (uint32_t id = 1; id < 6; id += 2) {
            h2_put_headers(&b, id, &call);
            size_t at = b.len + 9 + 2; /* in the message's prefix, behind the head of its first frame */
            h2_put_message(&b, id, message, sizeof message, false, 0);
            memcpy(b.data + at, "\x10\0\0", 3); /* its length: 1 MiB */
        }
    } else {
        sp_put_length(&b, a->wire, MESSAGE_MAX);
        bytes_put(&b, message, sizeof message);
    }
    return take_patiently(a, r, &b);
}

/* A call that waits for the lock; `request` is its memory. */
static wire_call waiting_call(bytes *request, size_t nth, uint32_t wait_ms, size_t padding)
{
    request->len = 0;
    pack_waiting_acquire(request, (unsigned)nth, wait_ms, padding);
    return (wire_call){.path = PATH_ACQUIRE,
                       .payload = request->data,
                       .len = request->len,
                       .token = TARGET_ATTACKERS_TOKEN,
                       .timeout_ms = WAIT_MS + 5000};
}

/* One connection: as many waiting calls as it may have, each in a message of 1 MiB. */
static bool take_waiting(attacker *a, raw *r, size_t i)
{
    bytes b = {0}, request = {0};

    put_beginning(&b, a->wire);
    bool sent = take_patiently(a, r, &b);
    for (uint32_t n = 0; sent && n < CALLS; n++) {
        const wire_call call = waiting_call(&request, i * CALLS + n, WAIT_MS, MESSAGE_MAX - 1024);
        b.len = 0;
        put_call(&b, a->wire, n, &call);
        sent = raw_send(r, b.data, b.len);
    }
    bytes_free(&request);
    bytes_free(&b);
    return sent || r->stalled;
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
    bytes b = {0}, request = {0};

    for (size_t n = 0; n <= n_calls; n++) {
        const wire_call call = waiting_call(&request, first + n, n < n_calls ? WAIT_MS : 0, 0);
        put_call(&b, a->wire, (uint32_t)(first + n), &call);
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

    put_beginning(&b, a->wire);
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
    for (size_t n = 0; attacker_continues(a); n++) {
        holding h = attacker_take(a, 4, take_parked);
        for (size_t i = 0; i < h.n; i++)
            raw_close(&h.raws[i]);
        free(h.raws);
        atomic_store(&a->at_peak, n > 0);
    }
}

/* Calls whose message is never sent: as many as a connection may have. */
static bool take_bodiless(attacker *a, raw *r, size_t i)
{
    static const wire_call call = {
        .path = PATH_DECODE, .token = TARGET_ATTACKERS_TOKEN, .name = "grpc-timeout", .value = "1000H"};
    bytes b = {0};

    put_beginning(&b, a->wire);
    for (uint32_t n = 0; n < CALLS; n++)
        h2_put_headers(&b, 2 * n + 1, &call);
    return take_patiently(a, r, &b);
}

/* ---- answers that are not read (SP) ------------------------------------------------------- */

static bool take_unread(attacker *a, raw *r, size_t n_calls, size_t n_frames)
{
    bytes request = {0}, b = {0};

    pack_uuids(&request);
    const wire_call call = {.path = PATH_NEXT,
                            .payload = request.data,
                            .len = request.len,
                            .token = TARGET_ATTACKERS_TOKEN,
                            .timeout_ms = 30000};
    put_beginning(&b, a->wire);
    for (uint32_t id = 1; id <= n_frames; id++)
        sp_put_frame(&b, a->wire, id, &call, n_calls);
    bytes_free(&request);
    return take_deaf(a, r, &b, UNREAD_PATIENCE_MS);
}

static bool take_unread_calls(attacker *a, raw *r, size_t i)
{
    return take_unread(a, r, 1, 1000);
}

static bool take_unread_frames(attacker *a, raw *r, size_t i)
{
    return take_unread(a, r, CALLS, 10);
}

/* ---- places ------------------------------------------------------------------------------- */

/* The beginning of a connection, incomplete, so that the server waits. */
static bool begin_only(attacker *a, raw *r, wire w, unsigned address)
{
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    bytes b = {0};

    if (!raw_connect(r, w, address, a->stop))
        return false;
    atomic_fetch_add(&a->connections, 1);
    if (target_has_tls(w)) {
        bytes_put(&b, hello, sizeof hello);
    } else if (target_uses_h2(w)) { /* of HEADERS the nine bytes that say how long they are */
        put_beginning(&b, w);
        h2_put_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "", 0);
        b.data[b.len - 7] = 100;
    } else {
        bytes_put(&b, "\0SP\0", 4);
    }
    bool sent = raw_send(r, b.data, b.len);
    bytes_free(&b);
    return sent;
}

/* All of one address. */
static bool take_place(attacker *a, raw *r, size_t i)
{
    return begin_only(a, r, a->wire, 1);
}

/* Greeted, and then nothing. */
static bool take_idle_place(attacker *a, raw *r, size_t i)
{
    bytes b = {0};

    put_beginning(&b, a->wire);
    return take_patiently(a, r, &b);
}

/* Of forty addresses, on all wires but the unix socket, whichever wire the newcomers of the row take. */
static bool take_place_in_crowd(attacker *a, raw *r, size_t i)
{
    static const wire wires[] = {WIRE_TCP, WIRE_TLS, WIRE_GRPC, WIRE_GRPCS};

    return begin_only(a, r, wires[i % 4], 1 + (unsigned)(i / 4 % 40));
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
    static const wire_call call = {.path = PATH_DECODE};
    bytes b = {0};

    for (size_t i = 0; i < sizeof cheap / sizeof *cheap * (sizeof malformed / sizeof *malformed); i++) {
        const frame_kind *c = &cheap[i % (sizeof cheap / sizeof *cheap)],
                         *m = &malformed[i / (sizeof cheap / sizeof *cheap)];
        raw r;
        if (!attacker_continues(a) || !attacker_open(a, &r))
            continue;
        b.len = 0;
        put_beginning(&b, a->wire);
        h2_put_headers(&b, 1, &call);
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
    {.name = "held_results",
     .wires = ON_H2,
     .take = take_results,
     .fast = 4,
     .full = 10,
     .answers = CALLS,
     .prepare = store_large_result},
    {.name = "held_uuids", .wires = ON_H2, .take = take_uuids, .fast = 4, .full = 10, .answers = CALLS},
    {.name = "held_descriptions", .wires = ON_H2, .take = take_descriptions, .fast = 150, .full = 600, .answers = 3},
    {.name = "unfinished_messages", .wires = ON_SP, .take = take_unfinished, .fast = 500, .full = 1000},
    {.name = "unfinished_messages", .wires = ON_H2, .take = take_unfinished, .fast = 120, .full = 400},
    {.name = "waiting_acquires",
     .wires = ON_SP | ON_H2,
     .take = take_waiting,
     .fast = 1,
     .full = 2,
     .prepare = hold_the_lock},
    {.name = "parked_closes", .wires = ON_TCP, .run = parked_closes, .prepare = hold_the_lock},
    {.name = "bodiless_calls", .wires = ON_H2, .take = take_bodiless, .fast = 16, .full = 20},
    {.name = "unread_uuids", .wires = ON_SP, .take = take_unread_calls, .fast = 3, .full = 20},
    {.name = "unread_uuid_frames", .wires = ON_SP, .take = take_unread_frames, .fast = 1, .full = 4},
    {.name = "half_beginnings",
     .wires = ON_PORTS,
     .take = take_place,
     .fast = 600,
     .full = PLACES_MORE,
     .fills_places = true},
    {.name = "idle_connections",
     .wires = ON_PORTS,
     .take = take_idle_place,
     .fast = 600,
     .full = PLACES_MORE,
     .fills_places = true},
    {.name = "crowd",
     .wires = ON_TCP | ON_UNIX | ON_GRPCS,
     .take = take_place_in_crowd,
     .fast = 1000,
     .full = 10000,
     .fills_places = true},
    {.name = NULL},
};
