/* One primary: the connection to it, the checks that it must pass before calls use it (greeting, library, health), its
 * pipeline, and a second connection that hears a channel. shard_state says whether calls go out; shard.c draws how it
 * changes. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_STORE_SHARD_H
#define LOCKSTOCK_SERVER_STORE_SHARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "net/close_barrier.h"
#include "store/errors.h"
#include "store/greeting.h"
#include "store/health.h"
#include "store/library.h"
#include "store/login.h"
#include "store/pipeline.h"
#include "store/slots.h"
#include "store/types.h"
#include "store/subscription.h"

typedef enum shard_state {
    SHARD_NEW,      /* not opened: it has no connection and no pipeline */
    SHARD_DOWN,     /* no connection that calls may use */
    SHARD_CHECKING, /* greeted; a check has failed, or has no answer yet */
    SHARD_REFUSING, /* calls go out, and Redis refuses every write */
    SHARD_SERVING,  /* calls go out */
    SHARD_CLOSED
} shard_state;

typedef struct shard shard;

/* What all shards of a topology share; it outlives them. Callbacks run on the loop. None may close a shard. */
typedef struct shard_context {
    const store_options *store; /* loop, library, times, limits, on_wake */
    const login *as;
    const struct secrets_tls *tls;
    uint32_t db;
    bool fails_over;        /* another Redis may take a shard's place */
    bool waits_for_address; /* after a loss a shard connects only once shard_move has said where */
    /* Names the primary at the shard's address, which the store is told before any call goes out. NULL: it stays the
     * same one. Valid until the next change. */
    const char *(*generation)(void *arg);
    /* As in pipeline_options. */
    pipeline *(*route)(void *arg, const store_call *call);
    bool (*on_moved)(void *arg, const shard *from, const char *text, size_t len);
    /* Its state or its fault is another. came_up: calls go out again, and the channel is heard from now on. */
    void (*on_change)(void *arg, shard *shard, bool came_up);
    /* The channel was lost and is heard again, or messages were lost. */
    void (*on_listening)(void *arg);
    /* Its data, design or version does not fit, for good; on_change follows. */
    void (*on_fatal)(void *arg, const shard *shard, store_fault fault);
    /* One of its connections was lost or could not be made. */
    void (*on_lost)(void *arg);
    void *arg;
} shard_context;

enum { SHARD_CHANNEL_BYTES = 192 };

struct shard {
    const shard_context *context;      /* from here to id: set by shard_new and the caller, then read only */
    const char *path;                  /* of a socket, the caller's; NULL: host and port */
    char address[STORE_ADDRESS_BYTES]; /* of either, for people */
    char host[SLOTS_HOST_BYTES];       /* "": not known yet */
    uint16_t port;
    char id[SLOTS_ID_BYTES]; /* which node of a cluster it must be; "": any */

    shard_state state;
    kept_fault fault; /* what is wrong; of a shard that serves: which writes it refuses */

    size_t n_slots; /* from here to in_all the topology's own */
    store_part part;
    uint64_t leaves_ms; /* uv_now; 0: it has slots */
    TAILQ_ENTRY(shard) in_all;

    pipeline *pipeline; /* NULL: SHARD_NEW; from here on shard.c's own */
    connection *connection;
    subscription *subscription; /* NULL: without a channel to hear */
    char channel[SHARD_CHANNEL_BYTES], common_channel[SHARD_CHANNEL_BYTES];
    kept_fault said_deaf; /* why the channel was lost, in the log, since the shard came up */
    library *library;
    greeting greeting;
    health health;
    uv_timer_t upkeep;
    close_barrier barrier;
};

/* A shard with this base for its own keys. The caller fills in host and port, or path; and address, or it is made of
 * them. */
shard *shard_new(const shard_context *context, const char *base);

/* NEW -> DOWN: connects in the background and keeps connecting. Calls nothing back before it returns. */
void shard_open(shard *shard);

/* From now on the shard, open or not, is at this address; what was sent to the one before ends as when a connection is
 * lost. If it is there already, the address is confirmed. `fault` is what is wrong until it is connected. */
void shard_move(shard *shard, const char *host, uint16_t port, store_fault fault);

/* Gives the connection up, for `fault`; it is made again. */
void shard_drop(shard *shard, store_fault fault);

/* Why it is DOWN, as the caller knows; ignored in other states. */
void shard_explain(shard *shard, store_fault fault);

/* Shows the credentials, which have changed, on a connection that lives; later ones show them at first. */
void shard_reauth(shard *shard);

/* What is known of it. */
void shard_look(const shard *shard, store_view *ret);
void shard_look_primary(const shard *shard, store_primary *ret);

/* Ends its calls with UNAVAILABLE, but for those that are routed elsewhere, and frees it; `closed` runs on the loop,
 * last. Not inside a callback of the shard. */
void shard_close(shard *shard, void (*closed)(void *arg), void *arg);

#endif
