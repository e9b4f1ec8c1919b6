/* The engine over libnng: a REQ socket with one dialer, and a pool of its contexts, one to
 * a slot. nng takes a message off a context only when a connection takes it: one that is
 * still there was not seen by anyone. What is wrong with it stands in docs/client.md.
 *
 * Invariant: nng's threads do two things here, they post a slot to the loop
 * and they note which connection stands; all else belongs to the loop thread. A slot
 * has at most one operation of nng under way, and is IDLE when it has none. */
#include "client/wire/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "client/wire/reaper.h"

enum { RECONNECT_MS_MIN = 20, RECONNECT_MS_MAX = 1000 };

typedef struct nng_slot {
    link_slot base;
    loop_task finished; /* the operation of `aio` */
    nng_ctx context;
    nng_aio *aio;
} nng_slot;

/* What nng's threads know of the socket's connection. It lives until nng has closed the
 * socket, which may be never. */
struct link_watch {
    struct reaper_item closing;
    pthread_mutex_t lock;
    uint32_t announced, standing; /* pipes; 0 = none */
    struct loop *loop;            /* NULL = nobody is interested any more */
    loop_signal *changed;
};

typedef struct nng_link {
    struct link base;
    struct link_watch *watch;
    nng_dialer dialer;
} nng_link;

static nng_link *nng_of(struct link *link)
{
    return (nng_link *)link;
}

/* ---- on nng's threads ------------------------------------------------------------ */

static void on_finished(void *arg)
{
    nng_slot *slot = arg;
    loop_post(slot->base.link->options.loop, &slot->finished);
}

/* A pipe may be reported gone before it is reported added: only one that was announced
 * and is not gone yet stands. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct link_watch *watch = arg;
    uint32_t id = (uint32_t)nng_pipe_id(pipe);

    pthread_mutex_lock(&watch->lock);
    if (event == NNG_PIPE_EV_ADD_PRE) {
        watch->announced = id;
    } else if (event == NNG_PIPE_EV_ADD_POST && watch->announced == id) {
        watch->standing = id;
    } else if (event == NNG_PIPE_EV_REM_POST && watch->announced == id) {
        watch->announced = 0;
        watch->standing = 0;
    }
    if (watch->loop)
        loop_raise(watch->loop, watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

/* ---- slots, on the loop thread ---------------------------------------------------- */

/* The message that a finished operation left in the aio, now the caller's. */
static nng_msg *take_message(nng_slot *slot)
{
    nng_msg *message = nng_aio_get_msg(slot->aio);
    nng_aio_set_msg(slot->aio, NULL);
    return message;
}

static void run_finished(loop_task *task)
{
    nng_slot *slot = (nng_slot *)((char *)task - offsetof(nng_slot, finished));
    bool done = nng_aio_result(slot->aio) == 0;
    link_outcome outcome = LINK_FORGOTTEN;
    nng_msg *message = NULL;

    if (slot->base.state == LINK_SLOT_SENDING && done) {
        nng_ctx_recv(slot->context, slot->aio);
        link_sent(&slot->base);
        return;
    }
    if (slot->base.state == LINK_SLOT_SENDING)
        outcome = LINK_UNSENT;
    if (slot->base.state == LINK_SLOT_AWAITING)
        outcome = done ? LINK_REPLY : LINK_LOST;
    if (outcome == LINK_UNSENT || done)
        message = take_message(slot);
    if (outcome == LINK_REPLY)
        link_slot_over(&slot->base, outcome, nng_msg_body(message), nng_msg_len(message));
    else
        link_slot_over(&slot->base, outcome, NULL, 0);
    nng_msg_free(message);
}

static link_slot *open_slot(struct link *link)
{
    nng_slot *slot = malloc(sizeof *slot);
    if (!slot)
        return NULL;
    *slot = (nng_slot){.base = {.link = link}, .finished = {.run = run_finished}};
    if (nng_ctx_open(&slot->context, nng_of(link)->watch->closing.socket) != 0)
        goto failed;
    /* nng would send the request again on its own, every minute and when the peer is
     * lost, whether it may be repeated or not. */
    if (nng_ctx_set_ms(slot->context, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE) != 0 ||
        nng_aio_alloc(&slot->aio, on_finished, slot) != 0) {
        nng_ctx_close(slot->context);
        goto failed;
    }
    nng_aio_set_timeout(slot->aio, NNG_DURATION_INFINITE);
    return &slot->base;
failed:
    free(slot);
    return NULL;
}

