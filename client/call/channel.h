/* Inside a channel. Its loop thread, which is the completion thread of docs/client.md, owns
 * all of it but what is marked shared: it runs what other threads post, fires timers, gives
 * calls to endpoints and runs the completions. No lock is held while any of that runs. While it
 * sleeps, a thread may send a call of its own in its place (channel_start), and read the answer (channel_run): "loop
 * thread" here and in client/call and client/wire means whichever of them is in. Completions run on the loop thread alone. */
#ifndef LOCKSTOCK_CLIENT_CALL_CHANNEL_H
#define LOCKSTOCK_CLIENT_CALL_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <lockstock/call.h>
#include <lockstock/channel.h>
#include <lockstock/rpc/arena.h>

#include "client/wire/endpoint.h"
#include "client/loop/loop.h"
#include "base/pace.h"
#include "net/tls.h"

typedef TAILQ_HEAD(call_list, lks_call) call_list;

struct lks_channel {
    /* Shared, constant after open. */
    lks_channel_options options; /* every default filled in */
    char *ns, *server_name;      /* those of the options */
    char *authorization;         /* options.token, which is "Bearer " and the token here */
    tls_context *tls;            /* NULL = no URL needs it */
    size_t calls_max;
    unsigned forks; /* whose it is (forks.h) */
    pthread_t thread;

    /* Shared. */
    struct loop loop;
    atomic_size_t under_way; /* calls admitted and not settled */
    atomic_bool closing;
    _Atomic uint64_t queue_ns; /* how long a call that takes would queue, as the loop thread knows it */

    /* The loop thread's. */
    struct endpoint **endpoints;
    size_t n_endpoints;
    size_t current;                  /* the endpoint that calls go to while it is connected */
    call_list calls;                 /* all that are not settled */
    call_list queue[ENDPOINT_LANES]; /* those that wait for room in a connection */
    size_t n_queued[ENDPOINT_LANES];
    pace pace[ENDPOINT_LANES]; /* of the queues of calls that do not wait on the server */
    uint64_t enqueued;         /* calls put into a queue so far */
    call_list settled;         /* those whose completion is still to run */
    lks_rpc_arena *arena;      /* of the reply in hand */
    uint64_t random;           /* of backoff_ns */
    loop_task close;
};

/* Counts a call in. LKS_RESOURCE_EXHAUSTED: the queue is full; one that insists has
 * room beyond; LKS_CANCELLED: the channel is being closed; LKS_FAILED_PRECONDITION: in
 * a forked child. Shared. */
lks_code channel_admit(lks_channel *channel, bool insist, lks_error *error);

/* Undoes channel_admit for a call that was not started. Shared. */
void channel_dismiss(lks_channel *channel);

/* Starts an admitted call. One that is alone its own thread sends, if the loop thread sleeps: that wakes for the answer
 * only. With others under way it is left to the loop thread, which sends many at once. Shared. */
void channel_start(lks_channel *channel, lks_call *call);

/* The same for a call without a completion that its thread will wait for: if it sent it, it also reads the answer, as
 * long as nothing else is to be done. It may be complete then. Shared. */
void channel_run(lks_channel *channel, lks_call *call);

/* Whether the calling thread runs completions, of whichever channel. */
bool channel_on_completion_thread(void);

/* Loop thread: a failed try speaks against this endpoint; the next try goes to another,
 * if one is connected. */
void channel_leave(lks_channel *channel, const struct endpoint *endpoint);

/* Loop thread: whether any endpoint is connected. */
bool channel_connected(const lks_channel *channel);

/* Loop thread: the first endpoint that knows why it is not connected; NULL when none does. */
const struct endpoint *channel_why(const lks_channel *channel);

#endif
