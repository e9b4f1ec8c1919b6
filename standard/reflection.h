/* grpc.reflection.v1 and v1alpha: what services there are, as descriptors, so that
 * grpcurl, buf curl and Postman need no .proto. Both versions are the same bytes. Loop
 * thread only. Source: github.com/grpc/grpc/blob/master/doc/server-reflection.md */
#ifndef LOCKSTOCK_SERVER_REFLECTION_H
#define LOCKSTOCK_SERVER_REFLECTION_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>

#include "net/grpc/grpc.h"

typedef struct reflection reflection;

enum { REFLECTION_METHODS = 2 };

/* The .proto files that are served, with all they import, as a serialised
 * google.protobuf.FileDescriptorSet; made by the build. */
extern const unsigned char reflection_files[];
extern const size_t reflection_files_len;

/* Reads a set. LKS_RESOURCE_EXHAUSTED: out of memory; LKS_INTERNAL: not a set. */
lks_code reflection_new(const void *files, size_t len, reflection **ret, lks_error *error);

/* Whether one of its files defines the service "package.Name". */
bool reflection_has_service(const reflection *r, const char *name);

/* Its methods, for a gRPC server. A policy must allow READ. */
void reflection_methods(reflection *r, grpc_streaming_method out[REFLECTION_METHODS]);

/* With no call of it left. Takes NULL. */
void reflection_free(reflection *r);

#endif
