/* Fields of an HTTP request or answer, in order. Names are in lower case. */
#ifndef LOCKSTOCK_NET_HTTP_FIELDS_H
#define LOCKSTOCK_NET_HTTP_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/exchange.h>

#include "net/sink.h"

/* Both texts end with a NUL. */
typedef struct http_field {
    const char *name, *value;
    size_t name_len, value_len;
    TAILQ_ENTRY(http_field) next;
} http_field;
typedef TAILQ_HEAD(http_fields, http_field) http_fields;

/* Adds a copy. False: out of memory. */
bool http_fields_add(http_fields *to, lks_rpc_arena *arena, const char *name, size_t name_len, const char *value,
                     size_t value_len);

/* The same for texts that outlive the fields. NULL as value adds nothing. */
bool http_fields_set(http_fields *to, lks_rpc_arena *arena, const char *name, const char *value);

/* The value of the first field with that name; empty, with a NUL, when there is none. */
lks_rpc_slice http_fields_value(const http_fields *from, const char *name);

/* How many fields have that name. */
size_t http_fields_count(const http_fields *from, const char *name);

/* Adds the metadata that a handler adds to its answer, with a prefix before each name. Values of names that end with
 * "-bin" are encoded in base64. */
void http_fields_put(http_fields *to, lks_rpc_arena *arena, const char *prefix, const lks_rpc_list *entries);

/* Calls `see` with the decoded bytes of a binary value, or with the text when it is not binary or cannot be decoded. */
void http_field_pass(const http_field *field, lks_rpc_arena *arena, sink_see_entry *see, void *arg);

/* The credentials of a call: from its fields and its connection. */
credentials http_fields_credentials(const http_fields *from, const char *certificate, const uid_t *uid);

/* Adds the hints of a response, or of an error if `error` is not NULL, for callers that do not decode it. */
void http_fields_put_hints(http_fields *to, lks_rpc_arena *arena, lks_rpc_hints hints, const lks_error *error);

/* The entry of `origins` that equals a request's Origin, ignoring case; NULL: none. */
const char *http_find_origin(char *const *origins, size_t n, const char *origin);

/* Whether a list ("a, b;q=1") has a token, ignoring case, that is not refused with q=0. */
bool http_list_has(lks_rpc_slice list, const char *token);

#endif
