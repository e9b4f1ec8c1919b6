/* All transports together: what the server listens on. The scheme of a URL says which
 * engine serves it:
 *
 *   tcp://host:port  tls://...  unix:///path   sp_server.h, on the loop
 *   grpc://host:port  grpcs://...              grpc.h, on the loop
 *   ws://host:port/path  wss://...  nng+ws://... (another name of ws://)
 *                                              sp_server.h, over WebSocket
 *   nng+tcp://host:port              nng.h: libnng, which starts threads of its own
 *
 * Loop thread only. */
#ifndef LOCKSTOCK_SERVER_WIRES_H
#define LOCKSTOCK_SERVER_WIRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "calls/frames.h"
#include "net/grpc/grpc.h"
#include "net/tls.h"

struct uv_loop_s;

typedef struct wires wires;

typedef struct wires_options {
    struct uv_loop_s *loop;
    frames *frames;
    dispatch *dispatch;
    callers *callers;
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
    tls_files tls;        /* certificate NULL: no TLS; the paths outlive it */
    char *const *origins; /* "https://shop.example": of web pages that may connect, checked; outlive it */
    size_t n_origins;
} wires_options;

/* Whether the files of TLS can be read; and whether a URL can be served, as far as that can be
 * known without serving it. So that what is wrong is told before anything is started. Errors as
 * of wires_new and wires_listen. */
lks_code wires_check_tls(const tls_files *files, lks_error *error);
lks_code wires_check(const char *url, const tls_files *files, lks_error *error);

/* Whether it is an origin as a browser writes it; LKS_INVALID_ARGUMENT. */
lks_code wires_check_origin(const char *origin, lks_error *error);

/* LKS_RESOURCE_EXHAUSTED: out of memory; LKS_INVALID_ARGUMENT: a file of TLS. */
lks_code wires_new(const wires_options *options, wires **ret, lks_error *error);

enum { WIRES_URL_BYTES_MAX = 512 };

/* Serves a URL and says where: port 0 becomes the bound one. LKS_INVALID_ARGUMENT: a
 * URL that is none; LKS_UNAVAILABLE: the address is in use or not ours. */
lks_code wires_listen(wires *w, const char *url, char bound_url[WIRES_URL_BYTES_MAX], lks_error *error);

/* Reads the files of TLS again, for connections that come from now on; when they are
 * wrong all stays as it was. */
lks_code wires_load_certificates(wires *w, lks_error *error);

/* Whether a URL that can be served is heard beyond this machine. */
bool wires_is_exposed(const char *url);

/* Whether two URLs that can be served are of one scheme. */
bool wires_are_same(const char *url, const char *other);

/* Whether libnng serves it, with its faults (docs/nng.md). */
bool wires_is_by_libnng(const char *url);

/* Whether web pages may be allowed to connect to it. */
bool wires_is_for_pages(const char *url);

/* Whether what goes over it is encrypted. */
bool wires_is_encrypted(const char *url);

/* Messages taken and not yet answered, and answers that the kernel has not taken. */
bool wires_busy(const wires *w);

/* From now on new connections are closed and new messages refused (UNAVAILABLE, NO). */
void wires_stop_receiving(wires *w);

/* After wires_stop_receiving, with every message answered. `closed` runs on the loop
 * when it is freed. */
void wires_close(wires *w, void (*closed)(void *arg), void *arg);

#endif
