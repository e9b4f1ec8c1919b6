/* Each check_ function adds at most one finding about its matter, and none if the facts are missing. */
#include "diagnosis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "words.h"

enum {
    CLOCK_MS = 1000,        /* tolerated difference of clocks */
    SERVER_SLOW_US = 20000, /* for a call that does not use the store */
    STORE_SLOW_US = 20000,
    LAG_MS = 5000, /* replicas confirm once a second */
    LAG_BYTES = 16 * 1024 * 1024,
    MATTERS = 12, /* at most one finding each; primaries have at most two */
};

typedef struct findings {
    diagnosis_finding *list;
    size_t n;
} findings;

__attribute__((format(printf, 5, 6))) static void say(findings *f, diagnosis_level level, const char *about,
                                                      const char *remedy, const char *format, ...)
{
    diagnosis_finding *one = &f->list[f->n++];
    char text[DIAGNOSIS_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *one = (diagnosis_finding){.level = level, .about = about, .remedy = remedy};
    words_printable(text, one->text, sizeof one->text);
}

const char *diagnosis_word(diagnosis_level level)
{
    static const char *const words[] = {"ok", "note", "warning", "problem", "problem"};

    return words[level];
}

/* ---- the server ------------------------------------------------------------------- */

static const char restarts[] = "wait until lockstockd runs again, or start it";
static const char unreached[] =
    "start lockstockd, or correct --server: `lockstockd --print-config` prints its addresses. "
    "For tls://, check --tls-ca and --tls-name";

static void check_server(const diagnosis_facts *facts, findings *f)
{
    const lks_error *error = &facts->server.error;
    char up[WORDS_BYTES];

    switch (error->code) {
    case LKS_OK:
    case LKS_PERMISSION_DENIED: /* check_rights reports it */
        break;
    case LKS_UNAVAILABLE:
    case LKS_DEADLINE_EXCEEDED:
        say(f, DIAGNOSIS_DOWN, "server", error->reason == LKS_REASON_SHUTTING_DOWN ? restarts : unreached,
            "does not answer: %s", error->message);
        return;
    case LKS_UNAUTHENTICATED:
        say(f, DIAGNOSIS_PROBLEM, "server",
            "give the credentials that the server's --policy names: --token-file, or --tls-certificate and --tls-key",
            "rejects the credentials: %s", error->message);
        return;
    case LKS_RESOURCE_EXHAUSTED:
        say(f, DIAGNOSIS_PROBLEM, "server", "make fewer calls at once, or run more servers on the same store",
            "has no room for calls: %s", error->message);
        return;
    default:
        say(f, DIAGNOSIS_PROBLEM, "server", "check whether it is a lockstockd, and read its log", "fails: %s (%s)",
            error->message, lks_code_name(error->code));
        return;
    }
    if (!facts->status) {
        say(f, DIAGNOSIS_OK, "server", NULL, "answers");
        return;
    }
    const lks_get_status_response *status = facts->status;
    const char *before = status->commit[0] ? " (" : "", *behind = status->commit[0] ? ")" : "";
    duration_write(status->up_ms, up);
    if (strcmp(status->version, facts->version) != 0)
        say(f, DIAGNOSIS_NOTE, "server", "upgrade the older one",
            "lockstockd %s%s%s%s, up for %s; this lockstock is %s", status->version, before, status->commit, behind, up,
            facts->version);
    else
        say(f, DIAGNOSIS_OK, "server", NULL, "lockstockd %s%s%s%s, up for %s", status->version, before, status->commit,
            behind, up);
}

static void check_rights(const diagnosis_facts *facts, findings *f)
{
    static const char remedy[] =
        "use a principal whose section of the server's --policy has `* = READ, WRITE, ADMIN`, or at "
        "least READ of all services and ADMIN of AdminService";

    if (facts->server.error.code == LKS_PERMISSION_DENIED || facts->store.error.code == LKS_PERMISSION_DENIED)
        say(f, DIAGNOSIS_NOTE, "rights", remedy, "no permission to read, so not everything was checked");
    else if (facts->status_error.code == LKS_PERMISSION_DENIED)
        say(f, DIAGNOSIS_NOTE, "rights", remedy, "no permission to read the server's status of its store");
    else if (facts->status_error.code == LKS_UNIMPLEMENTED)
        say(f, DIAGNOSIS_NOTE, "rights", "upgrade lockstockd", "this server does not report the status of its store");
}

/* ---- the store -------------------------------------------------------------------- */

static const char start_replicas[] =
    "start the missing replicas, or repair their connection (redis-cli INFO replication, "
    "their logs); or run lockstockd with a lower --wait-replicas";

static const char no_eviction[] = "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf";

/* Returns the remedy for a store that is not ready. status may be NULL. */
static const char *remedy_of(lks_reason reason, const lks_store_status *status)
{
    static const char *const remedies[] = {
        [LKS_REASON_STORE_LOGIN_REFUSED] =
            ("correct user and password in lockstockd's --store; in a password / ? and % are %2F %3F %25. If "
             "Redis has no password, remove it from --store, or set one in Redis (requirepass)"),
        [LKS_REASON_STORE_NO_DATABASE] =
            "name an existing database in lockstockd's --store, or raise databases in redis.conf",
        [LKS_REASON_STORE_PERMISSION_DENIED] =
            "allow lockstockd's Redis user all commands and keys: ACL SETUSER NAME on +@all ~* &*",
        [LKS_REASON_STORE_TOO_FEW_REPLICAS] = start_replicas,
        [LKS_REASON_STORE_IS_REPLICA] = "name the primary in lockstockd's --store",
        [LKS_REASON_STORE_FAILING_OVER] = ("wait for the failover to end; if it does not, check that most sentinels "
                                           "run (SENTINEL CKQUORUM), and name all of "
                                           "them in --store"),
        [LKS_REASON_STORE_LOADING] = "wait until Redis has read its data from disk",
        [LKS_REASON_STORE_OUT_OF_MEMORY] = "give Redis more memory (maxmemory), or remove unneeded data",
        [LKS_REASON_STORE_DISK_FAILED] = "check whether the disk of Redis is full, and read its log",
        [LKS_REASON_STORE_SILENT] = "check whether Redis or its machine is stopped: ps, redis-cli PING, its log",
        [LKS_REASON_STORE_BUSY] = "end the script that blocks Redis: redis-cli SCRIPT KILL, or FUNCTION KILL",
        [LKS_REASON_STORE_SLOT_MOVING] = "wait for the move to end; if there is none: redis-cli --cluster fix",
        [LKS_REASON_STORE_CLUSTER_DOWN] = "repair the cluster: redis-cli --cluster check",
        [LKS_REASON_STORE_MISFIT] = ("correct the kind of store in lockstockd's --store (redis://, redis+sentinel://, "
                                     "redis+cluster://), or use compatible versions"),
        [LKS_REASON_TOO_MANY_CALLS] = "make fewer calls at once, or run more servers on the same store",
        [LKS_REASON_SHUTTING_DOWN] = restarts,
        [LKS_REASON_STORE_UNSAFE] = "redis-cli CONFIG SET appendonly yes, and in redis.conf",
    };
    size_t i = (size_t)reason;

    if (reason == LKS_REASON_STORE_UNSAFE && status && status->evicts)
        return no_eviction;
    return i < sizeof remedies / sizeof *remedies && remedies[i]
               ? remedies[i]
               : "check whether Redis runs where lockstockd's --store says (redis-cli PING), and read event=not-ready "
                 "in "
                 "lockstockd's log";
}

static void check_store(const diagnosis_facts *facts, findings *f)
{
    const lks_store_status *status = facts->status ? facts->status->store : NULL;
    const lks_error *error = &facts->store.error;
    lks_reason reason = status ? lks_reason_of(status->reason_word) : LKS_REASON_NONE;
    char version[WORDS_BYTES] = "";

    if (!facts->status && probe_is_down(&(probe){.error = facts->status_error}) && error->code == LKS_OK) {
        say(f, DIAGNOSIS_DOWN, "store", remedy_of(facts->status_error.reason, NULL), "did not answer a moment ago: %s",
            facts->status_error.message);
    } else if (status && !status->ready) {
        say(f, DIAGNOSIS_DOWN, "store", remedy_of(reason, status), "is not ready: %s", status->reason);
    } else if (probe_is_down(&facts->store)) {
        say(f, DIAGNOSIS_DOWN, "store", remedy_of(error->reason, NULL), "does not answer: %s", error->message);
    } else if (error->code == LKS_RESOURCE_EXHAUSTED) {
        say(f, DIAGNOSIS_PROBLEM, "store", remedy_of(error->reason, NULL), "has no room: %s", error->message);
    } else if (error->code != LKS_OK && error->code != LKS_PERMISSION_DENIED) {
        say(f, DIAGNOSIS_PROBLEM, "store", remedy_of(error->reason, NULL), "fails: %s (%s)", error->message,
            lks_code_name(error->code));
    } else if (status) {
        if (status->version[0])
            snprintf(version, sizeof version, ", Redis %.32s%s", status->version, status->cluster ? ", a cluster" : "");
        if (status->reason[0])
            say(f, DIAGNOSIS_PROBLEM, "store", remedy_of(reason, status),
                status->cluster ? "part of it is not ready: %s" : "refuses some calls: %s", status->reason);
        else
            say(f, DIAGNOSIS_OK, "store", NULL, "%s%s",
                status->kind == LKS_STORE_KIND_EMBEDDED ? "lockstockd's own redis-server" : "ready", version);
    } else if (error->code == LKS_OK) {
        say(f, DIAGNOSIS_OK, "store", NULL, "answers");
    }
}

static void check_persistence(const lks_store_status *status, findings *f)
{
    static const char append[] = "redis-cli CONFIG SET appendonly yes, and in redis.conf; also appendfsync always, or "
                                 "everysec if losing two seconds is acceptable";
    static const char rewrite[] =
        "if DIR/appendonlydir was removed, redis-cli -s DIR/redis.sock BGREWRITEAOF writes the "
        "data into new files";
    const char *always = status->kind == LKS_STORE_KIND_EMBEDDED
                             ? "run lockstockd with --fsync always if that is not acceptable"
                             : "redis-cli CONFIG SET appendfsync always if that is not acceptable, and in redis.conf";

    if (lks_reason_of(status->reason_word) == LKS_REASON_STORE_DISK_FAILED) {
        say(f, DIAGNOSIS_PROBLEM, "persistence", "free or repair the disk of Redis; its log names the file",
            "the store cannot write to its disk, and refuses writes until it can");
        return;
    }
    switch (status->persistence) {
    case LKS_PERSISTENCE_NONE:
        say(f, DIAGNOSIS_PROBLEM, "persistence", status->kind == LKS_STORE_KIND_EMBEDDED ? rewrite : append,
            "the store keeps nothing on disk: when Redis ends, all locks, stock and records are lost");
        break;
    case LKS_PERSISTENCE_SNAPSHOTS:
        say(f, DIAGNOSIS_WARNING, "persistence", append,
            "the store writes snapshots only: a crash loses the orders and locks since the last one");
        break;
    case LKS_PERSISTENCE_APPEND_ONLY:
        if (status->fsync == LKS_FSYNC_ALWAYS && status->ready)
            say(f, DIAGNOSIS_OK, "persistence", NULL, "answered calls are on disk");
        else if (status->fsync == LKS_FSYNC_ALWAYS)
            break; /* its settings are right, but the state of its disk is not known */
        else if (status->fsync == LKS_FSYNC_NO)
            say(f, DIAGNOSIS_WARNING, "persistence", always,
                "the operating system decides when the store writes: power loss may lose half a minute");
        else
            say(f, DIAGNOSIS_NOTE, "persistence", always,
                "the store writes to disk once a second: power loss may lose two seconds of answers");
        break;
    default:
        if (status->ready)
            say(f, DIAGNOSIS_NOTE, "persistence",
                "check appendonly, save and maxmemory-policy of the store, or allow lockstockd's user CONFIG GET",
                "the persistence of the store is not known: CONFIG GET is not permitted");
        break;
    }
    if (status->evicts)
        say(f, DIAGNOSIS_PROBLEM, "memory", no_eviction,
            "the store deletes keys when its memory is full: a lock may have two holders, an order may sell twice");
}

/* Reports the conditions of the server, except for those of the store, which check_store reports. */
static void check_conditions(const lks_get_status_response *status, findings *f)
{
    static const struct {
        const char *about, *remedy;
    } known[] = {
        {"certificate",
         "replace the files of --tls-certificate and --tls-key, then systemctl reload lockstockd (SIGHUP)"},
        {"lock-store", "start the missing ZooKeeper servers, or correct --lock-store: its hosts, user and password; "
                       "other services keep working meanwhile"},
        {"servers", "run the same version with the same settings on all servers: compare `lockstockd --print-config`"},
        {"data",
         "stop lockstockd before stock is added again, and restore a backup; the warning lasts until lockstockd "
         "is restarted"},
    };

    if (status->lock_store && status->lock_store->ready)
        say(f, DIAGNOSIS_OK, "lock-store", NULL, "ready, ZooKeeper");
    for (size_t i = 0; i < status->n_conditions; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(status->conditions[i]->about, known[k].about) == 0)
                say(f, status->conditions[i]->blocks ? DIAGNOSIS_PROBLEM : DIAGNOSIS_WARNING, known[k].about,
                    known[k].remedy, "%s", status->conditions[i]->text);
}

/* ---- sentinels ------------------------------------------------------------------- */

static void check_sentinels(const lks_store_status *status, findings *f)
{
    static const char remedy[] =
        "start the missing sentinels, or repair the connection to them: event=sentinel-lost in lockstockd's log names "
        "each with the reason";
    const int64_t known = status->sentinels, answering = status->sentinels_answering;

    if (known == 0)
        return;
    if (answering == 0)
        say(f, DIAGNOSIS_PROBLEM, "sentinels", remedy,
            "none of %" PRId64 " answers: if the primary is lost, lockstockd cannot find the new one", known);
    else if (answering < known)
        say(f, DIAGNOSIS_WARNING, "sentinels", remedy, "%" PRId64 " of %" PRId64 " answer", answering, known);
    else
        say(f, DIAGNOSIS_OK, "sentinels", NULL, "all %" PRId64 " answer", known);
}

/* ---- replicas -------------------------------------------------------------------- */

static bool refuses_alone(const lks_primary_status *p)
{
    return p->min_replicas_to_write > 0 && p->min_replicas_max_lag_ms > 0;
}

static void check_failover(const lks_store_status *status, findings *f)
{
    static const char remedy[] = "run lockstockd with --wait-replicas 1, or more";
    size_t n = 0;

    if (!status->fails_over || status->wait_replicas > 0)
        return;
    while (n < status->n_primaries && refuses_alone(status->primaries[n]))
        n++;
    if (n > 0 && n == status->n_primaries)
        say(f, DIAGNOSIS_NOTE, "failover", remedy,
            "a failover loses the last writes, but none later than min-replicas-max-lag after the replicas lost "
            "contact");
    else
        say(f, DIAGNOSIS_WARNING, "failover", remedy,
            "the new primary may lack the last writes: sold units may be sold again, and a lock may have two holders");
}

static bool lags(const lks_replica_status *r)
{
    return r->silent_ms > LAG_MS || r->behind_bytes > LAG_BYTES;
}

/* Writes " ADDRESS 0 bytes behind, last heard of 1s ago;..." for the lagging replicas, or for the others. */
static void describe(const lks_primary_status *p, bool lagging, char text[DIAGNOSIS_TEXT_BYTES])
{
    char silent[WORDS_BYTES];
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < p->n_replicas && at < DIAGNOSIS_TEXT_BYTES; i++) {
        const lks_replica_status *r = p->replicas[i];
        if (lags(r) != lagging)
            continue;
        duration_write(r->silent_ms, silent);
        at += (size_t)snprintf(text + at, DIAGNOSIS_TEXT_BYTES - at, "%s %s %" PRId64 " bytes behind%s%s",
                               at ? ";" : "", r->address, r->behind_bytes, r->silent_ms < 0 ? "" : ", last heard of ",
                               r->silent_ms < 0 ? "" : silent);
        if (r->silent_ms >= 0 && at < DIAGNOSIS_TEXT_BYTES)
            at += (size_t)snprintf(text + at, DIAGNOSIS_TEXT_BYTES - at, " ago");
    }
}

