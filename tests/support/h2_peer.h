/* An HTTP/2 client on a socket that does not block, for servers on a loop of the same
 * thread: nghttp2's client session, or bytes of the test's own. Single-threaded. */
#ifndef LOCKSTOCK_TESTS_H2_PEER_H
#define LOCKSTOCK_TESTS_H2_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { H2_PEER_CALLS_MAX = 1024, H2_PEER_GOAWAYS_MAX = 8 };

typedef struct h2_peer h2_peer;

/* The answer to a call. */
typedef struct h2_answer {
    int32_t id;
    bool closed;
    uint32_t error;     /* of RST_STREAM */
    char headers[4096]; /* "name: value\n", trailers too */
    int blocks;         /* of headers: 1 = trailers only */
    uint8_t *data;      /* what came of DATA */
    size_t len, room;
} h2_answer;

/* window: of each stream and, if it is more than the default, of the connection; 0 = the
 * default. NULL when there is no connection. The caller frees. */
h2_peer *h2_peer_open(uint16_t port, uint32_t window);

/* Sends and takes what can be; false once the connection ended. */
bool h2_peer_turn(h2_peer *p);

/* Stops reading from the socket: its buffer fills. */
void h2_peer_deafen(h2_peer *p, bool deaf);

/* A call of a path with `fields` ("name", "value", ... NULL; may be NULL) and a body; `more`
 * keeps it open. Gives its index in h2_peer_answer. A field replaces one of ours with that name. */
size_t h2_peer_call(h2_peer *p, const char *path, const char *const *fields, const void *body, size_t len, bool more);

/* More of a call that was kept open. */
void h2_peer_more(h2_peer *p, size_t call, const void *body, size_t len, bool more);

void h2_peer_reset(h2_peer *p, size_t call, uint32_t error);
void h2_peer_ping(h2_peer *p);

/* Lets the server send more for a call: h2_peer_open's window is not
 * enlarged automatically. */
void h2_peer_allow(h2_peer *p, size_t call, uint32_t bytes);

const h2_answer *h2_peer_answer(const h2_peer *p, size_t call);

/* The value of a header or trailer; "" if it is missing; valid until the next use. */
const char *h2_peer_header(const h2_peer *p, size_t call, const char *name);

/* The GOAWAYs that came. */
typedef struct h2_goaways {
    size_t n;
    int32_t last[H2_PEER_GOAWAYS_MAX]; /* last_stream_id */
    uint32_t error[H2_PEER_GOAWAYS_MAX];
    char text[64]; /* of the last one */
} h2_goaways;

const h2_goaways *h2_peer_goaways(const h2_peer *p);

/* Writes raw bytes, past the session. Returns false if the connection takes no more. */
bool h2_peer_raw(h2_peer *p, const void *data, size_t len);

uint32_t h2_peer_concurrent_max(const h2_peer *p);
void h2_peer_free(h2_peer *p);

#endif
