/* Invariant: an engine exists once a URL needs it. Called by server.c and host/. */
#include "net/wires.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/address.h"
#include "net/close_barrier.h"
#include "net/http/http_server.h"
#include "net/stream/address_bind.h"
#include "net/stream/handed_in.h"
#include "net/sp/sp_server.h"
#include "net/stream/stream.h"
#include "net/stream/trim.h"

enum { GREETING_MS = 10000, IDLE_MS = 900000, STALL_MS = 10000, REQUEST_MS = 30000, TRIM_MS = 2000 };

/* What TLS negotiates by ALPN. */
typedef enum protocol { SP, H2, WEB, PROTOCOLS } protocol;

static const char *const alpn[PROTOCOLS] = {[SP] = NULL, [H2] = "h2", [WEB] = "h2,http/1.1"};

struct wires {
    wires_options options;
    streams *streams;
    sp_server *sp;
    grpc_server *grpc;
    http_server *http;
    http_site site;
    trim *trim;
    uv_timer_t grpc_tick;
    tls_context *tls[PROTOCOLS]; /* NULL: no certificate */
    close_barrier closing;
};

bool wires_is_origin(const char *text)
{
    const char *host = strstr(text, "://");

    return host && host > text && host[3] != '\0' && !strpbrk(host + 3, "/*?#@ \t") && !strchr(text, '*');
}

static void free_tls(tls_context *contexts[PROTOCOLS])
{
    for (int i = 0; i < PROTOCOLS; i++)
        tls_context_free(contexts[i]);
}

lks_code wires_new(const wires_options *options, wires **ret, lks_error *error)
{
    wires *w = malloc(sizeof *w);

    if (!w)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *w = (wires){.options = *options};
    lks_code code = wires_load_certificates(w, error);
    if (code != LKS_OK) {
        free(w);
        return code;
    }
    w->trim = trim_new(options->loop, options->budget, TRIM_MS);
    if (!w->trim) {
        free_tls(w->tls);
        free(w);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    *ret = w;
    return LKS_OK;
}

/* All are NULL without a certificate, and when a file is wrong. */
static lks_code load_tls(const tls_files *files, tls_context *ret[PROTOCOLS], lks_error *error)
{
    lks_code code = LKS_OK;

    for (int i = 0; i < PROTOCOLS; i++)
        ret[i] = NULL;
    for (int i = 0; i < PROTOCOLS && files->certificate && code == LKS_OK; i++)
        code = tls_context_load(files, alpn[i], &ret[i], error);
    if (code == LKS_OK)
        return LKS_OK;
    free_tls(ret);
    for (int i = 0; i < PROTOCOLS; i++)
        ret[i] = NULL;
    return code;
}

lks_code wires_load_certificates(wires *w, lks_error *error)
{
    tls_context *loaded[PROTOCOLS];

    lks_code code = load_tls(&w->options.tls, loaded, error);
    for (int i = 0; i < PROTOCOLS && loaded[i]; i++)
        if (w->tls[i])
            tls_context_replace(w->tls[i], loaded[i]);
        else
            w->tls[i] = loaded[i];
    return code;
}

void wires_write_metrics(const wires *w, metrics_text *t)
{
    if (w->streams)
        streams_write_metrics(w->streams, t);
}

int64_t wires_certificate_ends(const wires *w)
{
    return tls_context_ends(w->tls[SP]);
}

lks_code wires_check_tls(const tls_files *files, lks_error *error)
{
    const tls_names *names = files->names;
    tls_context *loaded[PROTOCOLS];

    if (!files->certificate != !files->key)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s and %s need each other",
                             names->certificate, names->key);
    if (files->client_ca && !files->certificate)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s needs %s", names->ca, names->certificate);
    if (files->client_required && !files->client_ca)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s needs %s", names->client_required,
                             names->ca);
    lks_code code = load_tls(files, loaded, error);
    free_tls(loaded);
    return code;
}

/* ---- listening ------------------------------------------------------------------ */

static uint32_t at_least_one(uint32_t n)
{
    return n > 0 ? n : 1;
}

static uint32_t connections_per_wire(const wires_options *o)
{
    uint32_t by_default = o->several_wires ? at_least_one(o->connections_max / 4 * 3) : o->connections_max;

    return o->connections_per_wire > 0 ? o->connections_per_wire : by_default;
}

