/* Invariant: a request in the ring is served by exactly one thread, or refused by
 * workers_close; the ring never overflows because nng_rep hands out no more
 * messages at a time than it holds. */
#include "workers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

typedef struct waiting {
    lks_rpc_nng_request *request;
    uint64_t received_ns;
} waiting;

struct workers {
    const serve_table *table;
    pthread_mutex_t lock;
    pthread_cond_t work; /* the ring is not empty, or closing */
    pthread_cond_t idle; /* the ring is empty */
    waiting *ring;
    uint32_t capacity;
    uint32_t first;
    uint32_t count;
    bool closing;
    pthread_t *threads;
    uint32_t n_threads;
};

/* Under lock, with something in the ring. */
static waiting take(workers *all)
{
    waiting taken = all->ring[all->first];
    all->first = (all->first + 1) % all->capacity;
    if (--all->count == 0)
        pthread_cond_broadcast(&all->idle);
    return taken;
}

/* Waits for a message; false when there is none and will be none. */
static bool next(workers *all, waiting *ret)
{
    pthread_mutex_lock(&all->lock);
    while (all->count == 0 && !all->closing)
        pthread_cond_wait(&all->work, &all->lock);
    bool found = !all->closing;
    if (found)
        *ret = take(all);
    pthread_mutex_unlock(&all->lock);
    return found;
}

static void refuse(lks_rpc_nng_request *request, lks_code code, const char *message)
{
    lks_error error;
    lks_error_set(&error, code, LKS_APPLIED_NO, "%s", message);
    lks_rpc_nng_request_refuse(request, &error);
}

static void *work(void *arg)
{
    workers *all = arg;
    lks_rpc_arena *arena = NULL;
    waiting item;
    while (next(all, &item)) {
        if (!arena)
            arena = lks_rpc_arena_new();
        if (!arena) {
            refuse(item.request, LKS_RESOURCE_EXHAUSTED, "out of memory");
            continue;
        }
        serve_message(all->table, item.request, item.received_ns, arena);
        lks_rpc_arena_reset(arena);
    }
    lks_rpc_arena_free(arena);
    return NULL;
}

lks_code workers_new(const serve_table *table, uint32_t threads, uint32_t capacity, workers **ret, lks_error *error)
{
    workers *all = malloc(sizeof *all);
    if (!all)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *all = (workers){
        .table = table,
        .capacity = capacity,
        .ring = calloc(capacity, sizeof *all->ring),
        .threads = calloc(threads, sizeof *all->threads),
    };
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->work, NULL);
    pthread_cond_init(&all->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    while (all->ring && all->threads && all->n_threads < threads) {
        if (pthread_create(&all->threads[all->n_threads], NULL, work, all) != 0)
            break;
        all->n_threads++;
    }
    if (all->n_threads < threads) {
        workers_close(all, 0);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no memory or no threads");
    }
    *ret = all;
    return lks_error_set(error, LKS_OK, LKS_APPLIED_UNSPECIFIED, "%s", "");
}

void workers_push(workers *all, lks_rpc_nng_request *request)
{
    waiting item = {.request = request, .received_ns = lks_rpc_now_ns()};
    pthread_mutex_lock(&all->lock);
    all->ring[(all->first + all->count) % all->capacity] = item;
    all->count++;
    pthread_mutex_unlock(&all->lock);
    pthread_cond_signal(&all->work);
}

static struct timespec after_ms(uint32_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return until;
}

void workers_close(workers *all, uint32_t drain_ms)
{
    if (!all)
        return;
    struct timespec until = after_ms(drain_ms);
    pthread_mutex_lock(&all->lock);
    while (all->count > 0 && pthread_cond_timedwait(&all->idle, &all->lock, &until) == 0)
        ;
    all->closing = true;
    while (all->count > 0)
        refuse(take(all).request, LKS_UNAVAILABLE, "the server is shutting down");
    pthread_cond_broadcast(&all->work);
    pthread_mutex_unlock(&all->lock);
    for (uint32_t i = 0; i < all->n_threads; i++)
        pthread_join(all->threads[i], NULL);
    pthread_cond_destroy(&all->idle);
    pthread_cond_destroy(&all->work);
    pthread_mutex_destroy(&all->lock);
    free(all->threads);
    free(all->ring);
    free(all);
}
