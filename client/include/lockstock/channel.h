/* A channel: connections to a set of equal servers. Use one for the whole process; it is thread-safe. After fork the
 * child must exec: until then every call and the close return LKS_FAILED_PRECONDITION there.
 *
 * Threads: each channel has one completion thread, which runs every `done` of
 * asynchronous calls. On it lks_call_start, lks_call_free and lks_call_cancel are allowed, and functions that would
 * block, on any channel, return LKS_FAILED_PRECONDITION.
 *
 * Versions: option structs, here and in the other headers, get new fields at their end. A function that takes one is
 * inline, and passes the size of the caller's struct to an exported function with the suffix _sized; languages without
 * C headers call that function. Fields that the caller's struct does not have are 0. LKS_INVALID_ARGUMENT, naming the
 * struct: it is longer than this library's, and sets an option that this library does not have. */
#ifndef LOCKSTOCK_CHANNEL_H
#define LOCKSTOCK_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_channel lks_channel;

enum { LKS_TOKEN_BYTES_MAX = 4096 };

/* Returns a token in the form of lks_channel_options.token, with a NUL, and how long it lasts from now; 0: only for the
 * calls that wait for it. The next token is requested in the last fifth of that time. With another code than LKS_OK,
 * and *error, the waiting calls end with UNAUTHENTICATED, applied NO, and the text of *error; the next call requests a
 * token again. Runs on the channel's own thread, one at a time, and may block: calls with a token continue, and others
 * wait within their deadlines. It may make calls over other channels; over this one only calls with their own metadata
 * `authorization`. */
typedef lks_code lks_channel_get_token(void *arg, char token[LKS_TOKEN_BYTES_MAX + 1], uint32_t *lasts_ms,
                                       lks_error *error);

struct lks_call_options;

/* Code around each call of a channel: for logs, metrics, metadata, rights. `before` runs in the order of the options,
 * inside the function that starts the call. `after` runs in reverse order, for the interceptors that admitted the call,
 * when it has ended: before its `done`, on the completion thread or in the function that waits for the call, where it
 * must not block; or, if the call could not be started, inside the function that starts it. Either may be NULL. Both
 * run for several calls at a time, but not for each try of a call. `*own` is a pointer for the interceptor's use during
 * the call, NULL at first. */
typedef struct lks_channel_interceptor {
    /* LKS_OK admits the call. With another code, and *error, the call is not started and fails with it, applied NO. May
     * change *options, the options of this call; what they point to need only exist until the call is started. */
    lks_code (*before)(void *arg, void **own, const lks_rpc_method *method, const ProtobufCMessage *request,
                       struct lks_call_options *options, lks_error *error);
    /* The end of the call: error->code is LKS_OK with a response. */
    void (*after)(void *arg, void **own, const lks_rpc_method *method, const ProtobufCMessage *response,
                  const lks_error *error);
    void *arg;
} lks_channel_interceptor;

enum { LKS_INTERCEPTORS_MAX = 32 };

/* How a channel chooses among several servers. It connects to all of them from the beginning. */
typedef enum lks_channel_policy {
    LKS_PICK_FIRST = 0,     /* the first that can be reached, until it dies or does not answer */
    LKS_ROUND_ROBIN = 1,    /* each connected server in turn; calls that share a message go to the same one */
    LKS_LEAST_IN_FLIGHT = 2 /* the connected server with the fewest calls of this channel */
} lks_channel_policy;

typedef enum lks_channel_state {
    LKS_CHANNEL_CONNECTING = 0,
    LKS_CHANNEL_READY = 1,      /* a server is connected */
    LKS_CHANNEL_UNREACHABLE = 2 /* the last attempt to connect to each server failed; the channel keeps trying */
} lks_channel_state;

/* Runs when the state has changed, on the completion thread: it must not block. */
typedef void lks_channel_state_changed(void *arg, lks_channel_state state);

/* A try of a call that was sent and has ended, for programs that make a span of it. Valid until the function
 * returns. */
typedef struct lks_channel_try {
    const lks_rpc_method *method;
    const char *url;           /* of the server */
    const char *traceparent;   /* the traceparent that the try sent, with its own span id */
    const char *parent;        /* the traceparent of the call; NULL: it had none, and begins the trace */
    uint32_t number;           /* 1 = the first try that was sent */
    uint64_t begin_ns, end_ns; /* of CLOCK_MONOTONIC */
    const lks_error *error;    /* code LKS_OK: it was answered with a response */
} lks_channel_try;

/* Runs on the completion thread, or in the function that waits for the call, for several calls at a time. It must not
 * block, and must not use the channel. */
typedef void lks_channel_on_try(void *arg, const lks_channel_try *ended);

