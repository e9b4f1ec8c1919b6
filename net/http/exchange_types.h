/* The types of exchange.h, which the protocols use too. */
#ifndef LOCKSTOCK_NET_HTTP_EXCHANGE_TYPES_H
#define LOCKSTOCK_NET_HTTP_EXCHANGE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "net/admission/budget.h"
#include "net/http/fields.h"
#include "net/http/page.h"
#include "net/sink.h"

typedef struct http_exchange http_exchange;

/* What a server's http:// URLs serve. */
typedef struct http_site {
    const sink *sink;
    size_t message_bytes_max; /* of a request and of an answer, also once decompressed */
    char *const *origins;     /* "https://shop.example": other sites whose pages may call */
    size_t n_origins;
    const http_page *pages;
    size_t n_pages;
    bool draining; /* new calls are refused */
} http_site;

/* The origin of a request. Its pointers are valid as long as the connection. */
typedef struct http_peer {
    caller *caller;
    budget_share *bytes;
    const char *certificate; /* as in credentials */
    const uid_t *uid;
    bool encrypted;
    bool is_local; /* only this machine can reach the listener, by IP, so Host must name this machine */
} http_peer;

typedef struct http_answer {
    unsigned status;
    const http_fields *fields; /* without Content-Length, Date and Connection */
    const void *body;
    size_t len;
    bool is_head; /* the request was HEAD: the body is not sent */
} http_answer;

/* Runs at most once, and not after http_exchange_leave. The answer is valid until the callback returns; then the
 * exchange is freed. */
typedef void http_exchange_done(void *arg, const http_answer *answer);

#endif
