/* Invariant: a message is answered exactly once, when the last of its calls is
 * done; results stand in the order of the calls. All of it lives in one arena,
 * which goes back to the pool after the reply. */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/frame.h>

enum { POOL_MAX = 256 };

struct frames {
    dispatch *dispatch;
    size_t message_bytes_max;
    lks_rpc_arena *pool[POOL_MAX];
    size_t n_pool;
};

/* One message under way. */
typedef struct exchange {
    frames *frames;
    const frames_port *port;
    void *message;
    lks_rpc_arena *arena;
    Lockstock__Rpc__V1__Reply *reply;
    const lks_rpc_method **methods;
    size_t waiting_for; /* calls not yet done, and one more while they are started */
} exchange;

typedef struct slot {
    exchange *exchange;
    size_t index;
} slot;

lks_code frames_new(dispatch *d, size_t message_bytes_max, frames **ret, lks_error *error)
{
    frames *f = malloc(sizeof *f);

    if (!f)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *f = (frames){.dispatch = d, .message_bytes_max = message_bytes_max};
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
    if (f->n_pool == POOL_MAX) {
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

static void one_less(exchange *x)
{
    if (--x->waiting_for > 0)
        return;
    frames *f = x->frames;
    lks_rpc_arena *arena = x->arena;
    size_t len = lks_rpc_reply_fit(x->reply, x->methods, f->message_bytes_max);
    send(x->port, x->message, x->reply, len);
    give_arena(f, arena);
}

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response,
                    const lks_error *error)
{
    const slot *at = arg;
    exchange *x = at->exchange;
    Lockstock__Rpc__V1__Result *result = x->reply->results[at->index];

    x->methods[at->index] = method;
    if (error->code == LKS_OK)
        lks_rpc_result_ok(method, response, x->arena, result);
    else
        lks_rpc_result_fail(error, x->arena, result);
    one_less(x);
}

static credentials credentials_of(const Lockstock__Rpc__V1__Call *call, const frames_sender *sender)
{
    credentials who = {.certificate = sender->certificate, .uid = sender->uid};

    for (size_t i = 0; i < call->n_metadata; i++) {
        const Lockstock__Rpc__V1__Metadata *item = call->metadata[i];
        const lks_rpc_slice value = {.data = (const char *)item->value.data, .len = item->value.len};
        if (strcmp(item->key, "lockstock-namespace") == 0)
            who.ns = value;
        else if (strcmp(item->key, "authorization") == 0)
            who.authorization = value;
    }
    return who;
}

/* Answers a frame that was refused whole with one result. */
static void refuse(frames *f, const frames_port *port, void *message, lks_rpc_arena *arena, const lks_error *error)
{
    Lockstock__Rpc__V1__Reply *reply = arena ? lks_rpc_reply_new(1, arena) : NULL;
    const lks_rpc_method *none = NULL;

    if (!reply) {
        port->close_peer(message);
        return;
    }
    lks_rpc_result_fail(error, arena, reply->results[0]);
    send(port, message, reply, lks_rpc_reply_fit(reply, &none, f->message_bytes_max));
}

void frames_take(frames *f, const frames_port *port, void *message, const void *data, size_t len,
                 const frames_sender *sender, uint64_t received_ns)
{
    lks_error error = {0};
    Lockstock__Rpc__V1__Frame *frame;
    lks_rpc_arena *arena = take_arena(f);

    if (!arena) {
        port->close_peer(message);
        return;
    }
    if (lks_rpc_frame_decode(data, len, 0, arena, &frame, &error) != LKS_OK) {
        if (error.code == LKS_DATA_LOSS)
            port->close_peer(message);
        else
            refuse(f, port, message, arena, &error);
        give_arena(f, arena);
        return;
    }
    size_t n = frame->n_calls;
    exchange *x = lks_rpc_arena_alloc(arena, sizeof *x);
    slot *slots = lks_rpc_arena_alloc(arena, n * sizeof *slots);
    const lks_rpc_method **methods = lks_rpc_arena_alloc(arena, n * sizeof *methods);
    Lockstock__Rpc__V1__Reply *reply = lks_rpc_reply_new(n, arena);
    if (!x || !slots || !methods || !reply) {
        port->close_peer(message);
        give_arena(f, arena);
        return;
    }
    *x = (exchange){.frames = f, .port = port, .message = message, .arena = arena, .reply = reply,
                    .methods = methods, .waiting_for = n + 1};
    for (size_t i = 0; i < n; i++) {
        const Lockstock__Rpc__V1__Call *from = frame->calls[i];
        const dispatch_call call = {
            .path = from->method,
            .payload = from->payload.data,
            .len = from->payload.len,
            .timeout_ms = from->timeout_ms,
            .received_ns = received_ns,
            .peer = sender->peer,
            .alone = n == 1,
            .who = credentials_of(from, sender),
        };
        slots[i] = (slot){.exchange = x, .index = i};
        dispatch_call_start(f->dispatch, &call, arena, on_done, &slots[i]);
    }
    one_less(x);
}

void frames_refuse(frames *f, const frames_port *port, void *message, const lks_error *error)
{
    lks_rpc_arena *arena = take_arena(f);

    refuse(f, port, message, arena, error);
    if (arena)
        give_arena(f, arena);
}
