/* Serve your own typed services: handlers written against a generated skeleton
 * run on worker threads, called by the generated stubs, by any SP peer (nng), by web pages and by gRPC clients
 * of any language.
 *
 *     lks_host *host;
 *     lks_error error;
 *     shop_v1_shop_handlers handlers = SHOP_V1_SHOP_HANDLERS(shop_);
 *     lks_rpc_service service = shop_v1_shop_service(&handlers, &my_shop);
 *     if (lks_host_open(NULL, &host, &error) == LKS_OK &&
 *         lks_host_add(host, &service, &error) == LKS_OK &&
 *         lks_host_listen(host, "tcp://127.0.0.1:7800", NULL, &error) == LKS_OK &&
 *         lks_host_listen(host, "grpc://127.0.0.1:7801", NULL, &error) == LKS_OK)
 *         wait_for_signal();
 *     lks_host_close(host, 5000);
 *
 * A host is opened, filled and closed by one thread at a time; handlers run on
 * several threads at once. It has one more thread, for its connections. Over grpc:// and grpcs:// it also serves
 * grpc.health.v1.Health and grpc.reflection.v1 (and v1alpha). lockstock/channel.h explains the functions ..._sized. */
#ifndef LOCKSTOCK_HOST_H
#define LOCKSTOCK_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/service.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_host lks_host;

/* A line for a log: an event, and key=value pairs. Reports which connections end or are refused, and why; `warns`: it
 * is a warning. `arg` is the option log_arg. Runs on the host's own thread: it must not block, nor call the host. */
typedef void lks_host_log(void *arg, bool warns, const char *event, const char *line);

enum { LKS_HOST_PRINCIPAL_BYTES = 128 };

/* Identifies the caller, before guards and the handler, from the context's metadata ("authorization") and peer. LKS_OK:
 * `principal`, which is "" at first, becomes the context's principal. Another code, with *error: the call is refused
 * with it, applied NO. Runs on a thread that runs handlers, several at a time, and may block. */
typedef lks_code lks_host_authenticate(void *arg, const lks_rpc_context *context,
                                       char principal[LKS_HOST_PRINCIPAL_BYTES], lks_error *error);

/* Code around each call of a host: for logs, metrics, rights, caches. A host runs `authenticate`, then `before` of each
 * interceptor in the order of the options, the guards of the method (docs/guards.md), the handler, the leaving of the
 * guards, and `after` of each interceptor whose `before` admitted the call, in reverse order. Either may be NULL. Both
 * run on threads that run handlers, for several calls at a time, and may block. Both may defer the call as a handler
 * does (lks_host_defer): then the chain continues when lks_host_finish is called, and until then only the code that
 * will call it may use the response and the error. `*own` is a pointer for the interceptor's use during the call, NULL
 * at first. They do not run for calls that the host refuses before they get a thread (unknown methods, too many calls,
 * a deadline that passed). */
typedef struct lks_host_interceptor {
    /* LKS_OK admits the call. Another code, with *error, refuses it, applied NO. To answer the call without its
     * handler, fill `response`, call lks_host_skip and return LKS_OK: then `after` runs for this interceptor too. May
     * change `request`. */
    lks_code (*before)(void *arg, void **own, lks_rpc_context *context, ProtobufCMessage *request,
                       ProtobufCMessage *response, lks_error *error);
    /* If error->code is LKS_OK, `response` is the answer; otherwise *error is. Both may be changed. Returns the code of
     * the answer: error->code, unless it changes the answer. It runs even if no caller waits for the answer any
     * more. */
    lks_code (*after)(void *arg, void **own, lks_rpc_context *context, const ProtobufCMessage *request,
                      ProtobufCMessage *response, lks_error *error);
    void *arg;
} lks_host_interceptor;

enum { LKS_HOST_INTERCEPTORS_MAX = 32 };

