/* Builds the request of any method from flags: as JSON, which the codec checks and turns into a message. */
#ifndef LOCKSTOCK_CLI_REQUEST_H
#define LOCKSTOCK_CLI_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

#include "options.h"

enum { REQUEST_POSITIONS = 2 }; /* fields that may be given without a flag */

struct json_t;

typedef struct request {
    const ProtobufCMessageDescriptor *type;
    struct json_t *json;
    bool has_json;        /* --json was used, so errors name fields instead of flags */
    unsigned n_positions; /* words taken so far */
    uint64_t given;       /* a bit for each field that a flag or a word has set */
} request;

/* Returns false when out of memory. Clear the request in any case. */
bool request_init(request *r, const ProtobufCMessageDescriptor *type);
void request_clear(request *r);

/* Adds the fields of a JSON object. Flags override them, lists are joined. "@FILE" reads a file, "@-" standard
 * input. Returns false after printing an error. */
bool request_take_json(request *r, const char *text);

/* Sets the field that a flag names. Only lists may be given more than once. Returns OPTIONS_OTHER if there is no
 * such field. */
options_result request_take_flag(request *r, arguments *args, const argument *arg);

/* Sets the next of the first fields, in their order without `group`, from a word without a flag; a list takes all
 * further words. Returns false after printing an error. */
bool request_take_word(request *r, const argument *arg);

/* Returns whether a field was given, by flags or by JSON. */
bool request_has(const request *r, const char *field);

/* Checks that the numbers among the first fields, and the fields before them, were given. A missing number would be 0:
 * `stock put SKU` would empty the item. Returns false after printing an error. */
bool request_is_complete(const request *r);

/* Returns the field of the n-th word, or NULL. */
const ProtobufCFieldDescriptor *request_position(const ProtobufCMessageDescriptor *type, unsigned n);

/* Replaces the field at the beginning of an error by its flag: "lines[0].quantity: ..." becomes "--line 1: quantity:
 * ...". Says "is needed" of a field that is absent, and writes times. Changes nothing if the request has JSON. */
void request_name_flag(const request *r, lks_error *error);

/* Creates the message, in the arena. */
lks_code request_build(const request *r, lks_rpc_arena *arena, ProtobufCMessage **ret, lks_error *error);

#endif
