/* Calls under way: collected during a loop turn and sent together. Each has a deadline and ends exactly once. */
#ifndef LOCKSTOCK_SERVER_STORE_PIPELINE_H
#define LOCKSTOCK_SERVER_STORE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/connection.h"
#include "store/types.h"

struct close_barrier;

typedef struct pipeline pipeline;

typedef struct pipeline_options {
    struct uv_loop_s *loop;
    const char *digest;     /* appended to a function's name; static */
    uint32_t in_flight_max; /* more calls are RESOURCE_EXHAUSTED, NO */
    unsigned wait_replicas; /* replicas that must have the call's writes before it is answered; 0: none */
    uint32_t wait_ms;       /* the time after which the call is repeated, or MAYBE */
    /* A function is missing: calls wait until pipeline_resume or pipeline_down. */
    void (*on_missing)(void *arg);
    void (*on_message)(void *arg, const char *data, size_t len);
    /* Messages of pipeline_hear were not confirmed and are dropped. */
    void (*on_missed)(void *arg);
    /* The connection should be retired (static text). */
    void (*on_useless)(void *arg, store_fault fault);
    /* The pipeline that serves a call now; NULL = this one. */
    pipeline *(*route)(void *arg, const store_call *call);
    /* Redis replied MOVED, ASK or CLUSTERDOWN, with this text. Returns true if the slot's move takes too long, so the
     * call fails. */
    bool (*on_moved)(void *arg, const char *text, size_t len);
    void *arg;
} pipeline_options;

/* The options are copied. */
pipeline *pipeline_new(const pipeline_options *options);

/* Submits a call as store_submit does, through the pipeline that `route` returns. */
void pipeline_submit(pipeline *pipeline, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

/* From now on calls are sent over this connection. base: the base of keys on its node of Redis Cluster, which the
 * caller keeps and may change; NULL: no cluster. */
void pipeline_up(pipeline *pipeline, connection *connection, const char *base);

/* Calls wait for a connection, within the grace that store.h states. The text is copied. */
void pipeline_down(pipeline *pipeline, store_fault fault);

/* Routes calls again that are not out. */
void pipeline_reroute(pipeline *pipeline);

/* Passes a copy of a wake message to on_message, in the order of the calls, once wait_replicas replicas have the data
 * that it depends on. */
void pipeline_hear(pipeline *pipeline, const char *data, size_t len);

/* The functions were loaded: sends calls again. */
void pipeline_resume(pipeline *pipeline);

/* Ends every call with UNAVAILABLE, except those routed to another pipeline; its commands on the connection must have
 * ended before. `within` counts it until it has closed. */
void pipeline_close(pipeline *pipeline, struct close_barrier *within);

#endif
