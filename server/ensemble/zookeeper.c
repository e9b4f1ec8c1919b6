/* Invariant: there is at most one session. The next one begins after all callbacks of the previous one have run.
 *
 *   RESOLVING --addresses--> CONNECTING --connected--> CHECKING --the root exists----> READY
 *       ^  \--none--\            ^------- connection lost --\--------------------------/
 *       |            \           \_________________________|__________________________/
 *       |             \                        |expired, credentials refused
 *       |              v                       v
 *       \--end--- PAUSING <----- closed --- ENDING
 *
 * and from each to CLOSING. Names are resolved again for each session, and every NAMES_AGAIN_MS while CONNECTING. */
#include "ensemble/zookeeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "memory.h"
#include "ensemble/parts.h"

enum {
    PAUSE_MIN_MS = 20,
    PAUSE_MAX_MS = 2000,
    NAMES_AGAIN_MS = 5000,
    ROOT_AGAIN_MS = 500,
};

static void start(zookeeper *z);
static void pause_then_start(zookeeper *z);
static void check_root(zookeeper *z);

/* ---- reporting the state ------------------------------------------------------------- */

/* reason: why it is not ready; NULL: it is. */
static void report(zookeeper *z, const char *reason)
{
    const char *text = reason ? reason : "";

    if (z->state == CLOSING || (z->reported && strcmp(text, z->reason) == 0))
        return;
    z->reported = true;
    snprintf(z->reason, sizeof z->reason, "%s", text);
    z->on.state(z->on.arg, reason ? z->reason : NULL);
}

/* ---- the root ------------------------------------------------------------------------ */

static void on_check_again(uv_timer_t *timer)
{
    check_root(timer->data);
}

static void become_ready(zookeeper *z)
{
    int64_t id = session_id(z->session);

    z->state = READY;
    z->failures = 0;
    uv_timer_stop(&z->timer);
    if (id != z->id) {
        z->id = id;
        z->on.session(z->on.arg);
    }
    if (z->state == READY)
        report(z, NULL);
}

static void root_failed(zookeeper *z, int rc)
{
    const char *what = rc != ZNOAUTH    ? "could not read or create"
                       : z->credentials ? "refused the credentials for"
                                        : "requires credentials for";
    char reason[ZOOKEEPER_REASON_BYTES];

    snprintf(reason, sizeof reason, "the lock store %s the path %s", what, z->root);
    report(z, reason);
    if (z->state == CHECKING)
        uv_timer_start(&z->timer, on_check_again, ROOT_AGAIN_MS, 0);
}

static void create_next_part(zookeeper *z);

static void on_part(int rc, const char *path, const void *arg)
{
    zookeeper *z = (zookeeper *)(uintptr_t)arg;

    (void)path;
    if (z->state != CHECKING)
        return;
    if (rc == ZOK || rc == ZNODEEXISTS)
        create_next_part(z);
    else
        root_failed(z, rc);
}

static void create_next_part(zookeeper *z)
{
    if (z->created == z->root_len) {
        check_root(z);
        return;
    }
    z->created += 1 + strcspn(z->root + z->created + 1, "/");
    char *part = memory_copy(z->root, z->created);
    int rc = zoo_acreate(session_handle(z->session), part, "", 0, zookeeper_acl(z), 0, on_part, z);
    free(part);
    if (rc == ZOK)
        session_submitted(z->session);
    else
        root_failed(z, rc);
}

/* Ignores the loss of the connection: the session reports it. */
static void on_root(int rc, const char *data, int len, const struct Stat *stat, const void *arg)
{
    zookeeper *z = (zookeeper *)(uintptr_t)arg;

    (void)data, (void)len;
    if (z->state != CHECKING || rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED)
        return;
    if (rc == ZOK) {
        z->root_id = ((uint64_t)stat->ctime << 20) ^ (uint64_t)stat->czxid;
        become_ready(z);
    } else if (rc == ZNONODE && z->created == 0) {
        create_next_part(z);
    } else {
        z->created = 0;
        root_failed(z, rc);
    }
}

static void check_root(zookeeper *z)
{
    if (!session_is_up(z->session))
        return;
    int rc = zoo_aget(session_handle(z->session), z->root, 0, on_root, z);
    if (rc == ZOK)
        session_submitted(z->session);
    else
        root_failed(z, rc);
}

/* ---- the session --------------------------------------------------------------------- */

static void on_session_closed(void *arg)
{
    zookeeper *z = arg;

    z->session = NULL;
    if (z->state == CLOSING)
        close_barrier_done(&z->barrier);
    else
        pause_then_start(z);
}

static void end_session(zookeeper *z, const char *reason)
{
    z->state = ENDING;
    uv_timer_stop(&z->timer);
    session_close(z->session, on_session_closed, z);
    report(z, reason);
}

static void on_names_again(uv_timer_t *timer)
{
    hosts_find(((zookeeper *)timer->data)->hosts);
}