/* Everything that it points to must exist until the host is closed. */
typedef struct lks_host_options {
    /* Threads that run handlers; 0 = 4. More are started, up to threads_max, while all of them block. */
    uint32_t threads;
    /* Messages that wait for a thread or run; more are refused with RESOURCE_EXHAUSTED, applied NO; 0 = 1,024. */
    uint32_t in_flight_max;
    uint32_t connections_max; /* a further one replaces an idle one, or is refused; 0 = 4,096 */
    size_t message_bytes_max; /* of a request and of a reply; 0 = 1 MiB */
    /* Of a call that names none, and the longest allowed; 0 = 30,000. At its deadline a call is answered
     * DEADLINE_EXCEEDED, even if its handler still runs. */
    uint32_t timeout_ms;
    /* Pass unknown enum values, for example of a newer client, to handlers as numbers. False: such a request is
     * refused. */
    bool open_enums;
    /* The same for one connection: beyond it, the connection is not read, and a gRPC client may not start more
     * calls; 0 = 256. */
    uint32_t in_flight_per_connection;
    uint32_t connections_per_address; /* from one address, or by unix sockets from one user; 0 = a quarter */
    uint32_t request_ms;              /* for a gRPC call's headers and body to arrive; 0 = 30,000 */
    size_t memory_bytes;              /* requests and answers in memory, of all connections together; 0 = 256 MiB */
    const char *tls_certificate;      /* for tls://, wss:// and grpcs://: the chain, a PEM file */
    const char *tls_key;              /* a PEM file */
    /* The CA that signs the clients' certificates, a PEM file; NULL: no certificate is requested. */
    const char *tls_client_ca;
    bool tls_client_required;   /* a client without a certificate is refused */
    char *const *allow_origins; /* "https://shop.example": web pages that may connect by ws:// and wss:// */
    size_t n_allow_origins;
    lks_host_log *log; /* NULL: no log */
    /* To lockstockd (lockstock/channel.h), for services with guards (docs/guards.md); it must exist until the host
     * is closed. NULL: no guards. */
    struct lks_channel *guards;
    void *log_arg;        /* for log */
    uint32_t threads_max; /* at least threads; 0 = 64, or threads if that is more */
    uint32_t no_pages;    /* 1: http:// URLs do not serve /metrics, /healthz and /readyz, which need no rights */
    lks_host_authenticate *authenticate; /* NULL: everyone may call, and has no principal */
    void *authenticate_arg;
    const lks_host_interceptor *interceptors; /* the first one is the outermost */
    size_t n_interceptors;                    /* at most LKS_HOST_INTERCEPTORS_MAX */
    /* For gRPC connections, in milliseconds: 0, or at least 1,000. A peer that sends nothing for keepalive_ms is
     * pinged; the connection is closed when the peer stays silent for another keepalive_timeout_ms. */
    uint32_t keepalive_ms;         /* 0: no pings */
    uint32_t keepalive_timeout_ms; /* 0 = 20,000 */
    /* A client that pings more often than this, three times without an answer to a call between the pings, gets
     * GOAWAY ENHANCE_YOUR_CALM; 0: no limit. */
    uint32_t ping_min_ms;
    /* Plus or minus a tenth; then the client gets GOAWAY, and makes another connection; 0: any age. */
    uint32_t connection_age_ms;
    uint32_t connection_age_grace_ms; /* for the calls of an old connection to end, before it is closed; 0 = 30,000 */
    /* 1: the host has no threads; the program drives it by lks_host_step, which runs handlers too. Then threads and
     * threads_max are 0. */
    uint32_t driven;
} lks_host_options;

/* Handlers only get well-formed requests: strings are UTF-8 without NUL, and required fields are set. The limits are: a
 * string or bytes as long as message_bytes_max, 16 levels of messages, 20,000 elements of repeated fields and nested
 * messages, 1,000 unknown fields (which are skipped), and, unless open_enums, known values of enums. Other requests are
 * answered INVALID_ARGUMENT, applied NO, with the field's path, without a handler. */

/* A host without a service or an address. options may be NULL; the struct is copied. On success *ret is
 * the caller's to close. LKS_INVALID_ARGUMENT: options that do not agree, or a file of TLS that cannot be used;
 * LKS_RESOURCE_EXHAUSTED: no memory, threads or descriptors. */
lks_code lks_host_open_sized(const lks_host_options *options, size_t options_bytes, lks_host **ret, lks_error *error);

static inline lks_code lks_host_open(const lks_host_options *options, lks_host **ret, lks_error *error)
{
    return lks_host_open_sized(options, sizeof(lks_host_options), ret, error);
}

/* Adds a service. Its bindings, handlers and `self` must outlive the host; the struct itself need not.
 * LKS_ALREADY_EXISTS: a method with the same path is already served; LKS_FAILED_PRECONDITION: the host already listens,
 * or a method has a guard and options.guards is NULL. */
lks_code lks_host_add(lks_host *host, const lks_rpc_service *service, lks_error *error);

