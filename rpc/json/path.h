/* The path of a field in a message that is parsed or printed: a chain of levels, outermost last. It is written only
 * for an error. */
#ifndef RPC_JSON_PATH_H
#define RPC_JSON_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

typedef struct json_path {
    const struct json_path *outer; /* NULL: the message itself */
    const char *name;              /* of a field; NULL: an element of the outer level */
    const char *key;               /* of the entry of a map; NULL: use the index */
    size_t index;
} json_path;

/* Sets *error to INVALID_ARGUMENT, applied NO, "PATH: problem", with `whole` for an empty path. Returns false. */
bool json_path_fail(const json_path *at, const char *whole, const char *problem, lks_error *error);

#endif
