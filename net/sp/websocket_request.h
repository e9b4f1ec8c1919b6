/* The HTTP request that opens a WebSocket, and the response (RFC 6455, section 4.2), without I/O.
 *
 * A browser names the page in `Origin` and lets any page connect to any machine. So a request with an Origin is
 * refused unless that origin is allowed. Clients that are not browsers send none. `Host` must be present, as HTTP
 * requires, but any name is accepted. */
#ifndef LOCKSTOCK_NET_WEBSOCKET_REQUEST_H
#define LOCKSTOCK_NET_WEBSOCKET_REQUEST_H

#include <stddef.h>

/* The settings of an address that serves WebSocket. It must outlive its readers. */
typedef struct websocket_site {
    const char *path;        /* "/lockstock"; the query of a request is ignored */
    const char *subprotocol; /* the client must offer it */
    char *const *origins;    /* "https://shop.example": pages that may connect */
    size_t n_origins;
} websocket_site;

enum { WEBSOCKET_ACCEPT_BYTES = 28, WEBSOCKET_ANSWER_BYTES_MAX = 320 };

typedef struct websocket_verdict {
    unsigned status;                         /* 101: accepted */
    const char *why;                         /* static; NULL with 101 */
    char accept[WEBSOCKET_ACCEPT_BYTES + 1]; /* with 101: Sec-WebSocket-Accept */
} websocket_verdict;

/* Checks a request, from its first byte to its empty line. */
websocket_verdict websocket_request_check(const websocket_site *site, const char *request, size_t len);

/* Writes the response; returns its length. */
size_t websocket_answer(const websocket_site *site, const websocket_verdict *verdict,
                        char out[WEBSOCKET_ANSWER_BYTES_MAX]);

#endif
