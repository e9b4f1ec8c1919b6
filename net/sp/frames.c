/* Invariant: a message is answered exactly once, when the last of its calls is done; the results are in the order of
 * the calls. The calls allocate in one arena, which returns to the pool after the reply, and while the message's
 * only call is parked. The message is decoded into another arena, which is free again when frames_take returns. */
#include "net/sp/frames.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/frame.h>

enum {
    POOL_MAX = 256,
    RETRY_AFTER_MS = 100,
    /* Memory of an ordinary message in progress, a block of the arena. The limits of running and waiting calls allow
     * for it; only more than that is held as bytes. */
    CALL_BYTES = 4096 + 64,
};

struct frames {
    const sink *sink;
    size_t message_bytes_max;
    lks_rpc_arena *pool[POOL_MAX];
    size_t n_pool;
    bool draining;
};

typedef struct exchange exchange;

typedef struct slot {
    exchange *exchange;
    size_t index;
} slot;

/* One message in progress. */
struct exchange {
    frames *frames;
    const frames_port *port;
    void *message;
    lks_rpc_arena *arena; /* NULL: its only call is parked */
    struct work *work;    /* in the arena */
    slot only;            /* of its only call */
};

/* State that does not exist while the only call is parked. */
typedef struct work {
    Lockstock__Rpc__V1__Reply *reply;
    const lks_rpc_method **methods;
    sink_message shared; /* of its calls, if there are several */
    budget_share *bytes;
    size_t held;        /* of it */
    size_t waiting_for; /* calls that are not done, plus one while calls are being started */
    size_t made;        /* bytes of the results so far */
    size_t bytes_max;   /* of the reply */
} work;

lks_code frames_new(const sink *to, size_t message_bytes_max, frames **ret, lks_error *error)
{
    frames *f = malloc(sizeof *f);

    if (!f)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *f = (frames){.sink = to, .message_bytes_max = message_bytes_max};
    *ret = f;
    return LKS_OK;
}

void frames_free(frames *f)
{
    while (f && f->n_pool > 0)
        lks_rpc_arena_free(f->pool[--f->n_pool]);
    free(f);
}

static lks_rpc_arena *take_arena(frames *f)
{
    return f->n_pool > 0 ? f->pool[--f->n_pool] : lks_rpc_arena_new();
}

static void give_arena(frames *f, lks_rpc_arena *arena)
{
    if (!arena || f->n_pool == POOL_MAX) {
        lks_rpc_arena_free(arena);
        return;
    }
    lks_rpc_arena_reset(arena);
    f->pool[f->n_pool++] = arena;
}

/* Sends a reply, or closes the connection when there is no memory for it. */
static void send(const frames_port *port, void *message, Lockstock__Rpc__V1__Reply *reply, size_t len)
{
    uint8_t *space = port->answer(message, len);

    if (!space) {
        port->close_peer(message);
        return;
    }
    lockstock__rpc__v1__reply__pack(reply, space);
    port->reply(message);
}

static void finish_one_call(exchange *x)
{
    work *w = x->work;

    if (--w->waiting_for > 0)
        return;
    frames *f = x->frames;
    lks_rpc_arena *arena = x->arena;
    budget_share *bytes = w->bytes;
    size_t held = w->held;
    send(x->port, x->message, w->reply, lks_rpc_reply_fit(w->reply, w->methods, w->bytes_max));
    free(x);
    give_arena(f, arena);
    if (held > 0) /* without held bytes, the connection and its share may be gone */
        budget_give(bytes, held);
}

static void put_additions(const lks_rpc_additions *from, lks_rpc_arena *arena, Lockstock__Rpc__V1__Result *result)
{
    result->n_headers = lks_rpc_put_metadata(&from->headers, arena, &result->headers);
    result->n_metadata = lks_rpc_put_metadata(&from->trailers, arena, &result->metadata);
    if (result->code == LKS_OK)
        return;
    result->n_details = lks_rpc_put_metadata(&from->details, arena, &result->details);
    if (from->text)
        result->message = (char *)(uintptr_t)from->text;
}

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error,
                    const lks_rpc_additions *added)
{
    const slot *at = arg;
    exchange *x = at->exchange;
    work *w = x->work;
    Lockstock__Rpc__V1__Result *result = w->reply->results[at->index];

    w->methods[at->index] = method;
    if (error->code == LKS_OK)
        lks_rpc_result_ok(method, response, x->arena, result);
    else
        lks_rpc_result_fail(error, x->arena, result);
    if (added)
        put_additions(added, x->arena, result);
    w->made += result->payload.len;
    if (w->made >= w->bytes_max)
        w->shared.full = "the answers to earlier calls of the frame fill the reply: send fewer calls in a frame";
    finish_one_call(x);
}

