/* Calls under way: gathered through a loop turn and sent together, combined
 * where they may be, each with its deadline, each ended exactly once. */
#ifndef LOCKSTOCK_SERVER_STORE_PIPELINE_H
#define LOCKSTOCK_SERVER_STORE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/connection.h"
#include "store/store.h"

typedef struct pipeline pipeline;

typedef struct pipeline_options {
    struct uv_loop_s *loop;
    const char *digest;     /* appended to a function's name; static */
    uint32_t in_flight_max; /* then RESOURCE_EXHAUSTED, NO; 0 = 8,192 */
    unsigned wait_replicas; /* that must have what a call did before it is answered; 0: none */
    uint32_t wait_ms;       /* for so long; then the call is repeated, or MAYBE */
    /* Redis lost the functions: calls are held until pipeline_resume or _down. */
    void (*on_missing)(void *arg);
    /* The connection is of no use (static text): to be retired. */
    void (*on_useless)(void *arg, store_fault fault);
    /* The pipeline that serves a call now; NULL = this one. */
    pipeline *(*route)(void *arg, const store_call *call);
    /* Redis said MOVED, after which the call is routed again, ASK, or CLUSTERDOWN, in these words. True: it has said so
     * of that slot for long, so that the call fails. */
    bool (*on_moved)(void *arg, const char *text, size_t len);
    void *arg;
} pipeline_options;

/* The options are copied. */
pipeline *pipeline_new(const pipeline_options *options);

/* As store_submit; where the call's slot is served elsewhere, it goes there. */
void pipeline_submit(pipeline *pipeline, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

/* From now on calls go out over this connection; until pipeline_down. base: of keys of the node of
 * Redis Cluster to which it leads, the caller's, who may change the text; NULL: it leads to none. */
void pipeline_up(pipeline *pipeline, connection *connection, const char *base);

/* There is none: calls wait for one, within the grace that store.h states.
 * The text is copied. */
void pipeline_down(pipeline *pipeline, store_fault fault);

/* Slots are served elsewhere: calls that are not out go there. */
void pipeline_reroute(pipeline *pipeline);

/* Says whether, within wait_ms, wait_replicas had all that Redis had done when it was asked; once, also when the
 * connection is lost (then false). Returns false, and tells nothing, where there is no connection. */
bool pipeline_confirm(pipeline *pipeline, void (*done)(void *arg, bool enough), void *arg);

/* The functions are there again. */
void pipeline_resume(pipeline *pipeline);

/* Ends every call with UNAVAILABLE, and from now on refuses each; its commands
 * on the connection must have ended before. */
void pipeline_end(pipeline *pipeline);

/* After pipeline_end: `freed` runs on the loop, last. */
void pipeline_free(pipeline *pipeline, void (*freed)(void *arg), void *arg);

#endif
