/* How locks are kept on Redis by hand. Each is a recipe that is in use; what is wrong
 * with it is said above it, and the named points are where it goes wrong. */
#include "lock_way.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void note(lock_worker *w, const char *why)
{
    if (w->error.code == LKS_OK)
        lks_error_set(&w->error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "redis, for %s: %s", w->name, why);
}

int64_t worker_ask(lock_worker *w, const char *format, ...)
{
    va_list arguments;
    int64_t value = 0;

    va_start(arguments, format);
    redisReply *reply = redisvCommand(w->redis, format, arguments);
    va_end(arguments);
    if (!reply) {
        note(w, w->redis->errstr);
        return 0;
    }
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        value = reply->integer;
        break;
    case REDIS_REPLY_STRING:
        value = strtoll(reply->str, NULL, 10);
        break;
    case REDIS_REPLY_STATUS:
        value = 1;
        break;
    case REDIS_REPLY_ERROR:
        note(w, reply->str);
        break;
    default:
        break;
    }
    freeReplyObject(reply);
    return value;
}

static lock_end end_by_ttl(lock_worker *w)
{
    int64_t at = worker_ask(w, "PEXPIRETIME %s", w->key);

    at = at == -2 ? LOCK_FREE : at == -1 ? LOCK_ENDLESS : at;
    return (lock_end){at, at};
}

/* DEL without a look: it ends whoever holds the lock by now. */
static void blind_del_unlock(lock_worker *w)
{
    if (barrier_reach(&w->stop, POINT_LEAVES))
        worker_ask(w, "DEL %s", w->key);
}

/* Two commands where one would do: who dies between them holds it for ever. */
static bool setnx_expire_lock(lock_worker *w)
{
    if (worker_ask(w, "SETNX %s %s", w->key, w->name) != 1 || !barrier_reach(&w->stop, POINT_TAKEN))
        return false;
    worker_ask(w, "PEXPIRE %s %" PRId64, w->key, w->lease_ms);
    return true;
}

/* The value is the end of the lease. GETSET writes before it looks: who comes too late
 * is told so, and has replaced the holder's end by its own, earlier one. */
static bool getset_lock(lock_worker *w)
{
    int64_t end = wall_ms() + w->lease_ms;

    if (worker_ask(w, "SETNX %s %" PRId64, w->key, end) == 1)
        return true;
    if (worker_ask(w, "GET %s", w->key) > wall_ms() || !barrier_reach(&w->stop, POINT_LOOKED))
        return false;
    return worker_ask(w, "GETSET %s %" PRId64, w->key, end) <= wall_ms();
}

static lock_end end_by_value(lock_worker *w)
{
    int64_t at = worker_ask(w, "GET %s", w->key);

    return (lock_end){at, at};
}

static bool set_nx_px_lock(lock_worker *w)
{
    return worker_ask(w, "SET %s %s NX PX %" PRId64, w->key, w->name, w->lease_ms) == 1;
}

/* Meant as a remedy for the first: who does not get it makes sure that it ends. Each
 * try puts the end off, so that a dead holder's lock lasts as long as anyone tries. */
static bool refreshing_lock(lock_worker *w)
{
    bool got = worker_ask(w, "SETNX %s %s", w->key, w->name) == 1;

    worker_ask(w, "PEXPIRE %s %" PRId64, w->key, w->lease_ms);
    return got;
}

/* How often this thread has locked: knows neither which lock, nor that leases end. */
static _Thread_local unsigned depth;

static bool by_thread_lock(lock_worker *w)
{
    if (depth == 0 && !set_nx_px_lock(w))
        return false;
    depth++;
    return true;
}

static void by_thread_unlock(lock_worker *w)
{
    if (--depth == 0)
        blind_del_unlock(w);
}

const lock_way naive_setnx_expire = {"SETNX, then EXPIRE", setnx_expire_lock, blind_del_unlock, end_by_ttl, NULL};
const lock_way naive_getset = {"GETSET with timestamps", getset_lock, blind_del_unlock, end_by_value, NULL};
const lock_way naive_blind_del = {"DEL without a look", set_nx_px_lock, blind_del_unlock, end_by_ttl, NULL};
const lock_way naive_refreshing = {"a waiter sets EXPIRE", refreshing_lock, blind_del_unlock, end_by_ttl, NULL};
const lock_way naive_by_thread = {"reentrant by thread", by_thread_lock, by_thread_unlock, end_by_ttl, NULL};
