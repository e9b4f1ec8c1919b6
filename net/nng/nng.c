/* Invariant: the inbox is the only thing that nng's threads and the loop share.
 * It is a stack that many push and one takes whole; the loop turns it round, so
 * that a peer's messages are served in the order of their arrival, and its loss is told
 * after the last that it sent. A sender is known from its first message to that; it has a turn
 * (turns.h) exactly while messages of it are left and none of its calls queues. */
#include "net/nng/nng.h"

#include <search.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include <lockstock/rpc/exchange.h>
#include "net/nng/nng_rep.h"
#include "net/stream/turns.h"
#include <uv.h>

/* A message on its way to the loop, or the loss of a peer. */
typedef struct item {
    struct item *next;
    lks_rpc_nng_request *request; /* NULL: the peer is lost */
    uint32_t peer;
    uint64_t received_ns;
    size_t held; /* of its sender's bytes, while it is left */
} item;

/* A connection that has sent something. */
typedef struct sender {
    wire_nng *all;
    uint32_t id;
    frames_sender from;
    item *first, **end; /* messages that are left: its turns were over */
    turn_taker turn;
} sender;

struct wire_nng {
    frames *frames;
    const sink *sink;
    budget *budget;
    void *senders; /* tsearch, by id; the loop's */
    lks_rpc_nng_rep *rep;
    uv_async_t wake;
    turns *turns;
    unsigned open_handles; /* the last one closed frees */
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

/* The messages that are left of it are not run any more. */
static void free_sender(void *gone)
{
    sender *p = gone;
    item *i;

    turns_leave(p->all->turns, &p->turn);
    while ((i = p->first)) {
        p->first = i->next;
        budget_give(p->from.bytes, i->held);
        lks_rpc_nng_request_drop(i->request);
        free(i);
    }
    p->all->sink->lost(p->from.caller);
    budget_close(p->from.bytes);
    free(p);
}

/* It may be served again. */
static void look_at_turn(sender *p)
{
    if (p->first && !p->all->sink->queues(p->from.caller))
        turns_queue(p->all->turns, &p->turn);
    else
        turns_leave(p->all->turns, &p->turn);
}

static void on_room(void *arg)
{
    look_at_turn(arg);
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
    *p = (sender){.all = w, .id = id, .from = {.bytes = budget_open(w->budget)}, .end = &p->first};
    const sink_connection connection = {
        .bytes = p->from.bytes, .wire = "nng+tcp", .from = "?", .on_room = on_room, .arg = p};
    p->from.caller = p->from.bytes ? w->sink->open(w->sink->arg, &connection) : NULL;
    if (p->from.caller && tsearch(p, &w->senders, by_id))
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

/* The first message that is left of a sender. */
static void serve(sender *p)
{
    wire_nng *w = p->all;
    uint64_t began_ns = turns_now(w->turns);
    item *i = p->first;
    size_t len;
    const void *data;

    p->first = i->next;
    if (!p->first)
        p->end = &p->first;
    struct nng_msg *message = lks_rpc_nng_request_take(i->request, &data, &len);
    budget_give(p->from.bytes, i->held);
    frames_take(w->frames, &port, i->request, data, len, &p->from, i->received_ns);
    lks_rpc_nng_message_free(message);
    free(i);
    turns_worked(w->turns, &p->turn, began_ns, 0);
    look_at_turn(p);
}

static void on_turn(turn_taker *t)
{
    serve((sender *)(void *)((char *)t - offsetof(sender, turn)));
}

/* At once, if nothing is left of its sender and that has not cost much lately. Takes the item. */
static void handle(wire_nng *w, item *i)
{
    sender *p = i->request ? find_or_add(w, i->peer) : NULL;

    if (!p) {
        if (i->request)
            lks_rpc_nng_request_close_peer(i->request);
        else
            lose(w, i->peer);
        free(i);
        return;
    }
    bool at_once = !p->first && !p->all->sink->queues(p->from.caller) && turns_is_light(w->turns, &p->turn);
    if (!at_once)
        lks_rpc_nng_request_data(i->request, &i->held);
    if (i->held > 0 && !budget_take(p->from.bytes, i->held)) {
        lks_rpc_nng_request_close_peer(i->request);
        free(i);
        return;
    }
    i->next = NULL;
    *p->end = i;
    p->end = &i->next;
    if (at_once)
        serve(p);
    else
        look_at_turn(p);
}

static void on_wake(uv_async_t *async)
{
    wire_nng *w = async->data;
    item *queue = take_all(w);

    while (queue) {
        item *i = queue;
        queue = i->next;
        handle(w, i);
    }
}

lks_code wire_nng_new(const wire_nng_options *options, wire_nng **ret, lks_error *error)
{
    wire_nng *w = calloc(1, sizeof *w);
    lks_code code;

    if (!w)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    w->frames = options->frames;
    w->sink = options->sink;
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
    const turns_options taking = {.loop = options->loop, .now_ns = lks_rpc_now_ns, .serve = on_turn};
    code = lks_rpc_nng_rep_open(&rep, &w->rep, error);
    if (code != LKS_OK) {
        free(w);
        return code;
    }
    w->turns = turns_new(&taking);
    if (!w->turns) {
        lks_rpc_nng_rep_close(w->rep);
        free(w);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
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

static void handle_closed(wire_nng *w)
{
    if (--w->open_handles > 0)
        return;
    void (*closed)(void *arg) = w->closed;
    void *arg = w->closed_arg;
    free(w);
    closed(arg);
}

static void on_wake_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void on_turns_closed(void *arg)
{
    handle_closed(arg);
}

void wire_nng_close(wire_nng *w, void (*closed)(void *arg), void *arg)
{
    w->closed = closed;
    w->closed_arg = arg;
    w->open_handles = 2;
    tdestroy(w->senders, free_sender);
    w->senders = NULL;
    lks_rpc_nng_rep_close(w->rep);
    turns_close(w->turns, on_turns_closed, w);
    uv_close((uv_handle_t *)&w->wake, on_wake_closed);
}
