/* A scripted server for tests of the client. It implements SP over plain sockets, because no library sends invalid
 * messages. It answers each request with its id, unless a fault says otherwise. All functions are thread-safe. */
#ifndef LOCKSTOCK_TESTS_CHANNEL_SERVER_H
#define LOCKSTOCK_TESTS_CHANNEL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/method.h>

typedef enum server_fault_kind {
    SERVER_ANSWERS,
    SERVER_DROPS_REPLY,     /* the call takes effect */
    SERVER_CLOSES,          /* the connection, instead of answering */
    SERVER_HOLDS,           /* answers when server_release is called */
    SERVER_SENDS_GARBAGE,   /* not a Reply */
    SERVER_SENDS_NO_RESULT, /* a Reply without any */
    SERVER_SENDS_BAD_TEXT,  /* a response whose string is not UTF-8 */
    SERVER_SENDS_HUGE,      /* a message of 8 MiB */
    SERVER_CLAIMS_HUGE,     /* a length of 0xFFFFFFFFFFFFFFE0 */
    SERVER_FAILS,           /* with the status of server_status */
    SERVER_FAILS_LATE,      /* its whole message, a second later: as a server that waits for its store */
    SERVER_REFUSES_FRAME,   /* with that status as the one result, however many calls it has */
} server_fault_kind;

/* Applies to `times` calls, after `after` others. FAILS and ANSWERS concern one call; another kind concerns its
 * whole message. */
typedef struct server_fault {
    server_fault_kind kind;
    uint32_t after, times;
} server_fault;

typedef struct server_status {
    uint32_t code, applied, retry_after_ms;
    const char *reason; /* NULL: none */
} server_status;

/* A call as the server received it. */
typedef struct server_request {
    char method[64], id[64], ns[64], authorization[64], traceparent[64];
    bool fresh, unanswered_before;
    uint32_t timeout_ms;
    size_t frame; /* the message that it came in: the server's first is 0 */
} server_request;

struct server;

/* Listens on a port of a numeric address, 0 = of the system's choice. Ends the program when it cannot. */
struct server *server_start_at(const char *host, uint16_t port);

static inline struct server *server_start(uint16_t port)
{
    return server_start_at("127.0.0.1", port);
}

/* Takes NULL. */
void server_stop(struct server *server);

uint16_t server_port(struct server *server);

/* The scheme of its URL: that of the environment variable LOCKSTOCK_TEST_SCHEME, else "tcp". */
const char *server_scheme(void);

/* "SCHEME://HOST:PORT"; lives as long as the server. */
const char *server_url(struct server *server);

void server_add_fault(struct server *server, server_fault fault);
void server_set_status(struct server *server, server_status status);

/* Sets whether it reads its input. */
void server_read_on(struct server *server, bool on);

/* Answers the calls that it holds, and holds no others. */
void server_release(struct server *server);

/* Closes all connections, and accepts new ones. */
void server_drop_connections(struct server *server);

/* Blocks until it has seen `n` requests; false after half a minute. */
bool server_await(struct server *server, size_t n);

/* Blocks until its clients are gone and it has read all they sent; false after half a
 * minute. */
bool server_settle(struct server *server);

/* Requests it has seen; those with this id. */
size_t server_seen(struct server *server);
size_t server_frames(struct server *server); /* messages that it has seen */
int32_t server_count(struct server *server, const char *id);
server_request server_request_at(struct server *server, size_t i);

/* Blocks until it has handshake_done hands on `n` connections; false after half a minute. */
bool server_await_accepted(struct server *server, size_t n);

/* Methods of the service: a READ; a WRITE whose natural id the caller sets, and whose field
 * `fresh` has the option first_try; one where the stub fills the id in; a WRITE without any. Those that
 * may share a message: as server_write, as server_plain, and one that settles. */
extern const lks_rpc_method server_read, server_write, server_filled, server_plain;
extern const lks_rpc_method server_shared, server_shared_plain, server_shared_settling;

#endif
