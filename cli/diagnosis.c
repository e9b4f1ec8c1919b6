/* Called by doctor.c. Each function looks at one matter and says one thing about it, or nothing where there was no answer to
 * judge by. */
#include "diagnosis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "words.h"

enum {
    CLOCK_MS = 1000,        /* clocks may differ by so much */
    SERVER_SLOW_US = 20000, /* of a call that needs no store */
    STORE_SLOW_US = 20000,
    LAG_MS = 5000, /* a replica confirms once a second */
    LAG_BYTES = 16 * 1024 * 1024,
    MATTERS = 12, /* one finding each, but for primaries, which have two at most */
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

static const char restarts[] = "wait until lockstockd runs again there, or start it";
static const char unreached[] = "start lockstockd there, or correct --server: `lockstockd --print-config` says what it "
                                "listens on. Over tls:// look at --tls-ca and --tls-name, too";

static void judge_server(const diagnosis_facts *facts, findings *f)
{
    const lks_error *error = &facts->server.error;
    char up[WORDS_BYTES];

    switch (error->code) {
    case LKS_OK:
    case LKS_PERMISSION_DENIED: /* judge_rights says so */
        break;
    case LKS_UNAVAILABLE:
    case LKS_DEADLINE_EXCEEDED:
        say(f, DIAGNOSIS_DOWN, "server", error->reason == LKS_REASON_SHUTTING_DOWN ? restarts : unreached,
            "does not answer: %s", error->message);
        return;
    case LKS_UNAUTHENTICATED:
        say(f, DIAGNOSIS_PROBLEM, "server",
            "give what the server's --policy asks for: --token-file, or --tls-certificate and --tls-key",
            "does not know who calls: %s", error->message);
        return;
    case LKS_RESOURCE_EXHAUSTED:
        say(f, DIAGNOSIS_PROBLEM, "server", "call less at once, or run more servers on the same store",
            "has no room for calls: %s", error->message);
        return;
    default:
        say(f, DIAGNOSIS_PROBLEM, "server", "look whether it is a lockstockd, and at its log", "fails: %s (%s)",
            error->message, lks_code_name(error->code));
        return;
    }
    if (!facts->status) {
        say(f, DIAGNOSIS_OK, "server", NULL, "it answers");
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

static void judge_rights(const diagnosis_facts *facts, findings *f)
{
    static const char remedy[] = "ask as a principal whose section in the server's --policy has `* = READ, WRITE, "
                                 "ADMIN`, or at least READ of all "
                                 "services and ADMIN of AdminService";

    if (facts->server.error.code == LKS_PERMISSION_DENIED || facts->store.error.code == LKS_PERMISSION_DENIED)
        say(f, DIAGNOSIS_NOTE, "rights", remedy, "whoever asks may not read, so not all can be looked at");
    else if (facts->status_error.code == LKS_PERMISSION_DENIED)
        say(f, DIAGNOSIS_NOTE, "rights", remedy, "whoever asks may not see what the server knows of its store");
    else if (facts->status_error.code == LKS_UNIMPLEMENTED)
        say(f, DIAGNOSIS_NOTE, "rights", "upgrade lockstockd", "this server does not tell what it knows of its store");
}

/* ---- the store -------------------------------------------------------------------- */

static const char start_replicas[] = "start the replicas that are missing, or mend what keeps them away (redis-cli "
                                     "INFO replication, their logs); or run "
                                     "lockstockd with a lower --wait-replicas";

static const char no_eviction[] = "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf";

/* What to do about a store that is not ready. status: NULL = not known. */
static const char *remedy_of(lks_reason reason, const lks_store_status *status)
{
    static const char *const remedies[] = {
        [LKS_REASON_STORE_LOGIN_REFUSED] =
            ("correct user and password in lockstockd's --store; in a password / ? and % are %2F %3F %25. If "
             "Redis has no password, take it out of --store, or give Redis one (requirepass)"),
        [LKS_REASON_STORE_NO_DATABASE] =
            "name one that Redis has in lockstockd's --store, or raise databases in redis.conf",
        [LKS_REASON_STORE_PERMISSION_DENIED] =
            "give the Redis user that lockstockd has all commands and keys: ACL SETUSER NAME on +@all ~* &*",
        [LKS_REASON_STORE_TOO_FEW_REPLICAS] = start_replicas,
        [LKS_REASON_STORE_IS_REPLICA] = "name the primary in lockstockd's --store",
        [LKS_REASON_STORE_FAILING_OVER] =
            ("wait for the failover to end; if it does not: look whether most sentinels run (SENTINEL "
             "CKQUORUM), and name all of them in --store"),
        [LKS_REASON_STORE_LOADING] = "wait: Redis reads its data from disk",
        [LKS_REASON_STORE_OUT_OF_MEMORY] = "give Redis more memory (maxmemory), or remove what nobody needs",
        [LKS_REASON_STORE_DISK_FAILED] = "look at the disk of Redis (full?), and at its log",
        [LKS_REASON_STORE_SILENT] =
            "look whether Redis' process is stopped or its machine is: ps, redis-cli PING, its log",
        [LKS_REASON_STORE_BUSY] = "end what holds Redis: redis-cli SCRIPT KILL, or FUNCTION KILL",
        [LKS_REASON_STORE_SLOT_MOVING] = "wait for the move to end; when none is under way: redis-cli --cluster fix",
        [LKS_REASON_STORE_CLUSTER_DOWN] = "repair the cluster: redis-cli --cluster check",
        [LKS_REASON_STORE_MISFIT] = ("correct the kind of store in lockstockd's --store (redis://, redis+sentinel://, "
                                     "redis+cluster://), or use versions that fit"),
        [LKS_REASON_TOO_MANY_CALLS] = "call less at once, or run more servers on the same store",
        [LKS_REASON_SHUTTING_DOWN] = restarts,
        [LKS_REASON_STORE_UNSAFE] = "redis-cli CONFIG SET appendonly yes, and in redis.conf",
    };
    size_t i = (size_t)reason;

    if (reason == LKS_REASON_STORE_UNSAFE && status && status->evicts)
        return no_eviction;
    return i < sizeof remedies / sizeof *remedies && remedies[i]
               ? remedies[i]
               : "look whether Redis runs where lockstockd's --store says (redis-cli PING), and at lockstockd's log: "
                 "event=not-ready";
}

static void judge_store(const diagnosis_facts *facts, findings *f)
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
                status->cluster ? "a part of it is not ready: %s" : "refuses a part of its calls: %s", status->reason);
        else
            say(f, DIAGNOSIS_OK, "store", NULL, "%s%s",
                status->kind == LKS_STORE_KIND_EMBEDDED ? "lockstockd's own redis-server" : "ready", version);
    } else if (error->code == LKS_OK) {
        say(f, DIAGNOSIS_OK, "store", NULL, "it answers");
    }
}

