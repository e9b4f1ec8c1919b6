/* A host: nng_rep brings messages, workers run them. The table of methods is
 * built before the first listen and only read afterwards. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/host.h>
#include <lockstock/rpc/frame.h>
#include "net/nng/nng_rep.h"

#include "serve.h"
#include "workers.h"

enum { THREADS = 4, IN_FLIGHT_MAX = 1024, TIMEOUT_MS = 30000 };

/* A service and the targets of its routes. */
typedef struct served {
    struct served *next;
    lks_rpc_service service;
    serve_target targets[];
} served;

struct lks_host {
    serve_table table;
    served *services;
    lks_rpc_nng_rep *rep;
    workers *workers;
    bool listens;
};

static void on_request(void *arg, lks_rpc_nng_request *request)
{
    lks_host *host = arg;
    workers_push(host->workers, request);
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value > 0 ? value : fallback;
}

lks_code lks_host_open(const lks_host_options *options, lks_host **ret, lks_error *error)
{
    static const lks_host_options defaults;
    const lks_host_options *given = options ? options : &defaults;
    uint32_t in_flight_max = or_default(given->in_flight_max, IN_FLIGHT_MAX);
    lks_host *host = calloc(1, sizeof *host);
    if (!host)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    host->table.timeout_ms = or_default(given->timeout_ms, TIMEOUT_MS);
    host->table.message_bytes_max = given->message_bytes_max ? given->message_bytes_max : LKS_RPC_MESSAGE_BYTES_MAX;
    host->table.limits = lks_rpc_scan_defaults;
    host->table.limits.string_bytes = host->table.limits.bytes_bytes = host->table.message_bytes_max;
    host->table.limits.open_enums = given->open_enums;
    lks_rpc_nng_rep_options rep = {
        .message_bytes_max = host->table.message_bytes_max,
        .in_flight_max = in_flight_max,
        .connections_max = given->connections_max,
        .on_request = on_request,
        .arg = host,
    };
    lks_code code =
        workers_new(&host->table, or_default(given->threads, THREADS), in_flight_max, &host->workers, error);
    if (code == LKS_OK)
        code = lks_rpc_nng_rep_open(&rep, &host->rep, error);
    if (code != LKS_OK) {
        lks_host_close(host, 0);
        return code;
    }
    *ret = host;
    return LKS_OK;
}

/* A block of targets for a service, without its place in the list; NULL when out of
 * memory. */
static served *served_new(const lks_rpc_service *service)
{
    served *block = malloc(sizeof *block + service->n_bindings * sizeof *block->targets);
    if (!block)
        return NULL;
    block->service = *service;
    for (size_t i = 0; i < service->n_bindings; i++)
        block->targets[i] = (serve_target){.binding = &service->bindings[i], .service = &block->service};
    return block;
}

lks_code lks_host_add(lks_host *host, const lks_rpc_service *service, lks_error *error)
{
    if (host->listens)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s: the host listens already",
                             service->name);
    serve_table *table = &host->table;
    size_t n = table->n_routes + service->n_bindings;
    served *block = served_new(service);
    lks_rpc_route *routes = calloc(n + 1, sizeof *routes);
    lks_code code = LKS_RESOURCE_EXHAUSTED;
    if (!block || !routes) {
        lks_error_set(error, code, LKS_APPLIED_NO, "out of memory");
        goto cleanup;
    }
    for (size_t i = 0; i < table->n_routes; i++)
        routes[i] = table->routes[i];
    for (size_t i = 0; i < service->n_bindings; i++)
        routes[table->n_routes + i] =
            (lks_rpc_route){.method = service->bindings[i].method, .target = &block->targets[i]};
    code = lks_rpc_routes_sort(routes, n, error);
    if (code != LKS_OK)
        goto cleanup;
    block->next = host->services;
    host->services = block;
    block = NULL;
    lks_rpc_route *before = table->routes;
    table->routes = routes;
    table->n_routes = n;
    routes = before;
cleanup:
    free(routes);
    free(block);
    return code;
}

lks_code lks_host_listen(lks_host *host, const char *url, uint16_t *port, lks_error *error)
{
    static const char scheme[] = "nng+";
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: neither nng+tcp:// nor nng+ws://", url);
    lks_code code = lks_rpc_nng_rep_listen(host->rep, url + sizeof scheme - 1, port, error);
    if (code == LKS_OK)
        host->listens = true;
    return code;
}

void lks_host_close(lks_host *host, uint32_t drain_ms)
{
    if (!host)
        return;
    if (host->rep)
        lks_rpc_nng_rep_stop_receiving(host->rep);
    workers_close(host->workers, drain_ms);
    lks_rpc_nng_rep_close(host->rep);
    while (host->services) {
        served *next = host->services->next;
        free(host->services);
        host->services = next;
    }
    free(host->table.routes);
    free(host);
}
