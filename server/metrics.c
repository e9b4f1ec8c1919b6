#include "metrics.h"

#include <stdio.h>
#include <string.h>

#include <uv.h>

#include "base/quote_json.h"
#include "commit.h"
#include "log.h"
#include "tracing/tracing.h"

#include <lockstock/version.h>

/* ---- the server ---------------------------------------------------------------------------------- */

static void write_calls(const server_parts *of, metrics_text *t)
{
    metrics_begin(t, METRICS_CALLS);
    metrics_sample(t, "state=\"running\"", callers_running(of->callers));
    metrics_sample(t, "state=\"queued\"", (double)callers_queued(of->callers));
    metrics_sample(t, "state=\"waiting\"", callers_parked(of->callers));
    metrics_begin(t, METRICS_CALLS_MAX);
    metrics_sample(t, "state=\"running\"", (double)of->config->in_flight);
    metrics_sample(t, "state=\"waiting\"", (double)of->config->waiting);
}

/* Returns a JSON string in the arena. */
static const char *quote(lks_rpc_arena *arena, const char *text)
{
    char *out = lks_rpc_arena_alloc(arena, QUOTE_JSON_BYTES(strlen(text)) + 1);

    if (!out)
        return "\"\"";
    out[quote_json(text, out)] = '\0';
    return out;
}

static void put_principal(metrics_text *t, const char *name, const char *more, double value)
{
    const char *labels = lks_rpc_arena_printf(t->arena, "principal=%s%s", quote(t->arena, name), more);

    if (labels)
        metrics_sample(t, labels, value);
}

/* The names come from the operator's policy file, so the file limits how many label values there are. */
static void write_principals(const server_parts *of, metrics_text *t)
{
    identity_use one;

    metrics_begin(t, METRICS_PRINCIPAL_CALLS);
    for (const principal *p = NULL; (p = identity_next(of->identity, p, &one));) {
        put_principal(t, one.principal, ",result=\"admitted\"", (double)one.admitted);
        put_principal(t, one.principal, ",result=\"refused\"", (double)one.refused);
    }
    metrics_begin(t, METRICS_PRINCIPAL_WAITING);
    for (const principal *p = NULL; (p = identity_next(of->identity, p, &one));)
        put_principal(t, one.principal, "", (double)callers_waiting_of(of->callers, one.principal));
    metrics_begin(t, METRICS_TOKEN_ENDS);
    for (const principal *p = NULL; (p = identity_next(of->identity, p, &one));)
        if (one.token_ends > 0)
            put_principal(t, one.principal, "", (double)one.token_ends);
}

/* These return a value of a primary; -1: unknown. */
static int64_t replicas(const store_primary *one)
{
    return one->tells_replicas ? (int64_t)one->n_replicas : -1;
}

static int64_t lag(const store_primary *one)
{
    uint64_t behind = 0;

    for (size_t r = 0; r < one->n_replicas; r++)
        behind = one->replicas[r].behind_bytes > behind ? one->replicas[r].behind_bytes : behind;
    return one->n_replicas > 0 ? (int64_t)behind : -1;
}

static int64_t memory_used(const store_primary *one)
{
    return one->use.memory_bytes;
}

static int64_t memory_max(const store_primary *one)
{
    return one->use.memory_max_bytes;
}

static int64_t file_bytes(const store_primary *one)
{
    return one->use.file_bytes;
}

static void write_primaries(const server_parts *of, metrics_text *t, const char *more,
                            int64_t (*value)(const store_primary *one))
{
    store_primary one;

    for (size_t i = 0; store_describe_primary(of->store, i, &one); i++) {
        const char *labels = value(&one) >= 0 ? lks_rpc_arena_printf(t->arena, "primary=\"%zu\"%s", i, more) : NULL;
        if (labels)
            metrics_sample(t, labels, (double)value(&one));
    }
}

static void write_all_primaries(const server_parts *of, metrics_text *t)
{
    metrics_begin(t, METRICS_STORE_REPLICAS);
    write_primaries(of, t, "", replicas);
    metrics_begin(t, METRICS_STORE_LAG);
    write_primaries(of, t, "", lag);
    metrics_begin(t, METRICS_STORE_MEMORY);
    write_primaries(of, t, ",kind=\"used\"", memory_used);
    write_primaries(of, t, ",kind=\"max\"", memory_max);
    metrics_begin(t, METRICS_STORE_FILE);
    write_primaries(of, t, "", file_bytes);
}

