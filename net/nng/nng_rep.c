/* The REP context pool. Each slot is one nng context with one aio, and is in one
 * state; `lock` guards the lists and the counts, and no nng function is called
 * under it.
 *
 *            +--------------------------- dropped ---------------+
 *            v                                                   |
 *   idle -> receiving -> out -> answering -> receiving or idle   |
 *                |  \--> refusing ---------> receiving or idle   |
 *                +-----------------------------------------------+
 *
 * A slot that is out belongs to the application; one that is receiving, answering
 * or refusing belongs to nng until its aio's callback runs. A slot is never freed
 * before the pool is. What each precaution is for stands in docs/nng.md. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

#include <lockstock/rpc/frame.h>
#include "net/nng/nng_rep.h"

#include "net/nng/connections.h"

enum {
    RECEIVING_MIN = 16,
    RECEIVING_MAX = 64,
    IN_FLIGHT_MAX = 4096,
    PEER_IN_FLIGHT_MAX = 512,
    CONNECTIONS_MAX = 4096,
    SEND_TIMEOUT_MS = 500,
    SMALL_SHARE = 32,         /* of one connection, when others have nearly all */
    REFUSING_MAX = 256,       /* refusals on their way at a time; beyond, messages are dropped */
    REQUEST_HEADER_BYTES = 4, /* counted by nng as part of the message */
    RETRY_AFTER_MS = 100,
    CLOSE_SECONDS_MAX = 5,
};

typedef struct lks_rpc_nng_request slot;

typedef enum slot_state { IDLE, RECEIVING, OUT, ANSWERING, REFUSING } slot_state;

struct lks_rpc_nng_request {
    lks_rpc_nng_rep *rep;
    slot *next;      /* of all slots */
    slot *next_idle; /* while idle */
    slot_state state;
    nng_ctx ctx;
    nng_aio *aio;
    nng_msg *message; /* while out: the request, and the answer once there is one */
    nng_msg *answer;
    uint32_t peer;
    connection_turn turn; /* while it waits to be sent */
};

struct lks_rpc_nng_rep {
    lks_rpc_nng_rep_options options;
    nng_socket socket;
    atomic_size_t in_flight; /* out and answering; changed under lock */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    slot *slots;
    slot *idle;
    uint32_t n_receiving;
    uint32_t n_refusing;
    uint32_t running; /* calls of on_request and on_peer_lost */
    bool draining;
    bool closing;
    connections *connections;
};

static const lks_error too_many = {
    .code = LKS_RESOURCE_EXHAUSTED,
    .applied = LKS_APPLIED_NO,
    .retry_after_ms = RETRY_AFTER_MS,
    .message = "too many messages under way",
};

static const lks_error going_away = {
    .code = LKS_UNAVAILABLE,
    .applied = LKS_APPLIED_NO,
    .message = "the server is shutting down",
};

static void on_aio(void *arg);

/* ---- slots ------------------------------------------------------------------- */

static slot *slot_new(lks_rpc_nng_rep *rep)
{
    slot *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (slot){.rep = rep};
    if (nng_aio_alloc(&s->aio, on_aio, s) != 0)
        goto no_aio;
    if (nng_ctx_open(&s->ctx, rep->socket) != 0)
        goto no_context;
    return s;

no_context:
    nng_aio_free(s->aio);
no_aio:
    free(s);
    return NULL;
}

/* The aio must be stopped, or never have been used. */
static void slot_free(slot *s)
{
    nng_ctx_close(s->ctx);
    nng_aio_free(s->aio);
    free(s);
}

static void receive(slot *s)
{
    s->state = RECEIVING;
    nng_aio_set_timeout(s->aio, NNG_DURATION_INFINITE);
    nng_ctx_recv(s->ctx, s->aio);
}

static void finish(slot *s);

static slot *slot_of(connection_turn *turn)
{
    return turn ? (slot *)(void *)((char *)turn - offsetof(slot, turn)) : NULL;
}

/* Sends the answer of a slot whose turn it is, unless the peer has gone: a send that
 * fails closes the connection from the wrong side, and that hangs nng when a request
 * is just being read. For the same reason answers go one by one: nng would queue the
 * next and send it unasked. */
