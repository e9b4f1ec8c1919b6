/* Called by doctor.c. Each function looks at one matter and says one thing about it, or nothing where there was no answer to
 * judge by. */
#include "diagnosis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "words.h"

enum {
    CLOCK_MS = 1000,        /* clocks may differ by so much */
    SERVER_SLOW_US = 20000, /* of a call that needs no store */
    STORE_SLOW_US = 20000,
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
        say(f, DIAGNOSIS_DOWN, "server",
            "start lockstockd there, or correct --server: `lockstockd --print-config` says what it listens on. Over "
            "tls:// "
            "look at --tls-ca and --tls-name, too",
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
    words_of_ms(facts->status->up_ms, up);
    if (strcmp(facts->status->version, facts->version) != 0)
        say(f, DIAGNOSIS_NOTE, "server", "upgrade the older one", "lockstockd %s, up for %s; this lockstock is %s",
            facts->status->version, up, facts->version);
    else
        say(f, DIAGNOSIS_OK, "server", NULL, "lockstockd %s, up for %s", facts->status->version, up);
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

/* What to do about a store that is not ready, by words of the reason that lockstockd has. */
static const char *remedy_of(const char *reason)
{
    static const struct {
        const char *words, *remedy;
    } known[] = {
        {"credentials", "correct user and password in lockstockd's --store; in a password / ? and % are %2F %3F %25"},
        {"permission",
         "give the Redis user that lockstockd has all commands and keys: ACL SETUSER NAME on +@all ~* &*"},
        {"replica", "name the primary in lockstockd's --store"},
        {"loading", "wait: Redis reads its data from disk"},
        {"evicts", "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf"},
        {"keeps nothing", "redis-cli CONFIG SET appendonly yes, and in redis.conf"},
        {"out of memory", "give Redis more memory (maxmemory), or remove what nobody needs"},
        {"disk", "look at the disk of Redis (full?), and at its log"},
        {"script", "end what holds Redis: redis-cli SCRIPT KILL, or FUNCTION KILL"},
        {"cluster", "repair the cluster: redis-cli --cluster check"},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(reason, known[i].words))
            return known[i].remedy;
    return "look whether Redis runs where lockstockd's --store says (redis-cli PING), and at lockstockd's log: "
           "event=not-ready";
}

static void judge_store(const diagnosis_facts *facts, findings *f)
{
    const lks_store_status *status = facts->status ? facts->status->store : NULL;
    const lks_error *error = &facts->store.error;
    char version[WORDS_BYTES] = "";

    if (status && !status->ready) {
        say(f, DIAGNOSIS_DOWN, "store", remedy_of(status->reason), "is not ready: %s", status->reason);
    } else if (probe_is_down(&facts->store)) {
        say(f, DIAGNOSIS_DOWN, "store", remedy_of(error->message), "does not answer: %s", error->message);
    } else if (error->code == LKS_RESOURCE_EXHAUSTED) {
        say(f, DIAGNOSIS_PROBLEM, "store", remedy_of(error->message), "has no room: %s", error->message);
    } else if (error->code != LKS_OK && error->code != LKS_PERMISSION_DENIED) {
        say(f, DIAGNOSIS_PROBLEM, "store", remedy_of(error->message), "fails: %s (%s)", error->message,
            lks_code_name(error->code));
    } else if (status) {
        if (status->version[0])
            snprintf(version, sizeof version, ", Redis %.32s%s", status->version, status->cluster ? ", a cluster" : "");
        if (status->reason[0])
            say(f, DIAGNOSIS_PROBLEM, "store", remedy_of(status->reason), "a part of it is not ready: %s",
                status->reason);
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
        if (status->fsync == LKS_FSYNC_ALWAYS)
            say(f, DIAGNOSIS_OK, "persistence", NULL, "what was answered is on disk");
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
    if (status->fails_over && status->wait_replicas == 0)
        say(f, DIAGNOSIS_WARNING, "failover", "run lockstockd with --wait-replicas 1, or more",
            "the node that takes over may lack the last answers: then sold units are sold again, and a lock may have "
            "two "
            "holders");
    if (status->evicts)
        say(f, DIAGNOSIS_PROBLEM, "memory", "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf",
            "the store drops keys when its memory is full: locks are held twice, orders sell twice");
}

/* ---- clocks and latency -------------------------------------------------------------- */

static bool differ(int64_t a, int64_t b, int64_t within, char by[WORDS_BYTES])
{
    int64_t difference = a > b ? a - b : b - a;

    words_of_ms(difference, by);
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

    if (store && store->ready && differ(status->at_ms, store->at_ms, store->round_trip_us / 1000, by))
        say(f, DIAGNOSIS_WARNING, "clock", remedy,
            "the clocks of server and store differ by %s; leases and times of sale go by the store's", by);
    else if (differ(facts->here_ms, status->at_ms, facts->within_ms, by))
        say(f, DIAGNOSIS_WARNING, "clock", remedy,
            "the clocks of this machine and the server differ by %s: times that are shown are wrong", by);
    else
        say(f, DIAGNOSIS_OK, "clock", NULL, "the clocks of this machine, the server and its store agree");
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

size_t diagnosis_of(const diagnosis_facts *facts, diagnosis_finding list[DIAGNOSIS_MAX])
{
    findings f = {.list = list};

    judge_server(facts, &f);
    if (f.list[0].level >= DIAGNOSIS_PROBLEM)
        return f.n;
    judge_rights(facts, &f);
    judge_store(facts, &f);
    if (facts->status && facts->status->store)
        judge_persistence(facts->status->store, &f);
    if (facts->status)
        judge_clock(facts, &f);
    judge_latency(facts, &f);
    return f.n;
}
