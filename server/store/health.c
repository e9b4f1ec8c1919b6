/* Invariant: an answer counts only between health_start and health_stop; each question is sent again only after its
 * answer. Called by shard.c, which calls health_check from on_change. */
#include "store/health.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "base/clock.h"
#include "store/errors.h"

enum {
    SILENT_MS = 1000,
    TICKS = 2, /* between two questions */
    ROLE_PARTS = 3,
    REPLICA_PARTS = 3,
    LAG_BYTES = 16 * 1024 * 1024,
    LAG_S = 5,
    HOST_BYTES = 256,
    TEXT_BYTES = 512,
    KEY_BYTES = 64,
    NS_PER_US = 1000,
    US_PER_MS = 1000,
    US_PER_S = 1000000,
};

static const long long seconds_max = 1LL << 40;

/* ---- safety -------------------------------------------------------------------- */

static void warn_of_failover(health *h)
{
    bool may_lose = h->fails_over && h->store->wait_replicas == 0 && h->safety.known &&
                    (h->safety.min_replicas == 0 || h->safety.max_lag_s == 0);

    if (may_lose && !h->logged_may_lose)
        log_warn("store-may-lose",
                 "primary=%s reason=\"--wait-replicas and the store's min-replicas-to-write are 0: answered calls may "
                 "be lost in a failover\"",
                 h->address);
    h->logged_may_lose = may_lose;
}

