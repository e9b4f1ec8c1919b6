/* Invariant: an event is noted before its call is held, delayed or answered. */
#include "lock_fake.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/v1/lock.lks_server.h>

#include "fake_host.h"

struct lock_fake {
    fake_host host;
    fake_manner manner;
    uint32_t failed;
    uint64_t fence;
    size_t calls[FAKE_METHODS];
    fake_event *events;
    size_t n_events, room;
};

/* ---- noting; under the lock ---------------------------------------------------- */

static fake_event *note(lock_fake *fake, fake_method method, const char *group, const char *token)
{
    if (fake->n_events == fake->room) {
        fake->room = fake->room == 0 ? 64 : 2 * fake->room;
        fake->events = realloc(fake->events, fake->room * sizeof *fake->events);
        assert(fake->events != NULL);
    }
    fake_event *event = &fake->events[fake->n_events++];
    *event = (fake_event){.method = method, .call = fake->calls[method], .at_ns = fake_host_now_ns()};
    snprintf(event->group, sizeof event->group, "%s", group);
    snprintf(event->token, sizeof event->token, "%s", token);
    return event;
}

/* The call was noted: holds it, and says how it ends. */
static lks_code end_call(lock_fake *fake, fake_method method, lks_error *error)
{
    fake->calls[method]++;
    pthread_cond_broadcast(&fake->host.changed);
    while (fake->manner.holds[method])
        pthread_cond_wait(&fake->host.changed, &fake->host.lock);
    lks_code code = fake->manner.fails[method];
    if (code == LKS_OK || (fake->manner.fail_times != 0 && fake->failed >= fake->manner.fail_times))
        return LKS_OK;
    fake->failed++;
    lks_error_set(error, code, fake->manner.applied != 0 ? fake->manner.applied : LKS_APPLIED_NO, "as told");
    error->retry_after_ms = fake->manner.retry_after_ms;
    return code;
}

/* ---- the service ---------------------------------------------------------------- */

static lks_code fake_acquire(void *self, lks_rpc_context *context, const lks_acquire_request *request,
                             lks_acquire_response *response, lks_error *error)
{
    lock_fake *fake = self;
    const lks_target *target = request->targets[0];
    lks_fence *fence = lks_rpc_arena_alloc(context->arena, sizeof *fence);
    lks_fence **fences = lks_rpc_arena_alloc(context->arena, sizeof *fences);

    pthread_mutex_lock(&fake->host.lock);
    fake_event *event = note(fake, FAKE_ACQUIRE, request->group, request->token);
    snprintf(event->name, sizeof event->name, "%s", target->name);
    snprintf(event->owner, sizeof event->owner, "%s", request->owner);
    event->mode = target->mode;
    event->permits = target->permits;
    event->capacity = target->capacity;
    event->lease_ms = request->lease_ms;
    event->wait_ms = request->wait_ms;
    lks_code code = end_call(fake, FAKE_ACQUIRE, error);
    struct timespec delay = {.tv_sec = fake->manner.acquire_delay_ms / 1000,
                             .tv_nsec = fake->manner.acquire_delay_ms % 1000 * 1000000};
    response->outcome = fake->manner.acquired != 0 ? fake->manner.acquired : LKS_ACQUIRE_OUTCOME_ACQUIRED;
    *fence = (lks_fence)LKS_FENCE_INIT;
    fence->fence = ++fake->fence;
    pthread_mutex_unlock(&fake->host.lock);
    nanosleep(&delay, NULL); /* what is tested: an answer that takes its time */
    fence->name = target->name;
    fences[0] = fence;
    response->n_fences = response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;
    response->fences = fences;
    response->lease_ms = request->lease_ms;
    response->token = request->token;
    response->group = request->group;
    return code;
}

/* Under the lock. */
static bool has(const lks_renew_request *request, const char *group)
{
    for (size_t i = 0; group != NULL && i < request->n_leases; i++)
        if (strcmp(request->leases[i]->group, group) == 0)
            return true;
    return false;
}

static lks_code fake_renew(void *self, lks_rpc_context *context, const lks_renew_request *request,
                           lks_renew_response *response, lks_error *error)
{
    lock_fake *fake = self;
    size_t n = request->n_leases;
    lks_lease_result *results = lks_rpc_arena_alloc(context->arena, n * sizeof *results);

    response->n_results = n;
    response->results = lks_rpc_arena_alloc(context->arena, n * sizeof *response->results);
    pthread_mutex_lock(&fake->host.lock);
    for (size_t i = 0; i < n; i++)
        note(fake, FAKE_RENEW, request->leases[i]->group, request->leases[i]->token)->lease_ms =
            request->leases[i]->lease_ms;
    lks_code code = end_call(fake, FAKE_RENEW, error);
    if (has(request, fake->manner.poison) || n > (fake->manner.leases_max != 0 ? fake->manner.leases_max : 256))
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "leases: not so");
    for (size_t i = 0; i < n; i++) {
        const lks_lease *lease = request->leases[i];
        bool lost = fake->manner.lost != NULL && strcmp(fake->manner.lost, lease->group) == 0;

        results[i] = (lks_lease_result)LKS_LEASE_RESULT_INIT;
        results[i].outcome = lost ? LKS_RENEW_OUTCOME_LOST : LKS_RENEW_OUTCOME_RENEWED;
        results[i].lease_ms = lost ? 0 : lease->lease_ms;
        results[i].group = lease->group;
        response->results[i] = &results[i];
    }
    pthread_mutex_unlock(&fake->host.lock);
    return code;
}

