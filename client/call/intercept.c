#include "client/call/intercept.h"

#include <stdlib.h>

#include "client/call/channel.h"

lks_code intercept_before(lks_channel *channel, intercepted *state, const lks_rpc_method *method,
                          const ProtobufCMessage *request, lks_call_options *options, lks_error *error)
{
    const lks_channel_interceptor *all = channel->options.interceptors;
    size_t n = channel->options.n_interceptors;

    if (n == 0)
        return LKS_OK;
    state->own = calloc(n, sizeof *state->own);
    if (!state->own)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    for (; state->n < n; state->n++) {
        const lks_channel_interceptor *next = &all[state->n];
        lks_code code =
            next->before ? next->before(next->arg, &state->own[state->n], method, request, options, error) : LKS_OK;
        if (code == LKS_OK)
            continue;
        error->code = code;
        error->applied = LKS_APPLIED_NO;
        return code;
    }
    return LKS_OK;
}

void intercept_after(lks_channel *channel, intercepted *state, const lks_rpc_method *method,
                     const ProtobufCMessage *response, const lks_error *error)
{
    while (state->n > 0) {
        const lks_channel_interceptor *last = &channel->options.interceptors[--state->n];
        if (last->after)
            last->after(last->arg, &state->own[state->n], method, response, error);
    }
}
