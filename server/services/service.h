/* A service of lockstockd is a pair of pure functions for each method. `prepare` turns a request into a plan: store
 * calls, or an error. `finish` turns the store's replies into the response. Neither knows a transport, Redis or the
 * loop; both allocate in the call's arena only.
 *
 *   request --prepare--> plan --store--> replies --finish--> response
 *              ^            \--> error                |
 *              \--event-- (waits) <-------------------+ */
#ifndef LOCKSTOCK_SERVER_SERVICE_H
#define LOCKSTOCK_SERVER_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "memory.h"
#include "store/types.h"

enum {
    SERVICE_NAME_BYTES_MAX = 128,
    SERVICE_TOKEN_BYTES_MIN = 16,
    SERVICE_TOKEN_BYTES_MAX = 64,
    SERVICE_BATCH_MAX = 64,
    SERVICE_TARGETS_MAX = 16,
};
#define SERVICE_QUANTITY_MAX ((int64_t)9007199254740991) /* 2^53 - 1: exact in Lua */

/* Why a waiting call runs again, highest priority first. */
typedef enum service_event_kind {
    SERVICE_NO_EVENT,  /* the call has not waited yet */
    SERVICE_STOPPING,  /* the server shuts down; rounds.c ends the call */
    SERVICE_ABANDONED, /* the connection is lost, or the caller cancelled; rounds.c ends the call */
    SERVICE_WAIT_OVER, /* wait_ms has passed */
    SERVICE_GRANTED,   /* a function's message contains what the store would reply to the call */
    SERVICE_WOKEN,     /* a function's message names the call, or messages may have been missed */
    SERVICE_N_EVENTS
} service_event_kind;

typedef struct service_event {
    service_event_kind kind;
    uint32_t n_numbers;
    int64_t *numbers; /* of SERVICE_GRANTED: a lock's fences */
    lks_rpc_slice to; /* of SERVICE_GRANTED: the plan_undo argument of the call that it is for */
} service_event;

struct plan;
struct service;

/* An alarm that a waiting call watches (alarms.h). It is set by answer_alarm or by a message. */
typedef struct service_watch {
    struct watched {
        struct watched *next; /* for the next watch */
        struct alarm_clock *alarm;
    } as; /* private to alarms.c; while it is set, the other members are not used */
    struct service_watch *next;
    lks_rpc_slice base;
    const char *function;
    lks_rpc_slice argument;
} service_watch;
typedef struct watched watched;

/* A store call at a future moment. */
typedef struct service_alarm {
    struct service_alarm *next;
    lks_rpc_slice base;
    const char *function;
    lks_rpc_slice argument;
    int64_t in_ms;
    bool lasting; /* a lasting alarm; otherwise it rings only while a call that watches it waits on this server */
} service_alarm;

/* Plans another round of a call; p->calls is empty again. */
typedef void service_next(const ProtobufCMessage *request, struct plan *p);

/* Filled in by prepare. A plan with error.code != LKS_OK is answered with that error and sends nothing. Helpers do
 * nothing on such a plan, so that a prepare function need not check after each of them. */
typedef struct plan {
    lks_rpc_arena *arena;
    const lks_rpc_method *method;
    lks_rpc_slice ns;   /* the caller's namespace */
    const char *server; /* this server's id: functions publish on "ls:wake:<id>" */
    const char *trace;  /* the call's traceparent, for calls whose wait it ends; NULL: not traced or not sampled */
    const struct service *service;
    void *state;                         /* the service's state in this server; NULL: it has no open */
    const struct service_caller *caller; /* valid in the first prepare; NULL: unknown */
    void *kept;                          /* state for later rounds and for finish; in the arena */
    uint64_t now_ns;                     /* CLOCK_MONOTONIC, when this round is planned */
    uint64_t asked_ns;                   /* the same, before this round's store calls */
    char id[LKS_RPC_RANDOM_ID_LEN + 1];  /* the id of the call, once plan_id has made it */
    uint32_t repeat_ms;                  /* the time that its caller has left for the call and may repeat it in */
    uint32_t lock_slack_ms;              /* not 0: the namespace's locks are in the lock store, where leases are
                                          * longer by this time than for their holders */
    unsigned round;                      /* 0, then one more with each plan */
    service_event event;                 /* the last event, which prepare reacts to */
    lks_rpc_slice wait_key;              /* set by plan_waits */
    service_watch *watches;
    service_alarm undo; /* set by plan_undo; function NULL: none */
    store_call *calls;
    size_t n_calls;
    int layout;    /* of the last call's arguments */
    bool prepares; /* the calls of this round are not an effect of the method, with any result */
    lks_error error;
} plan;

