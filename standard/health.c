/* A watch is in the list from its request to the end of its call; the current status has been sent to it. */
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

typedef enum kind { CHECK, WATCH, LIST } kind;

typedef struct inquiry {
    health *health;
    grpc_stream *call;
    char *service; /* while listed */
    status sent_status;
    kind kind;
    bool asked; /* its request has arrived */
    bool listed;
    TAILQ_ENTRY(inquiry) next;
} inquiry;

/* A service that does not serve. */
typedef struct off {
    struct off *next;
    char service[];
} off;

struct health {
    health_services services;
    bool serving;
    off *off;
    TAILQ_HEAD(, inquiry) watches;
};

health *health_new(const health_services *services)
{
    health *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->services = *services;
    TAILQ_INIT(&h->watches);
    return h;
}

void health_free(health *h)
{
    while (h && h->off) {
        off *next = h->off->next;
        free(h->off);
        h->off = next;
    }
    free(h);
}

/* The place of the service in the list, or the end of the list. */
static off **find_off(health *h, const char *service)
{
    off **at = &h->off;

    while (*at && strcmp((*at)->service, service) != 0)
        at = &(*at)->next;
    return at;
}

static status status_of(health *h, const char *service)
{
    return h->serving && !*find_off(h, service) ? SERVING : NOT_SERVING;
}

static void send_status(inquiry *i, status now)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    uint8_t bytes[16];

    i->sent_status = response.status = now;
    grpc_stream_send(i->call, bytes, grpc__health__v1__health_check_response__pack(&response, bytes));
}

static void send_changes(health *h)
{
    inquiry *i;

    TAILQ_FOREACH(i, &h->watches, next)
        if (i->sent_status != status_of(h, i->service))
            send_status(i, status_of(h, i->service));
}

void health_set(health *h, bool serving)
{
    h->serving = serving;
    send_changes(h);
}

bool health_set_service(health *h, const char *service, bool serving)
{
    off **at = find_off(h, service), *found = *at;

    if (found && serving) {
        *at = found->next;
        free(found);
    } else if (!found && !serving) {
        size_t len = strlen(service) + 1;
        *at = malloc(sizeof **at + len);
        if (!*at)
            return false;
        (*at)->next = NULL;
        memcpy((*at)->service, service, len);
    }
    send_changes(h);
    return true;
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
    bool known = service[0] == '\0' || i->health->services.knows(i->health->services.arg, service);

    if (i->kind == CHECK && !known) {
        end(i, LKS_NOT_FOUND, "service: not served here");
        return;
    }
    send_status(i, known ? status_of(i->health, service) : SERVICE_UNKNOWN);
    if (i->kind == CHECK) {
        end(i, LKS_OK, NULL);
    } else if (known && !(i->service = strdup(service))) {
        end(i, LKS_RESOURCE_EXHAUSTED, "out of memory");
    } else if (known) {
        i->listed = true;
        TAILQ_INSERT_TAIL(&i->health->watches, i, next);
    }
}

/* ---- List ------------------------------------------------------------------------------ */

typedef Grpc__Health__V1__HealthListResponse__StatusesEntry entry;

/* Collects the entries of an answer. */
typedef struct listing {
    health *health;
    Grpc__Health__V1__HealthListResponse response;
    bool full; /* no memory */
} listing;

static void add_service(void *to, const char *service)
{
    listing *l = to;
    struct both {
        entry entry;
        Grpc__Health__V1__HealthCheckResponse value;
        char name[];
    } *both = malloc(sizeof *both + strlen(service) + 1);
    entry **more = both ? realloc(l->response.statuses, (l->response.n_statuses + 1) * sizeof *more) : NULL;

    if (!more) {
        free(both);
        l->full = true;
        return;
    }
    grpc__health__v1__health_list_response__statuses_entry__init(&both->entry);
    grpc__health__v1__health_check_response__init(&both->value);
    both->value.status = status_of(l->health, service);
    both->entry.key = strcpy(both->name, service);
    both->entry.value = &both->value;
    l->response.statuses = more;
    more[l->response.n_statuses++] = &both->entry;
}

/* The services, and "" for the server as a whole. */
static void list(const inquiry *i)
{
    const health_services *services = &i->health->services;
    listing l = {.health = i->health, .response = GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__INIT};

    add_service(&l, "");
    services->each(services->arg, add_service, &l);
    uint8_t *bytes = l.full ? NULL : malloc(grpc__health__v1__health_list_response__get_packed_size(&l.response) + 1);
    if (bytes)
        grpc_stream_send(i->call, bytes, grpc__health__v1__health_list_response__pack(&l.response, bytes));
    end(i, bytes ? LKS_OK : LKS_RESOURCE_EXHAUSTED, "out of memory");
    free(bytes);
    for (size_t s = 0; s < l.response.n_statuses; s++)
        free(l.response.statuses[s]);
    free(l.response.statuses);
}

/* ---- calls ----------------------------------------------------------------------------- */

static void on_message(void *state, const uint8_t *data, size_t len)
{
    inquiry *i = state;
    Grpc__Health__V1__HealthCheckRequest *request = NULL;
    lks_error error;

    if (i->asked) {
        end(i, LKS_UNIMPLEMENTED, "exactly one request must be sent");
        return;
    }
    i->asked = true;
    const ProtobufCMessageDescriptor *type = i->kind == LIST ? &grpc__health__v1__health_list_request__descriptor
                                                             : &grpc__health__v1__health_check_request__descriptor;
    if (lks_rpc_scan(type, data, len, &lks_rpc_scan_defaults, &error) != LKS_OK) {
        grpc_stream_finish(i->call, &error);
        return;
    }
    if (i->kind == LIST) {
        list(i);
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
        end(i, LKS_UNIMPLEMENTED, "exactly one request must be sent");
}

static void on_closed(void *state)
{
    inquiry *i = state;

    if (i->listed)
        TAILQ_REMOVE(&i->health->watches, i, next);
    free(i->service);
    free(i);
}

static inquiry *new_inquiry(health *h, grpc_stream *call, kind asks)
{
    inquiry *i = calloc(1, sizeof *i);

    if (i)
        *i = (inquiry){.health = h, .call = call, .kind = asks};
    return i;
}

static void *on_check(void *arg, grpc_stream *call)
{
    return new_inquiry(arg, call, CHECK);
}

static void *on_watch(void *arg, grpc_stream *call)
{
    return new_inquiry(arg, call, WATCH);
}

static void *on_list(void *arg, grpc_stream *call)
{
    return new_inquiry(arg, call, LIST);
}

void health_methods(health *h, grpc_streaming_method out[HEALTH_METHODS])
{
    const grpc_streaming_method method = {
        .message = on_message, .half_closed = on_half_closed, .closed = on_closed, .arg = h};

    out[0] = out[1] = out[2] = method;
    out[0].path = "/grpc.health.v1.Health/Check";
    out[0].open = on_check;
    out[1].path = "/grpc.health.v1.Health/Watch";
    out[1].open = on_watch;
    out[2].path = "/grpc.health.v1.Health/List";
    out[2].open = on_list;
}
