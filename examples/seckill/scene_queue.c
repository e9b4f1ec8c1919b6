/* Scene f: many wait for one lock, at several servers, and each gives it back as soon
 * as it has it. A waiter comes when the one before it stands in the queue, so that
 * the order of the queue is the waiters' own numbers. */
#include "lock_scenes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lease.h"

enum {
    SERVERS_MAX = 8,
    WAITERS_A_CHANNEL = 150, /* a server lets fewer than 192 of a connection's calls wait */
    LONG_MS = 600000
};

struct queue;

typedef struct waiter {
    struct queue *queue;
    size_t server;
    lks_channel *channel;
    unsigned answers;
    lks_acquire_outcome outcome;
    size_t turn; /* how many were granted before it */
    int64_t granted_ns;
    lease lease;
    bool released;
} waiter;

typedef struct queue {
    char name[48];
    size_t n_servers, n_channels, n;
    lks_channel **channels; /* channel c leads to server c % n_servers */
    waiter *waiters;
    atomic_size_t turn;
    atomic_int inside; /* who was granted it and has not begun to give it back */
    atomic_bool crowded;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t done;
    lks_error error; /* the first that a call ended with */
} queue;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- on the channels' threads --------------------------------------------------- */

static void leave(queue *q, lks_code code, const lks_error *error)
{
    pthread_mutex_lock(&q->mutex);
    if (code != LKS_OK && q->error.code == LKS_OK)
        q->error = *error;
    q->done++;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->mutex);
}

static void on_released(void *arg, lks_code code, const lks_release_response *response, const lks_error *error)
{
    waiter *w = arg;

    w->released = code == LKS_OK && response->outcome == LKS_RELEASE_OUTCOME_RELEASED;
    leave(w->queue, code, error);
}

static void on_answer(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    waiter *w = arg;
    queue *q = w->queue;
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    lks_error problem = {0};

    w->granted_ns = now_ns();
    w->answers++;
    if (code == LKS_OK)
        w->outcome = response->outcome;
    if (w->outcome != LKS_ACQUIRE_OUTCOME_ACQUIRED) {
        leave(q, code, error);
        return;
    }
    if (atomic_fetch_add(&q->inside, 1) != 0)
        atomic_store(&q->crowded, true);
    w->turn = atomic_fetch_add(&q->turn, 1);
    w->lease.fence = response->fences[0]->fence;
    request.group = q->name;
    request.token = response->token;
    atomic_fetch_sub(&q->inside, 1);
    code = lks_lock_release_start(w->channel, &request, NULL, on_released, w, NULL, &problem);
    if (code != LKS_OK)
        leave(q, code, &problem);
}

/* ---- the script ----------------------------------------------------------------- */

static lks_code start_waiter(queue *q, waiter *w, lks_error *error)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;

    target.name = q->name;
    request.n_targets = 1;
    request.targets = targets;
    request.owner = "waiter";
    request.lease_ms = LONG_MS;
    request.wait_ms = LONG_MS;
    return lks_lock_acquire_start(w->channel, &request, NULL, on_answer, w, NULL, error);
}

/* Waits until n stand in the queue; or until a call has failed. */
static lks_code await_waiters(queue *q, size_t n, lks_error *error)
{
    lease_look look = {0};
    bool gone = false;
    lks_code code;

    do {
        code = lease_inspect(q->channels[0], q->name, &look, error);
        pthread_mutex_lock(&q->mutex);
        gone = q->done > 0;
        pthread_mutex_unlock(&q->mutex);
    } while (code == LKS_OK && look.waiters < (int64_t)n && !gone);
    return code;
}