static void transmit(slot *s)
{
    while (s) {
        lks_rpc_nng_rep *rep = s->rep;
        if (connections_stands(rep->connections, s->peer)) {
            nng_aio_set_msg(s->aio, s->answer);
            s->answer = NULL;
            nng_aio_set_timeout(s->aio, (nng_duration)rep->options.send_timeout_ms);
            nng_ctx_send(s->ctx, s->aio);
            return;
        }
        nng_msg_free(s->answer);
        s->answer = NULL;
        slot *next = slot_of(connections_pass_turn(rep->connections, s->peer));
        finish(s);
        s = next;
    }
}

static void send_answer(slot *s, slot_state state)
{
    nng_msg_free(s->message);
    s->message = NULL;
    s->state = state;
    if (connections_take_turn(s->rep->connections, s->peer, &s->turn))
        transmit(s);
}

/* Under lock. */
static void rest(slot *s)
{
    s->state = IDLE;
    s->next_idle = s->rep->idle;
    s->rep->idle = s;
}

/* Under lock: adds a slot, unless the pool is being closed. */
static bool keep(lks_rpc_nng_rep *rep, slot *s)
{
    if (rep->closing)
        return false;
    s->next = rep->slots;
    rep->slots = s;
    return true;
}

/* Brings one more slot to receive when receivers are short; false when none was
 * short or none could be had. Slots are bounded by what may be out, refusing and
 * receiving, so that none of those can starve the receivers. */
static bool receive_one_more(lks_rpc_nng_rep *rep)
{
    pthread_mutex_lock(&rep->lock);
    bool wanted = !rep->closing && rep->n_receiving < rep->options.receiving;
    slot *s = wanted ? rep->idle : NULL;
    if (s)
        rep->idle = s->next_idle;
    rep->n_receiving += wanted;
    pthread_mutex_unlock(&rep->lock);
    if (!wanted)
        return false;

    if (!s) {
        s = slot_new(rep);
        pthread_mutex_lock(&rep->lock);
        bool kept = s && keep(rep, s);
        rep->n_receiving -= !kept;
        pthread_mutex_unlock(&rep->lock);
        if (!kept) {
            if (s)
                slot_free(s);
            return false;
        }
    }
    receive(s);
    return true;
}

/* A slot that was out, answering or refusing is free again. */
static void finish(slot *s)
{
    lks_rpc_nng_rep *rep = s->rep;
    connections_leave(rep->connections, s->peer);
    pthread_mutex_lock(&rep->lock);
    if (s->state == REFUSING)
        rep->n_refusing--;
    else
        atomic_fetch_sub(&rep->in_flight, 1);
    if (rep->closing)
        pthread_cond_broadcast(&rep->changed);
    bool again = !rep->closing && rep->n_receiving < rep->options.receiving;
    if (again)
        rep->n_receiving++;
    else
        rest(s);
    pthread_mutex_unlock(&rep->lock);
    if (again)
        receive(s);
}

/* ---- messages ---------------------------------------------------------------- */

/* Each call of the request is refused: a caller that matches results to calls hangs else. */
static nng_msg *refusal(const slot *s, const lks_error *error)
{
    Lockstock__Rpc__V1__Result result, *results[LKS_RPC_FRAME_CALLS_MAX];
    Lockstock__Rpc__V1__Reply reply = LOCKSTOCK__RPC__V1__REPLY__INIT;
    lks_rpc_result_of(error, &result);
    reply.n_results = s->message ? lks_rpc_frame_count(nng_msg_body(s->message), nng_msg_len(s->message)) : 1;
    reply.results = results;
    for (size_t i = 0; i < reply.n_results; i++)
        results[i] = &result;
    nng_msg *message;
    if (nng_msg_alloc(&message, lockstock__rpc__v1__reply__get_packed_size(&reply)) != 0)
        return NULL;
    lockstock__rpc__v1__reply__pack(&reply, nng_msg_body(message));
    return message;
}

typedef enum verdict { DELIVER, REFUSE_FULL, REFUSE_DRAINING, DROP } verdict;