static lks_rpc_slice value_of(const Lockstock__Rpc__V1__Metadata *item)
{
    return (lks_rpc_slice){(const char *)item->value.data, item->value.len};
}

static void read_metadata(const void *metadata, sink_see_entry *see, void *arg)
{
    const Lockstock__Rpc__V1__Call *call = metadata;

    for (size_t i = 0; i < call->n_metadata; i++)
        see(arg, call->metadata[i]->key, value_of(call->metadata[i]));
}

static credentials credentials_of(const Lockstock__Rpc__V1__Call *call, const frames_sender *sender)
{
    credentials who = {.certificate = sender->certificate, .uid = sender->uid};

    for (size_t i = 0; i < call->n_metadata; i++) {
        const Lockstock__Rpc__V1__Metadata *item = call->metadata[i];
        credentials_read(&who, item->key, value_of(item));
    }
    return who;
}

/* Refuses all calls of a frame. */
static void refuse(frames *f, const frames_port *port, void *message, lks_rpc_arena *arena, size_t n,
                   const lks_error *error)
{
    Lockstock__Rpc__V1__Reply *reply = arena ? lks_rpc_reply_new(n, arena) : NULL;
    const lks_rpc_method **methods = arena ? lks_rpc_arena_alloc(arena, n * sizeof *methods) : NULL;

    if (!reply || !methods) {
        port->close_peer(message);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        methods[i] = NULL;
        lks_rpc_result_fail(error, arena, reply->results[i]);
    }
    send(port, message, reply, lks_rpc_reply_fit(reply, methods, f->message_bytes_max));
}

static lks_error no_room(void)
{
    lks_error error;

    lks_error_set_reason(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_MANY_CALLS,
                         "too many bytes are under way");
    error.retry_after_ms = RETRY_AFTER_MS;
    return error;
}

void frames_refuse(frames *f, const frames_port *port, void *message, size_t n)
{
    const lks_error error = no_room();
    lks_rpc_arena *arena = take_arena(f);

    refuse(f, port, message, arena, n, &error);
    give_arena(f, arena);
}

/* A client that puts calls of several callers into a frame does not know how long the answers are together. So the
 * reply to several calls is limited to what every client accepts. */
static size_t reply_bytes_max(const frames *f, size_t n_calls)
{
    return n_calls > 1 && f->message_bytes_max > LKS_RPC_MESSAGE_BYTES_MAX ? LKS_RPC_MESSAGE_BYTES_MAX
                                                                           : f->message_bytes_max;
}

/* In its arena. False when out of memory. */
static bool begin_work(exchange *x, size_t n, const work *settings)
{
    work *w = lks_rpc_arena_alloc(x->arena, sizeof *w);
    const lks_rpc_method **methods = lks_rpc_arena_alloc(x->arena, n * sizeof *methods);
    Lockstock__Rpc__V1__Reply *reply = lks_rpc_reply_new(n, x->arena);

    if (!w || !methods || !reply)
        return false;
    *w = *settings;
    w->reply = reply;
    w->methods = methods;
    x->work = w;
    return true;
}

static exchange *new_exchange(frames *f, const frames_port *port, void *message, lks_rpc_arena *arena,
                              const Lockstock__Rpc__V1__Frame *frame, budget_share *bytes)
{
    const work settings = {
        .bytes = bytes, .waiting_for = frame->n_calls + 1, .bytes_max = reply_bytes_max(f, frame->n_calls)};
    exchange *x = malloc(sizeof *x);

    if (x)
        *x = (exchange){.frames = f, .port = port, .message = message, .arena = arena, .only.exchange = x};
    if (x && begin_work(x, frame->n_calls, &settings))
        return x;
    free(x);
    return NULL;
}