static lks_code need_streams(wires *w, lks_error *error)
{
    const wires_options *o = &w->options;
    uint32_t per_address = o->connections_per_address;
    const streams_options streams_wanted = {
        .loop = o->loop,
        .connections_max = o->connections_max,
        .connections_per_wire = connections_per_wire(o),
        .connections_per_address = per_address > 0 ? per_address : at_least_one(o->connections_max / 4),
        .connections_for_unix = o->connections_max / 16,
        .greeting_ms = GREETING_MS,
        .idle_ms = IDLE_MS,
        .stall_ms = STALL_MS,
        .request_ms = REQUEST_MS,
        .budget = o->budget,
        .tell = o->tell,
        .tell_arg = o->tell_arg,
    };
    return w->streams ? LKS_OK : streams_new(&streams_wanted, &w->streams, error);
}

static lks_code need_sp(wires *w, lks_error *error)
{
    const wires_options *o = &w->options;

    lks_code code = need_streams(w, error);
    if (code != LKS_OK)
        return code;
    const sp_server_options options = {
        .streams = w->streams,
        .frames = o->frames,
        .message_bytes_max = o->message_bytes_max,
        .sink = o->sink,
        .origins = o->origins,
        .n_origins = o->n_origins,
    };
    return w->sp ? LKS_OK : sp_server_new(&options, &w->sp, error);
}

static void on_grpc_tick(uv_timer_t *timer)
{
    const wires *w = timer->data;

    grpc_server_tick(w->grpc);
}

static lks_code need_grpc(wires *w, lks_error *error)
{
    const wires_options *o = &w->options;

    lks_code code = need_streams(w, error);
    if (code != LKS_OK)
        return code;
    const grpc_server_options options = {
        .streams = w->streams,
        .message_bytes_max = o->message_bytes_max,
        .in_flight_per_peer = o->in_flight_per_peer,
        .waiting_per_peer = o->waiting_per_peer,
        .request_ms = o->request_ms,
        .stall_ms = STALL_MS,
        .life = o->life,
        .methods = o->streaming,
        .n_methods = o->n_streaming,
        .sink = o->sink,
    };
    if (w->grpc)
        return LKS_OK;
    code = grpc_server_new(&options, &w->grpc, error);
    if (code != LKS_OK)
        return code;
    uv_timer_init(o->loop, &w->grpc_tick);
    w->grpc_tick.data = w;
    uv_timer_start(&w->grpc_tick, on_grpc_tick, GRPC_TICK_MS, GRPC_TICK_MS);
    uv_unref((uv_handle_t *)&w->grpc_tick);
    return LKS_OK;
}

static lks_code need_http(wires *w, lks_error *error)
{
    const wires_options *o = &w->options;

    lks_code code = need_grpc(w, error);
    if (code != LKS_OK || w->http)
        return code;
    w->site = (http_site){
        .sink = o->sink,
        .message_bytes_max = o->message_bytes_max,
        .origins = o->origins,
        .n_origins = o->n_origins,
        .pages = o->pages,
        .n_pages = o->n_pages,
    };
    const http_server_options options = {.streams = w->streams, .grpc = w->grpc, .site = &w->site};
    return http_server_new(&options, &w->http, error);
}

static lks_code no_certificate(const char *text, lks_error *error)
{
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", text);
}

/* The path of "host:port/path", "/" by default. */
static const char *path_of(const char *address)
{
    const char *path = strchr(address, '/');

    return path ? path : "/";
}

static lks_code listen_sp(wires *w, const stream_address *at, const char *path, uint16_t *bound, lks_error *error)
{
    (void)path;
    return sp_server_listen(w->sp, at, bound, error);
}

static lks_code listen_websocket(wires *w, const stream_address *at, const char *path, uint16_t *bound,
                                 lks_error *error)
{
    return sp_server_listen_websocket(w->sp, at, path, bound, error);
}

static lks_code listen_grpc(wires *w, const stream_address *at, const char *path, uint16_t *bound, lks_error *error)
{
    (void)path;
    return grpc_server_listen(w->grpc, at, bound, error);
}

static lks_code listen_http(wires *w, const stream_address *at, const char *path, uint16_t *bound, lks_error *error)
{
    (void)path;
    return http_server_listen(w->http, at, bound, error);
}

typedef enum place { ON_TCP, ON_UNIX, ON_FD } place;

/* has_path: a path follows the address. for_pages: web pages can connect, except to unix sockets. */
typedef struct engine {
    lks_code (*need)(wires *w, lks_error *error);
    lks_code (*listen)(wires *w, const stream_address *at, const char *path, uint16_t *bound, lks_error *error);
    protocol protocol;
    bool for_pages, has_path;
} engine;

static const engine sp = {.need = need_sp, .listen = listen_sp, .protocol = SP},
                    websocket = {.need = need_sp,
                                 .listen = listen_websocket,
                                 .protocol = SP,
                                 .for_pages = true,
                                 .has_path = true},
                    grpc = {.need = need_grpc, .listen = listen_grpc, .protocol = H2},
                    http = {.need = need_http, .listen = listen_http, .protocol = WEB, .for_pages = true};