static void judge_persistence(const lks_store_status *status, findings *f)
{
    static const char append[] = "redis-cli CONFIG SET appendonly yes, and in redis.conf; also appendfsync always, or "
                                 "everysec where two seconds may be lost";
    const char *always = status->kind == LKS_STORE_KIND_EMBEDDED
                             ? "run lockstockd with --fsync always where that must not be"
                             : "redis-cli CONFIG SET appendfsync always where that must not be, and in redis.conf";

    if (lks_reason_of(status->reason_word) == LKS_REASON_STORE_DISK_FAILED) {
        say(f, DIAGNOSIS_PROBLEM, "persistence", "make room on the disk of Redis, or mend it; its log names the file",
            "the store cannot write to its disk, and takes nothing until it can");
        return;
    }
    switch (status->persistence) {
    case LKS_PERSISTENCE_NONE:
        say(f, DIAGNOSIS_PROBLEM, "persistence", append,
            "the store keeps nothing on disk: when Redis ends, all locks, stock and records are gone");
        break;
    case LKS_PERSISTENCE_SNAPSHOTS:
        say(f, DIAGNOSIS_WARNING, "persistence", append,
            "the store writes snapshots only: a crash loses what came after the last one, and with it orders and "
            "locks");
        break;
    case LKS_PERSISTENCE_APPEND_ONLY:
        if (status->fsync == LKS_FSYNC_ALWAYS && status->ready)
            say(f, DIAGNOSIS_OK, "persistence", NULL, "what was answered is on disk");
        else if (status->fsync == LKS_FSYNC_ALWAYS)
            break; /* nothing is wrong with its settings, but nobody knows about its disk */
        else if (status->fsync == LKS_FSYNC_NO)
            say(f, DIAGNOSIS_WARNING, "persistence", always,
                "the store leaves it to the operating system when to write: power loss may lose half a minute");
        else
            say(f, DIAGNOSIS_NOTE, "persistence", always,
                "the store writes to disk once a second: power loss may lose two seconds of answers");
        break;
    default:
        if (status->ready)
            say(f, DIAGNOSIS_NOTE, "persistence",
                "look at appendonly, save and maxmemory-policy of the store yourself, or let lockstockd's user run "
                "CONFIG GET",
                "the store does not tell what it keeps on disk: CONFIG GET is not permitted");
        break;
    }
    if (status->evicts)
        say(f, DIAGNOSIS_PROBLEM, "memory", no_eviction,
            "the store drops keys when its memory is full: locks are held twice, orders sell twice");
}

