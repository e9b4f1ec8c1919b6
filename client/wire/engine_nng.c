/* The engine for nng+tcp:// and nng+ws://: REQ sockets of libnng with one dialer each, and a pool of contexts, one
 * for each message under way. libnng removes a message from its context only when a connection takes it: no server has
 * seen one that is still there. docs/client.md lists the faults of libnng 1.5.2; because of them a socket that lost its
 * connection is replaced.
 *
 * Invariant: libnng's threads post finished operations to the loop and record which pipe is up; the loop thread does
 * everything else. An operation is in `busy` from its send until the task that ends it has run; its slot may have left
 * it before. */
#include "client/wire/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/number.h"
#include "base/thread.h"

enum { RECONNECT_MS_MIN = 20, RECONNECT_MS_MAX = 1000, URL_BYTES = 1024, CLOSE_MS = 2000 };

/* IDLE --> SENDING --> RECEIVING --> IDLE; SENDING --> IDLE */
typedef enum operation_state { OPERATION_IDLE, OPERATION_SENDING, OPERATION_RECEIVING } operation_state;

typedef struct operation {
    loop_task finished;
    TAILQ_ENTRY(operation) in_list; /* of its socket */
    struct req_socket *socket;
    operation_state state;
    slot *slot; /* NULL: no call waits for it */
    nng_ctx context;
    nng_aio *aio;
} operation;

/* A socket, which exists until libnng has closed it. That may never happen. */
typedef struct req_socket {
    struct link *link;
    nng_socket socket;
    nng_dialer dialer;
    TAILQ_HEAD(operations, operation) idle, busy;
    loop_task changed;               /* `standing` has changed */
    loop_task last;                  /* of a retired socket: its last task */
    TAILQ_ENTRY(req_socket) in_list; /* of retired sockets, then of those to close */

    pthread_mutex_t lock;         /* for the members below, which libnng's threads use */
    uint32_t announced, standing; /* pipes; 0 = none */
    bool posted;                  /* `changed` has not run yet */
    bool retired;                 /* `changed` is not posted any more */
} req_socket;

typedef TAILQ_HEAD(req_sockets, req_socket) req_sockets;

typedef struct nng {
    req_socket *current; /* NULL: not connecting */
    req_sockets retired; /* until `last` ran */
} nng;

/* ---- closing sockets ------------------------------------------------------------------------- */

/* nng_close may hang for the rest of the process (docs/client.md). So one thread of the process closes one socket after
 * the other, and runs while there are any. */
static pthread_mutex_t closing_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t closed_one = PTHREAD_COND_INITIALIZER;
static req_sockets closing = TAILQ_HEAD_INITIALIZER(closing);
static bool closer_runs, closer_hangs; /* hangs: from a wait that timed out until a socket is closed */

static void *close_all(void *arg)
{
    req_socket *r;

    (void)arg;
    pthread_mutex_lock(&closing_lock);
    while ((r = TAILQ_FIRST(&closing))) {
        pthread_mutex_unlock(&closing_lock);
        nng_close(r->socket);
        pthread_mutex_lock(&closing_lock);
        TAILQ_REMOVE(&closing, r, in_list);
        free(r);
        closer_hangs = false;
        pthread_cond_broadcast(&closed_one);
    }
    closer_runs = false;
    pthread_mutex_unlock(&closing_lock);
    return NULL;
}

static void close_later(req_socket *r)
{
    pthread_mutex_lock(&closing_lock);
    TAILQ_INSERT_TAIL(&closing, r, in_list);
    if (!closer_runs)
        closer_runs = thread_start(close_all, NULL); /* without a thread the next socket tries again */
    pthread_mutex_unlock(&closing_lock);
}

static void await_closed(void)
{
    const struct timespec until = clock_timespec(clock_in_ms(CLOSE_MS));
    int failed = 0;

    pthread_mutex_lock(&closing_lock);
    while (!TAILQ_EMPTY(&closing) && !closer_hangs && failed == 0)
        failed = pthread_cond_clockwait(&closed_one, &closing_lock, CLOCK_MONOTONIC, &until);
    closer_hangs = !TAILQ_EMPTY(&closing);
    pthread_mutex_unlock(&closing_lock);
}

/* ---- on libnng's threads ---------------------------------------------------------------- */

static void on_finished(void *arg)
{
    operation *o = arg;
    loop_post(o->socket->link->loop, &o->finished);
}