typedef struct lks_channel_options {
    uint32_t timeout_ms; /* of a call without its own; 0 = 5,000 */
    /* Calls on one connection that do not wait on the server, more wait here; 0 = 256. Over nng+*:// all calls; a
     * quarter of them is reserved for calls that do not wait. */
    uint32_t in_flight_max;
    /* Calls with a wait_ms on one connection, more wait here; 0 = 16,384, which lockstockd accepts. They do not
     * count for in_flight_max. */
    uint32_t waiting_max;
    /* Calls under way beyond in_flight_max, including those that wait; more fail with RESOURCE_EXHAUSTED; 0 =
     * 65,536. */
    uint32_t queue_max;
    size_t message_bytes_max; /* of a request and of a reply; 0 = 1 MiB */
    const char *ns;           /* metadata lockstock-namespace; NULL = none; copied */
    /* Sent as metadata `authorization: Bearer TOKEN`, so only over TLS or on one machine; 1 to 4,096 of A-Z, a-z,
     * 0-9 and -._~+/=; NULL = none; copied. */
    const char *token;
    bool no_retry; /* never send a call a second time */
    /* For tls:// and grpcs:// only; without such a URL, INVALID_ARGUMENT. PEM files, read by lks_channel_open. */
    const char *ca_file; /* trusted CAs; NULL = those that the system trusts */
    /* The client's certificate and its chain, for servers that request one; NULL = none. */
    const char *certificate_file;
    const char *key_file;    /* its key, without a passphrase */
    const char *server_name; /* the name that a server's certificate must have; NULL = its URL's host; copied */
    uint32_t driven;         /* 1: the channel has no thread; the program drives it by lks_channel_step */
    uint32_t reserved;       /* 0 */
    lks_channel_get_token *get_token; /* returns the token, instead of `token`; NULL = none */
    void *get_token_arg;
    /* For grpc://, grpcs:// and grpc+unix:// only, in milliseconds: 0, or at least 1,000. While calls are under way, a
     * server that sends nothing for keepalive_ms is pinged; the connection is closed when nothing arrives for another
     * keepalive_timeout_ms. A server may end connections that ping more often than it allows. */
    uint32_t keepalive_ms;         /* 0: no pings */
    uint32_t keepalive_timeout_ms; /* 0 = 20,000 */
    /* The first one is the outermost; must exist until the channel is closed. */
    const lks_channel_interceptor *interceptors;
    size_t n_interceptors; /* at most LKS_INTERCEPTORS_MAX */
    /* A budget for retries, as gRPC's retryThrottling: a try that fails transiently takes a token; any other try gives
     * back a tenth. Calls are retried while more than half of the tokens are left; calls that insist are always
     * retried. */
    uint32_t retry_tokens;               /* at most 1,000; 0: no budget */
    uint32_t policy;                     /* an lks_channel_policy */
    lks_channel_state_changed *on_state; /* NULL = none */
    void *on_state_arg;
    /* Each try gets its own span id, and is reported when it has ended. A call without `traceparent` begins a
     * sampled trace; a call with an invalid traceparent is not reported. NULL: calls send the given traceparent
     * unchanged. */
    lks_channel_on_try *on_try;
    void *on_try_arg;
} lks_channel_options;

/* Opens a channel to `urls`: one to 64 of tcp://HOST:PORT, tls://HOST:PORT,
 * unix:///PATH, nng+tcp://HOST:PORT and nng+ws://HOST:PORT/PATH, and, to any gRPC server,
 * grpc://HOST:PORT, grpcs://HOST:PORT and grpc+unix:///PATH, separated by commas;
 * an IPv6 address must be in brackets. options.policy chooses the server of a call. A URL may be given several times:
 * then each connection begins with another address of its host's name, which is looked up for each connection. Returns
 * before any server is connected: the first call waits for a connection within its deadline. options may be NULL.
 * LKS_INVALID_ARGUMENT: an invalid URL or an unknown scheme, an invalid token, token and get_token together, or a file
 * of the options cannot be used; LKS_RESOURCE_EXHAUSTED: out of memory, descriptors or threads. On success the caller
 * closes *ret. Thread-safe; does not block. */
lks_code lks_channel_open_sized(const char *urls, const lks_channel_options *options, size_t options_bytes,
                                lks_channel **ret, lks_error *error);

static inline lks_code lks_channel_open(const char *urls, const lks_channel_options *options, lks_channel **ret,
                                        lks_error *error)
{
    return lks_channel_open_sized(urls, options, sizeof(lks_channel_options), ret, error);
}

/* Whether calls can be sent now. Thread-safe; does not block. */
lks_channel_state lks_channel_get_state(const lks_channel *channel);

/* Reads ca_file, certificate_file and key_file again, for new connections. On failure nothing changes.
 * LKS_INVALID_ARGUMENT: a file cannot be used; LKS_FAILED_PRECONDITION: no URL of the channel is encrypted. Blocks
 * while it reads. Thread-safe. */
lks_code lks_channel_reload_tls(lks_channel *channel, lks_error *error);

/* For a channel with options.driven: the descriptor that the program's event loop watches for reading (poll, epoll,
 * uv_poll). Call lks_channel_step when it is readable, and when lks_channel_timeout_ms has passed. The channel owns it:
 * only watch it, until lks_channel_close. -1: the channel has its own thread. Does not block. */
int lks_channel_fd(const lks_channel *channel);

/* For a channel with options.driven: milliseconds until lks_channel_step is due even if the descriptor is not readable;
 * -1: it is not due. Call it after each step; when the time becomes shorter, the descriptor becomes readable. Only on
 * the thread that steps. Does not block. */
int lks_channel_timeout_ms(const lks_channel *channel);

/* For a channel with options.driven: reads, writes, runs timers and the `done` of calls that have ended, and returns.
 * The calling thread is the completion thread meanwhile. Only one thread at a time may step; calls may be started,
 * cancelled and freed on any thread. No thread can wait for a call of such a channel: lks_call_run, lks_call_wait and
 * the helpers that wait return LKS_FAILED_PRECONDITION, and lks_call_wait_for does not block. lks_channel_close steps
 * itself. LKS_FAILED_PRECONDITION, and nothing is done: the channel is not driven; called in a `done`, or in a forked
 * child. */
lks_code lks_channel_step(lks_channel *channel, lks_error *error);

/* Ends every call under way (CANCELLED; MAYBE if it was sent), runs their `done`, and frees the channel. Blocks until
 * these and get_token have returned. Must not be called from a `done` or get_token (LKS_FAILED_PRECONDITION, nothing
 * done), nor while another thread uses the channel. Calls (lks_call) may be waited for, cancelled and freed afterwards.
 * Takes NULL. */
lks_code lks_channel_close(lks_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