/* The only call is parked and has copied what it needs. */
static void on_parked(void *arg)
{
    exchange *x = ((const slot *)arg)->exchange;

    if (x->work->held > 0)
        budget_give(x->work->bytes, x->work->held);
    give_arena(x->frames, x->arena);
    x->arena = NULL;
    x->work = NULL;
}

static lks_rpc_arena *new_arena(void *arg)
{
    exchange *x = ((const slot *)arg)->exchange;
    lks_rpc_arena *arena = x->arena = take_arena(x->frames);

    const work settings = {.waiting_for = 1, .bytes_max = x->frames->message_bytes_max};

    return arena && begin_work(x, 1, &settings) ? arena : NULL;
}

static const sink_lender lender = {.give = on_parked, .take = new_arena};

/* Why a call is not started; code LKS_OK: it is started. */
static lks_error refusal_of(const exchange *x, bool has_room)
{
    lks_error error = {0};

    if (x->frames->draining)
        lks_error_set_reason(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SHUTTING_DOWN,
                             "the server is shutting down");
    else if (!has_room)
        error = no_room();
    else if (x->work->shared.full)
        lks_error_set_reason(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_LARGE, "%s",
                             x->work->shared.full);
    return error;
}

static void start_calls(exchange *x, const Lockstock__Rpc__V1__Frame *frame, const frames_sender *sender,
                        uint64_t received_ns, bool has_room)
{
    const sink *to = x->frames->sink;
    size_t n = frame->n_calls;
    slot *slots = n > 1 ? lks_rpc_arena_alloc(x->arena, n * sizeof *slots) : &x->only;

    for (size_t i = 0; i < n; i++) {
        const Lockstock__Rpc__V1__Call *from = frame->calls[i];
        const sink_call call = {
            .path = from->method,
            .payload = from->payload.data,
            .len = from->payload.len,
            .timeout_ms = from->timeout_ms,
            .received_ns = received_ns,
            .caller = sender->caller,
            .who = credentials_of(from, sender),
            .unanswered_before = from->unanswered_before,
            .message = n > 1 ? &x->work->shared : NULL,
            .lender = n > 1 ? NULL : &lender,
            .read_metadata = read_metadata,
            .metadata = from,
        };
        lks_error refusal = refusal_of(x, has_room && slots);
        slot none = {.exchange = x, .index = i}, *at = slots ? &slots[i] : &none;
        *at = none;
        if (refusal.code != LKS_OK)
            on_done(at, NULL, NULL, &refusal, NULL);
        else
            to->take(to->arg, &call, x->arena, on_done, at);
    }
}

void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns)
{
    lks_error error = {0};
    Lockstock__Rpc__V1__Frame *frame;
    budget_share *bytes = sender->bytes;
    lks_rpc_arena *scratch = take_arena(f), *arena = take_arena(f);
    exchange *x = NULL;

    if (!scratch || !arena)
        lks_error_set(&error, LKS_DATA_LOSS, LKS_APPLIED_NO, "out of memory");
    else if (lks_rpc_frame_decode(data, len, 0, scratch, &frame, &error) == LKS_OK &&
             !(x = new_exchange(f, port, message, arena, frame, bytes)))
        lks_error_set(&error, LKS_DATA_LOSS, LKS_APPLIED_NO, "out of memory");
    if (x) {
        bool has_room = budget_take(bytes, x->work->held = len);
        if (!has_room)
            x->work->held = 0;
        start_calls(x, frame, sender, received_ns, has_room);
        /* What the calls allocated so far stays until they are done. */
        size_t taken = lks_rpc_arena_bytes(arena), more = taken > CALL_BYTES ? taken - CALL_BYTES : 0;
        budget_force(bytes, more);
        x->work->held += more;
        budget_give(bytes, has_room ? len : 0);
        x->work->held -= has_room ? len : 0;
        finish_one_call(x);
    } else {
        if (error.code == LKS_DATA_LOSS)
            port->close_peer(message);
        else
            refuse(f, port, message, arena, 1, &error);
        give_arena(f, arena);
    }
    give_arena(f, scratch);
}

void frames_drain(frames *f)
{
    f->draining = true;
}
