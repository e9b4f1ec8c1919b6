/* The method table. A constant for each method is generated from the .proto and its options. Retries, filling of
 * ids, authorisation and metrics use it. */
#ifndef LOCKSTOCK_RPC_METHOD_H
#define LOCKSTOCK_RPC_METHOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lks_rpc_effect {
    LKS_RPC_EFFECT_READ = 1,
    LKS_RPC_EFFECT_WRITE = 2, /* also without the option */
    LKS_RPC_EFFECT_ADMIN = 3
} lks_rpc_effect;

typedef enum lks_rpc_fill {
    LKS_RPC_FILL_NONE = 0,
    LKS_RPC_FILL_RANDOM = 1 /* natural_id is a string field of the request itself */
} lks_rpc_fill;

struct lks_rpc_method;

/* A string field of the undo request, and paths in the original request: the first path that is set gives the value.
 * NULL ends the paths. */
typedef struct lks_rpc_undo_field {
    const char *field;
    const char *const *from;
} lks_rpc_undo_field;

typedef struct lks_rpc_undo {
    const struct lks_rpc_method *method;
    size_t n_fields;
    const lks_rpc_undo_field *fields;
} lks_rpc_undo;

/* Static and constant. */
typedef struct lks_rpc_method {
    const char *path; /* "/lockstock.v1.StockService/Deduct" */
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    lks_rpc_effect effect;
    const char *natural_id; /* a field path; NULL: none */
    lks_rpc_fill fill;
    bool settles;             /* ends or extends something that the caller holds; a full server makes room for it */
    bool coalesce;            /* is answered at once with a short answer; its calls may share a message */
    const char *first_try;    /* a bool field of the request that is true in the first try only; NULL: none */
    const lks_rpc_undo *undo; /* what is sent when a call is cancelled; NULL: nothing */
} lks_rpc_method;

enum { LKS_RPC_RANDOM_ID_LEN = 32 };

/* Writes 32 random characters of [0-9a-z] and a NUL, from getrandom(2). Thread-safe. */
void lks_rpc_random_id(char id[LKS_RPC_RANDOM_ID_LEN + 1]);

/* Returns whether a request may be sent again after its reply was lost: the method is READ, or its natural id is set
 * (in a repeated message, in all elements, of which there must be one). A field is set if it is sent and not empty
 * or 0; a number with a `has_` may be 0, and a default that is not sent is not set. Thread-safe. */
bool lks_rpc_may_repeat(const lks_rpc_method *method, const ProtobufCMessage *request);

/* Returns the address of the string field to fill if fill is RANDOM and the field is empty, else NULL. The caller
 * stores a pointer there, and restores it after the call. */
char **lks_rpc_field_to_fill(const lks_rpc_method *method, ProtobufCMessage *request);

/* Returns the request's int64 field `wait_ms`, by convention how long the server may hold the call; 0 if there is
 * none or it is negative. Thread-safe. */
int64_t lks_rpc_wait_ms(const lks_rpc_method *method, const ProtobufCMessage *request);

/* Sets the field with the option first_try to false, for a later try. Returns whether it was true. */
bool lks_rpc_end_first_try(const lks_rpc_method *method, ProtobufCMessage *request);

/* Returns the request of method->undo for this request, to be freed with free(); its texts are those of `request`.
 * Returns NULL if there is no undo, or when out of memory. */
ProtobufCMessage *lks_rpc_undo_request(const lks_rpc_method *method, const ProtobufCMessage *request);

#ifdef __cplusplus
}
#endif

#endif