static lks_code fake_release(void *self, lks_rpc_context *context, const lks_release_request *request,
                             lks_release_response *response, lks_error *error)
{
    lock_fake *fake = self;

    (void)context;
    pthread_mutex_lock(&fake->host.lock);
    note(fake, FAKE_RELEASE, request->group, request->token);
    lks_code code = end_call(fake, FAKE_RELEASE, error);
    response->outcome = fake->manner.released != 0 ? fake->manner.released : LKS_RELEASE_OUTCOME_RELEASED;
    pthread_mutex_unlock(&fake->host.lock);
    return code;
}

/* What the lock library does not call. */
#define FAKE_OTHER(name)                                                                                   \
    static lks_code fake_##name(void *self, lks_rpc_context *context, const lks_##name##_request *request, \
                                lks_##name##_response *response, lks_error *error)                         \
    {                                                                                                      \
        (void)self, (void)context, (void)request, (void)response;                                          \
        return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "not faked");                       \
    }
FAKE_OTHER(inspect)
FAKE_OTHER(list)
FAKE_OTHER(force_release)
FAKE_OTHER(check_fence)
FAKE_OTHER(reset_fence)

/* ---- for tests ------------------------------------------------------------------ */

lock_fake *lock_fake_start(void)
{
    static const lks_lock_handlers handlers = LKS_LOCK_HANDLERS(fake_);
    lock_fake *fake = calloc(1, sizeof *fake);

    if (fake == NULL)
        return NULL;
    const lks_rpc_service service = lks_lock_service(&handlers, fake);
    if (!fake_host_open(&fake->host, &service, 1)) {
        lock_fake_stop(fake);
        return NULL;
    }
    return fake;
}

void lock_fake_stop(lock_fake *fake)
{
    if (fake == NULL)
        return;
    lock_fake_behave(fake, (fake_manner){0});
    fake_host_close(&fake->host);
    free(fake->events);
    free(fake);
}

const char *lock_fake_url(const lock_fake *fake)
{
    return fake->host.url;
}

void lock_fake_behave(lock_fake *fake, fake_manner manner)
{
    pthread_mutex_lock(&fake->host.lock);
    fake->manner = manner;
    fake->failed = 0;
    pthread_cond_broadcast(&fake->host.changed);
    pthread_mutex_unlock(&fake->host.lock);
}

size_t lock_fake_calls(lock_fake *fake, fake_method method)
{
    pthread_mutex_lock(&fake->host.lock);
    size_t n = fake->calls[method];
    pthread_mutex_unlock(&fake->host.lock);
    return n;
}

/* Under the lock. Its i-th event, NULL when there are fewer; *n = how many there are. */
static const fake_event *find(const lock_fake *fake, fake_method method, const char *group, size_t i, size_t *n)
{
    const fake_event *found = NULL;

    *n = 0;
    for (size_t k = 0; k < fake->n_events; k++) {
        const fake_event *event = &fake->events[k];
        if (event->method != method || (group != NULL && strcmp(event->group, group) != 0))
            continue;
        if ((*n)++ == i)
            found = event;
    }
    return found;
}

size_t lock_fake_seen(lock_fake *fake, fake_method method, const char *group)
{
    size_t n;

    pthread_mutex_lock(&fake->host.lock);
    find(fake, method, group, 0, &n);
    pthread_mutex_unlock(&fake->host.lock);
    return n;
}

bool lock_fake_await(lock_fake *fake, fake_method method, const char *group, size_t n)
{
    const struct timespec until = fake_host_deadline();
    size_t seen;
    int failed = 0;

    pthread_mutex_lock(&fake->host.lock);
    while (find(fake, method, group, 0, &seen), seen < n && failed == 0)
        failed = pthread_cond_timedwait(&fake->host.changed, &fake->host.lock, &until);
    pthread_mutex_unlock(&fake->host.lock);
    return seen >= n;
}

fake_event lock_fake_event(lock_fake *fake, fake_method method, const char *group, size_t i)
{
    size_t n;

    pthread_mutex_lock(&fake->host.lock);
    const fake_event *found = find(fake, method, group, i, &n);
    fake_event event = found != NULL ? *found : (fake_event){.method = FAKE_METHODS};
    pthread_mutex_unlock(&fake->host.lock);
    return event;
}
