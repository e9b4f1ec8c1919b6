/* STEM.pb-c.{h,c}: what protoc-c makes of the messages. */
#ifndef LOCKSTOCK_GEN_PROTOBUF_C_H
#define LOCKSTOCK_GEN_PROTOBUF_C_H

#include <stdbool.h>
#include <stddef.h>

#include <google/protobuf/compiler/plugin.pb-c.h>

#include "pool.h"

typedef Google__Protobuf__Compiler__CodeGeneratorRequest plugin_request;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse plugin_response;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse__File plugin_file;

/* Runs protoc-gen-c, found by PATH, on the files of the request without their
 * services. *ret is the caller's to free, and may carry an error about a file.
 * Otherwise returns why there is none. */
const char *protobuf_c_run(gen_pool *pool, const plugin_request *request, plugin_response **ret);

#endif
