/* The store behind store.h: what the URL says is opened here, and calls, readiness and wakes pass through.
 *
 *   embedded:DIR --socket--\
 *   unix:///path -----------+--> one node
 *   redis://host:port ------/|
 *   redis+sentinel:// --sentinels--the primary's address
 *   redis+cluster://... -------> cluster: a node a primary
 *
 * Closing goes the other way round: node, sentinels or redis-server. */
#include "store/store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "store/secrets.h"
#include "store/cluster.h"
#include "store/embedded.h"
#include "store/errors.h"
#include "store/node.h"
#include "store/sentinels.h"
#include "store/url.h"

enum { REASON_BYTES = 256, SENTINEL_CONNECT_MS = 1000 };

struct store {
    store_options options;
    url url;
    secrets secrets;
    embedded *embedded; /* NULL unless the URL says so; so these two */
    sentinels *sentinels;
    node *node;       /* NULL: */
    cluster *cluster; /* of several */
    char fatal[REASON_BYTES];
    const char *told_full; /* why redis-server is not started, as it was told last */

    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- what is heard of the node ------------------------------------------------- */

/* Why it is not ready: that redis-server is not started, rather than that it cannot be reached. */
static store_fault cause_of(const store *s, bool ready, store_fault fault)
{
    const char *full = s->embedded && !ready ? embedded_full(s->embedded) : NULL;

    return full ? STORE_FAULT(STORE_DISK_FAILED, full) : fault;
}

static void on_ready(void *arg, bool ready, store_fault fault)
{
    store *s = arg;
    const store_fault cause = cause_of(s, ready, fault);
    const char *full = cause.text == fault.text ? NULL : cause.text;

    if (ready && s->embedded)
        embedded_serves(s->embedded);
    if (ready && s->sentinels)
        sentinels_trust(s->sentinels);
    if (full && full == s->told_full)
        return;
    s->told_full = full;
    if (s->options.on_ready)
        s->options.on_ready(s->options.arg, ready, cause);
}

static void on_full(void *arg)
{
    on_ready(arg, false, (store_fault){0});
}

static void on_fatal(void *arg, store_fault fault)
{
    store *s = arg;

    snprintf(s->fatal, sizeof s->fatal, "%s", fault.text);
}

static void on_lost(void *arg)
{
    store *s = arg;

    if (s->embedded)
        embedded_lost(s->embedded);
    if (s->sentinels)
        sentinels_doubt(s->sentinels);
}

static void on_wake(void *arg, const char *data, size_t len)
{
    store *s = arg;

    s->options.on_wake(s->options.arg, data, len);
}

static void on_listening(void *arg)
{
    store *s = arg;

    if (s->sentinels)
        sentinels_trust(s->sentinels);
    s->options.on_listening(s->options.arg);
}

static const secrets_tls *tls_of(const store *s)
{
    return s->url.tls ? &s->secrets.tls : NULL;
}

/* ---- what is heard of sentinels ------------------------------------------------ */

static void on_primary(void *arg, const char *host, uint16_t port)
{
    store *s = arg;

    if (!s->closed)
        node_move(s->node, host, port, STORE_FAULT(STORE_FAILING_OVER, "the sentinels name another primary"));
}

static void on_demoted(void *arg, const char *host, uint16_t port)
{
    store *s = arg;

    if (!s->closed && node_is_at(s->node, host, port))
        node_drop(s->node, STORE_FAULT(STORE_FAILING_OVER, "a sentinel says that it is the primary no more"));
}

static void on_unknown(void *arg, store_fault fault)
{
    store *s = arg;

    if (!s->closed)
        node_refuse(s->node, fault);
}

static const char *generation(void *arg)
{
    const store *s = arg;

    return sentinels_generation(s->sentinels);
}

static sentinels *open_sentinels(store *s)
{
    const sentinels_options options = {
        .loop = s->options.loop,
        .url = &s->url,
        .as = &s->secrets.as_to_sentinels,
        .to_primary = &s->secrets.as,
        .tls = tls_of(s),
        .connect_timeout_ms = SENTINEL_CONNECT_MS,
        .on_primary = on_primary,
        .on_demoted = on_demoted,
        .on_unknown = on_unknown,
        .arg = s,
    };
    return sentinels_open(&options);
}

/* ---- opening ------------------------------------------------------------------- */

static node *open_node(store *s)
{
    bool sentinel = s->url.kind == URL_SENTINEL;
    const node_options options = {
        .store = &s->options,
        .as = &s->secrets.as,
        .tls = tls_of(s),
        .db = s->url.db,
        .path = s->embedded ? embedded_socket(s->embedded) : s->url.path,
        .path_shown = s->embedded ? embedded_address(s->embedded) : NULL,
        .host = sentinel ? NULL : s->url.hosts[0].name,
        .port = sentinel ? 0 : s->url.hosts[0].port,
        .waits_to_be_told = sentinel,
        .generation = sentinel ? generation : NULL,
        .wake_channel = s->options.wake_channel,
        .on_ready = on_ready,
        .on_fatal = on_fatal,
        .on_lost = on_lost,
        .on_wake = on_wake,
        .on_listening = on_listening,
        .arg = s,
    };
    return node_open(&options);
}

static cluster *open_cluster(store *s)
{
    const cluster_options options = {
        .store = &s->options, .url = &s->url, .as = &s->secrets.as, .tls = tls_of(s), .on_fatal = on_fatal, .arg = s};

    return cluster_open(&options);
}

static void on_broken(void *arg, store_fault fault)
{
    store *s = arg;

    on_fatal(s, fault);
    if (!s->closed)
        node_refuse(s->node, fault);
}

static bool told_to_stop(void *arg)
{
    const store *s = arg;

    return s->options.told_to_stop && s->options.told_to_stop(s->options.arg);
}

static lks_code open_embedded(store *s, const char *from, lks_error *error)
{
    const embedded_options options = {
        .loop = s->options.loop,
        .dir = s->url.path,
        .fsync = s->options.fsync ? s->options.fsync : "always",
        .on_broken = on_broken,
        .on_full = on_full,
        .told_to_stop = told_to_stop,
        .arg = s,
    };
    lks_error why;
    lks_code code = embedded_open(&options, &s->embedded, &why);

    return code == LKS_OK ? LKS_OK : lks_error_set(error, code, why.applied, "%s: %s", from, why.message);
}

lks_code store_open(const store_options *options, store **ret, lks_error *error)
{
    store *s = memory_alloc(sizeof *s);
    const char *from = options->url_from ? options->url_from : "store";

    *s = (store){.options = *options};
    lks_code code = url_parse(options->url, from, &s->url, error);
    if (code != LKS_OK)
        goto failed;
    if ((code = secrets_load(&s->secrets, &options->files, &s->url, error)) != LKS_OK)
        goto failed;
    if (s->url.kind == URL_EMBEDDED && (code = open_embedded(s, from, error)) != LKS_OK)
        goto failed;
    signal(SIGPIPE, SIG_IGN); /* hiredis writes with write(2) */
    if (s->url.kind == URL_CLUSTER)
        s->cluster = open_cluster(s);
    else
        s->node = open_node(s);
    if (s->url.kind == URL_SENTINEL)
        s->sentinels = open_sentinels(s);
    *ret = s;
    return LKS_OK;

failed:
    secrets_clear(&s->secrets);
    url_clear(&s->url);
    free(s);
    return code;
}

lks_code store_reload(store *s, lks_error *error)
{
    lks_code code = secrets_load(&s->secrets, &s->options.files, &s->url, error);

    if (code == LKS_OK && s->cluster)
        cluster_reauth(s->cluster);
    else if (code == LKS_OK)
        node_reauth(s->node);
    return code;
}

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    if (s->cluster)
        cluster_submit(s->cluster, call, deadline_ns, done, arg);
    else
        node_submit(s->node, call, deadline_ns, done, arg);
}

