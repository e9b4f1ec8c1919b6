/* A channel: the way to a set of equal servers. One for the whole process is
 * right; it is safe to use from all threads. After fork the child must exec: there
 * every call and the close return LKS_FAILED_PRECONDITION.
 *
 * Threads: each channel has one completion thread, which runs every `done` of
 * asynchronous calls. There lks_call_start, lks_call_free and lks_call_cancel are
 * legal, and what would block, on whichever channel, returns
 * LKS_FAILED_PRECONDITION.
 *
 * Versions: option structs, here and in the other headers, get new fields at their end. A function that takes one is
 * inline, and passes the size of the caller's struct to an exported function, its name with _sized; a language without
 * C headers calls that one. Fields that the caller's struct does not have are 0. LKS_INVALID_ARGUMENT, naming the
 * struct: it is longer than this library's, and sets something there. */
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

/* Gives a token: as lks_channel_options.token is written, with a NUL, and for how long it lasts from now; 0: only for the
 * calls that wait for it. The next one is asked for in the last fifth of that time. Another code than LKS_OK, with
 * *error: the calls that wait for it end with UNAUTHENTICATED, applied NO, and the text of *error; the next call asks
 * again. Runs on a thread of the channel's own, one at a time, and may block: calls that have a token go on, and others
 * wait within their deadlines. It may call over other channels; over this one only calls with metadata `authorization`
 * of their own. */
typedef lks_code lks_channel_get_token(void *arg, char token[LKS_TOKEN_BYTES_MAX + 1], uint32_t *lasts_ms,
                                       lks_error *error);

struct lks_call_options;

/* Code around each call of a channel: for logs, metrics, metadata, rights. `before` runs in the order of the options, inside
 * of the function that starts the call; `after` in the reverse order, for those that admitted the call, when it has ended:
 * before its `done`, on the completion thread or in the function that waits for the call, where it must not block; or,
 * when the call could not be started, inside of that function. Either may be NULL. Both run for several calls at a
 * time. Tries of a call are none of their own. `*own` is a pointer of the interceptor's own for the call, NULL at first. */
typedef struct lks_channel_interceptor {
    /* LKS_OK admits the call. Another code, with *error: it is not started, and fails so, applied NO. *options are the
     * call's own, to be changed: what it points to need only live until the call is started. */
    lks_code (*before)(void *arg, void **own, const lks_rpc_method *method, const ProtobufCMessage *request,
                       struct lks_call_options *options, lks_error *error);
    /* How it ended: error->code is LKS_OK with a response. */
    void (*after)(void *arg, void **own, const lks_rpc_method *method, const ProtobufCMessage *response,
                  const lks_error *error);
    void *arg;
} lks_channel_interceptor;

enum { LKS_INTERCEPTORS_MAX = 32 };

/* Which of several servers a call goes to. All are connected to from the beginning. */
typedef enum lks_channel_policy {
    LKS_PICK_FIRST = 0,     /* the first that can be reached, until it dies or does not answer */
    LKS_ROUND_ROBIN = 1,    /* in turn to each that is connected; calls that share a message go together */
    LKS_LEAST_IN_FLIGHT = 2 /* to the connected one that has the fewest calls of this channel */
} lks_channel_policy;

typedef enum lks_channel_state {
    LKS_CHANNEL_CONNECTING = 0,
    LKS_CHANNEL_READY = 1,      /* a server is connected */
    LKS_CHANNEL_UNREACHABLE = 2 /* the last attempt to connect to each of them failed; the channel goes on trying */
} lks_channel_state;

/* The state has changed. On the completion thread: it must not block. */
typedef void lks_channel_state_changed(void *arg, lks_channel_state state);

/* A try of a call that was sent and has ended, for a program that makes a span of it. All is valid until the function returns. */
typedef struct lks_channel_try {
    const lks_rpc_method *method;
    const char *url;           /* of the server */
    const char *traceparent;   /* that the try sent, with a span id of its own */
    const char *parent;        /* the traceparent of the call; NULL: it had none, and the trace begins with it */
    uint32_t number;           /* 1 = the first one that was sent */
    uint64_t begin_ns, end_ns; /* of CLOCK_MONOTONIC */
    const lks_error *error;    /* code LKS_OK: it was answered with a response */
} lks_channel_try;

/* Runs on the completion thread, or in the function that waits for the call; several at a time. It must not block, and
 * must not use the channel. */
typedef void lks_channel_on_try(void *arg, const lks_channel_try *ended);