/* Under lock: what becomes of a message of a connection that now has n_peer under way,
 * and what it is counted as. Beyond a small share, which everyone has, a connection may
 * have no more than is left free (dynamic thresholds: Choudhury and Hahne, 1998), so that
 * however many do not read their answers, there is room for one who does. */
static verdict judge(lks_rpc_nng_rep *rep, uint32_t n_peer)
{
    const lks_rpc_nng_rep_options *options = &rep->options;
    size_t under_way = atomic_load(&rep->in_flight);
    size_t left = under_way < options->in_flight_max ? options->in_flight_max - under_way : 0;
    bool modest = n_peer <= SMALL_SHARE;
    bool full = left == 0 || n_peer > options->peer_in_flight_max || (!modest && n_peer > left);
    bool refused = full || rep->draining;
    if (rep->closing || n_peer / 2 > options->peer_in_flight_max ||
        (refused && rep->n_refusing >= (modest ? REFUSING_MAX : REFUSING_MAX / 2)))
        return DROP;
    rep->n_receiving--;
    if (refused) {
        rep->n_refusing++;
        return rep->draining ? REFUSE_DRAINING : REFUSE_FULL;
    }
    atomic_fetch_add(&rep->in_flight, 1);
    rep->running++;
    return DELIVER;
}

/* A call of on_request or on_peer_lost is over. */
static void has_run(lks_rpc_nng_rep *rep)
{
    pthread_mutex_lock(&rep->lock);
    if (--rep->running == 0)
        pthread_cond_broadcast(&rep->changed);
    pthread_mutex_unlock(&rep->lock);
}

static void deliver(slot *s)
{
    lks_rpc_nng_rep *rep = s->rep;
    s->state = OUT;
    rep->options.on_request(rep->options.arg, s);
    has_run(rep); /* the slot may have been ended and be anywhere by now */
}

static void on_lost(void *arg, uint32_t peer)
{
    lks_rpc_nng_rep *rep = arg;
    pthread_mutex_lock(&rep->lock);
    bool tell = rep->options.on_peer_lost && !rep->draining && !rep->closing;
    rep->running += tell;
    pthread_mutex_unlock(&rep->lock);
    if (!tell)
        return;
    rep->options.on_peer_lost(rep->options.arg, peer);
    has_run(rep);
}

static void refuse(slot *s, const lks_error *error)
{
    s->answer = refusal(s, error);
    if (s->answer) {
        send_answer(s, REFUSING);
        return;
    }
    nng_msg_free(s->message);
    s->message = NULL;
    s->state = REFUSING;
    finish(s);
}

static void received(slot *s)
{
    lks_rpc_nng_rep *rep = s->rep;
    if (nng_aio_result(s->aio) != 0) {
        /* Only when the pool is being closed. */
        pthread_mutex_lock(&rep->lock);
        rep->n_receiving--;
        rest(s);
        pthread_mutex_unlock(&rep->lock);
        return;
    }
    nng_msg *message = nng_aio_get_msg(s->aio);
    uint32_t peer = (uint32_t)nng_pipe_id(nng_msg_get_pipe(message));
    uint32_t n_peer = connections_enter(rep->connections, peer);
    if (n_peer == 0) {
        nng_msg_free(message);
        receive(s);
        return;
    }
    pthread_mutex_lock(&rep->lock);
    verdict fate = judge(rep, n_peer);
    pthread_mutex_unlock(&rep->lock);
    if (fate == DROP) {
        connections_leave(rep->connections, peer);
        nng_msg_free(message);
        receive(s);
    } else {
        s->message = message;
        s->peer = peer;
        /* First of all the next receiver: on_request may take its time. */
        while (receive_one_more(rep))
            ;
        if (fate == DELIVER)
            deliver(s);
        else
            refuse(s, fate == REFUSE_DRAINING ? &going_away : &too_many);
    }
    connections_delivered(rep->connections, peer);
}

static void sent(slot *s)
{
    lks_rpc_nng_rep *rep = s->rep;
    int failure = nng_aio_result(s->aio);
    if (failure != 0) {
        nng_msg_free(nng_aio_get_msg(s->aio));
        nng_aio_set_msg(s->aio, NULL);
    }
    if (failure == NNG_ETIMEDOUT)
        connections_doom(rep->connections, s->peer);
    slot *next = slot_of(connections_pass_turn(rep->connections, s->peer));
    finish(s);
    transmit(next);
}

