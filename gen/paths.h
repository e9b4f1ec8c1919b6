/* Paths of fields in options: "order.lines.sku". */
#ifndef LOCKSTOCK_GEN_PATHS_H
#define LOCKSTOCK_GEN_PATHS_H

#include "model.h"

typedef Google__Protobuf__FieldDescriptorProto gen_field;

/* The end of a path, and properties of the path. */
typedef struct gen_path {
    const gen_message *message; /* the message of the last field */
    const gen_field *field;
    bool repeated;     /* it passes or reaches a repeated field or a map */
    const char *oneof; /* its first member of a oneof, "shop.v1.Order.card"; NULL: none */
} gen_path;

/* Follows a path from a message. Returns NULL, or an error: "shop.v1.Order has no field "sku"". */
const char *paths_follow(const gen_model *model, const gen_message *from, const char *path, gen_path *ret);

/* Returns the field with a name, or NULL. */
const gen_field *paths_field(const gen_message *message, const char *name);

bool paths_is_repeated(const gen_field *field);
/* Returns whether the field is a string, bytes, an integer or an enum. */
bool paths_is_key(const gen_field *field);

#endif
