/* The convention by which a request says how long the server may hold its call. */
#ifndef LOCKSTOCK_RPC_WAITS_H
#define LOCKSTOCK_RPC_WAITS_H

#include <string.h>

#include <lockstock/rpc/fields.h>

/* Returns the int64 field `wait_ms` of a request, which is not repeated; NULL: its calls cannot wait. */
static inline const ProtobufCFieldDescriptor *waits_field(const ProtobufCMessageDescriptor *request)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(request, "wait_ms", strlen("wait_ms"));
    bool counts = field && field->type == PROTOBUF_C_TYPE_INT64 && field->label != PROTOBUF_C_LABEL_REPEATED;

    return counts ? field : NULL;
}

#endif
