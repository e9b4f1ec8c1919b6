/* A request of any method, from flags: a tree of JSON is put together, which the codec then makes a message of, with
 * its checks and its errors. */
#ifndef LOCKSTOCK_CLI_REQUEST_H
#define LOCKSTOCK_CLI_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

#include "options.h"

enum { REQUEST_POSITIONS = 2 }; /* fields that may stand without a flag */

struct json_t;

typedef struct request {
    const ProtobufCMessageDescriptor *type;
    struct json_t *json;
    bool has_json;        /* some of it came by --json, whose writer knows fields rather than flags */
    unsigned n_positions; /* filled in so far */
    uint64_t given;       /* fields that flags and words have filled in, a bit each */
} request;

/* False: no memory. To be cleared, also after a failure. */
bool request_init(request *r, const ProtobufCMessageDescriptor *type);
void request_clear(request *r);

/* What JSON has beside the flags, which win, before it and after it; lists are put together. "@FILE" reads a file, "@-"
 * standard input. False: said. */
bool request_take_json(request *r, const char *text);

/* The field that a flag names. OPTIONS_OTHER: there is none. Only lists are given more than once. */
options_result request_take_flag(request *r, arguments *args, const argument *arg);

/* What stands without a flag: the first fields in their order, without `group`; one that is repeated takes all that
 * follows. False: said. */
bool request_take_word(request *r, const argument *arg);

/* Whether a field of the request's type was given, also by JSON. */
bool request_has(const request *r, const char *field);

/* Whether each number that the first words fill in was given. False: says which is needed. */
bool request_is_complete(const request *r);

/* The field that the n-th word fills in; NULL = none. */
const ProtobufCFieldDescriptor *request_position(const ProtobufCMessageDescriptor *type, unsigned n);

/* Makes an error that begins with a field name the flag instead: "lines[0].quantity: ..." becomes
 * "--line 1: quantity: ...". Not where the request has JSON. */
void request_name_flag(const request *r, lks_error *error);

/* The message, in the arena. */
lks_code request_build(const request *r, lks_rpc_arena *arena, ProtobufCMessage **ret, lks_error *error);

#endif
