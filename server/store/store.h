/* The store: where the state is. The only door to Redis; nothing outside
 * server/store/ knows hiredis. Loop thread only, except where said. */
#ifndef LOCKSTOCK_SERVER_STORE_H
#define LOCKSTOCK_SERVER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

struct uv_loop_s;

/* A Redis reply without Redis: what a function returned. */
typedef enum store_type { STORE_NIL, STORE_INTEGER, STORE_STRING, STORE_ARRAY, STORE_ERROR } store_type;

typedef struct store_value {
    store_type type;
    int64_t integer;                   /* INTEGER */
    lks_rpc_slice string;              /* STRING, ERROR */
    size_t n;                          /* ARRAY */
    const struct store_value *element; /* ARRAY */
} store_value;

/* A copy that lives in the arena. */
const store_value *store_value_copy(lks_rpc_arena *arena, const store_value *value);

/* What one FCALL may carry: a unit of weight holds Redis for a quarter of a millisecond at
 * most (bench/fcall_time.py), so that no FCALL keeps others waiting for much over 16 ms. */
enum { STORE_WEIGHT_MAX = 64 };

/* One sub-call of one function of the library. Everything pointed to stays the
 * caller's and must live until the call is done. */
typedef struct store_call {
    lks_rpc_slice base;   /* "ls:{namespace/group}:", the key that places it */
    const char *function; /* "stock_deduct": the library's digest is added here; static */
    size_t n_args;
    size_t max_args; /* room in args, for whoever fills it */
    lks_rpc_slice *args;
    unsigned weight; /* 1..STORE_WEIGHT_MAX units: may share one FCALL with others of the same function and
                      * base; 0: never does */
    bool
        of_part; /* is about all that the part of the store (store_part) with `slot` keeps; `base` need not lie there */
    uint16_t slot;
    bool repeatable; /* may be sent again after a lost connection (it has a natural id, or reads) */
} store_call;

/* Why the store does not do what it is asked. A text NULL: it does. */
typedef struct store_fault {
    lks_reason reason;
    const char *text; /* for people */
} store_fault;

/* How a call ended. `value` is the sub-call's reply when code is LKS_OK; it and
 * `message` are valid until the callback returns. */
typedef struct store_result {
    lks_code code;
    lks_applied applied;
    uint32_t retry_after_ms;
    lks_reason reason; /* NONE: the one that the code implies */
    const char *message;
    const store_value *value;
} store_result;

/* Runs exactly once, never inside store_submit. */
typedef void store_done(void *arg, const store_result *result);

typedef struct store store;

/* The base of what belongs to no group. */
#define STORE_META_BASE "ls:{meta}:"

enum { STORE_BASE_BYTES = 32 };

/* A part of the store: it keeps some of the groups, and can fail alone. One Redis is one part; of Redis Cluster each
 * primary is. */
typedef struct store_part {
    uint16_t slot;               /* one that it keeps, for a call that is `of_part` */
    char base[STORE_BASE_BYTES]; /* one that lies there */
} store_part;

/* Of a store that is not embedded; each NULL: none. The strings must outlive the store, the files are read again by
 * store_reload. */
typedef struct store_files {
    const char *ca;              /* PEM: who signs the store's certificates; NULL: whom the system trusts */
    const char *certificate;     /* PEM, that is shown to the store, */
    const char *key;             /* and its key */
    const char *server_name;     /* that the store's certificates must be for; NULL: the host */
    const char *user, *password; /* a user, and the file with the password */
    const char *sentinel_user, *sentinel_password; /* the same, to sentinels */
} store_files;

typedef struct store_options {
    struct uv_loop_s *loop;
    const char *url;      /* as url.h says */
    const char *url_from; /* where it stands, as errors name it; NULL: "store" */
    store_files files;
    const char *library_text; /* the function library and its digest; static */
    const char *library_digest;
    const char *fsync;           /* embedded: "always" (NULL) or "everysec" */
    bool allow_unsafe;           /* accept a store that loses data by design */
    uint32_t connect_timeout_ms; /* 0 = 2,000 */
    uint32_t silence_timeout_ms; /* 0 = 10,000: no reply at all for so long, with calls out: reconnect */
    uint32_t safety_check_ms;    /* 0 = 30,000: how often it is looked whether the store still is safe */
    uint32_t role_check_ms;      /* 0 = 1,000: how often it is asked whether it is a primary, and who follows it */
    uint32_t in_flight_max;      /* 0 = 8,192; then RESOURCE_EXHAUSTED */
    /* So many replicas must have what a call did, and what it was answered from, before it is answered; 0 = none. When
     * fewer have confirmed it after wait_ms (0 = 1,000) the call is made again if it is repeatable, else it is
     * UNAVAILABLE, MAYBE. With fewer connected the store is not ready. */
    unsigned wait_replicas;
    uint32_t wait_ms;
    /* Tells readiness: called on each change, on the loop. Ready with a fault: a part of the
     * store is not, or it refuses a part of what it is asked. A store that was safe and is no
     * more, as allow_unsafe would accept, is not ready until it is safe again. */
    void (*on_ready)(void *arg, bool ready, store_fault fault);
    /* A channel to hear, on a second connection; NULL = none. It must outlive the
     * store, which becomes ready only when it hears, and stays so when it does no more. */
    const char *wake_channel;
    /* A message's payload, valid until it returns. On the loop. */
    void (*on_wake)(void *arg, const char *data, size_t len);
    /* From now on messages come; those before may have been missed. At first, and
     * again whenever the channel, or the store itself, was lost; with the store ready.
     * On the loop. */
    void (*on_listening)(void *arg);
    /* Asked now and then until store_open returns, whether it is to give up; NULL: never. */
    bool (*told_to_stop)(void *arg);
    void *arg;
} store_options;

