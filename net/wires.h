/* All transports together: what a server listens on. Used by lockstockd and by host/. The scheme of a URL says which
 * engine serves it:
 *
 *   tcp://host:port  tls://...  unix:///path   sp_server.h, on the loop
 *   grpc://host:port  grpcs://...              grpc.h, on the loop
 *   ws://host:port/path  wss://...             sp_server.h, over WebSocket
 *   nng+tcp://...  nng+ws://...                other names of tcp:// and ws://
 *
 * Errors do not repeat the URL; the caller puts it before them. Loop thread only. */
#ifndef LOCKSTOCK_NET_WIRES_H
#define LOCKSTOCK_NET_WIRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/grpc/grpc.h"
#include "net/sp/frames.h"
#include "net/tls.h"

struct uv_loop_s;

typedef struct wires wires;

typedef struct wires_options {
    struct uv_loop_s *loop;
    frames *frames;
    const sink *sink;
    budget *budget;
    const grpc_streaming_method *streaming; /* of gRPC; outlive it */
    size_t n_streaming;
    size_t message_bytes_max;
    uint32_t in_flight_max;
    uint32_t in_flight_per_peer;
    uint32_t waiting_max;
    uint32_t waiting_per_peer;
    uint32_t request_ms; /* see grpc.h */
    uint32_t connections_max;
    uint32_t connections_per_wire;    /* 0: three quarters of them where several_wires, else all */
    uint32_t connections_per_address; /* 0: a quarter */
    bool several_wires;
    stream_tell *tell;          /* as streams_options have it */
    tls_files tls;              /* certificate NULL: no TLS; the paths outlive it */
    const char *no_certificate; /* what is said where TLS is asked for without one */
    char *const *origins;       /* "https://shop.example": of web pages that may connect, checked; outlive it */
    size_t n_origins;
} wires_options;

/* Whether the files of TLS can be read; and whether a URL can be served, as far as that can be
 * known without serving it; encrypted ones only with a certificate. So that what is wrong is told before
 * anything is started. starts: the URL must also be free, which a server's own is not while it runs. Errors as of wires_new and wires_listen. */
lks_code wires_check_tls(const tls_files *files, lks_error *error);
lks_code wires_check(const char *url, bool starts, bool has_certificate, const char *no_certificate, lks_error *error);

/* Whether it is an origin as a browser writes it: no path, not even "/", and no pattern. */
bool wires_is_origin(const char *text);

/* LKS_RESOURCE_EXHAUSTED: out of memory; LKS_INVALID_ARGUMENT: a file of TLS. */
lks_code wires_new(const wires_options *options, wires **ret, lks_error *error);

enum { WIRES_URL_BYTES_MAX = 512 };

/* Serves a URL and says where: port 0 becomes the bound one; *port, unless it is NULL, gets it, 0 where there
 * is none. LKS_INVALID_ARGUMENT: a URL that is none; LKS_UNAVAILABLE: the address is in use or
 * not ours; LKS_FAILED_PRECONDITION: there is no certificate. */
lks_code wires_listen(wires *w, const char *url, char bound_url[WIRES_URL_BYTES_MAX], uint16_t *port, lks_error *error);

/* Reads the files of TLS again, for connections that come from now on; when they are
 * wrong all stays as it was. */
lks_code wires_load_certificates(wires *w, lks_error *error);

/* When the certificate that was read last is over: as tls_context_ends. */
int64_t wires_certificate_ends(const wires *w);

/* Whether a URL that can be served is heard beyond this machine. */
bool wires_is_exposed(const char *url);

/* Whether two URLs that can be served are served alike: nng+tcp:// is another name of tcp://. */
bool wires_are_same(const char *url, const char *other);

/* Whether web pages may be allowed to connect to it. */
bool wires_is_for_pages(const char *url);

/* Whether what goes over it is encrypted. */
bool wires_is_encrypted(const char *url);

/* Messages taken and not yet answered, and answers that the kernel has not taken. */
bool wires_busy(const wires *w);

/* From now on new connections are closed and new messages refused (UNAVAILABLE, NO). */
void wires_stop_receiving(wires *w);

/* Closes every connection, after wires_stop_receiving. Calls of theirs are abandoned, and answers that were not taken
 * are dropped. */
void wires_hang_up(wires *w);

/* After wires_stop_receiving, with every message answered. `closed` runs on the loop
 * when it is freed. */
void wires_close(wires *w, void (*closed)(void *arg), void *arg);

#endif
