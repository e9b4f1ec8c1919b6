/* Functions for a started call, on the threads of the program: wait, cancel, free. */
#include "client/call/call.h"

#include "base/clock.h"
#include "client/loop/forks.h"

bool lks_call_is_done(const lks_call *call)
{
    return call_state_of(call) == CALL_COMPLETE;
}

bool lks_call_wait_for(lks_call *call, uint32_t timeout_ms)
{
    const struct timespec until = clock_timespec(clock_in_ms(timeout_ms));

    if (channel_on_completion_thread() || call->driven || call->forks != forks_so_far())
        return lks_call_is_done(call);
    atomic_fetch_add(&call->references, 1);
    pthread_mutex_lock(&call->lock);
    while (call_state_of(call) != CALL_COMPLETE &&
           pthread_cond_clockwait(&call->finished, &call->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    bool done = call_state_of(call) == CALL_COMPLETE;
    pthread_mutex_unlock(&call->lock);
    call_unref(call);
    return done;
}

lks_code lks_call_wait(lks_call *call, lks_error *error)
{
    if (channel_on_completion_thread())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "waiting is not allowed on the completion thread");
    if (call->forks != forks_so_far())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "the call belongs to the process before the fork");
    if (call->driven && !lks_call_is_done(call))
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "waiting is not allowed for a call of a driven channel");
    atomic_fetch_add(&call->references, 1);
    pthread_mutex_lock(&call->lock);
    while (call_state_of(call) != CALL_COMPLETE)
        pthread_cond_wait(&call->finished, &call->lock);
    pthread_mutex_unlock(&call->lock);
    if (error)
        *error = call->error;
    lks_code code = call->error.code;
    call_unref(call);
    return code;
}

const ProtobufCMessage *lks_call_response(const lks_call *call)
{
    return call_state_of(call) >= CALL_SETTLED ? call->response : NULL;
}

static bool item_of(const lks_call *call, const call_metadata *from, size_t i, lks_metadata *ret)
{
    if (call_state_of(call) < CALL_SETTLED || i >= from->n)
        return false;
    *ret = from->items[i];
    return true;
}

bool lks_call_header(const lks_call *call, size_t i, lks_metadata *ret)
{
    return item_of(call, &call->headers, i, ret);
}

bool lks_call_trailer(const lks_call *call, size_t i, lks_metadata *ret)
{
    return item_of(call, &call->trailers, i, ret);
}

bool lks_call_detail(const lks_call *call, size_t i, lks_metadata *ret)
{
    return item_of(call, &call->details, i, ret);
}

const char *lks_call_text(const lks_call *call)
{
    if (call_state_of(call) < CALL_SETTLED)
        return "";
    return call->text ? call->text : call->error.message;
}

void lks_call_cancel(lks_call *call)
{
    if (call->forks != forks_so_far())
        return;
    pthread_mutex_lock(&call->lock);
    call_state state = call_state_of(call);
    if (state < CALL_SETTLED && !call->cancelled) {
        call->cancelled = true;
        if (state > CALL_STARTED) { /* otherwise run_start sees `cancelled` */
            call->cancel_posted = true;
            atomic_fetch_add(&call->references, 1);
            loop_post(&call->channel->loop, &call->cancel);
        }
    }
    pthread_mutex_unlock(&call->lock);
}

void lks_call_free(lks_call *call)
{
    if (call)
        call_unref(call);
}

void lks_message_free(ProtobufCMessage *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}
