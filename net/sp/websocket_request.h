/* The HTTP request by which a WebSocket begins, and the answer to it (RFC 6455, section
 * 4.2), without I/O.
 *
 * A browser says by `Origin` whose page opens the connection, and does not keep a page
 * from opening one to this machine. So a request with an Origin is refused unless that
 * origin is named. What is no browser sends none. `Host` must be there, as HTTP has it,
 * and may say anything: names are not what protects. */
#ifndef LOCKSTOCK_NET_WEBSOCKET_REQUEST_H
#define LOCKSTOCK_NET_WEBSOCKET_REQUEST_H

#include <stddef.h>

/* What an address serves. All of it outlives whoever reads it. */
typedef struct websocket_site {
    const char *path;        /* "/lockstock"; what follows a "?" in the request is not looked at */
    const char *subprotocol; /* which the client must offer */
    char *const *origins;    /* "https://shop.example": pages that may connect */
    size_t n_origins;
} websocket_site;

enum { WEBSOCKET_ACCEPT_BYTES = 28, WEBSOCKET_ANSWER_BYTES_MAX = 320 };

typedef struct websocket_verdict {
    unsigned status;                         /* 101: accepted */
    const char *why;                         /* static; not with 101 */
    char accept[WEBSOCKET_ACCEPT_BYTES + 1]; /* with 101: proves that the key was read */
} websocket_verdict;

/* Judges a request, from its first byte to its empty line. */
websocket_verdict websocket_request_judge(const websocket_site *site, const char *request, size_t len);

/* Writes the answer; gives its length. */
size_t websocket_answer(const websocket_site *site, const websocket_verdict *verdict,
                        char out[WEBSOCKET_ANSWER_BYTES_MAX]);

#endif
