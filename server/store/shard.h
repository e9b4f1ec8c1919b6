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
#include "store/pipeline.h"
#include "store/slots.h"
#include "store/types.h"
#include "store/subscription.h"

typedef enum shard_state {
    SHARD_NEW,      /* not opened: no connection and no pipeline */
    SHARD_DOWN,     /* no connection that calls may use */
    SHARD_CHECKING, /* greeted; a check has failed, or has no answer yet */
    SHARD_REFUSING, /* calls are sent, and Redis refuses every write */
    SHARD_SERVING,  /* calls are sent */
    SHARD_CLOSED
} shard_state;

typedef struct shard shard;

/* State that all shards of a topology share; it outlives them. Callbacks run on the loop. None may close a shard. */
typedef struct shard_context {
    const store_options *store; /* loop, library, times, limits, on_wake */
    const login *as;
    const struct secrets_tls *tls;
    uint32_t db;
    bool fails_over;        /* another Redis may take a shard's place */
    bool waits_for_address; /* after a loss a shard connects only after shard_move */
    /* Returns a text that identifies the primary at the shard's address; the store gets it before any call is sent.
     * NULL: the primary stays the same. Valid until the next change. */
    const char *(*generation)(void *arg);
    /* As in pipeline_options. */
    pipeline *(*route)(void *arg, const store_call *call);
    bool (*on_moved)(void *arg, const shard *from, const char *text, size_t len);
    /* The shard's state or fault has changed. came_up: calls are sent again, and the channel is heard from now on. */
    void (*on_change)(void *arg, shard *shard, bool came_up);
    /* The channel was lost and is heard again, or messages were lost. */
    void (*on_listening)(void *arg);
    /* The shard's data, design or version will never fit; on_change follows. */
    void (*on_fatal)(void *arg, const shard *shard, store_fault fault);
    /* A connection of a shard was lost or could not be made. */
    void (*on_lost)(void *arg);
    void *arg;
} shard_context;

enum { SHARD_CHANNEL_BYTES = 192 };

struct shard {
    const shard_context *context;      /* from here to id: set by shard_new and the caller, then read only */
    const char *path;                  /* of a socket, owned by the caller; NULL: host and port */
    char address[STORE_ADDRESS_BYTES]; /* the path, or host and port, for people */
    char host[SLOTS_HOST_BYTES];       /* "": not known yet */
    uint16_t port;
    char id[SLOTS_ID_BYTES]; /* the id that the node of a cluster must have; "": any */

    shard_state state;
    kept_fault fault; /* the fault; of a shard that serves: which writes it refuses */

    size_t n_slots; /* from here to in_all for the topology */
    store_part part;
    uint64_t leaves_ms; /* uv_now; 0: it has slots */
    TAILQ_ENTRY(shard) in_all;

    pipeline *pipeline; /* NULL: SHARD_NEW; private to shard.c from here on */
    connection *connection;
    subscription *subscription; /* NULL: without a channel to hear */
    char channel[SHARD_CHANNEL_BYTES], common_channel[SHARD_CHANNEL_BYTES];
    kept_fault logged_loss; /* why the channel was lost, as logged since the shard came up */
    library library;
    greeting greeting;
    health health;
    uv_timer_t upkeep;
    close_barrier barrier;
};

/* Makes a shard with this base for its own keys. The caller sets host and port, or path; and address, or it is made
 * from them. */
shard *shard_new(const shard_context *context, const char *base);

/* NEW -> DOWN: connects in the background and keeps connecting. Calls nothing back before it returns. */
void shard_open(shard *shard);

/* Moves the shard, open or not, to this address. Commands sent to the old address end as when a connection is lost. The
 * same address is only confirmed. `fault` holds until the shard is connected. */
void shard_move(shard *shard, const char *host, uint16_t port, store_fault fault);

/* Drops the connection because of `fault`, and connects again. */
void shard_drop(shard *shard, store_fault fault);

/* Sets why the shard is DOWN; ignored in other states. */
void shard_explain(shard *shard, store_fault fault);

/* Sends the changed credentials on the current connection; later connections use them from the start. */
void shard_reauth(shard *shard);

/* Add the shard's state to the view; describe its primary. */
void shard_describe(const shard *shard, store_view *ret);
void shard_describe_primary(const shard *shard, store_primary *ret);

/* Ends its calls with UNAVAILABLE, except those routed to another shard, and frees it; `within` counts it until then.
 * Do not call this inside a callback of the shard. */
void shard_close(shard *shard, close_barrier *within);

#endif
