/* Paths of fields, as options name them: "order.lines.sku". */
#ifndef LOCKSTOCK_GEN_PATHS_H
#define LOCKSTOCK_GEN_PATHS_H

#include "model.h"

typedef Google__Protobuf__FieldDescriptorProto gen_field;

/* Where a path ends, and what it leads through. */
typedef struct gen_path {
    const gen_message *message; /* whose field the last one is */
    const gen_field *field;
    bool repeated;     /* through a repeated field or a map, or to a repeated field */
    const char *oneof; /* the first member of a oneof on it, "shop.v1.Order.card"; NULL = none */
} gen_path;

/* Follows `path` from a message. Returns NULL, or what is wrong with it: "shop.v1.Order has no field "sku"". */
const char *paths_follow(const gen_model *model, const gen_message *from, const char *path, gen_path *ret);

/* The field called `name`, NULL when there is none. */
const gen_field *paths_field(const gen_message *message, const char *name);

bool paths_is_repeated(const gen_field *field);
/* A string, bytes, an integer or an enum. */
bool paths_is_key(const gen_field *field);

#endif
