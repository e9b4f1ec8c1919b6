/* The REP context pool: takes request messages off one libnng REP socket and
 * sends the answers, any number of calls at a time, and contains what libnng
 * 1.5.2 does wrong (docs/nng.md). Used by lockstockd and by host/.
 *
 * It keeps 16..64 contexts *receiving*: a context that waits for its answer
 * cannot receive, so another is opened for each call under way, up to a limit;
 * beyond that a message is answered RESOURCE_EXHAUSTED at once. */
#ifndef LOCKSTOCK_NET_NNG_REP_H
#define LOCKSTOCK_NET_NNG_REP_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_rpc_nng_rep lks_rpc_nng_rep;

/* One request message. Handed to on_request, which owns it from then on and ends
 * it by exactly one of _reply and _drop, from any thread. */
typedef struct lks_rpc_nng_request lks_rpc_nng_request;

typedef struct lks_rpc_nng_rep_options {
    size_t message_bytes_max;    /* 0 = 1 MiB; a longer one closes its connection */
    uint32_t receiving;          /* 0 = 64; contexts kept receiving, 16..64 */
    uint32_t in_flight_max;      /* 0 = 4096; messages between receive and reply, more are refused */
    uint32_t peer_in_flight_max; /* 0 = 512; the same of one connection; twice that is dropped unread.
                                    An answer counts until nng has sent it, when its reader may long
                                    have sent the next: so twice what a client has under way */
    uint32_t connections_max;    /* 0 = 4096; one more is closed at once */
    uint32_t send_timeout_ms;    /* 0 = 500; a peer that does not read is closed, once it pauses */
    /* Runs on an nng thread: must not block, and must not call _close. */
    void (*on_request)(void *arg, lks_rpc_nng_request *request);
    /* The connection of a peer is gone: runs once, after on_request returned for the
     * last of its messages. On any thread; must not block, and must not call _close.
     * May be NULL. */
    void (*on_peer_lost)(void *arg, uint32_t peer);
    void *arg;
} lks_rpc_nng_rep_options;

/* A socket without an address. LKS_RESOURCE_EXHAUSTED when out of memory or
 * descriptors. The options are copied. */
lks_code lks_rpc_nng_rep_open(const lks_rpc_nng_rep_options *options, lks_rpc_nng_rep **ret, lks_error *error);

/* Listens on an nng URL ("tcp://127.0.0.1:7700", "ws://..."; port 0 lets the
 * system choose). May be called again for further addresses. The bound port is
 * stored in *port when not NULL (0 when nng does not tell: ws). Over ws a connection with
 * an Origin, which is a web page's, is closed before it is read. LKS_INVALID_ARGUMENT:
 * a URL that is none, or of another transport; LKS_UNAVAILABLE: the address is in use
 * or not ours. */
lks_code lks_rpc_nng_rep_listen(lks_rpc_nng_rep *rep, const char *url, uint16_t *port, lks_error *error);

/* Takes no new connection and no new message: connections are closed, messages are
 * answered UNAVAILABLE, applied NO. Answers can still be sent. Once this returned,
 * on_request and on_peer_lost do not run any more; it must not be called from them. */
void lks_rpc_nng_rep_stop_receiving(lks_rpc_nng_rep *rep);

/* Messages handed out and not yet ended, answers being sent included. */
size_t lks_rpc_nng_rep_in_flight(const lks_rpc_nng_rep *rep);

/* Connections that stand, or are not known to be closed yet. */
size_t lks_rpc_nng_rep_connections(lks_rpc_nng_rep *rep);

/* Connections that are closed but not given back by nng. If a figure above a handful
 * stays, nng's reaper hangs and only a new process gives their descriptors back
 * (docs/nng.md). Looks at each connection: not for a hot path. */
size_t lks_rpc_nng_rep_leaked(lks_rpc_nng_rep *rep);

/* Stops and frees; blocks until nng is done with it, for 5 s at most: an nng that
 * hangs keeps what it holds (docs/nng.md). Requests still out must be ended before.
 * Takes NULL. */
void lks_rpc_nng_rep_close(lks_rpc_nng_rep *rep);

/* The bytes of the request; valid until it is ended. */
const void *lks_rpc_nng_request_data(const lks_rpc_nng_request *request, size_t *len);

/* Takes those bytes out of the request, so that one that waits does not keep them: the
 * request has none any more. Free with lks_rpc_nng_message_free. */
struct nng_msg *lks_rpc_nng_request_take(lks_rpc_nng_request *request, const void **data, size_t *len);
void lks_rpc_nng_message_free(struct nng_msg *message);

/* Identity of the connection it came on; never reused while that lives. */
uint32_t lks_rpc_nng_request_peer(const lks_rpc_nng_request *request);

/* Space for an answer of `len` bytes, to be filled in before _reply; NULL when
 * out of memory. */
void *lks_rpc_nng_request_answer(lks_rpc_nng_request *request, size_t len);

/* Sends what _answer gave. Returns at once. A peer that is gone, or does not
 * read within the send timeout, loses it silently. */
void lks_rpc_nng_request_reply(lks_rpc_nng_request *request);

/* Answers each call of the message with that error; a message that is no frame with one
 * result. */
void lks_rpc_nng_request_refuse(lks_rpc_nng_request *request, const lks_error *error);

/* Ends it without an answer. */
void lks_rpc_nng_request_drop(lks_rpc_nng_request *request);

/* Ends it and closes the connection it came on as soon as that is quiet; what else it
 * sends and is owed is dropped: for what is not a frame. */
void lks_rpc_nng_request_close_peer(lks_rpc_nng_request *request);

#ifdef __cplusplus
}
#endif

#endif