static void write_process(const server_parts *of, metrics_text *t)
{
    store_process process;

    if (!store_describe_process(of->store, &process))
        return;
    if (process.disk_free_bytes >= 0)
        metrics_single(t, METRICS_STORE_DISK, (double)process.disk_free_bytes);
    metrics_single(t, METRICS_STORE_STARTS, (double)process.starts);
}

static void write_store(const server_parts *of, metrics_text *t)
{
    store_view view = {.version = "", .fsync = ""};

    store_describe(of->store, &view);
    metrics_single(t, METRICS_STORE_READY, view.ready);
    metrics_single(t, METRICS_STORE_ROUND, view.ready ? (double)view.round_trip_us / 1e6 : 0);
    metrics_single(t, METRICS_STORE_LOSSES, (double)loss_found(of->loss));
    write_all_primaries(of, t);
    write_process(of, t);
}

static void write_lock_store(const server_parts *of, metrics_text *t)
{
    quorum_view view;

    if (!of->quorum)
        return;
    quorum_look(of->quorum, &view);
    metrics_single(t, METRICS_LOCK_STORE_READY, view.ready);
    metrics_begin(t, METRICS_LOCK_STORE_WRITES);
    metrics_sample(t, "result=\"done\"", (double)view.written);
    metrics_sample(t, "result=\"conflict\"", (double)view.conflicts);
    metrics_sample(t, "result=\"unknown\"", (double)view.unknown);
}

lks_rpc_slice server_metrics(const server_parts *of, bool openmetrics, lks_rpc_arena *arena)
{
    metrics_text t = {.arena = arena, .openmetrics = openmetrics};
    uint64_t spans_sent, spans_lost;
    int64_t certificate_ends = of->wires ? wires_certificate_ends(of->wires) : 0;

    metrics_begin(&t, METRICS_BUILD_INFO);
    metrics_sample(&t, "version=\"" LOCKSTOCK_VERSION "\",commit=\"" LOCKSTOCK_COMMIT "\"", 1);
    dispatch_write_metrics(of->dispatch, &t);
    write_calls(of, &t);
    write_principals(of, &t);
    if (of->wires)
        wires_write_metrics(of->wires, &t);
    if (certificate_ends > 0)
        metrics_single(&t, METRICS_CERTIFICATE, (double)certificate_ends);
    metrics_single(&t, METRICS_MEMORY, (double)budget_held(of->budget));
    metrics_single(&t, METRICS_MEMORY_MAX, (double)of->config->memory_bytes);
    metrics_single(&t, METRICS_BUSY, (double)(uv_hrtime() - of->started_ns - uv_metrics_idle_time(of->loop)) / 1e9);
    metrics_single(&t, METRICS_READY, conditions_ready(of->conditions, NULL));
    write_store(of, &t);
    write_lock_store(of, &t);
    tracing_counts(of->tracing, &spans_sent, &spans_lost);
    metrics_begin(&t, METRICS_SPANS);
    metrics_sample(&t, "result=\"sent\"", (double)spans_sent);
    metrics_sample(&t, "result=\"lost\"", (double)spans_lost);
    metrics_begin(&t, METRICS_RELOADS);
    metrics_sample(&t, "result=\"done\"", (double)of->reloads);
    metrics_sample(&t, "result=\"failed\"", (double)of->failed_reloads);
    metrics_single(&t, METRICS_LINES_LOST, (double)log_lines_lost());
    metrics_process(&t);
    return metrics_end(&t);
}

/* ---- readiness ------------------------------------------------------------------------------------- */

http_page_answer server_readiness(const conditions *c, bool stopping, lks_rpc_arena *arena)
{
    bool ready = conditions_ready(c, NULL) && !stopping;
    const char *reasons =
        stopping ? "{\"about\":\"server\",\"reason\":\"shutting_down\",\"text\":\"the server is shutting down\"}" : "";
    condition one;

    for (size_t i = 0; reasons && conditions_look(c, i, &one); i++)
        reasons = lks_rpc_arena_printf(arena, "%s%s{\"about\":\"%s\",\"reason\":\"%s\",\"blocks\":%s,\"text\":%s}",
                                       reasons, reasons[0] ? "," : "", one.about, lks_reason_name(one.reason),
                                       one.blocks ? "true" : "false", quote(arena, one.text));
    const char *body = lks_rpc_arena_printf(arena, "{\"ready\":%s,\"reasons\":[%s]}\n", ready ? "true" : "false",
                                            reasons ? reasons : "");
    return (http_page_answer){.status = ready ? 200 : 503,
                              .type = "application/json",
                              .body = {.data = body, .len = body ? strlen(body) : 0}};
}