bool store_part_from(const store *s, uint32_t from, store_part *ret)
{
    if (s->cluster)
        return cluster_part_from(s->cluster, from, ret);
    *ret = (store_part){.slot = 0, .base = STORE_META_BASE};
    return from == 0;
}

bool store_ready(const store *s, const char **reason)
{
    bool ready = s->cluster ? cluster_ready(s->cluster, reason) : node_ready(s->node, reason);

    if (reason)
        *reason = cause_of(s, ready, (store_fault){.text = *reason}).text;
    return ready;
}

void store_look(const store *s, store_view *ret)
{
    if (s->cluster)
        cluster_look(s->cluster, ret);
    else
        node_look(s->node, ret);
    ret->fault = cause_of(s, ret->ready, ret->fault);
    ret->embedded = s->embedded != NULL;
    ret->fails_over = s->sentinels || s->cluster;
    ret->wait_replicas = s->options.wait_replicas;
    if (s->sentinels)
        sentinels_count(s->sentinels, &ret->sentinels, &ret->sentinels_answering);
}

bool store_look_primary(const store *s, size_t i, store_primary *ret)
{
    if (s->cluster)
        return cluster_look_primary(s->cluster, i, ret);
    node_look_primary(s->node, ret);
    return i == 0;
}

int64_t store_certificate_ends(const store *s)
{
    return tls_context_ends(s->secrets.tls.context);
}

const char *store_fatal(const store *s)
{
    return s->fatal[0] ? s->fatal : NULL;
}

/* ---- closing ------------------------------------------------------------------- */

static void on_source_closed(void *arg)
{
    store *s = arg;
    void (*closed)(void *arg) = s->closed;
    void *closed_arg = s->closed_arg;

    secrets_clear(&s->secrets);
    url_clear(&s->url);
    free(s);
    closed(closed_arg);
}

static void on_node_closed(void *arg)
{
    store *s = arg;

    if (s->embedded)
        embedded_close(s->embedded, on_source_closed, s);
    else if (s->sentinels)
        sentinels_close(s->sentinels, on_source_closed, s);
    else
        on_source_closed(s);
}

void store_close(store *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    if (s->cluster)
        cluster_close(s->cluster, on_node_closed, s);
    else
        node_close(s->node, on_node_closed, s);
}
