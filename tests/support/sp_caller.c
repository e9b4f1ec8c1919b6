#include "support/sp_caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sp_caller {
    const wire_driver *driver;
    void *state;
    const line *line; /* the state's */
};

sp_caller *sp_caller_open(const char *url, const line_tls *tls)
{
    const wire_driver *driver = strncmp(url, "wss://", 6) == 0 ? &ws_driver : &sp_driver;
    line *l = line_open_tls(url, tls ? tls : &(line_tls){.ca = NULL});
    void *state = driver->open_on(l, url);

    if (!state)
        return NULL;
    sp_caller *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (sp_caller){.driver = driver, .state = state, .line = l};
    return c;
}

void sp_caller_close(sp_caller *c)
{
    if (c)
        c->driver->close(c->state);
    free(c);
}

const char *sp_caller_server_name(const sp_caller *c)
{
    return line_server_name(c->line);
}

bool sp_caller_ask(sp_caller *c, const sp_caller_call *call, outcome *ret)
{
    const size_t len = call->request ? protobuf_c_message_get_packed_size(call->request) : 0;
    uint8_t *payload = malloc(len + 1);
    char authorization[512];

    if (!payload)
        abort();
    if (call->request)
        protobuf_c_message_pack(call->request, payload);
    snprintf(authorization, sizeof authorization, "Bearer %s", call->token ? call->token : "");
    const call_spec spec = {.method = call->method,
                            .payload = payload,
                            .len = len,
                            .timeout_ms = LINE_TIMEOUT_MS / 2,
                            .ns = call->ns,
                            .authorization = call->token ? authorization : NULL};
    bool answered = c->driver->start(c->state, &spec) != 0 && c->driver->await(c->state, ret);
    free(payload);
    return answered;
}
