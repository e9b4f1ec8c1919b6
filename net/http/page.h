/* A page that a server serves in addition to its calls, such as "/metrics". */
#ifndef LOCKSTOCK_NET_HTTP_PAGE_H
#define LOCKSTOCK_NET_HTTP_PAGE_H

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>

typedef struct http_page_answer {
    unsigned status;    /* 200 */
    const char *type;   /* its Content-Type; static */
    lks_rpc_slice body; /* in the arena, or static */
} http_page_answer;

typedef struct http_page_field {
    const char *name, *value; /* static; the name in lower case */
} http_page_field;

typedef struct http_page {
    const char *path;      /* "/metrics", of GET and HEAD */
    const char *right;     /* a reader must have the right to call this method; NULL: everybody may read the page */
    lks_rpc_effect effect; /* of that method */
    /* `accept`: the request's field Accept; "" without one. Loop thread only. When out of memory, return status 503,
     * not an empty body with status 200. */
    http_page_answer (*write)(void *arg, const char *accept, lks_rpc_arena *arena);
    void *arg;
    const http_page_field *fields; /* of each answer, in addition to Content-Type */
    size_t n_fields;
} http_page;

/* The `write` of /healthz: reports that the process runs. */
http_page_answer http_page_alive(void *arg, const char *accept, lks_rpc_arena *arena);

#endif
