/* Invariant: the routes are sorted by path, and their targets are stored with their services. */
#include "host/services.h"

#include <stdlib.h>
#include <string.h>

/* A service and the targets of its routes; the loads are stored behind the targets. */
typedef struct served {
    struct served *next;
    lks_rpc_service service;
    serve_target targets[];
} served;

struct services {
    served *first;
    lks_rpc_route *routes;
    size_t n_routes;
};

services *services_new(void)
{
    return calloc(1, sizeof(services));
}

/* Makes a service that is not in the list yet; NULL when out of memory. */
static served *served_new(const lks_rpc_service *service)
{
    served *block = calloc(1, sizeof *block + service->n_bindings * (sizeof(serve_target) + sizeof(serve_load)));

    if (!block)
        return NULL;
    serve_load *loads = (serve_load *)(void *)(block->targets + service->n_bindings);
    block->service = *service;
    for (size_t i = 0; i < service->n_bindings; i++)
        block->targets[i] =
            (serve_target){.binding = &service->bindings[i], .service = &block->service, .load = &loads[i]};
    return block;
}

/* Returns the routes with those of one more service, sorted. */
static lks_code add_routes(const services *all, served *block, lks_rpc_route **ret, lks_error *error)
{
    const lks_rpc_service *service = &block->service;
    size_t n = all->n_routes + service->n_bindings;
    lks_rpc_route *routes = calloc(n + 1, sizeof *routes);

    if (!routes)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    for (size_t i = 0; i < all->n_routes; i++)
        routes[i] = all->routes[i];
    for (size_t i = 0; i < service->n_bindings; i++)
        routes[all->n_routes + i] =
            (lks_rpc_route){.method = service->bindings[i].method, .target = &block->targets[i]};
    lks_code code = lks_rpc_routes_sort(routes, n, error);
    if (code == LKS_OK)
        *ret = routes;
    else
        free(routes);
    return code;
}

lks_code services_add(services *all, const lks_rpc_service *service, bool has_guards, lks_error *error)
{
    lks_rpc_route *routes = NULL;

    for (size_t i = 0; i < service->n_bindings; i++)
        if (service->bindings[i].guard && !has_guards)
            return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                                 "%s: has a guard, but options.guards is NULL", service->bindings[i].method->path);
    served *block = served_new(service);
    if (!block)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    lks_code code = add_routes(all, block, &routes, error);
    if (code != LKS_OK) {
        free(block);
        return code;
    }
    block->next = all->first;
    all->first = block;
    free(all->routes);
    all->routes = routes;
    all->n_routes += service->n_bindings;
    return LKS_OK;
}

lks_code services_limit(const services *all, const char *path, uint32_t calls_max, lks_error *error)
{
    const lks_rpc_route *route = path ? services_find(all, path) : NULL;

    if (!route)
        return lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "method: %s is not served here",
                             path ? path : "NULL");
    const serve_target *target = route->target;
    target->load->calls_max = calls_max;
    lks_error_clear(error);
    return LKS_OK;
}

rpc_meter *services_meter(const services *all)
{
    rpc_meter *meter = rpc_meter_new(all->routes, all->n_routes);

    for (size_t i = 0; meter && i < all->n_routes; i++)
        if (((const serve_target *)all->routes[i].target)->binding->guard)
            rpc_meter_guards(meter, all->routes[i].method);
    return meter;
}

const lks_rpc_route *services_find(const services *all, const char *path)
{
    return lks_rpc_route_find(all->routes, all->n_routes, path);
}

bool services_has(const services *all, const char *name)
{
    for (const served *s = all->first; s; s = s->next)
        if (strcmp(s->service.name, name) == 0)
            return true;
    return false;
}

void services_each(const services *all, void (*see)(void *to, const char *service), void *to)
{
    for (const served *s = all->first; s; s = s->next)
        see(to, s->service.name);
}

unsigned char *services_descriptors(const services *all, const void *first, size_t first_len, size_t *len)
{
    *len = first_len;
    for (const served *s = all->first; s; s = s->next)
        *len += s->service.n_descriptors;
    unsigned char *files = malloc(*len), *end = files;
    if (!files)
        return NULL;
    memcpy(end, first, first_len);
    end += first_len;
    for (const served *s = all->first; s; s = s->next) {
        if (s->service.n_descriptors > 0)
            memcpy(end, s->service.descriptors, s->service.n_descriptors);
        end += s->service.n_descriptors;
    }
    return files;
}

void services_free(services *all)
{
    while (all && all->first) {
        served *next = all->first->next;
        free(all->first);
        all->first = next;
    }
    if (all)
        free(all->routes);
    free(all);
}