/* What the server says is wrong with anything but its store, of which judge_store says it. */
static void judge_conditions(const lks_get_status_response *status, findings *f)
{
    static const struct {
        const char *about, *remedy;
    } known[] = {
        {"certificate",
         "put a new certificate and key where --tls-certificate and --tls-key say, then systemctl reload "
         "lockstockd (SIGHUP)"},
        {"servers", "run the same version with the same settings everywhere: compare `lockstockd --print-config`"},
    };

    for (size_t i = 0; i < status->n_conditions; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(status->conditions[i]->about, known[k].about) == 0)
                say(f, status->conditions[i]->blocks ? DIAGNOSIS_PROBLEM : DIAGNOSIS_WARNING, known[k].about,
                    known[k].remedy, "%s", status->conditions[i]->text);
}

/* ---- sentinels ------------------------------------------------------------------- */

static void judge_sentinels(const lks_store_status *status, findings *f)
{
    static const char remedy[] =
        "start those that are away, or mend what keeps lockstockd from them: event=sentinel-lost in "
        "its log names each, and why";
    const int64_t known = status->sentinels, answering = status->sentinels_answering;

    if (known == 0)
        return;
    if (answering == 0)
        say(f, DIAGNOSIS_PROBLEM, "sentinels", remedy,
            "none of %" PRId64 " answers: when the primary is lost, nobody tells who takes its place", known);
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

static void judge_failover(const lks_store_status *status, findings *f)
{
    static const char remedy[] = "run lockstockd with --wait-replicas 1, or more";
    size_t n = 0;

    if (!status->fails_over || status->wait_replicas > 0)
        return;
    while (n < status->n_primaries && refuses_alone(status->primaries[n]))
        n++;
    if (n > 0 && n == status->n_primaries)
        say(f, DIAGNOSIS_NOTE, "failover", remedy,
            "a failover loses the last answers, but none from later than min-replicas-max-lag after the replicas were "
            "cut off");
    else
        say(f, DIAGNOSIS_WARNING, "failover", remedy,
            "the node that takes over may lack the last answers: then sold units are sold again, and a lock may have "
            "two holders");
}

static bool lags(const lks_replica_status *r)
{
    return r->silent_ms > LAG_MS || r->behind_bytes > LAG_BYTES;
}

/* " ADDRESS 0 bytes behind, last heard of 1s ago;..." of those that lag, or of the others. */
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

#define LOOK_AT_REPLICA \
    "look at that replica, its machine, its network and its log; a failover to it loses what it lacks"

/* How many can confirm in time what --wait-replicas waits for. */
static int64_t in_time(const lks_primary_status *p)
{
    int64_t n = 0;

    for (size_t i = 0; i < p->n_replicas; i++)
        n += !lags(p->replicas[i]);
    return n;
}

/* How many count for min-replicas-to-write. */
static int64_t good_of(const lks_primary_status *p)
{
    int64_t good = 0;

    for (size_t i = 0; i < p->n_replicas; i++)
        good += p->replicas[i]->silent_ms <= p->min_replicas_max_lag_ms;
    return good;
}

static bool judge_count(const lks_store_status *status, const lks_primary_status *p, findings *f)
{
    int64_t n = (int64_t)p->n_replicas;

    if (n < status->wait_replicas)
        say(f, DIAGNOSIS_PROBLEM, "replicas", start_replicas,
            "%s has %" PRId64 " of the %" PRId64 " replicas that --wait-replicas asks for: its calls are refused",
            p->address, n, status->wait_replicas);
    else if (refuses_alone(p) && good_of(p) < p->min_replicas_to_write)
        say(f, DIAGNOSIS_PROBLEM, "replicas",
            "start the replicas that are missing, or mend what keeps them away (redis-cli INFO replication, their "
            "logs); "
            "or redis-cli CONFIG SET min-replicas-to-write to fewer, and in redis.conf",
            "%s has %" PRId64 " of the %" PRId64 " replicas that min-replicas-to-write asks for: it refuses writes",
            p->address, good_of(p), p->min_replicas_to_write);
    else if (n == 0 && status->fails_over)
        say(f, DIAGNOSIS_WARNING, "replicas",
            "give it a replica: redis-cli REPLICAOF, or in a cluster CLUSTER REPLICATE",
            "%s has no replica: nothing takes its place when it dies", p->address);
    else
        return true;
    return false;
}

static void judge_primary(const lks_store_status *status, const lks_primary_status *p, findings *f)
{
    char text[DIAGNOSIS_TEXT_BYTES], others[DIAGNOSIS_TEXT_BYTES];

    if (!p->tells_replicas) {
        if (status->ready && !status->reason[0] && (status->fails_over || status->wait_replicas > 0))
            say(f, DIAGNOSIS_NOTE, "replicas", "let lockstockd's user of Redis run INFO: ACL SETUSER NAME +info",
                "%s does not tell of its replicas", p->address);
        return;
    }
    bool enough = judge_count(status, p, f);
    describe(p, false, others);
    describe(p, true, text);
    if (text[0])
        say(f, DIAGNOSIS_PROBLEM, "replicas",
            in_time(p) < status->wait_replicas ? LOOK_AT_REPLICA ", and --wait-replicas waits for it in vain"
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

/* Leases are durations on the store's clock, so nothing breaks; what shows a time is wrong, and a clock that is set
 * moves the ends of leases. */
static void judge_clock(const diagnosis_facts *facts, findings *f)
{
    static const char remedy[] = "keep the clocks of all machines right: NTP, chrony or systemd-timesyncd";
    const lks_get_status_response *status = facts->status;
    const lks_store_status *store = status->store;
    char by[WORDS_BYTES];

    if (store && store->ready && store->at_ms > 0 &&
        differ(status->at_ms, store->at_ms, store->round_trip_us / 1000, by))
        say(f, DIAGNOSIS_WARNING, "clock", remedy,
            "the clocks of server and store differ by %s; leases and times of sale go by the store's", by);
    else if (differ(facts->here_ms, status->at_ms, facts->within_ms, by))
        say(f, DIAGNOSIS_WARNING, "clock", remedy,
            "the clocks of this machine and the server differ by %s: times that are shown are wrong", by);
    else
        say(f, DIAGNOSIS_OK, "clock", NULL,
            store && store->at_ms > 0 ? "the clocks of this machine, the server and its store agree"
                                      : "the clocks of this machine and the server agree");
}

static void judge_latency(const diagnosis_facts *facts, findings *f)
{
    double server_ms = (double)facts->server.took_ns / 1e6, store_ms = (double)facts->store.took_ns / 1e6;
    const lks_store_status *store = facts->status ? facts->status->store : NULL;

    if (facts->server.error.code != LKS_OK)
        return;
    if (facts->server.took_ns > SERVER_SLOW_US * UINT64_C(1000))
        say(f, DIAGNOSIS_WARNING, "latency",
            "use a server nearby; else look whether its machine, or the network, is busy",
            "a call that needs no store takes %.1f ms", server_ms);
    else if (store && store->round_trip_us > STORE_SLOW_US)
        say(f, DIAGNOSIS_WARNING, "latency",
            "put the store near its servers; look whether its disk is slow (fsync), and at redis-cli --latency and "
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
    judge_server(facts, &f);
    if (f.list[0].level < DIAGNOSIS_PROBLEM) {
        judge_rights(facts, &f);
        judge_store(facts, &f);
        if (store) {
            judge_persistence(store, &f);
            judge_sentinels(store, &f);
            judge_failover(store, &f);
            for (size_t i = 0; i < store->n_primaries; i++)
                judge_primary(store, store->primaries[i], &f);
        }
        if (facts->status) {
            judge_conditions(facts->status, &f);
            judge_clock(facts, &f);
        }
        judge_latency(facts, &f);
    }
    *n = f.n;
    return f.list;
}
