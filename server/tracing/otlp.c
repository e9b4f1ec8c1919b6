/* Invariant: at most QUEUE_MAX spans wait, and the thread sends at most one batch at a time. While the thread runs,
 * only it uses libcurl. */
#include "tracing/otlp.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "log.h"
#include "memory.h"

/* The defaults of OpenTelemetry's batch processor and its exporter. */
enum { QUEUE_MAX = 2048, BATCH_MAX = 512, SEND_MS = 10000 };

/* How often a batch is sent, with a pause that doubles each time. */
enum { TRIES = 5, FIRST_PAUSE_MS = 500, PAUSE_MAX_MS = 60000, CLOSE_MS = 2000 };

typedef STAILQ_HEAD(spans, span) spans;

struct otlp {
    char *url, *resource;
    uint64_t delay_ms;
    struct curl_slist *headers;
    CURL *curl;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    spans waiting;
    size_t n_waiting;
    uint64_t sent, lost;
    uint64_t end_ns; /* when closing: when to give up; CLOCK_NEVER: not closing */
};

/* ---- one request ------------------------------------------------------------------------------- */

static size_t skip_body(char *data, size_t size, size_t n, void *arg)
{
    (void)data, (void)arg;
    return size * n;
}

static uint64_t end_of(otlp *o)
{
    pthread_mutex_lock(&o->lock);
    uint64_t end_ns = o->end_ns;
    pthread_mutex_unlock(&o->lock);
    return end_ns;
}

/* Whether libcurl must abort the request. libcurl calls it at least once a second. */
static int must_abort(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return clock_now_ns() >= end_of(arg);
}

