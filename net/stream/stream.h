/* Connections on the loop: listens on TCP, TLS and unix sockets, reads and writes them, and enforces time limits. A
 * protocol interprets the bytes. Loop thread only.
 *
 *   accepted --(TLS)--open--> OPEN --peer ends, stream_end, a timer--> CLOSING --closed--> freed
 *                               bytes... in order
 *
 * Output is collected until the end of the loop's turn and leaves in one system call. */
#ifndef LOCKSTOCK_NET_STREAM_H
#define LOCKSTOCK_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <lockstock/status.h>

#include "net/admission/budget.h"
#include "net/metrics/metrics.h"
#include "net/stream/stream_types.h"
#include "net/tls.h"

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code streams_new(const streams_options *options, streams **ret, lks_error *error);

/* Listens on an address; *bound gets its port, 0 for a unix socket. The protocol is static; arg is for its `open`. A unix
 * socket gets mode 0600, and replaces a socket that no process listens on. Of a descriptor a copy is used; the caller
 * keeps the original, which is closed on exec from then on. LKS_INVALID_ARGUMENT: not an address. LKS_UNAVAILABLE: in
 * use, or not an address of this machine. LKS_ALREADY_EXISTS: a listener already has the socket. */
lks_code streams_listen(streams *all, const stream_address *at, const stream_protocol *protocol, void *arg,
                        uint16_t *bound, lks_error *error);

/* Accepts no new connections from now on. */
void streams_stop_accepting(streams *all);

/* Whether output waits to be written. */
bool streams_flushing(const streams *all);

/* Closes all connections, after streams_stop_accepting. */
void streams_hang_up(streams *all);

/* Closes all listeners and connections; `closed` runs on the loop when everything is freed. */
void streams_close(streams *all, void (*closed)(void *arg), void *arg);

/* Writes METRICS_CONNECTIONS, _OPENED, _RECEIVED, _SENT and _CLOSED. */
void streams_write_metrics(const streams *all, metrics_text *t);

/* The peer, which lives as long as the stream; its wire is static. */
lks_rpc_peer stream_peer(const stream *s);

/* The peer's address without the port, for IPv6 the /64 network. Lives as long as the stream. */
const char *stream_origin(const stream *s);

/* The name in the peer's verified certificate, valid as long as the stream; NULL without one. */
const char *stream_peer_certificate(const stream *s);

/* The protocol's greeting is done: greeting_ms ends. Further calls change nothing. */
void stream_ready(stream *s);

/* Sets whether the connection is idle, which it is not at first. Before stream_ready it changes nothing. An idle connection closes after idle_ms, or, if it has
 * no principal (from its certificate or stream_bytes), when a new connection needs its place. */
void stream_idle(stream *s, bool idle);

/* Sets whether a message is partly received. `new_message`: it is another message than in the call before. A
 * message that is not complete within request_ms ends the connection; time while the stream is paused does not
 * count. */
void stream_unfinished(stream *s, bool unfinished, bool new_message);

/* The connection's share of the budget, which holds the bytes of waiting output. It exists until `closed`, and then as
 * long as it holds bytes. Its principal (budget_set_principal) decides whether an idle connection may be closed for a
 * new one. */
budget_share *stream_bytes(const stream *s);

/* Stops and resumes reading. Bytes that were already read still reach the protocol. */
void stream_pause(stream *s);
void stream_resume(stream *s);

/* Makes a block for len bytes; NULL when out of memory. */
stream_block *stream_block_new(size_t len);

/* Takes the block. Drops it when the stream is closing. */
void stream_write(stream *s, stream_block *block);

/* Ends the output: the peer reads an end of file. Call it when all output has been written. What the peer sends is
 * still read. Does nothing with TLS. */
void stream_end_output(stream *s);

/* Asks for `produce` at the end of this turn of the loop. */
void stream_produce(stream *s);

/* Bytes of output that the kernel has not taken. */
size_t stream_waiting(const stream *s);

/* Whether the stream is neither paused nor closing. */
bool stream_is_read(const stream *s);

/* Whether the stream is closing. Then its calls need not be served. */
bool stream_is_closing(const stream *s);

/* Ends the connection; `closed` runs later. Tries once to write the waiting output. The first reason is logged. */
void stream_end(stream *s, stream_reason why);

#endif