/* Listens on an address; may be called again for further addresses.
 *
 *   tcp://address:port         SP, nng's own protocol: the generated stubs, and any nng REQ socket
 *   tls://address:port         the same over TLS 1.2 or newer
 *   unix:///path               the same on a unix socket, made with mode 0600
 *   ws://address:port/path     the same over WebSocket; wss:// over TLS; nng+ws:// is another name of ws://
 *   grpc://address:port        gRPC over HTTP/2; grpcs:// over TLS
 *   grpc+unix:///path          the same on a unix socket ("unix:/path" for gRPC's own libraries), made with mode 0600
 *   nng+tcp://address:port     another name of tcp://
 *   tcp+fd://7                 the same as tcp://, on descriptor 7: a stream socket of IP or unix that listens; tls+fd://,
 *                              grpc+fd://, grpcs+fd://, ws+fd://7/path and wss+fd://7/path as well
 *   tcp+fd://NAME              on every descriptor of that name that systemd handed in (sd_listen_fds(3): LISTEN_FDS,
 *                              LISTEN_FDNAMES, LISTEN_PID)
 *
 * The address is an IP address, a name or `*`, which is all addresses of both families. Port 0 lets the system choose;
 * the bound port is stored in *port when not NULL (0 for a unix socket). A connection that a web page opens is refused
 * unless allow_origins names the page. LKS_INVALID_ARGUMENT: not one of these URLs; LKS_FAILED_PRECONDITION: it needs a
 * certificate, or the path is not safe for a socket, or the descriptor is not a listening socket; LKS_ALREADY_EXISTS:
 * the host already listens on the descriptor; LKS_UNAVAILABLE: the address is in use or not an address of this machine.
 * The host listens on a copy of a descriptor; the original stays the caller's, and is closed on exec from then on.
 * Blocks; must not be called from `log`. */
lks_code lks_host_listen(lks_host *host, const char *url, uint16_t *port, lks_error *error);

/* Limits how many calls of a method ("/shop.v1.Shop/Buy") may be under way at once; 0 = any number. Further calls are
 * refused with RESOURCE_EXHAUSTED, applied NO. LKS_NOT_FOUND: no such method was added; LKS_FAILED_PRECONDITION: the
 * host already listens. */
lks_code lks_host_limit(lks_host *host, const char *method, uint32_t calls_max, lks_error *error);

/* Sets the status that grpc.health.v1.Health reports for a service ("shop.v1.Shop"), or for all (NULL); at first
 * SERVING. It does not affect calls. LKS_NOT_FOUND: no such service was added. Must not be called from a callback of
 * the host. */
lks_code lks_host_set_health(lks_host *host, const char *service, bool serving, lks_error *error);

/* Reads tls_certificate, tls_key and tls_client_ca again, for new connections. On failure nothing changes.
 * LKS_INVALID_ARGUMENT: a file cannot be used; LKS_FAILED_PRECONDITION: the options name none, or it is called from a
 * callback of the host. Blocks while it reads. */
lks_code lks_host_reload_tls(lks_host *host, lks_error *error);

/* Closes the host within drain_ms + 2 s: accepts no new connection and no new call (gRPC clients get GOAWAY), and lets
 * its calls run for drain_ms. Then calls that have not begun are answered UNAVAILABLE, applied NO, and running calls
 * are cancelled (lks_host_is_cancelled, lks_host_on_cancel). A second later, calls that still run or are deferred are
 * answered UNAVAILABLE, applied MAYBE. Blocks. Takes NULL. LKS_OK: all handlers have ended, all deferred calls were
 * finished. LKS_DEADLINE_EXCEEDED: some have not. They continue, and the memory that they need is freed when they end.
 * Until then, everything that the options and services point to must exist. LKS_FAILED_PRECONDITION, and nothing is
 * done: called from a handler or a callback of the host, or in a forked child. */
lks_code lks_host_close(lks_host *host, uint32_t drain_ms);

/* For a host with options.driven: the descriptor that the program's event loop watches for reading (poll, epoll,
 * uv_poll). Call lks_host_step when it is readable, and when lks_host_timeout_ms has passed. The host owns it: only
 * watch it, until lks_host_close. -1: the host has its own threads. Does not block. */
int lks_host_fd(const lks_host *host);

/* For a host with options.driven: milliseconds until lks_host_step is due even if the descriptor is not readable; -1:
 * it is not due. Call it before each wait. Does not block. */
int lks_host_timeout_ms(lks_host *host);

/* For a host with options.driven: reads, writes, and runs timers, handlers, interceptors and callbacks that are due; it
 * does not wait for more. A handler that blocks stops the host and its deadlines. So defer long work (lks_host_defer)
 * and finish it on any thread, which makes the descriptor readable. Only one thread at a time may call functions that
 * take the host. lks_host_close calls lks_host_step itself. LKS_FAILED_PRECONDITION, and nothing is done: the host is
 * not driven; called from a handler or a callback of the host, or in a forked child. */
lks_code lks_host_step(lks_host *host, lks_error *error);

