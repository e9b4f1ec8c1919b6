/* STEM.pb-c.{h,c}: the output of protoc-c for messages. */
#ifndef LOCKSTOCK_GEN_PROTOBUF_C_H
#define LOCKSTOCK_GEN_PROTOBUF_C_H

#include <stdbool.h>
#include <stddef.h>

#include <google/protobuf/compiler/plugin.pb-c.h>

#include "pool.h"

typedef Google__Protobuf__Compiler__CodeGeneratorRequest plugin_request;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse plugin_response;
typedef Google__Protobuf__Compiler__CodeGeneratorResponse__File plugin_file;

/* Runs protoc-gen-c, which is found in PATH, on the files of the request without their services. The caller frees
 * *ret, which may contain an error about a file. Returns NULL, or why it failed. */
const char *protobuf_c_run(gen_pool *pool, const plugin_request *request, plugin_response **ret);

#endif
