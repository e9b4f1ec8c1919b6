/* Opens what the URL names, and passes calls to the topology.
 *
 *   embedded:DIR --its socket--> topology --> shards
 *   every other URL ---------------^
 *
 * Closing happens in the reverse order. */
#include "store/store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "store/embedded.h"
#include "store/errors.h"
#include "store/secrets.h"
#include "store/topology.h"
#include "store/url.h"

enum { REASON_BYTES = 256 };

struct store {
    store_options options;
    url url;
    secrets secrets;
    embedded *embedded; /* NULL unless the URL is embedded:DIR */
    topology *topology;
    char fatal[REASON_BYTES];
    const char *reported_full; /* the text of embedded_full that was last passed to on_ready */

    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- readiness --------------------------------------------------------------------- */

/* If redis-server cannot be started, that is the reason, not that the store cannot be reached. */
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
    bool is_told = fault.reason == LKS_REASON_STORE_DISK_FAILED || !s->topology || s->closed;

    if (ready && s->embedded)
        embedded_serves(s->embedded);
    if (full && !is_told)
        topology_explain(s->topology, cause); /* callers get it; calls this function again */
    if (full && full == s->reported_full)
        return;
    s->reported_full = full;
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
    const store *s = arg;

    if (s->embedded)
        embedded_lost(s->embedded);
}

static void on_broken(void *arg, store_fault fault)
{
    store *s = arg;

    on_fatal(s, fault);
    if (!s->closed)
        topology_explain(s->topology, fault);
}

/* ---- opening ------------------------------------------------------------------- */

static topology *open_topology(store *s)
{
    const topology_options options = {
        .store = &s->options,
        .url = &s->url,
        .secrets = &s->secrets,
        .socket = s->embedded ? embedded_socket(s->embedded) : NULL,
        .socket_shown = s->embedded ? embedded_address(s->embedded) : NULL,
        .on_ready = on_ready,
        .on_fatal = on_fatal,
        .on_lost = on_lost,
        .arg = s,
    };

    return topology_open(&options);
}

static lks_code open_embedded(store *s, const char *from, lks_error *error)
{
    const embedded_options options = {
        .store = &s->options,
        .dir = s->url.path,
        .on_broken = on_broken,
        .on_full = on_full,
        .arg = s,
    };
    lks_error why;
    lks_code code = embedded_open(&options, &s->embedded, &why);

    return code == LKS_OK ? LKS_OK : lks_error_set(error, code, why.applied, "%s: %s", from, why.message);
}

static void set_default(uint32_t *option, uint32_t value)
{
    if (*option == 0)
        *option = value;
}

static void set_defaults(store_options *o)
{
    set_default(&o->connect_timeout_ms, 2000);
    set_default(&o->silence_timeout_ms, 10000);
    set_default(&o->safety_check_ms, 30000);
    set_default(&o->role_check_ms, 1000);
    set_default(&o->in_flight_max, 8192);
    set_default(&o->wait_ms, 1000);
    o->fsync = o->fsync ? o->fsync : "always";
}

lks_code store_open(const store_options *options, store **ret, lks_error *error)
{
    store *s = memory_alloc(sizeof *s);
    const char *from = options->url_from ? options->url_from : "store";

    *s = (store){.options = *options};
    set_defaults(&s->options);
    lks_code code = url_parse(options->url, from, &s->url, error);
    if (code != LKS_OK)
        goto failed;
    if ((code = secrets_load(&s->secrets, &options->files, &s->url, error)) != LKS_OK)
        goto failed;
    if (s->url.kind == URL_EMBEDDED && (code = open_embedded(s, from, error)) != LKS_OK)
        goto failed;
    signal(SIGPIPE, SIG_IGN); /* hiredis writes with write(2) */
    s->topology = open_topology(s);
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

    if (code == LKS_OK)
        topology_reauth(s->topology);
    return code;
}

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    const store_other *other = &s->options.other;

    if (other->has && other->has(other->arg, call))
        other->submit(other->arg, call, deadline_ns, done, arg);
    else
        topology_submit(s->topology, call, deadline_ns, done, arg);
}

bool store_part_from(const store *s, uint32_t from, store_part *ret)
{
    return topology_part_from(s->topology, from, ret);
}

void store_describe(const store *s, store_view *ret)
{
    topology_describe(s->topology, ret);
    ret->fault = cause_of(s, ret->ready, ret->fault);
    ret->embedded = s->embedded != NULL;
    ret->appends = ret->appends && (!s->embedded || embedded_has_files(s->embedded));
    ret->wait_replicas = s->options.wait_replicas;
}

bool store_describe_primary(const store *s, size_t i, store_primary *ret)
{
    return topology_describe_primary(s->topology, i, ret);
}

bool store_describe_process(const store *s, store_process *ret)
{
    if (s->embedded)
        *ret = embedded_look(s->embedded);
    return s->embedded;
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

static void on_embedded_closed(void *arg)
{
    store *s = arg;
    void (*closed)(void *arg) = s->closed;
    void *closed_arg = s->closed_arg;

    secrets_clear(&s->secrets);
    url_clear(&s->url);
    free(s);
    closed(closed_arg);
}

static void on_topology_closed(void *arg)
{
    store *s = arg;

    if (s->embedded)
        embedded_close(s->embedded, on_embedded_closed, s);
    else
        on_embedded_closed(s);
}

void store_close(store *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    topology_close(s->topology, on_topology_closed, s);
}
