/* Invariant: the inbox is the only thing that nng's threads and the loop share.
 * It is a stack that many push and one takes whole; the loop turns it round, so
 * that messages are served in the order of their arrival, and the loss of a peer
 * is told after the last that it sent. A sender is known from its first message to that. */
#include "net/nng/nng.h"

#include <search.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include <lockstock/rpc/exchange.h>
#include "net/nng/nng_rep.h"
#include <uv.h>

/* A message on its way to the loop, or the loss of a peer. */
typedef struct item {
    struct item *next;
    lks_rpc_nng_request *request; /* NULL: the peer is lost */
    uint32_t peer;
    uint64_t received_ns;
} item;

/* A connection that has sent something. */
typedef struct sender {
    uint32_t id;
    caller *caller;
    budget_share *bytes;
} sender;

struct wire_nng {
    frames *frames;
    callers *callers;
    budget *budget;
    void *senders; /* tsearch, by id; the loop's */
    lks_rpc_nng_rep *rep;
    uv_async_t wake;
    _Atomic(item *) inbox;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void *port_answer(void *message, size_t len)
{
    return lks_rpc_nng_request_answer(message, len);
}

static void port_reply(void *message)
{
    lks_rpc_nng_request_reply(message);
}

static void port_close_peer(void *message)
{
    lks_rpc_nng_request_close_peer(message);
}

static const frames_port port = {.answer = port_answer, .reply = port_reply, .close_peer = port_close_peer};

/* On any thread. False when out of memory. */
static bool push(wire_nng *w, lks_rpc_nng_request *request, uint32_t peer)
{
    item *pushed = malloc(sizeof *pushed);

    if (!pushed)
        return false;
    *pushed = (item){.request = request, .peer = peer, .received_ns = lks_rpc_now_ns()};
    pushed->next = atomic_load_explicit(&w->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&w->inbox, &pushed->next, pushed, memory_order_release,
                                                  memory_order_relaxed))
        ;
    uv_async_send(&w->wake);
    return true;
}

static void on_request(void *arg, lks_rpc_nng_request *request)
{
    if (!push(arg, request, lks_rpc_nng_request_peer(request)))
        lks_rpc_nng_request_drop(request);
}

/* Out of memory: what the peer left waiting waits until its deadline. */
static void on_lost(void *arg, uint32_t peer)
{
    (void)push(arg, NULL, peer);
}

/* What has arrived, the oldest first. */
static item *take_all(wire_nng *w)
{
    item *stack = atomic_exchange_explicit(&w->inbox, NULL, memory_order_acquire);
    item *queue = NULL;

    while (stack) {
        item *next = stack->next;
        stack->next = queue;
        queue = stack;
        stack = next;
    }
    return queue;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const sender *)a)->id, y = ((const sender *)b)->id;

    return (x > y) - (x < y);
}

static void free_sender(void *gone)
{
    sender *p = gone;

    caller_lost(p->caller);
    budget_close(p->bytes);
    free(p);
}

/* NULL when out of memory. */
static sender *find_or_add(wire_nng *w, uint32_t id)
{
    const sender sought = {.id = id};
    sender **found = tfind(&sought, &w->senders, by_id);

    if (found)
        return *found;
    sender *p = malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (sender){.id = id, .bytes = budget_open(w->budget)};
    p->caller = p->bytes ? caller_new(w->callers, p->bytes, NULL, NULL) : NULL;
    if (p->caller && tsearch(p, &w->senders, by_id))
        return p;
    free_sender(p);
    return NULL;
}

static void lose(wire_nng *w, uint32_t id)
{
    const sender sought = {.id = id};
    sender **found = tfind(&sought, &w->senders, by_id);

    if (!found)
        return;
    sender *p = *found;
    tdelete(p, &w->senders, by_id);
    free_sender(p);
}

static void handle(wire_nng *w, const item *i)
{
    size_t len;
    const void *data;

    if (!i->request) {
        lose(w, i->peer);
        return;
    }
    sender *p = find_or_add(w, i->peer);
    if (!p) {
        lks_rpc_nng_request_close_peer(i->request);
        return;
    }
    struct nng_msg *message = lks_rpc_nng_request_take(i->request, &data, &len);
    const frames_sender from = {.caller = p->caller};
    frames_take(w->frames, &port, i->request, data, len, &from, i->received_ns);
    lks_rpc_nng_message_free(message);
}

static void on_wake(uv_async_t *async)
{
    wire_nng *w = async->data;
    item *queue = take_all(w);

    while (queue) {
        item *first = queue;
        queue = first->next;
        handle(w, first);
        free(first);
    }
}

lks_code wire_nng_new(const wire_nng_options *options, wire_nng **ret, lks_error *error)
{
    wire_nng *w = calloc(1, sizeof *w);
    lks_code code;

    if (!w)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    w->frames = options->frames;
    w->callers = options->callers;
    w->budget = options->budget;
    w->wake.data = w;
    const lks_rpc_nng_rep_options rep = {
        .message_bytes_max = options->message_bytes_max,
        .in_flight_max = options->in_flight_max,
        .peer_in_flight_max = options->in_flight_per_peer,
        .connections_max = options->connections_max,
        .on_request = on_request,
        .on_peer_lost = on_lost,
        .arg = w,
    };
    code = lks_rpc_nng_rep_open(&rep, &w->rep, error);
    if (code != LKS_OK) {
        free(w);
        return code;
    }
    /* Nothing is received before the first listen, so the loop is ready in time. */
    uv_async_init(options->loop, &w->wake, on_wake);
    *ret = w;
    return LKS_OK;
}

lks_code wire_nng_listen(wire_nng *w, const char *url, uint16_t *bound, lks_error *error)
{
    return lks_rpc_nng_rep_listen(w->rep, url, bound, error);
}

size_t wire_nng_in_flight(const wire_nng *w)
{
    return lks_rpc_nng_rep_in_flight(w->rep);
}

void wire_nng_stop_receiving(wire_nng *w)
{
    lks_rpc_nng_rep_stop_receiving(w->rep);
    on_wake(&w->wake);
}

static void on_wake_closed(uv_handle_t *handle)
{
    wire_nng *w = handle->data;
    void (*closed)(void *arg) = w->closed;
    void *arg = w->closed_arg;

    tdestroy(w->senders, free_sender);
    free(w);
    closed(arg);
}

void wire_nng_close(wire_nng *w, void (*closed)(void *arg), void *arg)
{
    w->closed = closed;
    w->closed_arg = arg;
    lks_rpc_nng_rep_close(w->rep);
    uv_close((uv_handle_t *)&w->wake, on_wake_closed);
}