/* Returns the HTTP status, 0 if there was no response. *retry_s: from Retry-After. */
static long post(otlp *o, const char *body, size_t len, curl_off_t *retry_s)
{
    long status = 0;

    curl_easy_setopt(o->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(o->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    *retry_s = 0;
    if (curl_easy_perform(o->curl) != CURLE_OK)
        return 0;
    curl_easy_getinfo(o->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(o->curl, CURLINFO_RETRY_AFTER, retry_s);
    return status;
}

static bool may_repeat(long status)
{
    return status == 0 || status == 429 || (status >= 502 && status <= 504);
}

static void set_up_curl(otlp *o)
{
    curl_easy_setopt(o->curl, CURLOPT_URL, o->url);
    curl_easy_setopt(o->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(o->curl, CURLOPT_HTTPHEADER, o->headers);
    curl_easy_setopt(o->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(o->curl, CURLOPT_TIMEOUT_MS, (long)SEND_MS);
    curl_easy_setopt(o->curl, CURLOPT_WRITEFUNCTION, skip_body);
    curl_easy_setopt(o->curl, CURLOPT_XFERINFOFUNCTION, must_abort);
    curl_easy_setopt(o->curl, CURLOPT_XFERINFODATA, o);
    curl_easy_setopt(o->curl, CURLOPT_NOPROGRESS, 0L);
}

/* ---- a batch ----------------------------------------------------------------------------------- */

/* Sleeps until `until_ns`, or until the exporter closes. */
static void pause_until(otlp *o, uint64_t until_ns)
{
    struct timespec until = clock_timespec(until_ns);

    pthread_mutex_lock(&o->lock);
    while (o->end_ns == CLOCK_NEVER && clock_now_ns() < until_ns)
        pthread_cond_timedwait(&o->changed, &o->lock, &until);
    pthread_mutex_unlock(&o->lock);
}

/* Sends the body until the collector accepts it, refuses it permanently, TRIES is reached or the exporter closes.
 * Returns the last status. */
static long send_body(otlp *o, const char *body, size_t len)
{
    uint64_t pause_ms = FIRST_PAUSE_MS;
    curl_off_t retry_s;
    long status = post(o, body, len, &retry_s);

    for (int try = 1; try < TRIES && may_repeat(status) && end_of(o) == CLOCK_NEVER; try++) {
        uint64_t asked_ms = (uint64_t)retry_s * 1000;
        uint64_t wait_ms = asked_ms > 0 ? asked_ms : pause_ms;
        pause_until(o, clock_in_ms(wait_ms < PAUSE_MAX_MS ? wait_ms : PAUSE_MAX_MS));
        pause_ms *= 2;
        status = post(o, body, len, &retry_s);
    }
    return status;
}

static char *write_body(const otlp *o, const spans *batch, size_t *len)
{
    uint64_t to_unix_ns = clock_unix_ns() - clock_now_ns();
    char *body = NULL;
    FILE *to = open_memstream(&body, len);
    const span *s;

    if (!to)
        abort(); /* as memory_alloc */
    fprintf(to, "{\"resourceSpans\":[{%s,\"scopeSpans\":[{\"scope\":{\"name\":\"lockstock\"},\"spans\":[", o->resource);
    STAILQ_FOREACH(s, batch, next) {
        if (s != STAILQ_FIRST(batch))
            fputc(',', to);
        span_write(to, s, to_unix_ns);
    }
    fputs("]}]}]}", to);
    if (fclose(to) != 0)
        abort();
    return body;
}

static void send_batch(otlp *o, spans *batch, size_t n)
{
    size_t len;
    char *body = write_body(o, batch, &len);
    long status = send_body(o, body, len);
    bool accepted = status >= 200 && status < 300;
    span *s;

    free(body);
    while ((s = STAILQ_FIRST(batch))) {
        STAILQ_REMOVE_HEAD(batch, next);
        span_free(s);
    }
    if (!accepted)
        log_warn("spans-lost", "calls=%zu status=%ld", n, status);
    pthread_mutex_lock(&o->lock);
    *(accepted ? &o->sent : &o->lost) += n;
    pthread_mutex_unlock(&o->lock);
}

/* ---- the thread -------------------------------------------------------------------------------- */

/* Waits for the first span, then for a full batch or delay_ms. Moves the spans to *batch and returns how many; 0: the
 * exporter is closing and no span waits. */
static size_t take_batch(otlp *o, spans *batch)
{
    size_t n = 0;

    pthread_mutex_lock(&o->lock);
    while (o->n_waiting == 0 && o->end_ns == CLOCK_NEVER)
        pthread_cond_wait(&o->changed, &o->lock);
    uint64_t until_ns = clock_in_ms(o->delay_ms);
    struct timespec until = clock_timespec(until_ns);
    while (o->n_waiting < BATCH_MAX && o->end_ns == CLOCK_NEVER && clock_now_ns() < until_ns)
        pthread_cond_timedwait(&o->changed, &o->lock, &until);
    for (; n < BATCH_MAX && o->n_waiting > 0; n++, o->n_waiting--) {
        span *s = STAILQ_FIRST(&o->waiting);
        STAILQ_REMOVE_HEAD(&o->waiting, next);
        STAILQ_INSERT_TAIL(batch, s, next);
    }
    pthread_mutex_unlock(&o->lock);
    return n;
}

static void *run(void *arg)
{
    otlp *o = arg;
    spans batch = STAILQ_HEAD_INITIALIZER(batch);
    size_t n;

    while ((n = take_batch(o, &batch)) > 0)
        send_batch(o, &batch, n);
    return NULL;
}

void otlp_add(otlp *o, span *s)
{
    pthread_mutex_lock(&o->lock);
    bool has_room = o->n_waiting < QUEUE_MAX;
    if (has_room) {
        STAILQ_INSERT_TAIL(&o->waiting, s, next);
        if (++o->n_waiting == 1 || o->n_waiting == BATCH_MAX)
            pthread_cond_signal(&o->changed);
    } else {
        o->lost++;
    }
    pthread_mutex_unlock(&o->lock);
    if (!has_room)
        span_free(s);
}

void otlp_counts(otlp *o, uint64_t *sent, uint64_t *lost)
{
    pthread_mutex_lock(&o->lock);
    *sent = o->sent;
    *lost = o->lost;
    pthread_mutex_unlock(&o->lock);
}

/* ---- beginning and end ------------------------------------------------------------------------- */

static void add_headers(otlp *o, const char *text)
{
    char *pairs = memory_copy(text ? text : "", text ? strlen(text) : 0), *rest = pairs;
    char line[4096];

    o->headers = curl_slist_append(NULL, "Content-Type: application/json");
    for (char *name, *value; (name = span_next_pair(&rest, &value));) {
        if (strpbrk(value, "\r\n"))
            continue;
        snprintf(line, sizeof line, "%s: %s", name, value);
        o->headers = curl_slist_append(o->headers, line);
    }
    free(pairs);
}

static void release(otlp *o)
{
    curl_slist_free_all(o->headers);
    curl_easy_cleanup(o->curl);
    curl_global_cleanup();
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o->url);
    free(o->resource);
    free(o);
}

/* Blocks all signals in the new thread, so that the loop's thread gets them. */
static bool start(otlp *o)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&o->thread, NULL, run, o) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

otlp *otlp_new(const char *url, const char *headers, const char *resource, uint64_t delay_ms)
{
    otlp *o = memory_alloc(sizeof *o);
    pthread_condattr_t monotonic;

    *o = (otlp){.url = memory_copy(url, strlen(url)),
                .resource = memory_copy(resource, strlen(resource)),
                .delay_ms = delay_ms,
                .end_ns = CLOCK_NEVER};
    STAILQ_INIT(&o->waiting);
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&o->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    o->curl = curl_easy_init();
    add_headers(o, headers);
    if (o->curl)
        set_up_curl(o);
    if (o->curl && start(o))
        return o;
    release(o);
    return NULL;
}

void otlp_close(otlp *o)
{
    pthread_mutex_lock(&o->lock);
    o->end_ns = clock_in_ms(CLOSE_MS);
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    release(o);
}