/* Checks the URL and, for embedded:, takes DIR and starts its redis-server (main
 * thread only). Connects in the background and keeps connecting, with backoff.
 * LKS_INVALID_ARGUMENT: the URL; LKS_FAILED_PRECONDITION: DIR is used by another
 * server; LKS_UNAVAILABLE: redis-server is missing or does not start. */
lks_code store_open(const store_options *options, store **ret, lks_error *error);

/* Reads the files anew: the next connections use them, and a password counts at once, without a call lost. On failure
 * all stays as it was; LKS_INVALID_ARGUMENT names the file. */
lks_code store_reload(store *store, lks_error *error);

/* Sends a call in this loop turn's pipeline. After deadline_ns (CLOCK_MONOTONIC)
 * it is done with LKS_DEADLINE_EXCEEDED: NO if it was not sent, else MAYBE. While
 * the store is not ready a call is done with LKS_UNAVAILABLE, NO, unless it
 * becomes ready within the deadline and 1 s. */
void store_submit(store *store, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

/* The first part whose `slot` is `from` or above; false: there is none. So all are found, from 0 on. A slot and a base
 * stay the part's while it has the slot. */
bool store_part_from(const store *store, uint32_t from, store_part *ret);

/* Whether the store does what calls ask for. *reason, if not NULL: why not, or which part does not; NULL = all is well. */
bool store_ready(const store *store, const char **reason);

/* What is known of the store. Text is valid until the loop runs again. */
typedef struct store_view {
    bool embedded; /* a redis-server of our own */
    bool ready;
    store_fault fault;   /* why it is not ready; of a ready one, what is wrong with a part */
    const char *version; /* Redis'; "" = not known yet */
    bool known;          /* the following four, as of the last look */
    bool appends;        /* to a file, each write */
    bool snapshots;
    bool evicts;            /* keys, when its memory is full */
    const char *fsync;      /* of the file: Redis' word; "" = none */
    bool cluster;           /* what is said of settings is the worst of its nodes */
    int64_t round_trip_us;  /* what the last look took, at most a second ago; of a cluster the longest; 0 = not ready */
    int64_t at_ms;          /* the store's clock now, milliseconds since 1970; 0 = not known */
    bool fails_over;        /* to another node: Sentinel, or a cluster */
    unsigned wait_replicas; /* as in store_options */
    unsigned sentinels, sentinels_answering;
} store_view;
void store_look(const store *store, store_view *ret);

enum { STORE_ADDRESS_BYTES = 280, STORE_REPLICAS_MAX = 32 };

/* Who may take a primary's place, as that told a second ago. */
typedef struct store_replica {
    char address[STORE_ADDRESS_BYTES];
    uint64_t behind_bytes; /* what it has not confirmed */
    int64_t silent_s;      /* since it last confirmed anything; -1 = not told */
} store_replica;

/* A Redis that takes writes. Text and replicas are valid until the loop runs again. */
typedef struct store_primary {
    const char *address;
    bool tells_replicas;
    size_t n_replicas; /* connected ones, STORE_REPLICAS_MAX at most */
    const store_replica *replicas;
    int64_t min_replicas, min_replicas_max_lag_s; /* min-replicas-to-write, -max-lag; -1 = not told */
} store_primary;

/* The i-th primary; false: there is none. */
bool store_look_primary(const store *store, size_t i, store_primary *ret);

/* When the certificate that is shown to the store is over: seconds since 1970; 0: there is none. */
int64_t store_certificate_ends(const store *store);

/* A fatal misfit found after connecting (other data layout, unsafe store): the
 * server must exit with this text. NULL = none. */
const char *store_fatal(const store *store);

/* Ends calls under way with UNAVAILABLE, closes, stops an embedded redis-server;
 * `closed` runs on the loop when all is done and the store freed. No call may be submitted any more. */
void store_close(store *store, void (*closed)(void *arg), void *arg);

#endif