/* libnng may report that a pipe is gone before it reports that it was added. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    req_socket *r = arg;
    uint32_t id = (uint32_t)nng_pipe_id(pipe);

    pthread_mutex_lock(&r->lock);
    if (event == NNG_PIPE_EV_ADD_PRE) {
        r->announced = id;
    } else if (event == NNG_PIPE_EV_ADD_POST && r->announced == id) {
        r->standing = id;
    } else if (event == NNG_PIPE_EV_REM_POST && r->announced == id) {
        r->announced = 0;
        r->standing = 0;
    }
    if (!r->retired && !r->posted) {
        r->posted = true;
        loop_post(r->link->loop, &r->changed);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- sockets ------------------------------------------------------------------------------ */

/* Frees the message that a finished operation left in the aio: a request that was not sent, or a reply. */
static void free_message(operation *o)
{
    bool done = nng_aio_result(o->aio) == 0;

    if (o->state == OPERATION_IDLE || done == (o->state == OPERATION_SENDING))
        return;
    nng_msg_free(nng_aio_get_msg(o->aio));
    nng_aio_set_msg(o->aio, NULL);
}

static void operation_free(operation *o)
{
    nng_aio_stop(o->aio);
    free_message(o);
    nng_ctx_close(o->context);
    nng_aio_free(o->aio);
    free(o);
}

static void free_operations(struct operations *list)
{
    operation *o;

    while ((o = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, o, in_list);
        operation_free(o);
    }
}

static void retire(req_socket *r)
{
    pthread_mutex_lock(&r->lock);
    r->retired = true;
    pthread_mutex_unlock(&r->lock);
}

/* Closes the dialer, and with it the connection. */
static void dispose(req_socket *r)
{
    free_operations(&r->busy);
    free_operations(&r->idle);
    nng_dialer_close(r->dialer);
    close_later(r);
}

static void run_last(loop_task *task)
{
    req_socket *r = container_of(task, req_socket, last);

    TAILQ_REMOVE(&((nng *)r->link->transport)->retired, r, in_list);
    dispose(r);
}

static void run_changed(loop_task *task)
{
    req_socket *r = container_of(task, req_socket, changed);

    pthread_mutex_lock(&r->lock);
    r->posted = false;
    bool stands = r->standing != 0, retired = r->retired;
    pthread_mutex_unlock(&r->lock);
    if (retired)
        return;
    if (stands)
        link_up(r->link);
    else if (link_is_up(r->link))
        link_down(r->link, NULL);
}

static int dial(req_socket *r)
{
    nng_socket socket = r->socket;
    char url[URL_BYTES];
    int failed;

    snprintf(url, sizeof url, "%s%s", r->link->scheme, r->link->address);
    if ((failed = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, r->link->message_bytes_max)) != 0 ||
        (failed = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_MS_MIN)) != 0 ||
        (failed = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MS_MAX)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_pipe, r)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, on_pipe, r)) != 0 ||
        (failed = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_pipe, r)) != 0 ||
        (failed = nng_dialer_create(&r->dialer, socket, url)) != 0)
        return failed;
    nng_dialer_set_bool(r->dialer, NNG_OPT_TCP_KEEPALIVE, true); /* WebSocket does not have it */
    return nng_dialer_start(r->dialer, NNG_FLAG_NONBLOCK);
}

static lks_code begin_connect(struct link *link, lks_error *error)
{
    req_socket *r = calloc(1, sizeof *r);
    int failed = NNG_ENOMEM;

    if (!r || (failed = nng_req0_open(&r->socket)) != 0) {
        free(r);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot open a connection: %s",
                             nng_strerror(failed));
    }
    r->link = link;
    TAILQ_INIT(&r->idle);
    TAILQ_INIT(&r->busy);
    r->changed.run = run_changed;
    r->last.run = run_last;
    pthread_mutex_init(&r->lock, NULL);
    failed = dial(r);
    if (failed == 0) {
        ((nng *)link->transport)->current = r;
        return LKS_OK;
    }
    retire(r);
    dispose(r);
    if (failed == NNG_ENOMEM)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: %s", nng_strerror(failed));
}