static void on_safety(void *arg, const redisReply *reply)
{
    health *h = arg;
    safety before = h->safety;

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

/* Adds a replica. `own`: the offset that it has confirmed; `primary`: the primary's offset. */
static void add_replica(replication *r, const char *host, const char *port, long long primary, long long own,
                        int64_t silent_s)
{
    if (r->replicas == STORE_REPLICAS_MAX)
        return;
    store_replica *one = &r->replica[r->replicas++];
    snprintf(one->address, sizeof one->address, "%s:%s", host, port);
    one->behind_bytes = primary > own ? (uint64_t)primary - (uint64_t)own : 0;
    one->silent_s = silent_s;
}

/* Reads {"master", offset, {{address, port, "offset"}...}}. */
static void read_role(const redisReply *reply, replication *r)
{
    if (reply->elements < 1 || reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    r->role = strcmp(reply->element[0]->str, "master") == 0 ? ROLE_PRIMARY : ROLE_REPLICA;
    if (r->role == ROLE_REPLICA || reply->elements != ROLE_PARTS || reply->element[2]->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i < reply->element[2]->elements; i++) {
        const redisReply *one = reply->element[2]->element[i];
        bool right = one->type == REDIS_REPLY_ARRAY && one->elements == REPLICA_PARTS;
        for (size_t k = 0; right && k < REPLICA_PARTS; k++)
            right = one->element[k]->type == REDIS_REPLY_STRING;
        if (right)
            add_replica(r, one->element[0]->str, one->element[1]->str, reply->element[1]->integer,
                        strtoll(one->element[2]->str, NULL, 10), -1);
    }
}

/* Returns the number after `name`; 0 without it. */
static long long number(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

/* Reads "role:master", "slave0:ip=A,port=P,state=online,offset=N,lag=S", "master_repl_offset:N", a line each. A replica
 * that is not online yet is still receiving the data. */
static void read_info(const char *text, replication *r)
{
    char line[TEXT_BYTES], host[HOST_BYTES], port[8];
    long long primary = number(text, "master_repl_offset:");

    if (strstr(text, "role:"))
        r->role = strstr(text, "role:master") ? ROLE_PRIMARY : ROLE_REPLICA;
    for (; *text && r->role == ROLE_PRIMARY; text += strcspn(text, "\n"), text += *text == '\n') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\r\n"), text);
        if (sscanf(line, "slave%*u:ip=%255[^,],port=%7[^,]", host, port) == 2 && strstr(line, ",state=online,"))
            add_replica(r, host, port, primary, number(line, ",offset="), number(line, ",lag="));
    }
}

static long long number_or_none(const char *text, const char *name)
{
    return strstr(text, name) ? number(text, name) : -1;
}

static store_use read_use(const redisReply *reply)
{
    const char *text = reply->type == REDIS_REPLY_STRING ? reply->str : "";
    bool limited = number(text, "maxmemory:") > 0;

    return (store_use){.memory_bytes = number_or_none(text, "used_memory:"),
                       .memory_max_bytes = number_or_none(text, limited ? "maxmemory:" : "total_system_memory:"),
                       .file_bytes = number_or_none(text, "aof_current_size:")};
}

static replication read_replication(const redisReply *reply)
{
    replication r = {0};

    if (reply->type == REDIS_REPLY_ARRAY)
        read_role(reply, &r);
    else if (reply->type == REDIS_REPLY_STRING)
        read_info(reply->str, &r);
    return r;
}

/* A failover to a replica that lags would lose much, and calls that wait for its confirmation would wait in vain. */
static void log_lag(health *h)
{
    const replication *now = &h->replication;
    const store_replica *bad = NULL;

    for (unsigned i = 0; i < now->replicas && !bad; i++)
        if (now->replica[i].behind_bytes > LAG_BYTES || now->replica[i].silent_s > LAG_S)
            bad = &now->replica[i];
    if (bad && !h->logged_lag)
        log_warn("store-replica-lags", "primary=%s replica=%s behind_bytes=%llu silent_s=%lld", h->address,
                 bad->address, (unsigned long long)bad->behind_bytes, (long long)bad->silent_s);
    h->logged_lag = bad;
}

static void log_replicas(health *h)
{
    unsigned now = h->replication.replicas;

    if (now > h->logged_replicas)
        log_info("store-replicas", "primary=%s connected=%u", h->address, now);
    else if (now < h->logged_replicas)
        log_warn("store-replica-lost", "primary=%s connected=%u before=%u", h->address, now, h->logged_replicas);
    h->logged_replicas = now;
    log_lag(h);
}

static void ask_role(health *h);

/* A replica would answer calls that only read. */
static void on_role(void *arg, const redisReply *reply)
{
    health *h = arg;

    h->asks_role = false;
    if (!reply || !h->connection)
        return;
    h->replication = read_replication(reply);
    h->use = read_use(reply);
    if (h->replication.role == ROLE_UNKNOWN && !h->by_role) {
        h->by_role = true;
        ask_role(h);
        return;
    }
    h->knows_role = true;
    snprintf(h->lack, sizeof h->lack, "the store has %u replicas, --wait-replicas asks for %u", h->replication.replicas,
             h->store->wait_replicas);
    if (h->replication.role != ROLE_REPLICA)
        log_replicas(h);
    h->on_change(h->arg);
}

static void ask_role(health *h)
{
    const char *role[] = {"ROLE"}, *info[] = {"INFO", "replication", "memory", "persistence"};

    if (h->asks_role)
        return;
    h->asks_role = true;
    connection_words(h->connection, on_role, h, h->by_role ? 1 : sizeof info / sizeof *info, h->by_role ? role : info);
}

/* ---- probe --------------------------------------------------------------------- */

/* Reads {"seconds", "microseconds"} as milliseconds since 1970; 0: another reply. */
static int64_t read_time(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return 0;
    long long s = strtoll(reply->element[0]->str, NULL, 10), us = strtoll(reply->element[1]->str, NULL, 10);
    return s < 0 || s > seconds_max || us < 0 || us >= US_PER_S ? 0 : s * 1000 + us / US_PER_MS;
}

static void on_clock(void *arg, const redisReply *reply)
{
    health *h = arg;

    h->clock_ns = clock_now_ns();
    h->clock_ms = reply ? read_time(reply) : 0;
}

/* An error that does not concern writes in general (a slot that moves, a permission) is no refusal. */
static const errors_row *read_refusal(const redisReply *reply)
{
    const errors_row *row = reply->type == REDIS_REPLY_ERROR ? errors_find(reply->str, reply->len) : NULL;
    bool refuses = row && (row->action == ERRORS_FAIL || row->action == ERRORS_DOWN) &&
                   (row->code == LKS_UNAVAILABLE || row->code == LKS_RESOURCE_EXHAUSTED);

    return refuses ? row : NULL;
}

static void on_probe(void *arg, const redisReply *reply)
{
    health *h = arg;

    h->asks_probe = false;
    if (!reply || !h->connection)
        return;
    h->refusal = read_refusal(reply);
    h->round_trip_us = (int64_t)((clock_now_ns() - h->asked_ns) / NS_PER_US) + 1;
    h->probe = PROBE_ANSWERS;
    h->on_change(h->arg);
}

/* SETRANGE of an empty value into a key that does not exist makes no key and is not in the append-only file; but before
 * Redis runs it, Redis checks the same as before each write: memory, the disk, replicas, the cluster. */
static void ask_probe(health *h)
{
    char key[KEY_BYTES];
    const char *clock[] = {"TIME"}, *write[] = {"SETRANGE", key, "0", ""};

    if (h->asks_probe)
        return;
    snprintf(key, sizeof key, "%sprobe", h->base);
    h->asks_probe = true;
    h->asked_ns = clock_now_ns();
    connection_words(h->connection, on_clock, h, sizeof clock / sizeof *clock, clock);
    connection_words(h->connection, on_probe, h, sizeof write / sizeof *write, write);
}

static uint32_t tick_ms(const health *h)
{
    uint32_t ms = h->store->role_check_ms / TICKS;

    return ms ? ms : 1;
}

/* Returns the number of looks without a reply after which Redis counts as silent. A second; a WAIT before the question
 * may delay its reply by up to wait_ms more. */
static unsigned silent_looks_max(const health *h)
{
    uint32_t wait_ms = h->store->wait_replicas > 0 ? h->store->wait_ms : 0;
    unsigned looks = (SILENT_MS + wait_ms + tick_ms(h) - 1) / tick_ms(h);

    return looks < TICKS ? TICKS : looks;
}

/* Counts looks, not time: after this process was stopped there is one look before the replies that were waiting. */
static void look_for_silence(health *h)
{
    uint64_t replies = connection_replies(h->connection);

    h->looks = h->asks_probe && replies == h->replies ? h->looks + 1 : 0;
    h->replies = replies;
    if (h->looks < silent_looks_max(h) || h->probe == PROBE_SILENT)
        return;
    h->probe = PROBE_SILENT;
    h->on_change(h->arg);
}

static void on_tick(uv_timer_t *timer)
{
    health *h = timer->data;

    if (++h->ticks % TICKS == 0) {
        ask_role(h);
        ask_probe(h);
    }
    look_for_silence(h);
}

/* ---- the verdict --------------------------------------------------------------- */

/* With too few replicas each answer would be a MAYBE, after wait_ms. If ROLE is not permitted their number is not
 * known, and the store is used. */
static store_fault find_bad(const health *h)
{
    if (h->safety.danger && !h->store->allow_unsafe)
        return STORE_FAULT(STORE_UNSAFE, h->safety.danger);
    if (h->replication.role != ROLE_UNKNOWN && h->replication.replicas < h->store->wait_replicas)
        return STORE_FAULT(STORE_TOO_FEW_REPLICAS, h->lack);
    return h->probe == PROBE_SILENT ? STORE_FAULT(STORE_SILENT, "the store does not answer") : (store_fault){0};
}

health_verdict health_check(const health *h, store_fault *fault)
{
    *fault = STORE_FAULT(STORE_IS_REPLICA, "the store is a read-only replica");
    if (h->replication.role == ROLE_REPLICA)
        return HEALTH_REPLICA;
    *fault = find_bad(h);
    if (fault->text)
        return HEALTH_BAD;
    if (h->probe == PROBE_UNANSWERED || (h->store->wait_replicas > 0 && !h->knows_role))
        return HEALTH_UNKNOWN;
    if (h->refusal)
        *fault = errors_fault(h->refusal);
    return h->refusal && h->refusal->code == LKS_UNAVAILABLE ? HEALTH_REFUSES : HEALTH_GOOD;
}

void health_describe(const health *h, store_view *ret)
{
    ret->known = h->safety.known;
    ret->appends = h->safety.appends;
    ret->snapshots = h->safety.snapshots;
    ret->evicts = h->safety.evicts;
    ret->fsync = h->safety.fsync;
    ret->round_trip_us = h->round_trip_us;
    ret->at_ms =
        h->clock_ms == 0 ? 0 : h->clock_ms + (int64_t)((clock_now_ns() - h->clock_ns) / (NS_PER_US * US_PER_MS));
}

void health_describe_primary(const health *h, store_primary *ret)
{
    ret->tells_replicas = h->replication.role != ROLE_UNKNOWN;
    ret->n_replicas = h->replication.replicas;
    ret->replicas = h->replication.replica;
    ret->min_replicas = h->safety.known ? h->safety.min_replicas : -1;
    ret->min_replicas_max_lag_s = h->safety.known ? h->safety.max_lag_s : -1;
    ret->use = h->knows_role ? h->use : (store_use){-1, -1, -1};
}

/* ---- beginning and end --------------------------------------------------------- */

void health_init(health *h)
{
    uv_timer_init(h->store->loop, &h->tick);
    uv_timer_init(h->store->loop, &h->safety_check);
    h->tick.data = h->safety_check.data = h;
}

void health_start(health *h, connection *c, const safety *found)
{
    uint32_t safety_check_ms = h->store->safety_check_ms;

    h->connection = c;
    h->safety = *found;
    warn_of_failover(h);
    ask_role(h);
    h->replies = connection_replies(c);
    ask_probe(h);
    uv_timer_start(&h->tick, on_tick, tick_ms(h), tick_ms(h));
    uv_timer_start(&h->safety_check, on_safety_check, safety_check_ms, safety_check_ms);
}

void health_stop(health *h)
{
    h->connection = NULL;
    h->knows_role = h->by_role = false;
    h->replication = (replication){0};
    h->probe = PROBE_UNANSWERED;
    h->refusal = NULL;
    h->round_trip_us = h->clock_ms = 0;
    h->looks = h->ticks = 0;
    uv_timer_stop(&h->tick);
    uv_timer_stop(&h->safety_check);
}

void health_moved(health *h)
{
    h->logged_replicas = 0;
    h->logged_lag = false;
}

void health_close(health *h, close_barrier *barrier)
{
    health_stop(h);
    close_barrier_handle(barrier, &h->tick);
    close_barrier_handle(barrier, &h->safety_check);
}
