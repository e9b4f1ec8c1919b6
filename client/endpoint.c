/* Invariant: in_flight counts the slots in use, lane by lane. */
#include "endpoint.h"

#include <stdlib.h>
#include <string.h>

/* The scheme says which engine speaks what to the server. */
static const struct {
    const char *scheme;
    const struct endpoint_engine *engine;
} schemes[] = {
    {"nng+tcp://", &endpoint_sp},
    {"nng+ws://", &endpoint_nng},
};

static lks_code unknown_scheme(const char *url, lks_error *error)
{
    const char *end = strstr(url, "://");

    if (end == NULL)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "urls: no scheme; nng+tcp://HOST:PORT and nng+ws://HOST:PORT/PATH are known");
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                         "urls: unknown scheme %.*s; nng+tcp and nng+ws are known",
                         end - url > 32 ? 32 : (int)(end - url), url);
}

lks_code endpoint_open(const char *url, size_t len, const endpoint_options *options, struct endpoint **ret,
                       lks_error *error)
{
    struct endpoint *endpoint;
    char *copy = strndup(url, len);
    if (copy == NULL)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strncmp(copy, schemes[i].scheme, strlen(schemes[i].scheme)) != 0)
            continue;
        lks_code code = schemes[i].engine->open(copy + strlen("nng+"), options, &endpoint, error);
        if (code != LKS_OK) {
            free(copy);
            return code;
        }
        endpoint->engine = schemes[i].engine;
        endpoint->url = copy;
        *ret = endpoint;
        return LKS_OK;
    }
    lks_code code = unknown_scheme(copy, error);
    free(copy);
    return code;
}

void endpoint_close(struct endpoint *endpoint)
{
    if (endpoint == NULL)
        return;
    free(endpoint->url);
    endpoint->engine->close(endpoint);
}

bool endpoint_connected(const struct endpoint *endpoint)
{
    return endpoint->engine->connected(endpoint);
}

bool endpoint_has_room(const struct endpoint *endpoint, endpoint_lane lane)
{
    uint32_t max = endpoint->options.in_flight_max;
    uint32_t waiting = endpoint->in_flight[ENDPOINT_WAITING];

    if (lane == ENDPOINT_WAITING && max > 1 && waiting >= max - (max + 3) / 4)
        return false;
    return waiting + endpoint->in_flight[ENDPOINT_PROMPT] < max;
}

endpoint_slot *endpoint_send(struct endpoint *endpoint, endpoint_lane lane, endpoint_message *message,
                             void *owner)
{
    endpoint_slot *slot = endpoint->engine->send(endpoint, message);
    if (slot == NULL)
        return NULL;
    slot->owner = owner;
    slot->lane = lane;
    endpoint->in_flight[lane]++;
    return slot;
}

void endpoint_withdraw(endpoint_slot *slot)
{
    slot->endpoint->engine->withdraw(slot);
}

void endpoint_forget(endpoint_slot *slot)
{
    slot->endpoint->engine->forget(slot);
}

void endpoint_prepare(struct endpoint *endpoint, struct pollfd *fd)
{
    endpoint->engine->prepare(endpoint, fd);
}

void endpoint_ready(struct endpoint *endpoint, short events)
{
    endpoint->engine->ready(endpoint, events);
}

void endpoint_give_back(endpoint_slot *slot)
{
    slot->endpoint->in_flight[slot->lane]--;
    slot->owner = NULL;
}
