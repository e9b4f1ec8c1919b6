/* Invariant: nng's threads do two things here, they push a slot into the driver's inbox
 * and they note which connection stands; all else belongs to the driver thread. A slot
 * has at most one operation of nng under way, and is IDLE when it has none. */
#include "link.h"

#include <stdlib.h>

#include <nng/protocol/reqrep0/req.h>

#include "grave.h"

enum { RECONNECT_MS_MIN = 20, RECONNECT_MS_MAX = 1000 };

/* What nng's threads know of the socket's connection. It lives until nng has closed the
 * socket, which may be never. */
struct link_watch {
    struct grave grave;
    pthread_mutex_t lock;
    uint32_t announced, standing; /* pipes; 0 = none */
    struct inbox *inbox;          /* NULL = nobody is interested any more */
    inbox_signal *changed;
};

/* ---- on nng's threads ------------------------------------------------------------ */

static void on_finished(void *arg)
{
    link_slot *slot = arg;
    inbox_push(slot->link->options.inbox, &slot->finished);
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
    if (watch->inbox != NULL)
        inbox_raise(watch->inbox, watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

/* ---- slots, on the driver thread ---------------------------------------------------- */

/* The message that a finished operation left in the aio, now the caller's. */
static nng_msg *take_message(link_slot *slot)
{
    nng_msg *message = nng_aio_get_msg(slot->aio);
    nng_aio_set_msg(slot->aio, NULL);
    return message;
}

static void run_finished(inbox_item *item)
{
    link_slot *slot = (link_slot *)((char *)item - offsetof(link_slot, finished));
    struct link *link = slot->link;
    const link_options *options = &link->options;
    bool done = nng_aio_result(slot->aio) == 0;
    link_outcome outcome = LINK_FORGOTTEN;
    nng_msg *message = NULL;

    if (slot->state == LINK_SLOT_SENDING && done) {
        slot->state = LINK_SLOT_AWAITING;
        link->awaiting++;
        nng_ctx_recv(slot->context, slot->aio);
        options->outcome(options->arg, slot, LINK_SENT, NULL, 0);
        return;
    }
    if (slot->state == LINK_SLOT_SENDING)
        outcome = LINK_UNSENT;
    else
        link->awaiting--;
    if (slot->state == LINK_SLOT_AWAITING)
        outcome = done ? LINK_REPLY : LINK_LOST;
    if (outcome == LINK_UNSENT || done)
        message = take_message(slot);
    slot->state = LINK_SLOT_IDLE;
    slot->next_idle = link->idle;
    link->idle = slot;
    link->in_use--;
    if (outcome == LINK_REPLY)
        options->outcome(options->arg, slot, outcome, nng_msg_body(message), nng_msg_len(message));
    else
        options->outcome(options->arg, slot, outcome, NULL, 0);
    nng_msg_free(message);
}

static link_slot *slot_new(struct link *link)
{
    link_slot *slot = malloc(sizeof *slot);
    if (slot == NULL)
        return NULL;
    *slot = (link_slot){.link = link, .finished = {.run = run_finished}};
    if (nng_ctx_open(&slot->context, link->watch->grave.socket) != 0)
        goto failed;
    /* nng would send the request again on its own, every minute and when the peer is
     * lost, whether it may be repeated or not. */
    if (nng_ctx_set_ms(slot->context, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE) != 0 ||
        nng_aio_alloc(&slot->aio, on_finished, slot) != 0) {
        nng_ctx_close(slot->context);
        goto failed;
    }
    nng_aio_set_timeout(slot->aio, NNG_DURATION_INFINITE);
    link->slots[link->n_slots++] = slot;
    return slot;
failed:
    free(slot);
    return NULL;
}

static void slot_free(link_slot *slot)
{
    nng_aio_stop(slot->aio);
    /* What finished, and was not run any more. */
    bool done = nng_aio_result(slot->aio) == 0;
    if (slot->state != LINK_SLOT_IDLE && done == (slot->state != LINK_SLOT_SENDING))
        nng_msg_free(take_message(slot));
    nng_ctx_close(slot->context);
    nng_aio_free(slot->aio);
    free(slot);
}

link_slot *link_send(struct link *link, nng_msg *message, int lane, void *owner)
{
    link_slot *slot = link->idle;

    if (slot != NULL)
        link->idle = slot->next_idle;
    else if ((slot = slot_new(link)) == NULL)
        return NULL;
    slot->state = LINK_SLOT_SENDING;
    slot->lane = lane;
    slot->owner = owner;
    link->in_use++;
    nng_aio_set_msg(slot->aio, message);
    nng_ctx_send(slot->context, slot->aio);
    return slot;
}

void link_withdraw(link_slot *slot)
{
    nng_aio_cancel(slot->aio);
}

void link_forget(link_slot *slot)
{
    slot->state = LINK_SLOT_FORGOTTEN;
    slot->owner = NULL;
    nng_aio_cancel(slot->aio);
}

void link_withdraw_all(struct link *link)
{
    for (size_t i = 0; i < link->n_slots; i++)
        if (link->slots[i]->state == LINK_SLOT_SENDING)
            link_withdraw(link->slots[i]);
}

/* ---- the link ------------------------------------------------------------------------ */

bool link_connected(const struct link *link)
{
    pthread_mutex_lock(&link->watch->lock);
    bool stands = link->watch->standing != 0;
    pthread_mutex_unlock(&link->watch->lock);
    return stands;
}

static int dial(struct link *link)
{
    nng_socket socket = link->watch->grave.socket;
    int failed;

    if ((failed = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, link->options.message_bytes_max)) != 0 ||
        (failed = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_MS_MIN)) != 0 ||
        (failed = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MS_MAX)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_pipe, link->watch)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, on_pipe, link->watch)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_pipe, link->watch)) != 0 ||
        (failed = nng_dialer_create(&link->dialer, socket, link->options.address)) != 0)
        return failed;
    nng_dialer_set_bool(link->dialer, NNG_OPT_TCP_KEEPALIVE, true); /* WebSocket does not have it */
    return nng_dialer_start(link->dialer, NNG_FLAG_NONBLOCK);
}

lks_code link_open(const link_options *options, struct link **ret, lks_error *error)
{
    struct link *link = calloc(1, sizeof *link);
    struct link_watch *watch = calloc(1, sizeof *watch);
    link_slot **slots = calloc(options->slots_max, sizeof *slots);
    int failed = NNG_ENOMEM;

    if (link == NULL || watch == NULL || slots == NULL || (failed = nng_req0_open(&watch->grave.socket)) != 0) {
        free(link);
        free(watch);
        free(slots);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot open a connection: %s",
                             nng_strerror(failed));
    }
    pthread_mutex_init(&watch->lock, NULL);
    watch->inbox = options->inbox;
    watch->changed = options->changed;
    *link = (struct link){.options = *options, .watch = watch, .slots = slots};
    failed = dial(link);
    if (failed == 0) {
        *ret = link;
        return LKS_OK;
    }
    link_close(link);
    if (failed == NNG_ENOMEM)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: %s", nng_strerror(failed));
}

void link_close(struct link *link)
{
    if (link == NULL)
        return;
    for (size_t i = 0; i < link->n_slots; i++)
        slot_free(link->slots[i]);
    pthread_mutex_lock(&link->watch->lock);
    link->watch->inbox = NULL;
    pthread_mutex_unlock(&link->watch->lock);
    nng_dialer_close(link->dialer); /* and the connection: the socket may have to wait, even for good */
    grave_bury(&link->watch->grave);
    free(link->slots);
    free(link);
}