static void close_slot(nng_slot *slot)
{
    nng_aio_stop(slot->aio);
    /* What finished, and was not run any more. */
    bool done = nng_aio_result(slot->aio) == 0;
    if (slot->base.state != LINK_SLOT_IDLE && done == (slot->base.state != LINK_SLOT_SENDING))
        nng_msg_free(take_message(slot));
    nng_ctx_close(slot->context);
    nng_aio_free(slot->aio);
    free(slot);
}

static bool send_message(link_slot *base, link_message *message)
{
    nng_slot *slot = (nng_slot *)base;
    nng_msg *copy;

    if (nng_msg_alloc(&copy, message->len) != 0)
        return false;
    memcpy(nng_msg_body(copy), link_message_body(message), message->len);
    free(message);
    nng_aio_set_msg(slot->aio, copy);
    nng_ctx_send(slot->context, slot->aio);
    return true;
}

static void cancel(link_slot *slot)
{
    nng_aio_cancel(((nng_slot *)slot)->aio);
}

/* ---- the link ------------------------------------------------------------------------ */

/* nng takes an address without a host or a port, and then never connects. */
static bool names_host_and_port(const char *scheme, const char *address)
{
    char url[1024];
    struct nng_url *parsed;

    if ((size_t)snprintf(url, sizeof url, "%s%s", scheme, address) >= sizeof url || nng_url_parse(&parsed, url) != 0)
        return false;
    long port = strspn(parsed->u_port, "0123456789") == strlen(parsed->u_port) ? strtol(parsed->u_port, NULL, 10) : 0;
    bool named = parsed->u_hostname[0] != '\0' && port >= 1 && port <= 65535;
    nng_url_free(parsed);
    return named;
}

static link_state state_of(const struct link *link)
{
    struct link_watch *watch = ((const nng_link *)link)->watch;

    pthread_mutex_lock(&watch->lock);
    bool stands = watch->standing != 0;
    pthread_mutex_unlock(&watch->lock);
    return stands ? LINK_UP : LINK_CONNECTING;
}

static int dial(nng_link *link)
{
    const link_options *options = &link->base.options;
    nng_socket socket = link->watch->closing.socket;
    char url[1024];
    int failed;

    snprintf(url, sizeof url, "%s%s", options->scheme, options->address);
    if ((failed = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, options->message_bytes_max)) != 0 ||
        (failed = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_MS_MIN)) != 0 ||
        (failed = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MS_MAX)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_pipe, link->watch)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, on_pipe, link->watch)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_pipe, link->watch)) != 0 ||
        (failed = nng_dialer_create(&link->dialer, socket, url)) != 0)
        return failed;
    nng_dialer_set_bool(link->dialer, NNG_OPT_TCP_KEEPALIVE, true); /* WebSocket does not have it */
    return nng_dialer_start(link->dialer, NNG_FLAG_NONBLOCK);
}

static lks_code open_link(const link_options *options, struct link **ret, lks_error *error)
{
    struct link *base = link_new(sizeof(nng_link), options);
    struct link_watch *watch = calloc(1, sizeof *watch);
    int failed = NNG_ENOMEM;

    if (!base || !watch || (failed = nng_req0_open(&watch->closing.socket)) != 0) {
        if (base)
            free(base->slots);
        free(base);
        free(watch);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot open a connection: %s",
                             nng_strerror(failed));
    }
    pthread_mutex_init(&watch->lock, NULL);
    watch->loop = options->loop;
    watch->changed = options->changed;
    nng_of(base)->watch = watch;
    failed = dial(nng_of(base));
    if (failed == 0) {
        *ret = base;
        return LKS_OK;
    }
    link_close(base);
    if (failed == NNG_ENOMEM)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: %s", nng_strerror(failed));
}

static void close_link(struct link *base)
{
    nng_link *link = nng_of(base);

    for (size_t i = 0; i < base->n_slots; i++)
        close_slot((nng_slot *)base->slots[i]);
    pthread_mutex_lock(&link->watch->lock);
    link->watch->loop = NULL;
    pthread_mutex_unlock(&link->watch->lock);
    nng_dialer_close(link->dialer); /* and the connection: the socket may have to wait, even for good */
    reaper_close(&link->watch->closing);
}

const struct link_engine link_nng = {
    .is_address = names_host_and_port,
    .open = open_link,
    .close = close_link,
    .state = state_of,
    .slot_new = open_slot,
    .send = send_message,
    .withdraw = cancel,
    .forget = cancel,
    .shares_room = true,
    .overlooks_losses = true,
};
