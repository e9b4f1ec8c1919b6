/* The option json_name of fields, for which descriptors of protobuf-c have no member. */
#ifndef LOCKSTOCK_GEN_JSON_NAMES_H
#define LOCKSTOCK_GEN_JSON_NAMES_H

#include <google/protobuf/compiler/plugin.pb-c.h>

#include "pool.h"

/* Returns `text`, the .pb-c.c of a file of the request, in which the reserved2 of each field with its own json_name
 * points to that name. rpc/json/field.c reads it. NULL: out of memory. */
const char *json_names_add(gen_pool *pool, const Google__Protobuf__Compiler__CodeGeneratorRequest *request,
                           const char *text);

#endif
