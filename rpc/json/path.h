/* The path of a field in a message that is being parsed or printed, for errors: a chain of the
 * levels, outermost last, that is written out only when there is an error. */
#ifndef RPC_JSON_PATH_H
#define RPC_JSON_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

typedef struct json_path {
    const struct json_path *outer; /* NULL = the message itself */
    const char *name;              /* of a field; NULL = an element of the outer one */
    const char *key;               /* of a map's entry; NULL = by index */
    size_t index;
} json_path;

/* Sets *error to INVALID_ARGUMENT, applied NO, "PATH: problem". An empty path is `whole`. False. */
bool json_path_fail(const json_path *at, const char *whole, const char *problem, lks_error *error);

#endif
