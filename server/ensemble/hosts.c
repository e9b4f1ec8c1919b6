/* Invariant: a resolution belongs to its host until its answer was read, even after `found` was called: a late answer
 * is used by the next hosts_find. */
#include "ensemble/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/address.h"
#include "memory.h"
#include "net/close_barrier.h"
#include "net/resolve.h"

enum {
    DEFAULT_PORT = 2181,
    LOOKUP_TIMEOUT_MS = 2000, /* for names without an answer, if an address is known */
    ADDRESS_BYTES = INET6_ADDRSTRLEN + 1 + ADDRESS_PORT_BYTES,
    HOSTS_MAX = 32,
    ADDRESSES_MAX = 8, /* of one host */
};

typedef struct host {
    struct address at;
    bool is_name;
    struct resolution *resolution;
    char known[ADDRESSES_MAX * ADDRESS_BYTES]; /* its addresses, in the form that the library reads; "": none */
} host;

struct hosts {
    host *host;
    size_t n;
    bool finding;
    const char *why; /* why the last name was not found */
    hosts_found *found;
    void *arg;
    uv_async_t answered;
    uv_timer_t lookup_timer;
    close_barrier barrier;
};

/* ---- the text ------------------------------------------------------------------------ */

static lks_code parse(hosts *h, const char *text, lks_error *error)
{
    const char *rest = text;

    for (;;) {
        size_t length = strcspn(rest, ",");
        if (h->n == HOSTS_MAX || address_parse(rest, length, DEFAULT_PORT, &h->host[h->n].at))
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                 "'%.*s' is not host:port, or there are more than %d hosts", (int)length, rest,
                                 HOSTS_MAX);
        h->n++;
        if (rest[length] == '\0')
            return LKS_OK;
        rest += length + 1;
    }
}

lks_code hosts_check(const char *text, lks_error *error)
{
    host room[HOSTS_MAX];
    hosts h = {.host = room};

    return parse(&h, text, error);
}

bool hosts_have_names(const hosts *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->host[i].is_name)
            return true;
    return false;
}

/* ---- the addresses ------------------------------------------------------------------- */

static void store_addresses(host *at, const struct addrinfo *all)
{
    char address[INET6_ADDRSTRLEN];
    size_t used = 0;

    at->known[0] = '\0';
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        int failed = a->ai_family == AF_INET6
                         ? uv_ip6_name((const struct sockaddr_in6 *)(const void *)a->ai_addr, address, sizeof address)
                         : uv_ip4_name((const struct sockaddr_in *)(const void *)a->ai_addr, address, sizeof address);
        if (failed || used + ADDRESS_BYTES > sizeof at->known)
            continue;
        used += (size_t)snprintf(at->known + used, sizeof at->known - used, "%s%s:%u", used > 0 ? "," : "", address,
                                 at->at.port);
    }
}

static void take_answers(hosts *h)
{
    for (size_t i = 0; i < h->n; i++) {
        host *at = &h->host[i];
        const char *why;
        if (!at->resolution || !resolve_is_over(at->resolution))
            continue;
        struct addrinfo *all = resolve_end(at->resolution, &why);
        at->resolution = NULL;
        if (!all) {
            h->why = why; /* keeps the known addresses */
            continue;
        }
        store_addresses(at, all);
        freeaddrinfo(all);
    }
}

static void report(hosts *h)
{
    char *all = memory_alloc(h->n * sizeof h->host[0].known);
    size_t used = 0;

    h->finding = false;
    uv_timer_stop(&h->lookup_timer);
    for (size_t i = 0; i < h->n; i++)
        if (h->host[i].known[0] != '\0')
            used += (size_t)sprintf(all + used, "%s%s", used > 0 ? "," : "", h->host[i].known);
    h->found(h->arg, used > 0 ? all : NULL, h->why ? h->why : "no answer");
    free(all);
}

static void on_answered(uv_async_t *async)
{
    hosts *h = async->data;
    bool all = true;

    take_answers(h);
    for (size_t i = 0; i < h->n; i++)
        all = all && !h->host[i].resolution;
    if (h->finding && all)
        report(h);
}

static void on_lookup_timeout(uv_timer_t *timer)
{
    hosts *h = timer->data;

    take_answers(h);
    for (size_t i = 0; i < h->n; i++)
        if (h->host[i].known[0] != '\0') {
            report(h);
            return;
        }
}

/* Called on any thread. */
static void wake_loop(void *arg)
{
    uv_async_send(&((hosts *)arg)->answered);
}

void hosts_find(hosts *h)
{
    if (h->finding)
        return;
    h->finding = true;
    h->why = NULL;
    for (size_t i = 0; i < h->n; i++) {
        host *at = &h->host[i];
        if (at->is_name && !at->resolution)
            at->resolution = resolve_start(at->at.host, at->at.port, wake_loop, h);
    }
    uv_timer_start(&h->lookup_timer, on_lookup_timeout, LOOKUP_TIMEOUT_MS, LOOKUP_TIMEOUT_MS);
    uv_async_send(&h->answered);
}

/* ---- life ---------------------------------------------------------------------------- */

static void release(void *owner)
{
    hosts *h = owner;

    free(h->host);
    free(h);
}

hosts *hosts_open(uv_loop_t *loop, const char *text, hosts_found *found, void *arg)
{
    hosts *h = memory_alloc(sizeof *h);

    *h = (hosts){.host = memory_alloc(HOSTS_MAX * sizeof *h->host), .found = found, .arg = arg};
    parse(h, text, NULL);
    for (size_t i = 0; i < h->n; i++) {
        struct addrinfo *all = resolve_numeric(h->host[i].at.host, h->host[i].at.port);
        h->host[i].is_name = !all;
        if (!all)
            continue;
        store_addresses(&h->host[i], all);
        freeaddrinfo(all);
    }
    uv_async_init(loop, &h->answered, on_answered);
    uv_timer_init(loop, &h->lookup_timer);
    h->answered.data = h->lookup_timer.data = h;
    return h;
}

void hosts_close(hosts *h, void (*closed)(void *arg), void *arg)
{
    for (size_t i = 0; i < h->n; i++)
        resolve_cancel(h->host[i].resolution);
    close_barrier_handle(&h->barrier, &h->answered);
    close_barrier_handle(&h->barrier, &h->lookup_timer);
    close_barrier_begin(&h->barrier, h, release, closed, arg);
}
