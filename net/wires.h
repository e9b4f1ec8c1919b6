/* All transports that a server listens on. Used by lockstockd and host/. The scheme of a URL selects the engine:
 *
 *   tcp://host:port  tls://...  unix:///path   sp_server.h, on the loop
 *   grpc://host:port  grpcs://...  grpc+unix:///path   grpc.h, on the loop
 *   http://host:port  https://...  http+unix:///path   http/http_server.h, on the loop: JSON, Connect, gRPC-Web, gRPC
 *   ws://host:port/path  wss://...             sp_server.h, over WebSocket
 *   nng+tcp://...  nng+ws://...                other names of tcp:// and ws://
 *   tcp+fd://WHICH  tls+fd://...  grpc+fd://...  grpcs+fd://...  http+fd://...  https+fd://...
 *   ws+fd://WHICH/path  wss+fd://...
 *                                              sockets that were handed in (stream/handed_in.h)
 *
 * Error messages do not contain the URL; the caller puts it before them. Loop thread only. */
#ifndef LOCKSTOCK_NET_WIRES_H
#define LOCKSTOCK_NET_WIRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/grpc/grpc.h"
#include "net/http/page.h"
#include "net/sp/frames.h"
#include "net/tls.h"

struct uv_loop_s;

typedef struct wires wires;

typedef struct wires_options {
    struct uv_loop_s *loop;
    frames *frames;
    const sink *sink;
    budget *budget;
    const grpc_streaming_method *streaming; /* of gRPC; must outlive the wires */
    size_t n_streaming;
    size_t message_bytes_max;
    uint32_t in_flight_per_peer;
    uint32_t waiting_per_peer;
    uint32_t request_ms; /* see grpc.h */
    grpc_life_options life;
    uint32_t connections_max;
    uint32_t connections_per_wire;    /* 0: three quarters of connections_max if several_wires, else all */
    uint32_t connections_per_address; /* 0: a quarter */
    bool several_wires;
    stream_log *tell; /* see streams_options */
    void *tell_arg;
    tls_files tls;              /* certificate NULL: no TLS; the paths must outlive the wires */
    const char *no_certificate; /* the error when a URL needs TLS and there is no certificate */
    /* "https://shop.example": origins of web pages that may connect; checked; must outlive the wires. */
    char *const *origins;
    size_t n_origins;
    const http_page *pages; /* of http:// URLs; must outlive the wires */
    size_t n_pages;
} wires_options;

/* Check the TLS files, which have names, or a URL before anything is started. A TLS setting without effect is wrong,
 * because someone may rely on it. A URL with TLS needs a certificate. starts: the URL must also be free, which a running
 * server's own URL is not. Errors as of wires_new and wires_listen. */
lks_code wires_check_tls(const tls_files *files, lks_error *error);
lks_code wires_check(const char *url, bool starts, bool has_certificate, const char *no_certificate, lks_error *error);

/* Whether the text is an origin as a browser sends it: without a path, not even "/", and without a pattern. */
bool wires_is_origin(const char *text);

/* LKS_RESOURCE_EXHAUSTED: out of memory. LKS_INVALID_ARGUMENT: a TLS file cannot be used. */
lks_code wires_new(const wires_options *options, wires **ret, lks_error *error);

enum { WIRES_URL_BYTES_MAX = 512 };

/* Serves a URL. bound_url gets the URL with the bound port in place of port 0, and *port, unless it is NULL, the
 * port; 0 where the URL has none. LKS_INVALID_ARGUMENT: not one of these URLs. LKS_UNAVAILABLE: the address is in use,
 * or not this machine's. LKS_FAILED_PRECONDITION: there is no certificate. */
lks_code wires_listen(wires *w, const char *url, char bound_url[WIRES_URL_BYTES_MAX], uint16_t *port, lks_error *error);

/* Reads the TLS files again, for new connections. When a file is wrong, nothing changes. */
lks_code wires_load_certificates(wires *w, lks_error *error);

/* When the certificate that was read last expires: see tls_context_ends. */
int64_t wires_certificate_ends(const wires *w);

/* Writes the metrics of connections. */
void wires_write_metrics(const wires *w, metrics_text *t);

/* Whether other machines can reach a valid URL. False for a socket that was not handed in to this process. */
bool wires_is_exposed(const char *url);

/* Whether the valid URLs name several transports. nng+tcp:// is another name of tcp://. */
bool wires_are_several(char *const *urls, size_t n);

/* Whether web pages can connect to the URL. */
bool wires_is_for_pages(const char *url);

/* Whether the URL's connections are encrypted. */
bool wires_is_encrypted(const char *url);

/* Whether messages are unanswered, or the kernel has not taken all answers. */
bool wires_busy(const wires *w);

/* Closes new connections and refuses new messages (UNAVAILABLE, NO) from now on. */
void wires_stop_receiving(wires *w);

/* Closes every connection, after wires_stop_receiving. Abandons their calls and drops answers that were not sent. */
void wires_hang_up(wires *w);

/* After wires_stop_receiving, when every message is answered. `closed` runs on the loop when everything is freed. */
void wires_close(wires *w, void (*closed)(void *arg), void *arg);

#endif
