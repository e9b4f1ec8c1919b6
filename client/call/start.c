/* Starts calls, on the threads of the program. */
#include <stdlib.h>

#include <lockstock/rpc/options.h>

#include "client/call/call.h"
#include "client/wire/request.h"

/* Admits and makes a call that is not started yet. */
static lks_code make(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                     const lks_call_options *options, unsigned references, lks_call **ret, lks_error *error)
{
    struct request *request = NULL;
    bool insists = method->settles || options->insist;

    if (!insists && channel_is_slow(channel, options->timeout_ms) && lks_rpc_wait_ms(method, message) == 0)
        return lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_MANY_CALLS,
                                    "the queue of this channel is too slow for the call's deadline");
    lks_code code = channel_admit(channel, insists, error);
    if (code != LKS_OK)
        return code;

    code = request_new(method, message, options, &channel->options, &request, error);
    if (code != LKS_OK)
        goto cleanup;
    *ret = call_new(channel, request, references);
    if (*ret && call_follow(*ret, options->context))
        return LKS_OK;
    if (*ret) {
        atomic_store(&(*ret)->references, 1);
        call_unref(*ret);
        request = NULL;
        code = lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "options.context: its call was cancelled");
        goto cleanup;
    }
    code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
cleanup:
    request_free(request);
    channel_dismiss(channel);
    return code;
}

/* Asks the interceptors first. */
static lks_code prepare(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                        const lks_call_options *options, size_t options_bytes, unsigned references, lks_call **ret,
                        lks_error *error)
{
    intercepted state = {.n = 0};
    lks_call_options own;
    lks_error ours;
    lks_code code = lks_rpc_options_read(&own, sizeof own, options, options_bytes, "lks_call_options", error);

    if (code != LKS_OK)
        return code;
    error = error ? error : &ours;
    code = intercept_before(channel, &state, method, message, &own, error);
    if (code == LKS_OK)
        code = make(channel, method, message, &own, references, ret, error);
    if (code == LKS_OK) {
        (*ret)->intercepted = state;
        return LKS_OK;
    }
    intercept_after(channel, &state, method, NULL, error);
    free(state.own);
    return code;
}

lks_code lks_call_start_sized(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                              const lks_call_options *options, size_t options_bytes, lks_call_done *done,
                              lks_call_function *function, void *arg, lks_call **ret, lks_error *error)
{
    lks_call *call;
    lks_code code = prepare(channel, method, message, options, options_bytes, ret ? 2 : 1, &call, error);

    if (code != LKS_OK)
        return code;
    call->done = done;
    call->function = function;
    call->arg = arg;
    if (ret)
        *ret = call; /* before the completion can run */
    lks_error_clear(error);
    channel_start(channel, &call->start);
    return LKS_OK;
}

/* Starts a call without `done` that this thread waits for. If this thread can send it, it also reads the answer, as
 * long as there is no other work. The call may be complete afterwards. */
static void run(lks_channel *channel, lks_call *call)
{
    if (!channel_enter(channel, &call->start))
        return;
    while (call_state_of(call) == CALL_AWAITING)
        if (!channel_read(channel, call->base.connection))
            return;
    if (call_state_of(call) == CALL_SETTLED) {
        channel_unsettle(channel, &call->base);
        call_complete(&call->base);
    }
    channel_exit(channel);
}

lks_code lks_call_run_sized(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *message,
                            const lks_call_options *options, size_t options_bytes, ProtobufCMessage **ret,
                            lks_error *error)
{
    lks_call *call;

    if (channel_on_completion_thread())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "a synchronous call is not allowed on the completion thread");
    if (channel->options.driven)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "a synchronous call is not allowed on a driven channel");
    lks_code code = prepare(channel, method, message, options, options_bytes, 2, &call, error);
    if (code != LKS_OK)
        return code;
    run(channel, call);
    code = lks_call_wait(call, error);
    if (code == LKS_OK && ret) {
        *ret = call->response;
        call->response = NULL;
    }
    lks_call_free(call);
    return code;
}
