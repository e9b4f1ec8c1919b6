/* The engine over libnng, for WebSocket: a REQ socket with one dialer, and a pool of
 * its contexts, one a slot.
 *
 * Invariant: nng's threads do two things here, they push a slot or the endpoint itself
 * into the driver's inbox and they note which connection stands; all else belongs to
 * the driver thread. A slot has at most one operation of nng under way. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "endpoint.h"

enum { RECONNECT_MS_MIN = 20, RECONNECT_MS_MAX = 1000 };

typedef enum slot_state { IDLE, SENDING, AWAITING, FORGOTTEN } slot_state;

typedef struct nng_slot {
    endpoint_slot base;
    inbox_item finished; /* the operation of `aio` */
    nng_ctx context;
    nng_aio *aio;
    slot_state state;
    struct nng_slot *next_idle;
} nng_slot;

typedef struct nng_endpoint {
    struct endpoint base;
    nng_socket socket;
    bool socket_open;

    nng_slot **slots;
    size_t n_slots;
    nng_slot *idle;
    bool connected;

    inbox_item changed;
    atomic_bool changed_pushed;
    uint32_t arriving;    /* pipe that nng announced; only in pipe callbacks, which nng serialises */
    atomic_uint standing; /* pipe that carries messages; 0 = none */
} nng_endpoint;

/* ---- on nng's threads ------------------------------------------------------------ */

static void on_finished(void *arg)
{
    nng_slot *slot = arg;
    inbox_push(slot->base.endpoint->options.inbox, &slot->finished);
}

/* A pipe may be reported gone before it is reported added: only one that was
 * announced and is not gone yet stands. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    nng_endpoint *endpoint = arg;
    uint32_t id = (uint32_t)nng_pipe_id(pipe);

    if (event == NNG_PIPE_EV_ADD_PRE) {
        endpoint->arriving = id;
        return;
    }
    if (event == NNG_PIPE_EV_ADD_POST && endpoint->arriving == id)
        atomic_store(&endpoint->standing, id);
    if (event == NNG_PIPE_EV_REM_POST) {
        if (endpoint->arriving == id)
            endpoint->arriving = 0;
        if (atomic_load(&endpoint->standing) == id)
            atomic_store(&endpoint->standing, 0);
    }
    if (!atomic_exchange(&endpoint->changed_pushed, true))
        inbox_push(endpoint->base.options.inbox, &endpoint->changed);
}

/* ---- on the driver thread ---------------------------------------------------------- */

static void withdraw(endpoint_slot *slot)
{
    nng_aio_cancel(((nng_slot *)slot)->aio);
}

/* Messages that no connection has taken are asked back when it is lost, so that
 * they can go elsewhere. */
static void run_changed(inbox_item *item)
{
    nng_endpoint *endpoint = (nng_endpoint *)((char *)item - offsetof(nng_endpoint, changed));

    atomic_store(&endpoint->changed_pushed, false);
    endpoint->connected = atomic_load(&endpoint->standing) != 0;
    if (endpoint->connected)
        return;
    for (size_t i = 0; i < endpoint->n_slots; i++)
        if (endpoint->slots[i]->state == SENDING)
            withdraw(&endpoint->slots[i]->base);
}

static void release(nng_slot *slot)
{
    nng_endpoint *endpoint = (nng_endpoint *)slot->base.endpoint;

    slot->state = IDLE;
    slot->next_idle = endpoint->idle;
    endpoint->idle = slot;
    endpoint_give_back(&slot->base);
}

/* The message that a finished operation left in the aio, now the caller's. */
static nng_msg *take_message(nng_slot *slot)
{
    nng_msg *message = nng_aio_get_msg(slot->aio);
    nng_aio_set_msg(slot->aio, NULL);
    return message;
}

static void run_finished(inbox_item *item)
{
    nng_slot *slot = (nng_slot *)((char *)item - offsetof(nng_slot, finished));
    const endpoint_events *events = slot->base.endpoint->options.events;
    bool done = nng_aio_result(slot->aio) == 0;
    slot_state state = slot->state;
    void *owner = slot->base.owner;

    if (state == SENDING && done) {
        slot->state = AWAITING;
        nng_ctx_recv(slot->context, slot->aio);
        events->sent(owner);
        return;
    }
    nng_msg *message = state == SENDING || done ? take_message(slot) : NULL;
    release(slot);
    if (state == SENDING)
        events->unsent(owner);
    else if (state == AWAITING && done)
        events->reply(owner, nng_msg_body(message), nng_msg_len(message));
    else if (state == AWAITING)
        events->lost(owner);
    nng_msg_free(message);
}

static void slot_free(nng_slot *slot)
{
    nng_aio_stop(slot->aio);
    /* What finished, and was not run any more. */
    bool done = nng_aio_result(slot->aio) == 0;
    if (slot->state != IDLE && done == (slot->state != SENDING))
        nng_msg_free(take_message(slot));
    nng_ctx_close(slot->context);
    nng_aio_free(slot->aio);
    free(slot);
}