static const struct scheme {
    const char *prefix;
    const engine *engine;
    place place;
    bool encrypted;
} schemes[] = {
    {"tcp://", &sp, ON_TCP, false},           {"tls://", &sp, ON_TCP, true},
    {"unix://", &sp, ON_UNIX, false},         {"nng+tcp://", &sp, ON_TCP, false},
    {"tcp+fd://", &sp, ON_FD, false},         {"tls+fd://", &sp, ON_FD, true},
    {"ws://", &websocket, ON_TCP, false},     {"wss://", &websocket, ON_TCP, true},
    {"nng+ws://", &websocket, ON_TCP, false}, {"ws+fd://", &websocket, ON_FD, false},
    {"wss+fd://", &websocket, ON_FD, true},   {"grpc://", &grpc, ON_TCP, false},
    {"grpcs://", &grpc, ON_TCP, true},        {"grpc+unix://", &grpc, ON_UNIX, false},
    {"grpc+fd://", &grpc, ON_FD, false},      {"grpcs+fd://", &grpc, ON_FD, true},
    {"http://", &http, ON_TCP, false},        {"https://", &http, ON_TCP, true},
    {"http+unix://", &http, ON_UNIX, false},  {"http+fd://", &http, ON_FD, false},
    {"https+fd://", &http, ON_FD, true},
};
enum { N_SCHEMES = sizeof schemes / sizeof schemes[0] };

static const struct scheme *scheme_of(const char *url)
{
    for (size_t i = 0; i < N_SCHEMES; i++)
        if (url_after(url, schemes[i].prefix))
            return &schemes[i];
    return NULL;
}

/* Writes the URL with another port. */
static void with_port(const char *url, const char *authority, uint16_t port, char out[WIRES_URL_BYTES_MAX])
{
    size_t end = strcspn(authority, "/");
    size_t host = end;

    while (host > 0 && authority[host - 1] != ':')
        host--;
    snprintf(out, WIRES_URL_BYTES_MAX, "%.*s%u%s", (int)(authority - url) + (int)host, url, port, authority + end);
}

static lks_code no_scheme(lks_error *error)
{
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                         "must begin with tcp:// or another scheme: tls, unix, http, https, http+unix, grpc, grpcs, "
                         "grpc+unix, ws, wss, nng+tcp, nng+ws; for a descriptor tcp+fd, tls+fd, http+fd, https+fd, "
                         "grpc+fd, grpcs+fd, ws+fd, wss+fd");
}

/* ---- sockets that were handed in ------------------------------------------------------ */

static size_t name_len(const char *which)
{
    return strcspn(which, "/");
}

/* Only WebSocket allows a path after the name. */
static lks_code check_handed_in(const struct scheme *scheme, const char *which, bool starts, lks_error *error)
{
    int fds[HANDED_IN_MAX];
    size_t n, len = scheme->engine->has_path ? name_len(which) : strlen(which);

    return starts ? handed_in_find(which, len, fds, &n, error) : handed_in_check_text(which, len, error);
}

/* *bound: the port of the first one. */
static lks_code listen_handed_in(wires *w, const engine *by, const char *which, stream_address at, uint16_t *bound,
                                 lks_error *error)
{
    int fds[HANDED_IN_MAX];
    size_t n;
    uint16_t other;

    lks_code code = handed_in_find(which, name_len(which), fds, &n, error);
    for (size_t i = 0; code == LKS_OK && i < n; i++) {
        at.fd = fds[i];
        at.is_unix = handed_in_is_unix(at.fd);
        at.is_local = !at.is_unix && !handed_in_is_exposed(at.fd);
        code = by->listen(w, &at, path_of(which), i == 0 ? bound : &other, error);
    }
    return code;
}

/* A path that WebSocket has is no part of the address. */
static lks_code listen_on(wires *w, const engine *by, const char *address, stream_address at, uint16_t *bound,
                          lks_error *error)
{
    char host[WIRES_URL_BYTES_MAX];
    size_t len = strcspn(address, by->has_path ? "/" : "");

    if (len >= sizeof host)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "the address is too long");
    snprintf(host, sizeof host, "%.*s", (int)len, address);
    at.text = host;
    at.is_local = !at.is_unix && address_is_loopback(address);
    return by->listen(w, &at, path_of(address), bound, error);
}