/* A function of the library: fn_<name> in functions/arguments.h, which is generated from functions/arguments.txt. */
typedef struct plan_function {
    const char *name;
    int layout;            /* functions of one layout take the same arguments */
    size_t n_args, n_each; /* number of arguments that come once, and of those that repeat */
} plan_function;

/* Passed to finish: replies[i] belongs to calls[i]. If finish sets error.code, the call fails with it. */
typedef struct answer {
    lks_rpc_arena *arena;
    const plan *plan;
    const store_value *const *replies;
    size_t n_replies;
    uint64_t now_ns;    /* CLOCK_MONOTONIC, at the last reply */
    bool waits;         /* set by answer_waits */
    service_next *next; /* set by answer_next_round, answer_next_round_applied */
    bool applied;       /* set by answer_next_round_applied: this round had an effect */
    uint64_t units;     /* set by finish, for metrics: units of stock that the call moved, or ids that it returned */
    service_alarm *alarms;
    lks_error error;
} answer;

typedef void service_prepare(const ProtobufCMessage *request, plan *p);
typedef void service_finish(const ProtobufCMessage *request, answer *a, ProtobufCMessage *response);

typedef struct service_method {
    const lks_rpc_method *method;
    service_prepare *prepare;
    service_finish *finish;
} service_method;

typedef struct service_right {
    const char *service; /* "*": every service */
    bool read, write, admin;
} service_right;

/* The caller of a call. */
typedef struct service_caller {
    const char *principal; /* NULL: no policy */
    const char *ns;        /* the only namespace of the principal; NULL: the caller chooses */
    int64_t token_ends;    /* seconds since 1970; 0: never, or no token */
    const struct principal *of;
    /* Copies right i of the principal; returns false if there are fewer. */
    bool (*right)(const struct principal *of, size_t i, service_right *ret);
} service_caller;

/* Settings of the services. */
typedef struct service_options {
    int64_t sequence_block;  /* ids of a SEQUENCE that a server takes at once */
    bool remembers_refusals; /* refusals may come from this server's memory (recent.h) */
    /* plan.lock_slack_ms of a namespace, and the state of the lock store; NULL: no lock store. */
    uint32_t (*lock_slack_ms)(void *lock_store, lks_rpc_slice ns);
    bool (*lock_store_ready)(const void *lock_store);
    void *lock_store;
    /* The store and its state: store_describe and store_describe_primary. NULL: unknown. */
    void (*look)(const store *store, store_view *ret);
    bool (*look_primary)(const store *store, size_t i, store_primary *ret);
    const store *store;
    const struct conditions *conditions; /* the server's faults; NULL: unknown */
    /* The server's metrics as text, in the arena; data NULL: out of memory. */
    lks_rpc_slice (*metrics)(void *arg, bool openmetrics, lks_rpc_arena *arena);
    void *metrics_arg;
} service_options;

typedef struct service {
    size_t n_methods;
    const service_method *methods;
    /* The state of a service in a server (a cache, a block of ids): created with the server, passed to each plan as
     * `state`, used only on the loop thread. NULL: none. */
    void *(*open)(const service_options *options);
    void (*close)(void *state);
    /* Runs for each store call of the service when a call has planned it, before another call is planned, and when it
     * has ended with any result; and for each alarm's store call that has ended. May be NULL. */
    void (*on_store_call)(void *state, const store_call *call);
} service;

extern const service lock_service, stock_service, idempotency_service, ratelimit_service, id_service, guard_service,
    admin_service;

/* All services. */
enum { SERVICES = 7 };
extern const service *const all_services[SERVICES];

