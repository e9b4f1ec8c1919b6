/* The services of a host, and their methods by path. Constant once the host listens, except that the loop counts
 * calls. */
#ifndef HOST_SERVICES_H
#define HOST_SERVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/service.h>

#include "net/metrics/rpc_meter.h"

/* The calls of a method. */
typedef struct serve_load {
    uint32_t calls_max; /* under way at once; 0: any number */
    uint32_t n_calls;   /* under way; the loop's */
} serve_load;

/* The target of a route. */
typedef struct serve_target {
    const lks_rpc_binding *binding;
    const lks_rpc_service *service;
    serve_load *load;
} serve_target;

typedef struct services services;

/* NULL: no memory. */
services *services_new(void);

/* LKS_ALREADY_EXISTS, LKS_FAILED_PRECONDITION, LKS_RESOURCE_EXHAUSTED as lks_host_add. */
lks_code services_add(services *all, const lks_rpc_service *service, bool has_guards, lks_error *error);

/* LKS_NOT_FOUND: no such method. */
lks_code services_limit(const services *all, const char *path, uint32_t calls_max, lks_error *error);

/* Makes a meter for the calls of all services; no service may be added afterwards. NULL: out of memory. */
rpc_meter *services_meter(const services *all);

/* NULL: it is not served. */
const lks_rpc_route *services_find(const services *all, const char *path);

bool services_has(const services *all, const char *name);

/* Calls `see` with the name of each service. */
void services_each(const services *all, void (*see)(void *to, const char *service), void *to);

/* Returns the given descriptors followed by those of the services; the caller frees them. NULL: no memory. */
unsigned char *services_descriptors(const services *all, const void *first, size_t first_len, size_t *len);

/* Takes NULL. */
void services_free(services *all);

#endif
