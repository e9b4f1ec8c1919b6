/* grpc.reflection.v1 and v1alpha: the descriptors of all services, so that grpcurl, buf curl and Postman need no
 * .proto. Both versions have the same bytes. Loop thread only. Source: github.com/grpc/grpc/blob/master/doc/server-
 * reflection.md */
#ifndef LOCKSTOCK_STANDARD_REFLECTION_H
#define LOCKSTOCK_STANDARD_REFLECTION_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

#include "net/grpc/grpc.h"

typedef struct reflection reflection;

enum { REFLECTION_METHODS = 2 };

/* Serialised google.protobuf.FileDescriptorSets, made by the build: the services of lockstockd, and those of every
 * server (reflection and health), with their imports. */
extern const unsigned char contract_files[], standard_files[];
extern const size_t contract_files_len, standard_files_len;

/* Reads one or several concatenated sets. Of several files with the same name, the first is used.
 * LKS_RESOURCE_EXHAUSTED: out of memory; LKS_INTERNAL: not a set. */
lks_code reflection_new(const void *files, size_t len, reflection **ret, lks_error *error);

/* Returns whether a file defines the service "package.Name". */
bool reflection_has_service(const reflection *r, const char *name);

/* Calls `see` with the name of each service. */
void reflection_each_service(const reflection *r, void (*see)(void *to, const char *service), void *to);

/* Returns the methods for a gRPC server. A policy must allow READ. */
void reflection_methods(reflection *r, grpc_streaming_method out[REFLECTION_METHODS]);

/* All calls must have ended. Takes NULL. */
void reflection_free(reflection *r);

#endif