/* A service's table is its generated method list, so that a method without a
 * pair is a compile error:
 *
 *     LKS_STOCK_METHODS(SERVICE_PAIR)
 *     static const service_method methods[] = {LKS_STOCK_METHODS(SERVICE_ROW)};
 *
 * with `static void put_item_prepare(const lks_put_item_request *, plan *)` and
 * `static void put_item_finish(const lks_put_item_request *, answer *,
 * lks_put_item_response *)` before. */
#define SERVICE_PAIR(...) SERVICE_PAIR_IF(true, __VA_ARGS__)

/* The same; the finish runs only if `ready`, an expression of `request` and `a`. */
#define SERVICE_PAIR_IF(ready, name, Name, request_type, response_type, method_constant)                      \
    static void name##_prepare_any(const ProtobufCMessage *request, plan *p)                                  \
    {                                                                                                         \
        name##_prepare((const request_type *)(const void *)request, p);                                       \
    }                                                                                                         \
    static void name##_finish_any(const ProtobufCMessage *request, answer *a, ProtobufCMessage *response)     \
    {                                                                                                         \
        if (ready)                                                                                            \
            name##_finish((const request_type *)(const void *)request, a, (response_type *)(void *)response); \
    }
/* Declares the pairs of a service that is in several files, in its header. */
#define SERVICE_DECLARE(name, Name, request_type, response_type, method_constant) \
    void name##_prepare(const request_type *request, plan *p);                    \
    void name##_finish(const request_type *request, answer *a, __typeof__(response_type) *response);
