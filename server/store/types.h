/* The types shared by the store, its parts and its users: calls, replies, faults, options and views. */
#ifndef LOCKSTOCK_SERVER_STORE_TYPES_H
#define LOCKSTOCK_SERVER_STORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

struct uv_loop_s;

typedef struct store store;

/* The reply of a function. */
typedef enum store_type { STORE_NIL, STORE_INTEGER, STORE_STRING, STORE_ARRAY, STORE_ERROR } store_type;

typedef struct store_value {
    store_type type;
    int64_t integer;                   /* INTEGER */
    lks_rpc_slice string;              /* STRING, ERROR */
    size_t n;                          /* ARRAY */
    const struct store_value *element; /* ARRAY */
} store_value;

/* Returns a copy in the arena. */
const store_value *store_value_copy(lks_rpc_arena *arena, const store_value *value);

/* The maximum weight of one FCALL. A unit of weight blocks Redis for at most a quarter of a millisecond
 * (bench/fcall_time.py), so an FCALL takes not much over 16 ms. */
enum { STORE_WEIGHT_MAX = 64 };

/* A call of a function of the library. The caller keeps everything that it points to until the call is done. */
typedef struct store_call {
    lks_rpc_slice base;   /* "ls:{namespace/group}:", whose slot it goes to */
    const char *function; /* "stock_deduct", without the library's digest; static */
    size_t n_args;
    size_t max_args; /* room in args, for plan.c */
    lks_rpc_slice *args;
    unsigned weight;  /* 1..STORE_WEIGHT_MAX: it may share an FCALL with other calls of the function; 0: it does not */
    bool whole_shard; /* it concerns a whole part (store_part), that of `slot`; `base` may be elsewhere */
    uint16_t slot;
    bool repeatable; /* it may be sent again after a lost connection: it has a natural id, or only reads */
} store_call;

/* A fault of the store; text NULL: none. */
typedef struct store_fault {
    lks_reason reason;
    const char *text; /* for people */
} store_fault;

/* How a call ended. With LKS_OK `value` is its reply; it and `message` are valid until the callback returns. */
typedef struct store_result {
    lks_code code;
    lks_applied applied;
    uint32_t retry_after_ms;
    lks_reason reason; /* NONE: implied by the code */
    const char *message;
    const store_value *value;
} store_result;

/* Runs exactly once, never inside store_submit. */
typedef void store_done(void *arg, const store_result *result);

/* The base of keys outside of groups. */
#define STORE_META_BASE "ls:{meta}:"

/* The version of the data layout, the value of the key "schema" after that base. */
#define STORE_LAYOUT "3"

enum { STORE_BASE_BYTES = 32 };

/* A part of the store has some of the groups, and can fail independently. A single Redis is one part; in Redis Cluster
 * each primary is one. */
typedef struct store_part {
    uint16_t slot;               /* one of its slots, for a call with `whole_shard` */
    char base[STORE_BASE_BYTES]; /* a base in that slot */
} store_part;

/* A login to Redis. */
typedef struct login {
    const char *user;     /* NULL = the default user */
    const char *password; /* NULL = no AUTH */
} login;

/* For a store that is not embedded; each may be NULL. The strings must outlive the store; store_reload reads the
 * files again. */
typedef struct store_files {
    const char *ca;                                /* PEM: the CA of the store's certificates; NULL: the system's CAs */
    const char *certificate;                       /* PEM: the client certificate */
    const char *key;                               /* its key */
    const char *server_name;                       /* in the store's certificates; NULL: the host */
    const char *user, *password;                   /* a user, and the file with the password */
    const char *sentinel_user, *sentinel_password; /* the same, for sentinels */
} store_files;

/* Another store that runs some of the calls: the lock store (quorum/quorum.h). */
typedef struct store_other {
    bool (*has)(void *arg, const store_call *call);
    void (*submit)(void *arg, const store_call *call, uint64_t deadline_ns, store_done *done, void *done_arg);
    void *arg;
} store_other;