static nng_slot *slot_new(nng_endpoint *endpoint)
{
    nng_slot *slot = malloc(sizeof *slot);
    if (slot == NULL)
        return NULL;
    *slot = (nng_slot){.base = {.endpoint = &endpoint->base}, .finished = {.run = run_finished}, .state = IDLE};
    if (nng_ctx_open(&slot->context, endpoint->socket) != 0)
        goto failed;
    /* nng would send the request again on its own, every minute and when the
     * peer is lost, whether it may be repeated or not. */
    if (nng_ctx_set_ms(slot->context, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE) != 0 ||
        nng_aio_alloc(&slot->aio, on_finished, slot) != 0) {
        nng_ctx_close(slot->context);
        goto failed;
    }
    nng_aio_set_timeout(slot->aio, NNG_DURATION_INFINITE);
    endpoint->slots[endpoint->n_slots++] = slot;
    return slot;
failed:
    free(slot);
    return NULL;
}

static bool is_connected(const struct endpoint *endpoint)
{
    return ((const nng_endpoint *)endpoint)->connected;
}

static endpoint_slot *send_message(struct endpoint *base, endpoint_message *message)
{
    nng_endpoint *endpoint = (nng_endpoint *)base;
    nng_slot *slot = endpoint->idle;
    nng_msg *copy;

    if (slot != NULL)
        endpoint->idle = slot->next_idle;
    else if ((slot = slot_new(endpoint)) == NULL)
        return NULL;
    if (nng_msg_alloc(&copy, message->len) != 0) {
        slot->next_idle = endpoint->idle;
        endpoint->idle = slot;
        return NULL;
    }
    memcpy(nng_msg_body(copy), message->data, message->len);
    free(message);
    slot->state = SENDING;
    nng_aio_set_msg(slot->aio, copy);
    nng_ctx_send(slot->context, slot->aio);
    return &slot->base;
}

static void forget(endpoint_slot *base)
{
    nng_slot *slot = (nng_slot *)base;

    slot->state = FORGOTTEN;
    nng_aio_cancel(slot->aio);
}

static void prepare(struct endpoint *base, struct pollfd *fd)
{
    (void)base;
    *fd = (struct pollfd){.fd = -1};
}

static void ready(struct endpoint *base, short events)
{
    (void)base, (void)events;
}

/* ---- opening and closing ------------------------------------------------------------ */

static void close_all(struct endpoint *base)
{
    nng_endpoint *endpoint = (nng_endpoint *)base;

    for (size_t i = 0; i < endpoint->n_slots; i++)
        slot_free(endpoint->slots[i]);
    if (endpoint->socket_open)
        nng_close(endpoint->socket);
    free(endpoint->slots);
    free(endpoint);
}

/* nng takes an address without a host, and then never connects. */
static bool names_host(const char *address)
{
    struct nng_url *parsed;

    if (nng_url_parse(&parsed, address) != 0)
        return false;
    bool named = parsed->u_hostname[0] != '\0';
    nng_url_free(parsed);
    return named;
}

static lks_code open_socket(const char *address, const endpoint_options *options, struct endpoint **ret,
                            lks_error *error)
{
    nng_endpoint *endpoint = calloc(1, sizeof *endpoint);
    int failed = NNG_ENOMEM;

    if (endpoint == NULL)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    endpoint->base.options = *options;
    endpoint->changed.run = run_changed;
    atomic_init(&endpoint->changed_pushed, false);
    atomic_init(&endpoint->standing, 0);
    endpoint->slots = calloc(options->in_flight_max, sizeof *endpoint->slots);
    if (endpoint->slots == NULL || (failed = nng_req0_open(&endpoint->socket)) != 0)
        goto cleanup;
    endpoint->socket_open = true;
    failed = names_host(address) ? 0 : NNG_EADDRINVAL;
    if (failed != 0 ||
        (failed = nng_socket_set_size(endpoint->socket, NNG_OPT_RECVMAXSZ, options->message_bytes_max)) != 0 ||
        (failed = nng_socket_set_ms(endpoint->socket, NNG_OPT_RECONNMINT, RECONNECT_MS_MIN)) != 0 ||
        (failed = nng_socket_set_ms(endpoint->socket, NNG_OPT_RECONNMAXT, RECONNECT_MS_MAX)) != 0 ||
        (failed = nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, endpoint)) != 0 ||
        (failed = nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_ADD_POST, on_pipe, endpoint)) != 0 ||
        (failed = nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_REM_POST, on_pipe, endpoint)) != 0 ||
        (failed = nng_dial(endpoint->socket, address, NULL, NNG_FLAG_NONBLOCK)) != 0)
        goto cleanup;
    *ret = &endpoint->base;
    return LKS_OK;
cleanup:
    close_all(&endpoint->base);
    if (failed == NNG_EINVAL || failed == NNG_EADDRINVAL)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: not HOST:PORT/PATH after the scheme");
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot open a connection: %s",
                         nng_strerror(failed));
}

const struct endpoint_engine endpoint_nng = {
    .open = open_socket,
    .close = close_all,
    .connected = is_connected,
    .send = send_message,
    .withdraw = withdraw,
    .forget = forget,
    .prepare = prepare,
    .ready = ready,
};