/* ---- for handlers ------------------------------------------------------------------------------------------
 * A handler may also continue after it returned, so that it occupies no thread:
 *
 *     lks_host_call *call = lks_host_defer(context);
 *     lks_code code = lks_bank_charge_start(bank, &charge, NULL, charged, job_with(call, response), NULL, error);
 *     if (code != LKS_OK)
 *         lks_host_finish(call, code, error);      (it did not start, so `charged` will not run)
 *     return LKS_OK;
 *     ...
 *     static void charged(...)  { job->response->receipt = ...; lks_host_finish(job->call, LKS_OK, NULL); } */

/* Whether no caller waits for the answer: the caller is gone or has cancelled the call, its deadline has passed, or the
 * host closes and drain_ms have passed. The handler decides whether to continue. `context` must come from a host.
 * Thread-safe, until the call is finished. */
bool lks_host_is_cancelled(const lks_rpc_context *context);

/* The first value of a key of the call's metadata ("lockstock-namespace", "tenant-bin"), followed by a NUL; data is
 * NULL if there is none. Valid as long as the context. Thread-safe. */
lks_rpc_slice lks_host_metadata(const lks_rpc_context *context, const char *key);

enum { LKS_HOST_ADDED_MAX = 16, LKS_HOST_ADDED_BYTES_MAX = 1024, LKS_HOST_TEXT_BYTES_MAX = 2048 };

/* Add metadata to the answer, whether a response or an error: headers and trailers of gRPC, which the C client reads by
 * lks_call_header and lks_call_trailer. Key: a-z, 0-9, '-', '_' and '.', not reserved by gRPC or HTTP. Value: visible
 * ASCII and spaces, or any bytes if the key ends in "-bin"; copied. LKS_INVALID_ARGUMENT: another key or value;
 * LKS_RESOURCE_EXHAUSTED: more than LKS_HOST_ADDED_MAX of a kind, a value of more than LKS_HOST_ADDED_BYTES_MAX bytes,
 * or out of memory. One thread at a time for each call, until the call ends. */
lks_code lks_host_add_header(lks_rpc_context *context, const char *key, const void *value, size_t len,
                             lks_error *error);
lks_code lks_host_add_trailer(lks_rpc_context *context, const char *key, const void *value, size_t len,
                              lks_error *error);

/* Adds a message that explains the call's error: google.rpc.Status.details in gRPC; the C client reads it by
 * lks_call_detail. Packs it at once. Errors and threads as for lks_host_add_header. A call that ends with LKS_OK has no
 * details. */
lks_code lks_host_add_detail(lks_rpc_context *context, const ProtobufCMessage *detail, lks_error *error);

/* Sets the text of the call's error, in place of the text in lks_error, which is limited to LKS_ERROR_MESSAGE_MAX - 1
 * bytes. UTF-8 of at most LKS_HOST_TEXT_BYTES_MAX bytes; copied. The C client reads it by lks_call_text. Errors and
 * threads as for lks_host_add_header. */
lks_code lks_host_set_text(lks_rpc_context *context, const char *text, lks_error *error);

/* Milliseconds until the call's deadline; 0: it has passed. Thread-safe. */
uint32_t lks_host_left_ms(const lks_rpc_context *context);

/* In `before` of an interceptor: makes the response the answer, if the interceptor admits the call. */
void lks_host_skip(lks_rpc_context *context);

/* A call whose handler, or interceptor, continues after it returned. */
typedef struct lks_host_call lks_host_call;

/* In a handler or an interceptor: defers the call, so that it ends only by lks_host_finish. The return value is then
 * ignored, even an error. Request, response, context and arena exist until then; only one thread at a time may use the
 * arena. The thread is free for other calls when the handler returns. Returns NULL without deferring the call when out
 * of memory, or when it is already deferred. */
lks_host_call *lks_host_defer(lks_rpc_context *context);

/* Ends a deferred call: with the response if code is LKS_OK, otherwise with *error, including its applied (NULL: no
 * text). Any thread, also before the handler has returned, and inside on_cancel. Outside on_cancel it waits until a
 * running on_cancel has returned. The result is dropped after the call's deadline, or after its host was closed.
 * LKS_FAILED_PRECONDITION: it was already finished; nothing is done. */
lks_code lks_host_finish(lks_host_call *call, lks_code code, const lks_error *error);

/* Runs on the host's own thread: it must not block. */
typedef void lks_host_cancelled(void *arg);

/* Sets on_cancel (NULL: nothing), which runs once when lks_host_is_cancelled is or becomes true, but not after
 * lks_host_finish. Call it at most once for each lks_host_defer. Any thread. If the host was closed, on_cancel runs
 * inside this function. */
void lks_host_on_cancel(lks_host_call *call, lks_host_cancelled *on_cancel, void *arg);

#ifdef __cplusplus
}
#endif

#endif