typedef struct store_options {
    struct uv_loop_s *loop;
    const char *url;      /* as url.h specifies */
    const char *url_from; /* the setting that errors name; NULL: "store" */
    store_files files;
    const char *library_text; /* the function library and its digest; static */
    const char *library_digest;
    const char *fsync;           /* embedded: "always" (NULL) or "everysec" */
    bool allow_unsafe;           /* accept a store that loses data by design */
    uint32_t connect_timeout_ms; /* 0 = 2,000 */
    uint32_t silence_timeout_ms; /* 0 = 10,000: without any reply to a call for this time, reconnect */
    uint32_t safety_check_ms;    /* 0 = 30,000: how often settings are checked */
    uint32_t role_check_ms;      /* 0 = 1,000: how often role and replicas are checked */
    uint32_t in_flight_max;      /* 0 = 8,192; then RESOURCE_EXHAUSTED */
    /* The number of replicas that must have a call's writes, and the data of its answer, before it is answered; 0 =
     * none. If fewer have confirmed that after wait_ms (0 = 1,000), the call is repeated if it may be, otherwise it is
     * UNAVAILABLE, MAYBE. With fewer connected replicas the store is not ready. */
    unsigned wait_replicas;
    uint32_t wait_ms;
    /* Called on each change of readiness or fault, on the loop. Ready with a fault: a part of the store is not
     * ready, or refuses some calls. */
    void (*on_ready)(void *arg, bool ready, store_fault fault);
    /* A channel to subscribe to, on a second connection; NULL = none. It must outlive the store. The store becomes
     * ready only after it has subscribed, and stays ready if the subscription is lost. */
    const char *wake_channel;
    const char *common_channel; /* a second one, the same for all servers; NULL = none */
    /* A message's payload, valid until it returns. Called on the loop. */
    void (*on_wake)(void *arg, const char *data, size_t len);
    /* Messages come from now on, and earlier ones may have been missed. Called on the loop after the store became
     * ready, and again after the channel or a part of the store was lost. */
    void (*on_listening)(void *arg);
    store_other other; /* zeroed: none */
    /* Called repeatedly until store_open returns: whether to give up; NULL: never. */
    bool (*stop_requested)(void *arg);
    void *arg;
} store_options;

/* The state of the store. Text is valid until the loop runs again. */
typedef struct store_view {
    bool embedded; /* an embedded redis-server */
    bool ready;
    store_fault fault;   /* why it is not ready, or the fault of a part of it */
    const char *version; /* of Redis; "" = not known yet */
    bool known;          /* the next four members are known; in a cluster, of the worst node */
    bool appends;        /* it appends each write to a file, which is there if the store is embedded */
    bool snapshots;
    bool evicts;       /* it evicts keys when its memory is full */
    const char *fsync; /* appendfsync; "" = no file */
    bool cluster;
    int64_t round_trip_us;  /* of the last probe, at most a second ago; in a cluster the longest; 0 = not ready */
    int64_t at_ms;          /* the store's clock now, milliseconds since 1970; 0 = not known */
    bool fails_over;        /* by Sentinel, or as a cluster */
    unsigned wait_replicas; /* as in store_options */
    unsigned sentinels, sentinels_answering;
} store_view;

enum { STORE_ADDRESS_BYTES = 280, STORE_REPLICAS_MAX = 32 };

/* A replica, as its primary described it at most a second ago. */
typedef struct store_replica {
    char address[STORE_ADDRESS_BYTES];
    uint64_t behind_bytes; /* bytes not confirmed */
    int64_t silent_s;      /* since its last confirmation; -1 = not known */
} store_replica;

/* The memory and disk that Redis uses, as it reported at most a second ago; -1 = not known. */
typedef struct store_use {
    int64_t memory_bytes, memory_max_bytes; /* maxmemory; without it, the memory of the machine */
    int64_t file_bytes;                     /* of its append-only file; -1 also without a file */
} store_use;

/* The redis-server of an embedded store. */
typedef struct store_process {
    uint64_t starts;
    int64_t disk_free_bytes; /* on the disk of its file; -1 = not known */
} store_process;

/* A primary. Text and replicas are valid until the loop runs again. */
typedef struct store_primary {
    const char *address;
    bool tells_replicas;
    size_t n_replicas; /* connected ones, at most STORE_REPLICAS_MAX */
    const store_replica *replicas;
    int64_t min_replicas, min_replicas_max_lag_s; /* min-replicas-to-write, -max-lag; -1 = not known */
    store_use use;
} store_primary;

#endif
