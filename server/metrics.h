/* Writes the metrics of a server (net/metrics/table.h) and whether it is ready. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_METRICS_H
#define LOCKSTOCK_SERVER_METRICS_H

#include "calls/callers.h"
#include "calls/dispatch.h"
#include "calls/identity.h"
#include "calls/loss.h"
#include "conditions.h"
#include "config.h"
#include "net/wires.h"
#include "quorum/quorum.h"
#include "store/store.h"

struct uv_loop_s;

/* The parts of the server that the metrics read. A closed part is NULL. */
typedef struct server_parts {
    const settings *config;
    struct uv_loop_s *loop;
    const conditions *conditions;
    const store *store;
    const quorum *quorum; /* NULL: no lock store */
    const identity *identity;
    const budget *budget;
    const callers *callers;
    const dispatch *dispatch;
    struct tracing *tracing;
    const wires *wires;
    const loss *loss;
    uint64_t started_ns; /* uv_hrtime */
    uint64_t reloads, failed_reloads;
} server_parts;

/* data NULL: out of memory. */
lks_rpc_slice server_metrics(const server_parts *of, bool openmetrics, lks_rpc_arena *arena);

/* {"ready":false,"reasons":[{"about":"store","reason":"store_unreachable","text":"..."}]} with status 503, or with
 * ready true and status 200. */
http_page_answer server_readiness(const conditions *c, bool stopping, lks_rpc_arena *arena);

#endif