static bool is_exposed(const char *which)
{
    int fds[HANDED_IN_MAX];
    size_t n;

    if (handed_in_find(which, name_len(which), fds, &n, NULL) != LKS_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (handed_in_is_exposed(fds[i]))
            return true;
    return false;
}

/* ---- URLs ------------------------------------------------------------------------------ */

lks_code wires_check(const char *url, bool starts, bool has_certificate, const char *without, lks_error *error)
{
    const struct scheme *scheme = scheme_of(url);
    char address[WIRES_URL_BYTES_MAX];

    lks_code code;

    if (!scheme)
        return no_scheme(error);
    const char *rest = url + strlen(scheme->prefix);
    snprintf(address, sizeof address, "%.*s", (int)strcspn(rest, scheme->place == ON_TCP ? "/" : ""), rest);
    if (scheme->encrypted && !has_certificate)
        code = no_certificate(without, error);
    else if (scheme->place == ON_FD)
        code = check_handed_in(scheme, rest, starts, error);
    else if (scheme->place == ON_TCP)
        code = address_check_tcp(address, starts, error);
    else
        code = address_check_unix(address, error);
    if (code == LKS_OK && scheme->engine->has_path)
        code = sp_server_check_path(path_of(rest), error);
    return code;
}

lks_code wires_listen(wires *w, const char *url, char bound_url[WIRES_URL_BYTES_MAX], uint16_t *port, lks_error *error)
{
    const struct scheme *scheme = scheme_of(url);
    uint16_t bound = 0;

    if (!scheme)
        return no_scheme(error);
    const engine *by = scheme->engine;
    const char *address = url + strlen(scheme->prefix);
    const stream_address at = {.is_unix = scheme->place == ON_UNIX,
                               .tls = scheme->encrypted ? &w->tls[by->protocol] : NULL};
    if (at.tls && !*at.tls)
        return no_certificate(w->options.no_certificate, error);
    lks_code code = by->need(w, error);
    if (code == LKS_OK)
        code = (scheme->place == ON_FD ? listen_handed_in : listen_on)(w, by, address, at, &bound, error);
    if (code != LKS_OK)
        return code;
    if (scheme->place == ON_TCP)
        with_port(url, address, bound, bound_url);
    else
        snprintf(bound_url, WIRES_URL_BYTES_MAX, "%s", url);
    if (port)
        *port = bound;
    return LKS_OK;
}

bool wires_is_exposed(const char *url)
{
    const struct scheme *scheme = scheme_of(url);

    if (scheme && scheme->place == ON_FD)
        return is_exposed(url + strlen(scheme->prefix));
    if (!scheme || scheme->place == ON_UNIX)
        return false;
    const char *address = url + strlen(scheme->prefix);
    if (!memchr(address, ':', strcspn(address, "/")))
        return false; /* it has no port, so it cannot be served */
    return !address_is_loopback(address);
}

static bool are_same(const char *url, const char *other)
{
    const struct scheme *a = scheme_of(url), *b = scheme_of(other);

    return a->engine == b->engine && a->encrypted == b->encrypted && (a->place == ON_UNIX) == (b->place == ON_UNIX);
}

bool wires_are_several(char *const *urls, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (!are_same(urls[0], urls[i]))
            return true;
    return false;
}

bool wires_is_for_pages(const char *url)
{
    const struct scheme *scheme = scheme_of(url);

    return scheme && scheme->engine->for_pages && scheme->place != ON_UNIX;
}

bool wires_is_encrypted(const char *url)
{
    const struct scheme *scheme = scheme_of(url);

    return scheme && scheme->encrypted;
}

/* ---- the end -------------------------------------------------------------------- */

bool wires_busy(const wires *w)
{
    return (w->sp && sp_server_in_flight(w->sp) > 0) || (w->grpc && grpc_server_in_flight(w->grpc) > 0) ||
           (w->http && http_server_in_flight(w->http) > 0) || (w->streams && streams_flushing(w->streams));
}

void wires_stop_receiving(wires *w)
{
    frames_drain(w->options.frames);
    w->site.draining = true;
    if (w->grpc)
        grpc_server_drain(w->grpc);
    if (w->http)
        http_server_drain(w->http);
    if (w->streams)
        streams_stop_accepting(w->streams);
}

void wires_hang_up(wires *w)
{
    if (w->streams)
        streams_hang_up(w->streams);
}

static void release(void *owner)
{
    wires *w = owner;

    sp_server_free(w->sp);
    http_server_free(w->http);
    grpc_server_free(w->grpc);
    free_tls(w->tls);
    free(w);
}

void wires_close(wires *w, void (*closed)(void *arg), void *arg)
{
    close_barrier_add(&w->closing);
    trim_close(w->trim, close_barrier_done, &w->closing);
    if (w->grpc)
        close_barrier_handle(&w->closing, &w->grpc_tick);
    if (w->streams) {
        close_barrier_add(&w->closing);
        streams_close(w->streams, close_barrier_done, &w->closing);
    }
    close_barrier_begin(&w->closing, w, release, closed, arg);
}
