/* Invariant: nng's threads do two things here, they push a slot or the endpoint
 * itself into the driver's inbox and they note which connection stands; all else
 * belongs to the driver thread. A slot has at most one operation of nng under way. */
#include "endpoint.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <nng/protocol/reqrep0/req.h>

enum { RECONNECT_MS_MIN = 20, RECONNECT_MS_MAX = 1000 };

typedef enum slot_state { IDLE, SENDING, RECEIVING, FORGOTTEN } slot_state;

struct endpoint_slot {
    inbox_item finished; /* the operation of `aio` */
    struct endpoint *endpoint;
    nng_ctx context;
    nng_aio *aio;
    slot_state state;
    endpoint_lane lane;
    void *owner;
    endpoint_slot *next_idle;
};

struct endpoint {
    endpoint_options options;
    char *url;
    nng_socket socket;
    bool socket_open;

    endpoint_slot **slots;
    size_t n_slots;
    endpoint_slot *idle;
    uint32_t in_flight[ENDPOINT_LANES];
    bool connected;

    inbox_item changed;
    atomic_bool changed_pushed;
    uint32_t arriving;    /* pipe that nng announced; only in pipe callbacks, which nng serialises */
    atomic_uint standing; /* pipe that carries messages; 0 = none */
};

/* ---- on nng's threads ------------------------------------------------------- */

static void on_finished(void *arg)
{
    endpoint_slot *slot = arg;
    inbox_push(slot->endpoint->options.inbox, &slot->finished);
}

/* A pipe may be reported gone before it is reported added: only one that was
 * announced and is not gone yet stands. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct endpoint *endpoint = arg;
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
        inbox_push(endpoint->options.inbox, &endpoint->changed);
}

/* ---- on the driver thread --------------------------------------------------- */

static struct endpoint *of_changed(inbox_item *item)
{
    return (struct endpoint *)((char *)item - offsetof(struct endpoint, changed));
}

static endpoint_slot *of_finished(inbox_item *item)
{
    return (endpoint_slot *)((char *)item - offsetof(endpoint_slot, finished));
}

/* Messages that no connection has taken are asked back when it is lost, so that
 * they can go elsewhere. */
static void run_changed(inbox_item *item)
{
    struct endpoint *endpoint = of_changed(item);

    atomic_store(&endpoint->changed_pushed, false);
    endpoint->connected = atomic_load(&endpoint->standing) != 0;
    if (endpoint->connected)
        return;
    for (size_t i = 0; i < endpoint->n_slots; i++)
        if (endpoint->slots[i]->state == SENDING)
            endpoint_withdraw(endpoint->slots[i]);
}

static void make_idle(endpoint_slot *slot)
{
    struct endpoint *endpoint = slot->endpoint;

    slot->state = IDLE;
    slot->owner = NULL;
    slot->next_idle = endpoint->idle;
    endpoint->idle = slot;
    endpoint->in_flight[slot->lane]--;
}

/* The message that a finished operation left in the aio, now the caller's. */
static nng_msg *take_message(endpoint_slot *slot)
{
    nng_msg *message = nng_aio_get_msg(slot->aio);
    nng_aio_set_msg(slot->aio, NULL);
    return message;
}

static void run_finished(inbox_item *item)
{
    endpoint_slot *slot = of_finished(item);
    const endpoint_events *events = slot->endpoint->options.events;
    bool done = nng_aio_result(slot->aio) == 0;
    slot_state state = slot->state;
    void *owner = slot->owner;

    if (state == SENDING && done) {
        slot->state = RECEIVING;
        nng_ctx_recv(slot->context, slot->aio);
        events->sent(owner);
        return;
    }
    nng_msg *message = state == SENDING || done ? take_message(slot) : NULL;
    make_idle(slot);
    if (state == SENDING)
        events->unsent(owner);
    else if (state == RECEIVING && done)
        events->reply(owner, nng_msg_body(message), nng_msg_len(message));
    else if (state == RECEIVING)
        events->lost(owner);
    nng_msg_free(message);
}

static void slot_free(endpoint_slot *slot)
{
    if (slot->aio != NULL) {
        nng_aio_stop(slot->aio);
        /* What finished, and was not run any more. */
        bool done = nng_aio_result(slot->aio) == 0;
        if (slot->state != IDLE && done == (slot->state != SENDING))
            nng_msg_free(take_message(slot));
        nng_ctx_close(slot->context);
        nng_aio_free(slot->aio);
    }
    free(slot);
}

static endpoint_slot *slot_new(struct endpoint *endpoint)
{
    endpoint_slot *slot = malloc(sizeof *slot);
    if (slot == NULL)
        return NULL;
    *slot = (endpoint_slot){.finished = {.run = run_finished}, .endpoint = endpoint, .state = IDLE};
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
    return slot;
failed:
    free(slot);
    return NULL;
}

static endpoint_slot *take_idle(struct endpoint *endpoint)
{
    endpoint_slot *slot = endpoint->idle;

    if (slot != NULL) {
        endpoint->idle = slot->next_idle;
        return slot;
    }
    slot = slot_new(endpoint);
    if (slot != NULL)
        endpoint->slots[endpoint->n_slots++] = slot;
    return slot;
}

const char *endpoint_url(const struct endpoint *endpoint)
{
    return endpoint->url;
}

bool endpoint_connected(const struct endpoint *endpoint)
{
    return endpoint->connected;
}