#define LOOK_AT_REPLICA "check that replica, its machine, its network and its log; a failover to it loses what it lacks"

/* Returns the number of replicas that can confirm in time for --wait-replicas. */
static int64_t in_time(const lks_primary_status *p)
{
    int64_t n = 0;

    for (size_t i = 0; i < p->n_replicas; i++)
        n += !lags(p->replicas[i]);
    return n;
}

/* Returns the number of replicas that count for min-replicas-to-write. */
static int64_t good_of(const lks_primary_status *p)
{
    int64_t good = 0;

    for (size_t i = 0; i < p->n_replicas; i++)
        good += p->replicas[i]->silent_ms <= p->min_replicas_max_lag_ms;
    return good;
}

static bool check_count(const lks_store_status *status, const lks_primary_status *p, findings *f)
{
    int64_t n = (int64_t)p->n_replicas;

    if (n < status->wait_replicas)
        say(f, DIAGNOSIS_PROBLEM, "replicas", start_replicas,
            "%s has %" PRId64 " of the %" PRId64 " replicas that --wait-replicas asks for: its calls are refused",
            p->address, n, status->wait_replicas);
    else if (refuses_alone(p) && good_of(p) < p->min_replicas_to_write)
        say(f, DIAGNOSIS_PROBLEM, "replicas",
            "start the missing replicas, or repair their connection (redis-cli INFO replication, their logs); or lower "
            "min-replicas-to-write: redis-cli CONFIG SET, and in redis.conf",
            "%s has %" PRId64 " of the %" PRId64 " replicas that min-replicas-to-write asks for: it refuses writes",
            p->address, good_of(p), p->min_replicas_to_write);
    else if (n == 0 && status->fails_over)
        say(f, DIAGNOSIS_WARNING, "replicas",
            "give it a replica: redis-cli REPLICAOF, or in a cluster CLUSTER REPLICATE",
            "%s has no replica that could replace it", p->address);
    else
        return true;
    return false;
}

