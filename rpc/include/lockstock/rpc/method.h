/* The method table: what is known of a method beside its code. One constant
 * per method is generated from the .proto and its options; retry, id filling,
 * authorisation and metrics are all derived from it. */
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
    LKS_RPC_EFFECT_WRITE = 2, /* also for a method without the option */
    LKS_RPC_EFFECT_ADMIN = 3
} lks_rpc_effect;

typedef enum lks_rpc_fill {
    LKS_RPC_FILL_NONE = 0,
    LKS_RPC_FILL_RANDOM = 1 /* natural_id is a string field of the request itself */
} lks_rpc_fill;

struct lks_rpc_method;

/* A string field of an undoing request, and the paths in the undone one of which the first
 * that is set gives it; NULL ends them. */
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
    const char *natural_id; /* field path, NULL = none */
    lks_rpc_fill fill;
    bool settles;             /* ends or keeps what its caller has: a full server finds room for it first */
    bool coalesce;            /* is answered at once, and shortly: calls of it may share a message */
    const char *first_try;    /* a bool field of the request, true in a first try only; NULL = none */
    const lks_rpc_undo *undo; /* what is sent when a call of it is cancelled; NULL = nothing */
} lks_rpc_method;

enum { LKS_RPC_RANDOM_ID_LEN = 32 };

/* Writes 32 random characters of [0-9a-z] and a NUL. Uses getrandom(2).
 * Thread-safe. */
void lks_rpc_random_id(char id[LKS_RPC_RANDOM_ID_LEN + 1]);

/* Whether a request may be sent again after its reply was lost: the method is
 * READ, or its natural id is set (of a repeated message, in every element, of
 * which there is at least one). Set is what is sent and not empty or 0; a number
 * with a `has_` may be 0, and a default that is not sent is not set. Pure. */
bool lks_rpc_may_repeat(const lks_rpc_method *method, const ProtobufCMessage *request);

/* The address of the string field to fill when fill is RANDOM and the field is
 * empty; else NULL. The caller stores a pointer there and puts it back. */
char **lks_rpc_field_to_fill(const lks_rpc_method *method, ProtobufCMessage *request);

/* The request's int64 field `wait_ms`, by convention how long the server may
 * hold the call; 0 when there is none or it is negative. Pure. */
int64_t lks_rpc_wait_ms(const lks_rpc_method *method, const ProtobufCMessage *request);

/* Makes the request that of a second or later try: the field with the option
 * first_try says false from now on. True when it said true before. */
bool lks_rpc_end_first_try(const lks_rpc_method *method, ProtobufCMessage *request);

/* The request of method->undo for this one, to be freed with free() alone: its text is that
 * of `request`. NULL: there is no undo, or no memory. */
ProtobufCMessage *lks_rpc_undo_request(const lks_rpc_method *method, const ProtobufCMessage *request);

#ifdef __cplusplus
}
#endif

#endif