bool endpoint_has_room(const struct endpoint *endpoint, endpoint_lane lane)
{
    uint32_t max = endpoint->options.in_flight_max;
    uint32_t waiting = endpoint->in_flight[ENDPOINT_WAITING];

    if (lane == ENDPOINT_WAITING && max > 1 && waiting >= max - (max + 3) / 4)
        return false;
    return waiting + endpoint->in_flight[ENDPOINT_PROMPT] < max;
}

endpoint_slot *endpoint_send(struct endpoint *endpoint, endpoint_lane lane, nng_msg *message, void *owner)
{
    endpoint_slot *slot = take_idle(endpoint);
    if (slot == NULL)
        return NULL;
    slot->state = SENDING;
    slot->lane = lane;
    slot->owner = owner;
    endpoint->in_flight[lane]++;
    nng_aio_set_msg(slot->aio, message);
    nng_ctx_send(slot->context, slot->aio);
    return slot;
}

void endpoint_withdraw(endpoint_slot *slot)
{
    nng_aio_cancel(slot->aio);
}

void endpoint_forget(endpoint_slot *slot)
{
    slot->state = FORGOTTEN;
    slot->owner = NULL;
    nng_aio_cancel(slot->aio);
}

/* ---- opening and closing ---------------------------------------------------- */

/* What nng calls the "nng+tcp://host:port" or "nng+ws://host:port/path". */
static const char *address_of(const char *url, lks_error *error)
{
    static const char *const schemes[] = {"nng+tcp://", "nng+ws://"};
    const char *end = strstr(url, "://");

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            return url + strlen("nng+");
    if (end == NULL)
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                      "urls: no scheme; nng+tcp://HOST:PORT and nng+ws://HOST:PORT/PATH are known");
    else
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                      "urls: unknown scheme %.*s; nng+tcp and nng+ws are known",
                      end - url > 32 ? 32 : (int)(end - url), url);
    return NULL;
}

/* nng takes an address without a host or a port, and then never connects. */
static bool names_host_and_port(const char *address)
{
    struct nng_url *parsed;

    if (nng_url_parse(&parsed, address) != 0)
        return false;
    bool named = parsed->u_hostname[0] != '\0' && parsed->u_port[0] != '\0' &&
                 strspn(parsed->u_port, "0123456789") == strlen(parsed->u_port) &&
                 strtol(parsed->u_port, NULL, 10) >= 1 && strtol(parsed->u_port, NULL, 10) <= 65535;
    nng_url_free(parsed);
    return named;
}

static int dial(struct endpoint *endpoint, const char *address)
{
    nng_dialer dialer;
    int failed = nng_dialer_create(&dialer, endpoint->socket, address);

    if (failed != 0)
        return failed;
    /* Not every transport has it. */
    nng_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true);
    return nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
}

lks_code endpoint_open(const char *url, size_t len, const endpoint_options *options, struct endpoint **ret,
                       lks_error *error)
{
    lks_code code;
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    int failed = NNG_ENOMEM;

    if (endpoint == NULL)
        goto out_of_memory;
    endpoint->options = *options;
    endpoint->changed.run = run_changed;
    atomic_init(&endpoint->changed_pushed, false);
    atomic_init(&endpoint->standing, 0);
    endpoint->slots = calloc(options->in_flight_max, sizeof(endpoint_slot *));
    endpoint->url = strndup(url, len);
    if (endpoint->slots == NULL || endpoint->url == NULL)
        goto out_of_memory;

    const char *address = address_of(endpoint->url, error);
    if (address == NULL) {
        code = LKS_INVALID_ARGUMENT;
        goto cleanup;
    }
    if (!names_host_and_port(address)) {
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: not a URL with host and port");
        goto cleanup;
    }
    failed = nng_req0_open(&endpoint->socket);
    if (failed != 0)
        goto out_of_memory;
    endpoint->socket_open = true;
    if ((failed = nng_socket_set_size(endpoint->socket, NNG_OPT_RECVMAXSZ, options->message_bytes_max)) != 0 ||
        (failed = nng_socket_set_ms(endpoint->socket, NNG_OPT_RECONNMINT, RECONNECT_MS_MIN)) != 0 ||
        (failed = nng_socket_set_ms(endpoint->socket, NNG_OPT_RECONNMAXT, RECONNECT_MS_MAX)) != 0 ||
        (failed = nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, endpoint)) != 0 ||
        (failed = nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_ADD_POST, on_pipe, endpoint)) != 0 ||
        (failed = nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_REM_POST, on_pipe, endpoint)) != 0 ||
        (failed = dial(endpoint, address)) != 0) {
        if (failed == NNG_ENOMEM)
            goto out_of_memory;
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: %s", nng_strerror(failed));
        goto cleanup;
    }
    *ret = endpoint;
    return LKS_OK;
out_of_memory:
    code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot open a connection: %s",
                         nng_strerror(failed));
cleanup:
    endpoint_close(endpoint);
    return code;
}

void endpoint_close(struct endpoint *endpoint)
{
    if (endpoint == NULL)
        return;
    for (size_t i = 0; i < endpoint->n_slots; i++)
        slot_free(endpoint->slots[i]);
    if (endpoint->socket_open)
        nng_close(endpoint->socket);
    free(endpoint->slots);
    free(endpoint->url);
    free(endpoint);
}