static void on_aio(void *arg)
{
    slot *s = arg;
    if (s->state == RECEIVING)
        received(s);
    else
        sent(s);
}

/* ---- the pool ---------------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value > 0 ? value : fallback;
}

static lks_rpc_nng_rep_options complete(const lks_rpc_nng_rep_options *options)
{
    lks_rpc_nng_rep_options all = *options;
    if (all.message_bytes_max == 0)
        all.message_bytes_max = LKS_RPC_MESSAGE_BYTES_MAX;
    all.receiving = or_default(all.receiving, RECEIVING_MAX);
    if (all.receiving < RECEIVING_MIN)
        all.receiving = RECEIVING_MIN;
    if (all.receiving > RECEIVING_MAX)
        all.receiving = RECEIVING_MAX;
    all.in_flight_max = or_default(all.in_flight_max, IN_FLIGHT_MAX);
    all.peer_in_flight_max = or_default(all.peer_in_flight_max, PEER_IN_FLIGHT_MAX);
    all.connections_max = or_default(all.connections_max, CONNECTIONS_MAX);
    all.send_timeout_ms = or_default(all.send_timeout_ms, SEND_TIMEOUT_MS);
    return all;
}

lks_code lks_rpc_nng_rep_open(const lks_rpc_nng_rep_options *options, lks_rpc_nng_rep **ret, lks_error *error)
{
    lks_rpc_nng_rep *rep = malloc(sizeof *rep);
    if (!rep)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *rep = (lks_rpc_nng_rep){.options = complete(options)};
    if (nng_rep0_open(&rep->socket) != 0)
        goto no_socket;
    rep->connections = connections_new(rep->socket, rep->options.connections_max, on_lost, rep);
    if (!rep->connections)
        goto no_connections;
    pthread_mutex_init(&rep->lock, NULL);
    pthread_cond_init(&rep->changed, NULL);
    /* Before any listen: endpoints copy it. */
    nng_socket_set_size(rep->socket, NNG_OPT_RECVMAXSZ, rep->options.message_bytes_max + REQUEST_HEADER_BYTES);
    *ret = rep;
    return LKS_OK;

no_connections:
    nng_close(rep->socket);
no_socket:
    free(rep);
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no memory or descriptor for a socket");
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* `code` unless nng says that it had no room. */
static lks_code listen_error(lks_code code, int failure, const char *url, lks_error *error)
{
    if (failure == NNG_ENOMEM || failure == NNG_ENOFILES)
        code = LKS_RESOURCE_EXHAUSTED;
    return lks_error_set(error, code, LKS_APPLIED_NO, "%s: %s", url, nng_strerror(failure));
}

lks_code lks_rpc_nng_rep_listen(lks_rpc_nng_rep *rep, const char *url, uint16_t *port, lks_error *error)
{
    /* An ipc:// listener of this nng dies with the first client that leaves early. */
    if (!starts_with(url, "tcp://") && !starts_with(url, "ws://"))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: neither tcp:// nor ws://", url);
    nng_listener listener;
    int failure = nng_listener_create(&listener, rep->socket, url);
    if (failure != 0)
        return listen_error(LKS_INVALID_ARGUMENT, failure, url, error);
    /* Which of these a transport knows differs; none is worth failing for. */
    nng_listener_set_bool(listener, NNG_OPT_TCP_KEEPALIVE, true);
    nng_listener_set_bool(listener, NNG_OPT_TCP_NODELAY, true);
    failure = nng_listener_start(listener, 0);
    if (failure != 0) {
        nng_listener_close(listener);
        return listen_error(LKS_UNAVAILABLE, failure, url, error);
    }
    int bound = 0;
    if (port) {
        nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &bound);
        *port = (uint16_t)bound;
    }
    while (receive_one_more(rep))
        ;
    return LKS_OK;
}

