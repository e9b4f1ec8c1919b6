/* Invariant: a call is one REQ context and one aio; the aio's callback, on a thread of
 * libnng, only moves it to the answered ones. Nothing of libnng is changed or guessed. */
#include "conformance/caller.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "conformance/sp_frame.h"

enum { TIMEOUT_S = 30 };

typedef struct nng_caller nng_caller;

typedef struct nng_call {
    nng_caller *from;
    struct nng_call *next; /* of all calls */
    struct nng_call *next_answered;
    unsigned number;
    nng_ctx context;
    nng_aio *aio;
    bool sent;
} nng_call;

struct nng_caller {
    nng_socket socket;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    nng_call *calls, *answered, *last_answered;
    unsigned last_number;
};

static void on_step(void *arg)
{
    nng_call *call = arg;
    nng_caller *c = call->from;

    if (!call->sent && nng_aio_result(call->aio) == 0) {
        call->sent = true;
        nng_ctx_recv(call->context, call->aio);
        return;
    }
    pthread_mutex_lock(&c->mutex);
    if (c->last_answered)
        c->last_answered->next_answered = call;
    else
        c->answered = call;
    c->last_answered = call;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

static void address_of(const char *url, char *out, size_t size)
{
    if (strncmp(url, "unix://", 7) == 0)
        snprintf(out, size, "ipc://%s", url + 7);
    else
        snprintf(out, size, "%s", strncmp(url, "nng+", 4) == 0 ? url + 4 : url);
}

static void *open_caller(const char *url, const char *certificate)
{
    nng_caller *c = calloc(1, sizeof *c);
    pthread_condattr_t monotonic;
    char address[256];

    if (!c)
        abort();
    address_of(url, address, sizeof address);
    if (nng_req0_open(&c->socket) != 0)
        abort();
    pthread_mutex_init(&c->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (nng_dial(c->socket, address, NULL, 0) != 0) {
        nng_close(c->socket);
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->mutex);
        free(c);
        return NULL;
    }
    return c;
}

static unsigned start(void *caller, const call_spec *spec)
{
    nng_caller *c = caller;
    nng_call *call = calloc(1, sizeof *call);
    nng_msg *message;
    size_t len;
    uint8_t *frame = sp_frame_of(spec, &len);

    if (!call || nng_msg_alloc(&message, 0) != 0 || nng_msg_append(message, frame, len) != 0 ||
        nng_ctx_open(&call->context, c->socket) != 0 || nng_aio_alloc(&call->aio, on_step, call) != 0)
        abort();
    free(frame);
    nng_ctx_set_ms(call->context, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
    call->from = c;
    call->number = ++c->last_number;
    call->next = c->calls;
    c->calls = call;
    nng_aio_set_msg(call->aio, message);
    nng_ctx_send(call->context, call->aio);
    return call->number;
}

static bool await(void *caller, outcome *ret)
{
    nng_caller *c = caller;
    struct timespec limit;

    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += TIMEOUT_S;
    pthread_mutex_lock(&c->mutex);
    while (!c->answered && pthread_cond_timedwait(&c->changed, &c->mutex, &limit) == 0) {
    }
    nng_call *call = c->answered;
    if (call) {
        c->answered = call->next_answered;
        if (!c->answered)
            c->last_answered = NULL;
    }
    pthread_mutex_unlock(&c->mutex);
    if (!call || nng_aio_result(call->aio) != 0)
        return false;
    nng_msg *message = nng_aio_get_msg(call->aio);
    nng_aio_set_msg(call->aio, NULL);
    bool whole = sp_outcome_of(nng_msg_body(message), nng_msg_len(message), ret);
    ret->call = call->number;
    nng_msg_free(message);
    return whole;
}

/* Aios are stopped first, one call after the other: then no callback runs any more. */
static void close_caller(void *caller)
{
    nng_caller *c = caller;
    nng_call *call, *next;

    for (call = c->calls; call; call = call->next)
        nng_aio_stop(call->aio);
    for (call = c->calls; call; call = next) {
        next = call->next;
        nng_msg_free(nng_aio_get_msg(call->aio));
        nng_ctx_close(call->context);
        nng_aio_free(call->aio);
        free(call);
    }
    nng_close(c->socket);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

const wire_driver nng_driver = {.open = open_caller, .start = start, .await = await, .close = close_caller};
