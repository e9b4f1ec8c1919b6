/* grpc.health.v1.Health: whether this server serves, and which of its services. lockstockd serves while its
 * store is ready and it is not draining; a host until it closes. Loop thread only. Source:
 * github.com/grpc/grpc/blob/master/doc/health-checking.md */
#ifndef LOCKSTOCK_STANDARD_HEALTH_H
#define LOCKSTOCK_STANDARD_HEALTH_H

#include <stdbool.h>

#include "net/grpc/grpc.h"

typedef struct health health;

enum { HEALTH_METHODS = 3 };

/* The services of a server. */
typedef struct health_services {
    bool (*knows)(void *arg, const char *service);
    void (*each)(void *arg, void (*see)(void *to, const char *service), void *to); /* for List */
    void *arg;
} health_services;

/* Begins as not serving. Returns NULL when out of memory. */
health *health_new(const health_services *services);

/* Returns the methods Check, Watch and List for a gRPC server. */
void health_methods(health *h, grpc_streaming_method out[HEALTH_METHODS]);

/* Sets whether the server serves, and notifies watchers. */
void health_set(health *h, bool serving);

/* Sets the same for one service. It counts as serving only while the server serves too. False: out of memory. */
bool health_set_service(health *h, const char *service, bool serving);

/* All calls must have ended. Takes NULL. */
void health_free(health *h);

#endif
