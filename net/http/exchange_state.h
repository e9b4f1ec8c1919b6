/* Private to exchange.c, origin.c, connect.c and grpc_web.c. */
#ifndef LOCKSTOCK_NET_HTTP_EXCHANGE_STATE_H
#define LOCKSTOCK_NET_HTTP_EXCHANGE_STATE_H

#include <lockstock/rpc/exchange.h>

#include "net/http/exchange_types.h"

/* As drawn in exchange.h. */
typedef enum exchange_state { EXCHANGE_READING, EXCHANGE_RUNNING, EXCHANGE_ABANDONED } exchange_state;

typedef enum http_verb { VERB_OTHER, VERB_GET, VERB_HEAD, VERB_POST, VERB_OPTIONS } http_verb;

/* The fields that exchanges read, found in one pass. */
typedef enum known_field {
    KNOWN_TYPE,
    KNOWN_ENCODING,
    KNOWN_CONNECT_VERSION,
    KNOWN_CONNECT_TIMEOUT,
    KNOWN_GRPC_TIMEOUT,
    KNOWN_GRPC_ENCODING,
    KNOWN_ORIGIN,
    KNOWN_SITE,
    KNOWN_ONCE, /* the fields before it may be given once at most */
    KNOWN_ACCEPT = KNOWN_ONCE,
    KNOWN_ACCEPT_ENCODING,
    KNOWN_GRPC_ACCEPT_ENCODING,
    KNOWN_FIELDS
} known_field;

/* How requests are read and answers are written. */
typedef struct http_protocol {
    /* Checks the fields: sets e->timeout_ms and how messages are coded. False: *error is set. */
    bool (*begin)(http_exchange *e, lks_error *error);
    /* Extracts the message from the complete body into e->payload. */
    bool (*read)(http_exchange *e, lks_error *error);
    /* Writes an answer, coded as the caller wants it. False: *error is set. */
    bool (*write)(http_exchange *e, const void *message, size_t len, http_answer *answer, lks_error *error);
    /* Writes an error. status 0: derived from the code. */
    void (*fail)(http_exchange *e, unsigned status, const lks_error *error, http_answer *answer);
} http_protocol;

struct http_exchange {
    const http_site *site;
    const http_peer *from;
    exchange_state state;
    const http_protocol *protocol;
    http_exchange_done *done;
    void *arg;
    uint64_t received_ns;
    lks_rpc_arena *arena;
    http_fields fields;                /* of the request; empty after a wait */
    lks_rpc_slice known[KNOWN_FIELDS]; /* the first of each name; "" when there is none */
    const char *path, *query, *host;
    http_verb verb;
    budget_claim held; /* of the connection's bytes */
    uint8_t *body;
    size_t body_len, body_room;
    const lks_rpc_method *call; /* NULL: none, or not known yet */
    const http_page *page;
    struct running *running;
    uint32_t timeout_ms; /* 0: none */
    lks_rpc_slice payload;
    const char *allowed_origin;     /* one of the site's origins; NULL: the request is not from another site */
    bool *gone;                     /* set when the exchange is freed; NULL: not needed */
    bool is_json, is_text;          /* is_text: gRPC-Web in base64 */
    bool takes_gzip, is_gzip;       /* the answer may be; the request is */
    lks_rpc_hints hints;            /* of the response */
    const lks_rpc_additions *added; /* to the answer; valid while it is written */
    http_fields answer_fields;      /* of the answer; empty while the call runs, because its arena may be freed */
};

/* Adds a field to the answer. The texts are static, in the arena, or outlive the exchange. NULL adds nothing. */
void exchange_set(http_exchange *e, const char *name, const char *value);

/* Compresses the body if the caller accepts gzip and the body is large enough. */
void exchange_pack(http_exchange *e, http_answer *answer);

/* Sets *error to INVALID_ARGUMENT. Returns false. */
bool exchange_invalid(lks_error *error, const char *why);

/* Reads "application/json" in a Content-Type, with a parameter or without. */
bool exchange_is_type(lks_rpc_slice type, const char *wanted);

/* Inflates gzip into the arena, at most the site's message_bytes_max. False: *error is set. */
bool exchange_inflate(http_exchange *e, const void *data, size_t len, const void **ret, size_t *ret_len,
                      lks_error *error);

/* Takes a message in the caller's coding as the payload. False: *error is set. */
bool exchange_take(http_exchange *e, const void *data, size_t len, lks_error *error);

/* origin.c: whether the web page that sent this request may send it. `page`: the requested page, or NULL. False: *error
 * is set. */
bool origin_check(http_exchange *e, const http_page *page, lks_error *error);

/* Adds the CORS fields to the answer. */
void origin_put(http_exchange *e);

/* Answers a preflight (OPTIONS of a page of another site). */
void origin_preflight(http_exchange *e, http_answer *answer);

#endif