static void await_done(queue *q, size_t n)
{
    pthread_mutex_lock(&q->mutex);
    while (q->done < n)
        pthread_cond_wait(&q->changed, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
}

/* All come while somebody holds the lock; then it is given back, and goes from hand to
 * hand. *start_ns is when. */
static lks_code pass_on(queue *q, int64_t *start_ns, lks_error *error)
{
    lease first = {.fence = 0};
    lks_acquire_outcome outcome;
    size_t started = 0;
    lks_code code = lease_acquire(q->channels[0], q->name, "first", LONG_MS, 0, &first, &outcome, error);

    if (code != LKS_OK)
        return code;
    while (started < q->n && code == LKS_OK) {
        waiter *w = &q->waiters[started];
        w->queue = q;
        w->channel = q->channels[started % q->n_channels];
        w->server = started % q->n_channels % q->n_servers;
        code = start_waiter(q, w, error);
        if (code == LKS_OK)
            code = await_waiters(q, ++started, error);
    }
    *start_ns = now_ns();
    lks_code released = lease_release(q->channels[0], q->name, &first, NULL, code == LKS_OK ? error : NULL);
    code = code != LKS_OK ? code : released;
    await_done(q, started);
    if (code == LKS_OK && q->error.code != LKS_OK) {
        *error = q->error;
        code = error->code;
    }
    return code;
}

static lks_code queue_open(queue *q, const lock_setup *setup, lks_error *error)
{
    char run[17], *url[SERVERS_MAX], *rest = NULL;
    char *urls = strdup(setup->urls);
    lks_code code = lock_run_id(run, error);

    *q = (queue){.n = setup->waiters, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    snprintf(q->name, sizeof q->name, "seckill:%s:hot", run);
    for (char *next = urls ? strtok_r(urls, ",", &rest) : NULL; next && q->n_servers < SERVERS_MAX;
         next = strtok_r(NULL, ",", &rest))
        url[q->n_servers++] = next;
    q->waiters = calloc(q->n, sizeof *q->waiters);
    q->channels = calloc(q->n / WAITERS_A_CHANNEL + 1 + SERVERS_MAX, sizeof *q->channels);
    if (code == LKS_OK && (!urls || q->n_servers == 0 || !q->waiters || !q->channels))
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    while (code == LKS_OK && (q->n_channels * WAITERS_A_CHANNEL < q->n || q->n_channels % q->n_servers != 0)) {
        code = lks_channel_open(url[q->n_channels % q->n_servers], NULL, &q->channels[q->n_channels], error);
        q->n_channels += code == LKS_OK;
    }
    free(urls);
    return code;
}

static void queue_close(queue *q)
{
    for (size_t i = 0; i < q->n_channels; i++)
        lks_channel_close(q->channels[i]);
    free(q->channels);
    free(q->waiters);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
}

/* ---- what is claimed ------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* From one grant to the next: Release, hand-off, answer. */
static void print_times(FILE *table, const queue *q, int64_t start_ns, int64_t *sorted)
{
    size_t granted = 0;

    for (size_t i = 0; i < q->n; i++)
        if (q->waiters[i].answers > 0)
            sorted[granted++] = q->waiters[i].granted_ns - (i > 0 ? q->waiters[i - 1].granted_ns : start_ns);
    qsort(sorted, granted, sizeof *sorted, compare);
    fprintf(table, "  %-24s  %8s  %8s  %8s  %8s\n", "from grant to grant", "half", "90 %", "99 %", "longest");
    if (granted > 0) {
        fprintf(table, "  %-24s  %8.2f  %8.2f  %8.2f  %8.2f\n", "milliseconds", (double)sorted[granted / 2] / 1e6,
                (double)sorted[granted * 90 / 100] / 1e6, (double)sorted[granted * 99 / 100] / 1e6,
                (double)sorted[granted - 1] / 1e6);
    }
}

static void check(const queue *q, lock_claims *claims)
{
    size_t granted[SERVERS_MAX] = {0}, in_order = 0, once = 0, released = 0;

    for (size_t i = 0; i < q->n; i++) {
        const waiter *w = &q->waiters[i];
        granted[w->server] += w->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;
        once += w->answers == 1 && w->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;
        in_order += w->turn == i && (i == 0 || w->lease.fence > q->waiters[i - 1].lease.fence);
        released += w->released;
    }
    fprintf(claims->table, "scene f: %zu wait for one lock, at %zu server%s on one store\n", q->n, q->n_servers,
            q->n_servers == 1 ? "" : "s");
    fprintf(claims->table, "  %-24s  %8s  %8s  %8s\n", "server", "granted", "once", "in turn");
    for (size_t i = 0; i < q->n_servers; i++)
        fprintf(claims->table, "  %-24zu  %8zu\n", i + 1, granted[i]);
    fprintf(claims->table, "  %-24s  %8s  %8zu  %8zu\n", "all", "", once, in_order);
    lock_claim(claims, q->n_servers >= 2, "one server is not several");
    lock_claim(claims, once == q->n, "%zu of %zu were granted once", once, q->n);
    lock_claim(claims, in_order == q->n, "%zu of %zu were granted in turn", in_order, q->n);
    lock_claim(claims, released == q->n, "%zu of %zu still held it when they gave it back", released, q->n);
    lock_claim(claims, !atomic_load(&q->crowded), "two held it at the same time");
}

lks_code scene_queue(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    queue q;
    int64_t start_ns = 0;
    lease_look look = {0};
    int64_t *memory = calloc(setup->waiters, sizeof *memory);
    lks_code code = queue_open(&q, setup, error);

    if (code == LKS_OK && !memory)
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    if (code == LKS_OK && (code = pass_on(&q, &start_ns, error)) == LKS_OK &&
        (code = lease_inspect(q.channels[0], q.name, &look, error)) == LKS_OK) {
        check(&q, claims);
        print_times(claims->table, &q, start_ns, memory);
        lock_claim(claims, !look.held && look.waiters == 0, "the queue is not empty at the end");
    }
    queue_close(&q);
    free(memory);
    return code;
}
