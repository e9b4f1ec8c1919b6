/* Invariant: an answer counts only between health_start and health_stop; each question is out at most once. Called by
 * shard.c, which on_change asks for health_check. */
#include "store/health.h"

#include <stdio.h>

#include "log.h"
#include "store/errors.h"

enum {
    ROLE_CHECK_MS = 1000,
    SAFETY_CHECK_MS = 30 * 1000,
    WAIT_MS = 1000,
    TICKS = 2, /* in the time of one role check; without a reply for so long Redis does not answer */
};

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

/* ---- safety -------------------------------------------------------------------- */

static void warn_of_failover(health *h)
{
    bool may_lose = h->fails_over && h->store->wait_replicas == 0 && h->safety.known &&
                    (h->safety.min_replicas == 0 || h->safety.max_lag_s == 0);

    if (may_lose && !h->may_lose)
        log_warn(
            "store-may-lose",
            "primary=%s reason=\"--wait-replicas and the store's min-replicas-to-write are 0: what is answered may "
            "be lost in a failover\"",
            h->address);
    h->may_lose = may_lose;
}

static void on_safety(void *arg, const struct redisReply *reply, bool sent)
{
    health *h = arg;
    safety before = h->safety;

    (void)sent;
    h->asks_safety = false;
    if (!reply || !h->connection)
        return;
    h->safety = safety_of(reply);
    safety_log(&h->safety, &before, h->store->allow_unsafe);
    warn_of_failover(h);
    h->on_change(h->arg);
}

static void on_safety_check(uv_timer_t *timer)
{
    health *h = timer->data;
    const char *words[SAFETY_WORDS];

    if (h->asks_safety)
        return;
    h->asks_safety = true;
    connection_words(h->connection, on_safety, h, safety_words(words), words);
}

/* ---- role ---------------------------------------------------------------------- */

static void ask_role(health *h);

/* A replica would answer calls that only read. */
static void on_role(void *arg, const struct redisReply *reply, bool sent)
{
    health *h = arg;

    (void)sent;
    h->asks_role = false;
    if (!reply || !h->connection)
        return;
    replication_read(reply, &h->replication);
    if (!h->replication.known && !h->by_role) {
        h->by_role = true;
        ask_role(h);
        return;
    }
    h->knows_role = true;
    snprintf(h->lack, sizeof h->lack, "the store has %u replicas, --wait-replicas asks for %u", h->replication.replicas,
             h->store->wait_replicas);
    if (!h->replication.known || h->replication.primary)
        replication_log(&h->replication, &h->told, h->address);
    h->on_change(h->arg);
}

static void ask_role(health *h)
{
    const char *words[REPLICATION_WORDS];

    if (h->asks_role)
        return;
    h->asks_role = true;
    connection_words(h->connection, on_role, h, replication_words(h->by_role, words), words);
}

static void on_probe(void *arg)
{
    const health *h = arg;

    if (h->connection)
        h->on_change(h->arg);
}

static void on_tick(uv_timer_t *timer)
{
    health *h = timer->data;

    if (++h->ticks % TICKS == 0)
        ask_role(h);
    probe_look(&h->probe, h->connection, h->base);
}

/* ---- the verdict --------------------------------------------------------------- */

/* With too few replicas each answer would be a MAYBE, after wait_ms. Where ROLE is not permitted their number is not
 * known, and the store is used. */
static store_fault find_bad(const health *h)
{
    if (h->safety.danger && !h->store->allow_unsafe)
        return STORE_FAULT(STORE_UNSAFE, h->safety.danger);
    if (h->replication.known && h->replication.replicas < h->store->wait_replicas)
        return STORE_FAULT(STORE_TOO_FEW_REPLICAS, h->lack);
    return h->probe.silent ? STORE_FAULT(STORE_SILENT, "the store does not answer") : (store_fault){0};
}

health_verdict health_check(const health *h, store_fault *fault)
{
    *fault = STORE_FAULT(STORE_IS_REPLICA, "the store is a read-only replica");
    if (h->replication.known && !h->replication.primary)
        return HEALTH_REPLICA;
    *fault = find_bad(h);
    if (fault->text)
        return HEALTH_BAD;
    if (!h->probe.answered || (h->store->wait_replicas > 0 && !h->knows_role))
        return HEALTH_UNKNOWN;
    if (h->probe.refusal)
        *fault = errors_fault(h->probe.refusal);
    return h->probe.refuses_all ? HEALTH_REFUSES : HEALTH_GOOD;
}

void health_look(const health *h, store_view *ret)
{
    ret->known = h->safety.known;
    ret->appends = h->safety.appends;
    ret->snapshots = h->safety.snapshots;
    ret->evicts = h->safety.evicts;
    ret->fsync = h->safety.fsync;
    ret->round_trip_us = h->probe.round_trip_us;
    ret->at_ms = probe_clock_ms(&h->probe);
}

void health_look_primary(const health *h, store_primary *ret)
{
    ret->tells_replicas = h->replication.known;
    ret->n_replicas = h->replication.known ? h->replication.replicas : 0;
    ret->replicas = h->replication.replica;
    ret->min_replicas = h->safety.known ? h->safety.min_replicas : -1;
    ret->min_replicas_max_lag_s = h->safety.known ? h->safety.max_lag_s : -1;
}

/* ---- beginning and end --------------------------------------------------------- */

static uint32_t tick_ms(const health *h)
{
    uint32_t ms = or_default(h->store->role_check_ms, ROLE_CHECK_MS) / TICKS;

    return ms ? ms : 1;
}

/* A second; a WAIT before the question may hold it up for wait_ms more. */
static unsigned patience_of(const health *h)
{
    uint32_t wait_ms = h->store->wait_replicas > 0 ? or_default(h->store->wait_ms, WAIT_MS) : 0;
    unsigned looks = (ROLE_CHECK_MS + wait_ms + tick_ms(h) - 1) / tick_ms(h);

    return looks < TICKS ? TICKS : looks;
}

void health_init(health *h)
{
    h->probe = (probe){.on_change = on_probe, .arg = h, .patience = patience_of(h)};
    uv_timer_init(h->store->loop, &h->tick);
    uv_timer_init(h->store->loop, &h->safety_check);
    h->tick.data = h->safety_check.data = h;
}

void health_start(health *h, connection *c, const safety *found)
{
    uint32_t safety_check_ms = or_default(h->store->safety_check_ms, SAFETY_CHECK_MS);

    h->connection = c;
    h->safety = *found;
    warn_of_failover(h);
    ask_role(h);
    probe_start(&h->probe, c, h->base);
    uv_timer_start(&h->tick, on_tick, tick_ms(h), tick_ms(h));
    uv_timer_start(&h->safety_check, on_safety_check, safety_check_ms, safety_check_ms);
}

void health_stop(health *h)
{
    h->connection = NULL;
    h->knows_role = h->by_role = h->replication.known = h->probe.answered = false;
    uv_timer_stop(&h->tick);
    uv_timer_stop(&h->safety_check);
}

void health_moved(health *h)
{
    h->told = (replication_told){0};
}

void health_close(health *h, uv_close_cb closed, void *arg)
{
    h->tick.data = h->safety_check.data = arg;
    uv_close((uv_handle_t *)&h->tick, closed);
    uv_close((uv_handle_t *)&h->safety_check, closed);
}
