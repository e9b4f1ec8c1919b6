/* A watch is in the list from its request to the end of its call, and has been sent the current status. */
#include "standard/health.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <lockstock/rpc/scan.h>

#include "grpc/health/v1/health.pb-c.h"

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus status;
#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

typedef struct inquiry {
    health *health;
    grpc_stream *call;
    bool watches; /* Watch, not Check */
    bool asked;   /* its request has arrived */
    bool listed;
    TAILQ_ENTRY(inquiry) next;
} inquiry;

struct health {
    bool (*knows)(void *arg, const char *service);
    void *arg;
    bool serving;
    TAILQ_HEAD(, inquiry) watches;
};

health *health_new(bool (*knows)(void *arg, const char *service), void *arg)
{
    health *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->knows = knows;
    h->arg = arg;
    TAILQ_INIT(&h->watches);
    return h;
}

void health_free(health *h)
{
    free(h);
}

static void tell(const inquiry *i, status now)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    uint8_t bytes[16];

    response.status = now;
    grpc_stream_send(i->call, bytes, grpc__health__v1__health_check_response__pack(&response, bytes));
}

void health_set(health *h, bool serving)
{
    const inquiry *i;

    if (h->serving == serving)
        return;
    h->serving = serving;
    TAILQ_FOREACH(i, &h->watches, next)
        tell(i, serving ? SERVING : NOT_SERVING);
}

static void end(const inquiry *i, lks_code code, const char *why)
{
    lks_error error = {0};

    if (code != LKS_OK)
        lks_error_set(&error, code, LKS_APPLIED_NO, "%s", why);
    grpc_stream_finish(i->call, &error);
}

static void answer(inquiry *i, const char *service)
{
    bool known = service[0] == '\0' || i->health->knows(i->health->arg, service);
    status now = i->health->serving ? SERVING : NOT_SERVING;

    if (!i->watches && !known) {
        end(i, LKS_NOT_FOUND, "service: not served here");
        return;
    }
    tell(i, known ? now : SERVICE_UNKNOWN);
    if (!i->watches) {
        end(i, LKS_OK, NULL);
    } else if (known) {
        i->listed = true;
        TAILQ_INSERT_TAIL(&i->health->watches, i, next);
    }
}

static void on_message(void *state, const uint8_t *data, size_t len)
{
    inquiry *i = state;
    Grpc__Health__V1__HealthCheckRequest *request = NULL;
    lks_error error;

    if (i->asked) {
        end(i, LKS_UNIMPLEMENTED, "one request is taken");
        return;
    }
    i->asked = true;
    if (lks_rpc_scan(&grpc__health__v1__health_check_request__descriptor, data, len, &lks_rpc_scan_defaults, &error) !=
        LKS_OK) {
        grpc_stream_finish(i->call, &error);
        return;
    }
    request = grpc__health__v1__health_check_request__unpack(NULL, len, data);
    if (request)
        answer(i, request->service);
    else
        end(i, LKS_RESOURCE_EXHAUSTED, "out of memory");
    grpc__health__v1__health_check_request__free_unpacked(request, NULL);
}

static void on_half_closed(void *state)
{
    inquiry *i = state;

    if (!i->asked)
        end(i, LKS_UNIMPLEMENTED, "one request is taken");
}

static void on_closed(void *state)
{
    inquiry *i = state;

    if (i->listed)
        TAILQ_REMOVE(&i->health->watches, i, next);
    free(i);
}

static inquiry *new_inquiry(health *h, grpc_stream *call, bool watches)
{
    inquiry *i = calloc(1, sizeof *i);

    if (i)
        *i = (inquiry){.health = h, .call = call, .watches = watches};
    return i;
}

static void *on_check(void *arg, grpc_stream *call)
{
    return new_inquiry(arg, call, false);
}

static void *on_watch(void *arg, grpc_stream *call)
{
    return new_inquiry(arg, call, true);
}

void health_methods(health *h, grpc_streaming_method out[HEALTH_METHODS])
{
    const grpc_streaming_method method = {
        .message = on_message, .half_closed = on_half_closed, .closed = on_closed, .arg = h};

    out[0] = out[1] = method;
    out[0].path = "/grpc.health.v1.Health/Check";
    out[0].open = on_check;
    out[1].path = "/grpc.health.v1.Health/Watch";
    out[1].open = on_watch;
}