/* Once its operations have ended, their tasks are posted; `last` runs after them. */
static void disconnect(struct link *link)
{
    nng *t = link->transport;
    req_socket *r = t->current;
    operation *o;

    if (!r)
        return;
    retire(r);
    t->current = NULL;
    TAILQ_INSERT_TAIL(&t->retired, r, in_list);
    TAILQ_FOREACH(o, &r->busy, in_list)
        nng_aio_stop(o->aio);
    loop_post(link->loop, &r->last);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void detach(slot *s)
{
    ((operation *)s->operation)->slot = NULL;
    s->operation = NULL;
}

static void run_sent(operation *o)
{
    o->state = OPERATION_RECEIVING;
    nng_ctx_recv(o->context, o->aio);
    if (o->slot->state == SLOT_SENDING)
        slot_sent(o->slot);
}

static void run_finished(loop_task *task)
{
    operation *o = container_of(task, operation, finished);
    req_socket *r = o->socket;
    slot *s = o->slot;
    bool done = nng_aio_result(o->aio) == 0, sending = o->state == OPERATION_SENDING;

    if (s && sending && done) {
        run_sent(o);
        return;
    }
    if (s) {
        detach(s);
        if (sending)
            slot_end(s, SLOT_UNSENT, NULL, 0);
        else if (done)
            slot_end(s, SLOT_REPLY, nng_msg_body(nng_aio_get_msg(o->aio)), nng_msg_len(nng_aio_get_msg(o->aio)));
        else
            slot_end(s, SLOT_LOST, NULL, 0);
    }
    free_message(o);
    o->state = OPERATION_IDLE;
    TAILQ_REMOVE(&r->busy, o, in_list);
    TAILQ_INSERT_HEAD(&r->idle, o, in_list);
    if (s && !sending && !done)
        link_down(r->link, NULL); /* libnng may never report it */
}

/* NULL when out of memory. */
static operation *operation_new(req_socket *r)
{
    operation *o = calloc(1, sizeof *o);

    if (!o || nng_ctx_open(&o->context, r->socket) != 0) {
        free(o);
        return NULL;
    }
    o->finished.run = run_finished;
    o->socket = r;
    /* Otherwise libnng would send the request again by itself, every minute and when the peer is lost, whether it may
     * be repeated or not. */
    if (nng_ctx_set_ms(o->context, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE) != 0 ||
        nng_aio_alloc(&o->aio, on_finished, o) != 0) {
        nng_ctx_close(o->context);
        free(o);
        return NULL;
    }
    nng_aio_set_timeout(o->aio, NNG_DURATION_INFINITE);
    TAILQ_INSERT_HEAD(&r->idle, o, in_list);
    return o;
}

static bool send_message(slot *s, message *m)
{
    req_socket *r = ((nng *)s->link->transport)->current;
    operation *o = TAILQ_EMPTY(&r->idle) ? operation_new(r) : TAILQ_FIRST(&r->idle);
    nng_msg *copy;

    if (!o || nng_msg_alloc(&copy, m->len) != 0)
        return false;
    memcpy(nng_msg_body(copy), message_body(m), m->len);
    free(m);
    o->state = OPERATION_SENDING;
    o->slot = s;
    s->operation = o;
    TAILQ_REMOVE(&r->idle, o, in_list);
    TAILQ_INSERT_HEAD(&r->busy, o, in_list);
    nng_aio_set_msg(o->aio, copy);
    nng_ctx_send(o->context, o->aio);
    return true;
}

/* libnng has taken the message, or gives it back; run_finished follows in both cases. */
static bool withdraw(slot *s)
{
    operation *o = s->operation;

    nng_aio_cancel(o->aio);
    nng_aio_wait(o->aio);
    if (nng_aio_result(o->aio) == 0)
        return false;
    detach(s);
    return true;
}

static void forget(slot *s)
{
    nng_aio_cancel(((operation *)s->operation)->aio);
    detach(s);
}

/* Not while answers are awaited: libnng would notice. */
static bool looks_dead(const struct link *link)
{
    const operation *o;

    TAILQ_FOREACH(o, &((nng *)link->transport)->current->busy, in_list)
        if (o->state == OPERATION_RECEIVING)
            return false;
    return true;
}

/* ---- the connection --------------------------------------------------------------------------- */

/* libnng accepts an address without a host or a port, and then never connects. */
static bool names_host_and_port(const char *scheme, const char *address)
{
    char url[URL_BYTES];
    struct nng_url *parsed;

    if ((size_t)snprintf(url, sizeof url, "%s%s", scheme, address) >= sizeof url || nng_url_parse(&parsed, url) != 0)
        return false;
    bool named = parsed->u_hostname[0] != '\0' && number_parse(parsed->u_port, strlen(parsed->u_port), UINT16_MAX) > 0;
    nng_url_free(parsed);
    return named;
}

static bool open_link(struct link *link)
{
    nng *t = calloc(1, sizeof *t);

    if (!t)
        return false;
    TAILQ_INIT(&t->retired);
    link->transport = t;
    return true;
}

static void close_link(struct link *link)
{
    nng *t = link->transport;
    req_socket *r;

    disconnect(link);
    while ((r = TAILQ_FIRST(&t->retired)))
        run_last(&r->last);
    free(t);
    await_closed();
}

const struct engine engine_nng = {
    .is_address = names_host_and_port,
    .open = open_link,
    .close = close_link,
    .connect = begin_connect,
    .disconnect = disconnect,
    .send = send_message,
    .withdraw = withdraw,
    .forget = forget,
    .looks_dead = looks_dead,
    .shares_room = true,
};