static void check_primary(const lks_store_status *status, const lks_primary_status *p, findings *f)
{
    char text[DIAGNOSIS_TEXT_BYTES], others[DIAGNOSIS_TEXT_BYTES];

    if (!p->tells_replicas) {
        if (status->ready && !status->reason[0] && (status->fails_over || status->wait_replicas > 0))
            say(f, DIAGNOSIS_NOTE, "replicas", "allow lockstockd's Redis user INFO: ACL SETUSER NAME +info",
                "%s does not report its replicas", p->address);
        return;
    }
    bool enough = check_count(status, p, f);
    describe(p, false, others);
    describe(p, true, text);
    if (text[0])
        say(f, DIAGNOSIS_PROBLEM, "replicas",
            in_time(p) < status->wait_replicas ? LOOK_AT_REPLICA ", and --wait-replicas cannot succeed without it"
                                               : LOOK_AT_REPLICA,
            "%s:%s", p->address, text);
    if (enough && others[0])
        say(f, DIAGNOSIS_OK, "replicas", NULL, "%s: min-replicas-to-write %" PRId64 ";%s", p->address,
            p->min_replicas_to_write, others);
}

/* ---- clocks and latency -------------------------------------------------------------- */

static bool differ(int64_t a, int64_t b, int64_t within, char by[WORDS_BYTES])
{
    int64_t difference = a > b ? a - b : b - a;

    duration_write(difference, by);
    return difference > CLOCK_MS + within;
}