static void start_connecting(zookeeper *z)
{
    z->state = CONNECTING;
    uv_timer_stop(&z->timer);
    if (hosts_have_names(z->hosts))
        uv_timer_start(&z->timer, on_names_again, NAMES_AGAIN_MS, NAMES_AGAIN_MS);
}

static void on_changed(void *arg)
{
    zookeeper *z = arg;
    session_state now = session_state_of(z->session);
    const char *why = session_why(z->session);

    if (z->state != CONNECTING && z->state != CHECKING && z->state != READY)
        return;
    if (now == SESSION_EXPIRED) {
        end_session(z, "the session with the lock store has expired");
    } else if (now == SESSION_REFUSED) {
        end_session(z, "the lock store refused the credentials");
    } else if (now == SESSION_DOWN) {
        if (z->state != CONNECTING)
            start_connecting(z);
        report(z, why ? why : "the connection to the lock store broke");
    } else if (z->state == CONNECTING) {
        z->state = CHECKING;
        z->created = 0;
        uv_timer_stop(&z->timer);
        check_root(z);
    }
}

static void on_watch(void *arg, const char *path)
{
    zookeeper *z = arg;

    if (z->state != CLOSING && strncmp(path, z->root, z->root_len) == 0)
        z->on.watch(z->on.arg, path + z->root_len);
}

static void on_found(void *arg, const char *addresses, const char *why)
{
    zookeeper *z = arg;
    const session_events events = {.changed = on_changed, .watch = on_watch, .arg = z};
    char reason[ZOOKEEPER_REASON_BYTES];

    if (z->state == CONNECTING && addresses)
        session_set_addresses(z->session, addresses);
    if (z->state != RESOLVING)
        return;
    if (!addresses) {
        snprintf(reason, sizeof reason, "the lock store's hosts cannot be found: %s", why);
    } else {
        z->session = session_open(z->loop, addresses, z->session_timeout_ms, z->credentials, &events);
        if (z->session) {
            start_connecting(z);
            return;
        }
        snprintf(reason, sizeof reason, "the lock store is unreachable: %s", strerror(errno));
    }
    pause_then_start(z);
    report(z, reason);
}

static void on_pause_over(uv_timer_t *timer)
{
    start(timer->data);
}

static void pause_then_start(zookeeper *z)
{
    z->state = PAUSING;
    uint64_t ns = backoff_ns(PAUSE_MIN_MS, PAUSE_MAX_MS, z->failures++, &z->random);
    uv_timer_start(&z->timer, on_pause_over, ns / CLOCK_NS_PER_MS, 0);
}

static void start(zookeeper *z)
{
    z->state = RESOLVING;
    hosts_find(z->hosts);
}

/* ---- life ---------------------------------------------------------------------------- */

const struct ACL_vector *zookeeper_acl(const zookeeper *z)
{
    return z->credentials ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

bool zk_is_ready(const zookeeper *z)
{
    return z->state == READY && session_is_up(z->session);
}

uint64_t zk_root_id(const zookeeper *z)
{
    return z->root_id;
}

static void release(void *owner)
{
    zookeeper *z = owner;

    requests_end_all(z);
    free(z->root);
    free(z->credentials);
    free(z);
}

lks_code zk_check(const zk_options *options, lks_error *error)
{
    const char *login = options->credentials;

    if (!requests_is_path(options->root))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "'%s' is not the path of a node",
                             options->root);
    if (login && (!strchr(login, ':') || *login == ':'))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "the credentials must be user:password");
    return hosts_check(options->hosts, error);
}

zookeeper *zk_open(const zk_options *options)
{
    zookeeper *z = memory_alloc(sizeof *z);

    *z = (zookeeper){
        .loop = options->loop,
        .root = memory_copy(options->root, strlen(options->root)),
        .root_len = strlen(options->root),
        .credentials = options->credentials ? memory_copy(options->credentials, strlen(options->credentials)) : NULL,
        .session_timeout_ms = options->session_timeout_ms ? options->session_timeout_ms : ZK_SESSION_TIMEOUT_MS,
        .on = options->events,
        .hosts = hosts_open(options->loop, options->hosts, on_found, z),
        .random = backoff_random(),
    };
    uv_timer_init(z->loop, &z->timer);
    z->timer.data = z;
    requests_init(z);
    start(z);
    return z;
}

void zk_close(zookeeper *z, void (*closed)(void *arg), void *arg)
{
    zookeeper_state before = z->state;

    z->state = CLOSING;
    if (z->session) {
        close_barrier_add(&z->barrier);
        if (before != ENDING)
            session_close(z->session, on_session_closed, z);
    }
    close_barrier_add(&z->barrier);
    hosts_close(z->hosts, close_barrier_done, &z->barrier);
    close_barrier_handle(&z->barrier, &z->timer);
    close_barrier_handle(&z->barrier, &z->requests.timer);
    close_barrier_begin(&z->barrier, z, release, closed, arg);
}
