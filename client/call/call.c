/* Invariant: a call lives while it has references: the loop thread's until its completion
 * ran, the user's until lks_call_free, one of each wait and of a cancel under way. What
 * the loop thread does with it is in tries.c. */
#include "client/call/call.h"
#include "client/loop/forks.h"

#include <stdlib.h>

#include "base/clock.h"

enum { QUEUE_PART = 2 }; /* of its time, a call may queue here one part in so many; the rest is the server's */

static void unref(lks_call *call)
{
    if (atomic_fetch_sub(&call->references, 1) != 1)
        return;
    lks_message_free(call->response);
    free(call->request);
    free(call->cause);
    pthread_cond_destroy(&call->finished);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

/* ---- on the loop thread ------------------------------------------------------- */

static void run_start(loop_task *task)
{
    call_begin((lks_call *)((char *)task - offsetof(lks_call, start)));
}

static void run_cancel(loop_task *task)
{
    lks_call *call = (lks_call *)((char *)task - offsetof(lks_call, cancel));

    call_cancel(call, "cancelled by the caller");
    unref(call);
}

void call_complete(lks_call *call)
{
    if (call->done)
        call->done(call->function, call->arg, call->error.code, call->response, &call->error);
    pthread_mutex_lock(&call->lock);
    call->complete = true;
    pthread_mutex_unlock(&call->lock);
    pthread_cond_broadcast(&call->finished); /* not under the lock, on which whoever wakes would sleep again */
    unref(call);
}

/* ---- on the caller's thread ------------------------------------------------------- */

static lks_call *call_new(lks_channel *channel, struct request *request, unsigned references)
{
    lks_call *call = malloc(sizeof *call);
    if (!call)
        return NULL;
    *call = (lks_call){
        .request = request,
        .start = {.run = run_start},
        .forks = channel->forks,
        .references = references,
        .channel = channel,
        .cancel = {.run = run_cancel},
        .state = CALL_STARTED,
        .applied = LKS_APPLIED_NO,
    };
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->finished, NULL);
    return call;
}

/* A call that takes and would stay in the queue for too long is of no use there; it costs its caller nothing more. */
static bool queues_too_long(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                            const lks_call_options *options)
{
    uint64_t queue_ns = atomic_load(&channel->queue_ns);
    uint32_t timeout_ms = options && options->timeout_ms ? options->timeout_ms : channel->options.timeout_ms;

    return pace_too_long(queue_ns, timeout_ms * CLOCK_NS_PER_MS, QUEUE_PART) && lks_rpc_wait_ms(method, message) == 0;
}

/* An admitted call that is not started yet. */
static lks_code prepare(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                        const lks_call_options *options, unsigned references, lks_call **ret, lks_error *error)
{
    struct request *request = NULL;
    bool insists = method->settles || (options && options->insist);

    if (!insists && queues_too_long(channel, method, message, options))
        return lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_MANY_CALLS,
                                    "calls queue in this channel for too long");
    lks_code code = channel_admit(channel, insists, error);
    if (code != LKS_OK)
        return code;

    code = request_new(method, message, options, &channel->options, &request, error);
    if (code != LKS_OK)
        goto cleanup;
    *ret = call_new(channel, request, references);
    if (*ret)
        return LKS_OK;
    code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
cleanup:
    free(request);
    channel_dismiss(channel);
    return code;
}

lks_code lks_call_start(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                        const lks_call_options *options, lks_call_done *done, lks_call_function *function, void *arg,
                        lks_call **ret, lks_error *error)
{
    lks_call *call;
    lks_code code = prepare(channel, method, message, options, ret ? 2 : 1, &call, error);

    if (code != LKS_OK)
        return code;
    call->done = done;
    call->function = function;
    call->arg = arg;
    if (ret)
        *ret = call; /* before the completion can run */
    if (error)
        *error = (lks_error){.code = LKS_OK};
    channel_start(channel, call);
    return LKS_OK;
}

lks_code lks_call_run(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                      const lks_call_options *options, ProtobufCMessage **ret, lks_error *error)
{
    lks_call *call;

    if (channel_on_completion_thread())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "a synchronous call on the completion thread");
    lks_code code = prepare(channel, method, message, options, 2, &call, error);
    if (code != LKS_OK)
        return code;
    channel_run(channel, call);
    code = lks_call_wait(call, error);
    if (code == LKS_OK && ret) {
        *ret = call->response;
        call->response = NULL;
    }
    lks_call_free(call);
    return code;
}

lks_code lks_call_wait(lks_call *call, lks_error *error)
{
    if (channel_on_completion_thread())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "a wait on the completion thread");
    if (call->forks != forks_so_far())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "the call belongs to the process before the fork");
    atomic_fetch_add(&call->references, 1);
    pthread_mutex_lock(&call->lock);
    while (!call->complete)
        pthread_cond_wait(&call->finished, &call->lock);
    pthread_mutex_unlock(&call->lock);
    if (error)
        *error = call->error;
    lks_code code = call->error.code;
    unref(call);
    return code;
}

const ProtobufCMessage *lks_call_response(const lks_call *call)
{
    return atomic_load(&call->settled) ? call->response : NULL;
}

void lks_call_cancel(lks_call *call)
{
    if (call->forks != forks_so_far())
        return;
    pthread_mutex_lock(&call->lock);
    if (call->channel && !call->cancelling) {
        call->cancelling = true;
        atomic_fetch_add(&call->references, 1);
        loop_post(&call->channel->loop, &call->cancel);
    }
    pthread_mutex_unlock(&call->lock);
}

void lks_call_free(lks_call *call)
{
    if (call)
        unref(call);
}

void lks_message_free(ProtobufCMessage *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}