/* Leases are durations on the store's clock, so a difference breaks nothing. But displayed times are wrong, and
 * setting a clock moves the ends of leases. */
static void check_clock(const diagnosis_facts *facts, findings *f)
{
    static const char remedy[] = "synchronize the clocks of all machines: NTP, chrony or systemd-timesyncd";
    const lks_get_status_response *status = facts->status;
    const lks_store_status *store = status->store;
    char by[WORDS_BYTES];

    if (store && store->ready && store->at_ms > 0 &&
        differ(status->at_ms, store->at_ms, store->round_trip_us / 1000, by))
        say(f, DIAGNOSIS_WARNING, "clock", remedy,
            "the clocks of server and store differ by %s; leases and times of sale use the store's", by);
    else if (differ(facts->here_ms, status->at_ms, facts->within_ms, by))
        say(f, DIAGNOSIS_WARNING, "clock", remedy,
            "the clocks of this machine and the server differ by %s: displayed times are wrong", by);
    else
        say(f, DIAGNOSIS_OK, "clock", NULL,
            store && store->at_ms > 0 ? "the clocks of this machine, the server and its store agree"
                                      : "the clocks of this machine and the server agree");
}

static void check_latency(const diagnosis_facts *facts, findings *f)
{
    double server_ms = (double)facts->server.took_ns / 1e6, store_ms = (double)facts->store.took_ns / 1e6;
    const lks_store_status *store = facts->status ? facts->status->store : NULL;

    if (facts->server.error.code != LKS_OK)
        return;
    if (facts->server.took_ns > SERVER_SLOW_US * UINT64_C(1000))
        say(f, DIAGNOSIS_WARNING, "latency", "use a closer server, or check whether its machine or the network is busy",
            "a call without the store takes %.1f ms", server_ms);
    else if (store && store->round_trip_us > STORE_SLOW_US)
        say(f, DIAGNOSIS_WARNING, "latency",
            "move the store closer to its servers; check whether its disk is slow (fsync), redis-cli --latency and "
            "SLOWLOG GET",
            "the store takes %.1f ms for a call", (double)store->round_trip_us / 1e3);
    else if (facts->store.error.code == LKS_OK)
        say(f, DIAGNOSIS_OK, "latency", NULL, "%.1f ms a call, %.1f ms with the store", server_ms, store_ms);
    else
        say(f, DIAGNOSIS_OK, "latency", NULL, "%.1f ms a call", server_ms);
}

diagnosis_finding *diagnosis_of(const diagnosis_facts *facts, size_t *n)
{
    const lks_store_status *store = facts->status ? facts->status->store : NULL;
    findings f = {.list = calloc(MATTERS + (store ? 2 * store->n_primaries : 0) +
                                     (facts->status ? facts->status->n_conditions : 0),
                                 sizeof *f.list)};

    *n = 0;
    if (!f.list)
        return NULL;
    check_server(facts, &f);
    if (f.list[0].level < DIAGNOSIS_PROBLEM) {
        check_rights(facts, &f);
        check_store(facts, &f);
        if (store) {
            check_persistence(store, &f);
            check_sentinels(store, &f);
            check_failover(store, &f);
            for (size_t i = 0; i < store->n_primaries; i++)
                check_primary(store, store->primaries[i], &f);
        }
        if (facts->status) {
            check_conditions(facts->status, &f);
            check_clock(facts, &f);
        }
        check_latency(facts, &f);
    }
    *n = f.n;
    return f.list;
}
