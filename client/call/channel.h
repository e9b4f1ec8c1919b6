/* The state of a channel: its servers, the queues of calls for them, and its thread, which is the completion thread of
 * docs/client.md. That thread, the loop thread, owns everything that is not marked shared: it runs what other threads
 * post, fires timers, gives calls to connections and runs the completions. It holds no lock meanwhile. While it sleeps,
 * a thread may borrow its loop to send its own call (channel_start) and to read the answer (channel_enter): "loop
 * thread" in client/call and client/wire means whichever thread has the loop. If the program drives the channel, the
 * loop thread is the thread that is inside lks_channel_step. Completions run only on the loop thread, except for a call
 * that its own thread waits for. */
#ifndef LOCKSTOCK_CLIENT_CALL_CHANNEL_H
#define LOCKSTOCK_CLIENT_CALL_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <lockstock/channel.h>
#include <lockstock/rpc/arena.h>

#include "base/pace.h"
#include "client/call/tokens.h"
#include "client/loop/loop.h"
#include "client/wire/connection.h"
#include "net/tls.h"

struct lks_channel {
    /* Shared, constant after open. */
    lks_channel_options options; /* with defaults filled in; token: "Bearer " and the token */
    lks_rpc_arena *texts;        /* has those of the options */
    tls_context *tls;            /* NULL = no URL needs it */
    tokens *tokens;              /* NULL if options.get_token is NULL */
    size_t calls_max;
    unsigned forks;   /* of the process that opened it (forks.h) */
    pthread_t thread; /* unless the program drives it */

    /* Shared. */
    struct loop loop;
    atomic_size_t under_way; /* calls admitted and not settled */
    atomic_bool closing;
    _Atomic lks_channel_state state;
    _Atomic uint64_t queue_ns; /* the last estimate of how long a PROMPT call would queue */

    /* The loop thread's. */
    struct connection **connections;
    size_t n_connections;
    size_t current;           /* the connection that calls go to while it is up; for round robin the next one */
    frame_queue calls;        /* all that are not settled */
    frame_queue queue[LANES]; /* those that wait for room in a connection */
    frame_queue tokenless;    /* those that wait for events->token */
    size_t n_prompt;          /* the length of queue[LANE_PROMPT] */
    pace pace;                /* how fast calls leave queue[LANE_PROMPT] */
    uint64_t enqueued;        /* calls put into a queue so far */
    frame_queue settled;      /* calls whose completion has not run yet */
    lks_rpc_arena *arena;
    uint64_t random;       /* of backoff_ns */
    uint64_t retry_tokens; /* retry tokens that are left, in tenths */
    loop_task close, fetched;
};

/* Counts a new call; on failure nothing is counted. LKS_RESOURCE_EXHAUSTED: the queue is full (calls that insist may
 * exceed it); LKS_CANCELLED: the channel is being closed; LKS_FAILED_PRECONDITION: in a child of fork. Shared. */
lks_code channel_admit(lks_channel *channel, bool insist, lks_error *error);

/* Stops counting an admitted call that was not started or is settled. Shared. */
void channel_dismiss(lks_channel *channel);

/* Runs the task that starts an admitted call. If it is the only call and the loop thread sleeps, this thread runs the
 * task and writes, so that the loop thread wakes only for the answer. Otherwise the loop thread does it, for many calls
 * at once. Shared. */
void channel_start(lks_channel *channel, loop_task *start);

/* Does the same. Returns whether this thread ran the task; then it keeps the loop until channel_exit. Shared. */
bool channel_enter(lks_channel *channel, loop_task *start);

/* Call it while the loop is borrowed: waits for bytes on the connection and handles them. False: the loop was given
 * back, because the loop thread is needed or the connection cannot be read here. */
bool channel_read(lks_channel *channel, struct connection *connection);

/* Gives the loop back. The loop thread does the remaining work. */
void channel_exit(lks_channel *channel);

/* Whether a call with this timeout (0: the channel's) would stay in the queue for too long. Shared. */
bool channel_is_slow(lks_channel *channel, uint32_t timeout_ms);

/* For a channel that the program drives: does the current work of the loop thread, without waiting. */
void channel_step(lks_channel *channel);

/* Whether a request fits into a message of the channel. Thread-safe. */
bool channel_has_room(const lks_channel *channel, const ProtobufCMessage *request);

/* Whether the calling thread is running completions of any channel. */
bool channel_on_completion_thread(void);

/* ---- on the loop thread -------------------------------------------------------------------- */

void channel_enqueue(lks_channel *channel, connection_lane lane, frame_call *call);
void channel_dequeue(lks_channel *channel, connection_lane lane, frame_call *call);

/* An added call is settled: its completion runs soon. Stops counting it. */
void channel_settle(lks_channel *channel, frame_call *call);

/* Removes a call from the list of settled calls: the caller runs its completion. */
void channel_unsettle(lks_channel *channel, frame_call *call);

/* A try on this connection failed: the next one goes to another, if one is up. */
void channel_avoid(lks_channel *channel, const struct connection *connection);

/* The connection for the next message, by options.policy, and the lane whose calls it takes. NULL: no connection is up
 * with room for a queued call. */
struct connection *channel_choose(lks_channel *channel, connection_lane *lane);

/* Runs options.on_state if the state has changed. */
void channel_report_state(lks_channel *channel);

/* A try has ended. `passed`: it did not fail transiently. Returns whether options.retry_tokens allows another try. */
bool channel_note_try(lks_channel *channel, bool passed);

/* Whether any connection is up. */
bool channel_connected(const lks_channel *channel);

/* The first connection with a known reason for not being up; NULL: none. */
const struct connection *channel_why(const lks_channel *channel);

#endif