void lks_rpc_nng_rep_stop_receiving(lks_rpc_nng_rep *rep)
{
    connections_refuse_new(rep->connections);
    pthread_mutex_lock(&rep->lock);
    rep->draining = true;
    while (rep->running > 0)
        pthread_cond_wait(&rep->changed, &rep->lock);
    pthread_mutex_unlock(&rep->lock);
}

size_t lks_rpc_nng_rep_in_flight(const lks_rpc_nng_rep *rep)
{
    return atomic_load(&rep->in_flight);
}

size_t lks_rpc_nng_rep_connections(lks_rpc_nng_rep *rep)
{
    return connections_count(rep->connections);
}

size_t lks_rpc_nng_rep_leaked(lks_rpc_nng_rep *rep)
{
    return connections_leaked(rep->connections);
}

static void *close_socket(void *arg)
{
    lks_rpc_nng_rep *rep = arg;
    nng_close(rep->socket);
    return NULL;
}

/* nng_close never returns once nng's reaper thread hangs. Whether it returned. */
static bool close_in_time(lks_rpc_nng_rep *rep)
{
    pthread_t closer;
    if (pthread_create(&closer, NULL, close_socket, rep) != 0) {
        close_socket(rep);
        return true;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_SECONDS_MAX;
    if (pthread_timedjoin_np(closer, NULL, &until) == 0)
        return true;
    pthread_detach(closer);
    return false;
}

void lks_rpc_nng_rep_close(lks_rpc_nng_rep *rep)
{
    if (!rep)
        return;
    pthread_mutex_lock(&rep->lock);
    rep->closing = true;
    /* Answers go out first, or run into the send timeout. */
    while (atomic_load(&rep->in_flight) > 0 || rep->n_refusing > 0 || rep->running > 0)
        pthread_cond_wait(&rep->changed, &rep->lock);
    pthread_mutex_unlock(&rep->lock);
    /* From here on the list does not grow. All aios are stopped before the first is
     * freed, because the callback of one may start another. */
    for (slot *s = rep->slots; s; s = s->next)
        nng_aio_stop(s->aio);
    for (slot *s = rep->slots, *next; s; s = next) {
        next = s->next;
        slot_free(s);
    }
    connections_stop(rep->connections);
    if (!close_in_time(rep))
        return;
    connections_free(rep->connections);
    pthread_cond_destroy(&rep->changed);
    pthread_mutex_destroy(&rep->lock);
    free(rep);
}

/* ---- requests ---------------------------------------------------------------- */

const void *lks_rpc_nng_request_data(const lks_rpc_nng_request *request, size_t *len)
{
    *len = nng_msg_len(request->message);
    return nng_msg_body(request->message);
}

struct nng_msg *lks_rpc_nng_request_take(lks_rpc_nng_request *request, const void **data, size_t *len)
{
    nng_msg *message = request->message;

    *data = lks_rpc_nng_request_data(request, len);
    request->message = NULL;
    return message;
}

void lks_rpc_nng_message_free(struct nng_msg *message)
{
    nng_msg_free(message);
}

uint32_t lks_rpc_nng_request_peer(const lks_rpc_nng_request *request)
{
    return request->peer;
}

void *lks_rpc_nng_request_answer(lks_rpc_nng_request *request, size_t len)
{
    nng_msg_free(request->answer);
    request->answer = NULL;
    if (nng_msg_alloc(&request->answer, len) != 0)
        return NULL;
    return nng_msg_body(request->answer);
}

void lks_rpc_nng_request_reply(lks_rpc_nng_request *request)
{
    send_answer(request, ANSWERING);
}

void lks_rpc_nng_request_refuse(lks_rpc_nng_request *request, const lks_error *error)
{
    nng_msg_free(request->answer);
    request->answer = refusal(request, error);
    if (request->answer)
        send_answer(request, ANSWERING);
    else
        lks_rpc_nng_request_drop(request);
}

void lks_rpc_nng_request_drop(lks_rpc_nng_request *request)
{
    nng_msg_free(request->message);
    nng_msg_free(request->answer);
    request->message = NULL;
    request->answer = NULL;
    finish(request);
}

void lks_rpc_nng_request_close_peer(lks_rpc_nng_request *request)
{
    connections_doom(request->rep->connections, request->peer);
    lks_rpc_nng_request_drop(request);
}