typedef struct lks_channel_options {
    uint32_t timeout_ms;      /* of a call that names none; 0 = 5,000 */
    uint32_t in_flight_max;   /* calls on one connection that do not wait on the server, more wait here;
                                 0 = 256. Over nng+*:// all calls, of which a quarter may not wait */
    uint32_t waiting_max;     /* calls with a wait_ms on one connection, more wait here; 0 = 16,384, for which
                                 lockstockd has room. They never take that of in_flight_max */
    uint32_t queue_max;       /* calls under way beyond in_flight_max, those that wait included, then
                                 RESOURCE_EXHAUSTED; 0 = 65,536 */
    size_t message_bytes_max; /* of a request and of a reply; 0 = 1 MiB */
    const char *ns;           /* metadata lockstock-namespace; NULL = none; copied */
    const char *token;        /* sent as metadata `authorization: Bearer TOKEN`, so over TLS or on one
                                 machine only; 1 to 4,096 of A-Z, a-z, 0-9 and -._~+/=; NULL = none;
                                 copied */
    bool no_retry;            /* never send a call a second time */
    /* Of tls:// and grpcs:// only. PEM files, read by lks_channel_open. */
    const char *ca_file;              /* whom to trust; NULL = the certificates that the system trusts */
    const char *certificate_file;     /* our own, with its chain, shown to a server that asks; NULL = none */
    const char *key_file;             /* its key, without passphrase */
    const char *server_name;          /* what a server's certificate must name; NULL = its URL's host; copied */
    uint32_t driven;                  /* 1: the channel has no thread; the program drives it by lks_channel_step */
    uint32_t reserved;                /* 0 */
    lks_channel_get_token *get_token; /* gives the token in place of `token`; NULL = none */
    void *get_token_arg;
    /* Of grpc://, grpcs:// and grpc+unix:// only, in milliseconds; 0, or 1,000 and more. While calls are under way, a
     * server that sends nothing for keepalive_ms is pinged; the connection is given up when nothing comes for
     * keepalive_timeout_ms from then on. A server may end connections that ping more often than it allows. */
    uint32_t keepalive_ms;         /* 0: no pings */
    uint32_t keepalive_timeout_ms; /* 0 = 20,000 */
    const lks_channel_interceptor
        *interceptors;     /* the first one is the outermost; must live until the channel is closed */
    size_t n_interceptors; /* at most LKS_INTERCEPTORS_MAX */
    /* A budget for repeated tries, as gRPC's retryThrottling: a try that fails and might be repeated takes a token, another
     * one gives back a tenth. Calls are repeated while more than half of the tokens are there; those that insist always. */
    uint32_t retry_tokens;               /* at most 1,000; 0: no budget */
    uint32_t policy;                     /* an lks_channel_policy */
    lks_channel_state_changed *on_state; /* NULL = none */
    void *on_state_arg;
    lks_channel_on_try *on_try; /* each try gets a span id of its own, and is reported when it has ended. A call without
                                   `traceparent` begins a trace that is sampled; one whose traceparent is not valid is not
                                   reported. NULL = none: calls send the traceparent that they are given */
    void *on_try_arg;
} lks_channel_options;

/* Opens a channel to `urls`: one to 64 of tcp://HOST:PORT, tls://HOST:PORT,
 * unix:///PATH, nng+tcp://HOST:PORT and nng+ws://HOST:PORT/PATH, and, to any gRPC server,
 * grpc://HOST:PORT, grpcs://HOST:PORT and grpc+unix:///PATH, separated by commas;
 * an IPv6 address stands in brackets. options.policy says where calls go. A URL may stand there several
 * times: then each begins with another address of its host's name, which is looked up for each connection. Returns before any is connected: the first call waits for that within its
 * deadline. options may be NULL. LKS_INVALID_ARGUMENT: a URL that is none, or whose
 * scheme is unknown, a token that is none, token and get_token together, or a file of the options that cannot be
 * used; LKS_RESOURCE_EXHAUSTED: memory, descriptors or threads. On
 * success *ret is the caller's to close. Thread-safe; does not block. */
lks_code lks_channel_open_sized(const char *urls, const lks_channel_options *options, size_t options_bytes,
                                lks_channel **ret, lks_error *error);

static inline lks_code lks_channel_open(const char *urls, const lks_channel_options *options, lks_channel **ret,
                                        lks_error *error)
{
    return lks_channel_open_sized(urls, options, sizeof(lks_channel_options), ret, error);
}

/* Whether calls can be sent now. Thread-safe; does not block. */
lks_channel_state lks_channel_get_state(const lks_channel *channel);

/* Reads ca_file, certificate_file and key_file again: for connections that are made from now on. On failure those of
 * before stay. LKS_INVALID_ARGUMENT: a file that cannot be used; LKS_FAILED_PRECONDITION: no URL of the channel is
 * encrypted. Blocks while it reads. Thread-safe. */
lks_code lks_channel_reload_tls(lks_channel *channel, lks_error *error);

/* Of a channel with options.driven: the descriptor that a program's own event loop watches for reading (poll,
 * epoll, uv_poll). When it is readable, and when lks_channel_timeout_ms is over, lks_channel_step is due. It is the
 * channel's: only to be watched, until lks_channel_close. -1: the channel has a thread of its own. Does not block. */
int lks_channel_fd(const lks_channel *channel);

/* Of a channel with options.driven: milliseconds until lks_channel_step is due although the descriptor is not
 * readable; -1: it is not. To be asked after each step; what makes it shorter makes the descriptor readable. Only on
 * the thread that steps. Does not block. */
int lks_channel_timeout_ms(const lks_channel *channel);

/* Of a channel with options.driven: reads, writes, runs timers and the `done` of calls that have ended, and returns.
 * The calling thread is the completion thread meanwhile. One thread at a time; calls may be started, cancelled and
 * freed on any. Nothing waits for a call of such a channel: lks_call_run and lks_call_wait return
 * LKS_FAILED_PRECONDITION, as the helpers that wait do, and lks_call_wait_for does not block. lks_channel_close steps
 * by itself.
 * LKS_FAILED_PRECONDITION, and nothing is done: the channel is not driven; called in a `done`, or in a forked child. */
lks_code lks_channel_step(lks_channel *channel, lks_error *error);

/* Ends every call under way (CANCELLED; MAYBE where it was sent), runs their
 * `done`, frees the channel. Blocks until they returned, and get_token. Not to be called from a
 * `done` or get_token (LKS_FAILED_PRECONDITION, nothing done), nor while another thread uses the
 * channel. Calls (lks_call) may be waited for, cancelled and freed after. Takes
 * NULL. */
lks_code lks_channel_close(lks_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
