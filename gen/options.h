/* Reads the options of lockstock/rpc/v1/options.proto from the unknown fields of the options that protoc sends;
 * protobuf-c does not know extensions. */
#ifndef LOCKSTOCK_GEN_OPTIONS_H
#define LOCKSTOCK_GEN_OPTIONS_H

#include <stdbool.h>

#include <google/protobuf/descriptor.pb-c.h>
#include <lockstock/rpc/v1/options.pb-c.h>

#include "pool.h"

typedef struct file_options {
    const char *c_prefix; /* NULL = not set */
    bool pb_c_file;       /* protobuf-c's option that changes its names */
} file_options;

typedef struct method_options {
    Lockstock__Rpc__V1__Effect effect;
    const char *natural_id; /* NULL = not set */
    Lockstock__Rpc__V1__Fill fill;
    bool settles, coalesce;
    const Lockstock__Rpc__V1__Undo *undo;   /* NULL = not set */
    const Lockstock__Rpc__V1__Guard *guard; /* NULL = not set */
} method_options;

/* options may be NULL. Return false if an option does not match options.proto. */
bool options_of_file(const Google__Protobuf__FileOptions *options, gen_pool *pool, file_options *ret);
bool options_of_method(const Google__Protobuf__MethodOptions *options, gen_pool *pool, method_options *ret);
bool options_of_field(const Google__Protobuf__FieldOptions *options, bool *first_try);

#endif