#define SERVICE_ROW(name, Name, request_type, response_type, method_constant) \
    {&(method_constant), name##_prepare_any, name##_finish_any},

/* ---- plan.c: building plans -------------------------------------------------- */

/* Fails the plan with INVALID_ARGUMENT, applied NO; the text begins with the field's path. */
void plan_invalid(plan *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool plan_failed(const plan *p);

/* printf into the call's arena, for paths such as "targets[3].name". */
#define plan_path(p, ...) memory_printf_in((p)->arena, __VA_ARGS__)

/* Check a value; errors name the field: 1..SERVICE_NAME_BYTES_MAX bytes; the same, or empty; a length within bounds; a
 * number within bounds. */
void plan_check_name(plan *p, const char *field, const char *value);
void plan_check_name_or_empty(plan *p, const char *field, const char *value);
void plan_check_text(plan *p, const char *field, const char *value, size_t min_bytes, size_t max_bytes);
void plan_check_range(plan *p, const char *field, int64_t value, int64_t min, int64_t max);

/* Starts a call to `function`, placed by (ns, group). If `group` is empty, `only` (the single name of the request) is
 * used, or, if that is NULL, the plan fails with INVALID_ARGUMENT for `group`. Its arguments follow
 * (functions/arguments.h), those that repeat up to each_max times. The call weighs 1 unless prepare sets another
 * weight. */
void plan_call(plan *p, const plan_function *function, const char *group, const char *only, size_t each_max);

/* The same for a base that the service has made (plan_base). */
void plan_call_at(plan *p, const plan_function *function, lks_rpc_slice base, size_t each_max);

/* Sends the last call to part k of the n parts of its group, "ls:{ns/group/n/k}:", which is different from every
 * `group` and pair. */
void plan_moves_call(plan *p, unsigned n, unsigned k);

/* A service_next: the method's prepare. */
void plan_again(const ProtobufCMessage *request, plan *p);

/* Whether the plan's first call is of that function. */
bool plan_calls(const plan *p, const plan_function *function);

/* Sets the maximum share of an FCALL that the last call started needs; more than STORE_WEIGHT_MAX counts as that. */
void plan_weighs(plan *p, size_t weight);

/* Returns a random id of the call, the same in every round. Lives as long as the plan. */
const char *plan_id(plan *p);

/* Returns the base of the last call; empty if the plan has failed. */
lks_rpc_slice plan_last_base(const plan *p);

/* Lets the call wait; messages name it by `base` followed by `id`. When an event comes, `prepare` runs again with
 * p->event set. */
void plan_waits(plan *p, lks_rpc_slice base, const char *id);

/* Lets the waiting call watch the alarm function(argument) of `base`. Text is not copied. */
void plan_watch(plan *p, lks_rpc_slice base, const char *function, lks_rpc_slice argument);

/* Sets the function to call, until it succeeds, if a call that may have waited in the store ends without an answer
 * because its connection or the store is gone. Arguments as for plan_watch; its reply is {'OK', -1}. */
void plan_undo(plan *p, lks_rpc_slice base, const char *function, lks_rpc_slice argument);

/* Used by functions/arguments.h: sets the layout of the following arguments; adds one argument of each type. Text is
 * not copied. */
void plan_arguments_of(plan *p, int layout);
void plan_arg_text(plan *p, const char *text);
void plan_arg_key(plan *p, const char *text); /* percent-encoded as in keys (plan_encode) */
void plan_arg_int(plan *p, int64_t value);
void plan_arg_flag(plan *p, bool value);
void plan_arg_bytes(plan *p, lks_rpc_slice bytes);

/* Returns the key base "ls:{ns/group}:", or "ls:{ns/group/second}:", which is different from every group; second NULL:
 * none. Both must have been checked. In the arena, like the next ones. */
lks_rpc_slice plan_base(plan *p, const char *group, const char *second);

/* Percent-encode a part of a key, all except [A-Za-z0-9._~-]; and the inverse. */
char *plan_encode(lks_rpc_arena *arena, const char *text);
char *plan_encode_bytes(lks_rpc_arena *arena, const void *data, size_t len);
char *plan_decode(lks_rpc_arena *arena, lks_rpc_slice encoded);

/* ---- answer.c: reading replies ----------------------------------------------- */

/* Return elements of a reply; a reply of another form makes the call fail with INTERNAL and returns 0, "" or NULL, so
 * that finish need not check. Text is copied to the arena with a NUL. */
const store_value *answer_at(answer *a, const store_value *array, size_t i);
size_t answer_count(answer *a, const store_value *array);
int64_t answer_int(answer *a, const store_value *array, size_t i);
char *answer_text(answer *a, const store_value *array, size_t i);

/* Returns number i of the event that woke the call. */
int64_t answer_event_number(answer *a, size_t i);

/* Splits an element into an array at its NULs. */
const store_value *answer_split(answer *a, const store_value *array, size_t i);

/* Whether a reply begins with that word. */
bool answer_says(const store_value *reply, const char *word);
bool answer_is_numbers(const store_value *reply); /* its first element is a number */

/* Returns the text of a key as it was before plan_encode. */
char *answer_decoded(answer *a, const store_value *array, size_t i);

/* Returns an array of pointers to n new messages, for a repeated field. */
void *answer_messages(answer *a, const ProtobufCMessageDescriptor *type, size_t n);

/* Returns the group of a request with the single name `only`. */
const char *answer_group(const char *group, const char *only);

/* In finish of a call whose plan waits: the call waits. */
void answer_waits(answer *a);

/* In finish: no answer yet; `next` plans another round at once. Only if this round had no effect of the method: a later
 * error says NO, unless an earlier round had one. */
void answer_next_round(answer *a, service_next *next);

/* The same after a round with an effect: every later error says MAYBE. */
void answer_next_round_applied(answer *a, service_next *next);

/* Returns the id in the request or, if that is empty, the one that plan_id made. */
const char *answer_id(answer *a, const char *asked);

/* Requests a call of function(argument) of `base` in in_ms, if a call that watches it still waits then; -1 = never. Its
 * reply must be {'OK', ms until again}. Text is not copied. */
void answer_alarm(answer *a, lks_rpc_slice base, const char *function, const char *argument, int64_t in_ms);

/* The same, without an argument, whether or not a call waits, until the function replies -1. For actions that must
 * happen in time without a caller. A server that ends forgets the alarm, so it must be harmless if it comes late or
 * never. */
void answer_lasting_alarm(answer *a, lks_rpc_slice base, const char *function, int64_t in_ms);

/* Returns the enum number whose value is named PREFIX + the text of element i: functions answer with the contract's
 * words ("SOLD_OUT"). */
int answer_enum(answer *a, const store_value *array, size_t i, const ProtobufCEnumDescriptor *type);

#endif
