/* Invariant: a hold that counts as lost never counts as held again; a hold that was
 * ended is in no renewal that starts later.
 *
 * Each hold has two timers, one for its renewal and one for its loss. A renewal goes
 * out as an asynchronous call, whose answer moves both; so the thread itself never
 * waits for a server, and a loss is told in time whatever servers do. */
#include "client/lease/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>

#include <lockstock/v1/lock.lks_client.h>

#include "client/lease/lease_time.h"
#include "base/clock.h"

enum {
    BATCH_MAX = 256, /* leases in one Renew, as the contract allows */
    LINGER_MS = 1000
};

struct watch {
    lks_channel *channel;
    size_t users;         /* locks of the channel */
    size_t expected;      /* holds and attempts at one: there is room for their timers */
    struct heap renewals; /* of holds that are not being renewed right now */
    struct heap losses;   /* of all holds that are not lost */
    LIST_ENTRY(watch) in_watches;
};

/* One Renew under way. */
struct batch {
    uint64_t sent_ns;
    size_t n;
    struct hold *holds[BATCH_MAX];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t earlier; /* there is something to do before until_ns */
    pthread_cond_t told;    /* an on_lost has returned */
    LIST_HEAD(, watch) watches;
    size_t expected; /* of all watches */
    uint64_t until_ns;
    bool running;
    const struct hold *telling;
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER, .earlier = PTHREAD_COND_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};

static _Thread_local const struct hold *telling;

static struct hold *of_renewal(struct timer *timer)
{
    return (struct hold *)((char *)timer - offsetof(struct hold, renewal));
}

static struct hold *of_loss(struct timer *timer)
{
    return (struct hold *)((char *)timer - offsetof(struct hold, loss));
}

/* ---- times; under the lock ---------------------------------------------------- */

static void wake_for(uint64_t at_ns)
{
    if (at_ns < watchdog.until_ns)
        pthread_cond_signal(&watchdog.earlier);
}

static void lose_at(struct hold *hold, uint64_t at_ns)
{
    hold->lost_ns = at_ns;
    heap_set(&hold->lock->watch->losses, &hold->loss, at_ns);
    wake_for(at_ns);
}

static uint64_t renewal_ns(const struct hold *hold)
{
    uint64_t third_ns = lease_renewal_ns(hold->lock->lease_ms), wanted_ns = hold->lock->renew_ms * CLOCK_NS_PER_MS;

    return wanted_ns > 0 && wanted_ns < third_ns ? wanted_ns : third_ns;
}

static void renew_at(struct hold *hold, uint64_t at_ns)
{
    if (at_ns >= hold->renew_until_ns) {
        hold->reason = LKS_LOSS_MAX_HOLD;
        return;
    }
    heap_set(&hold->lock->watch->renewals, &hold->renewal, at_ns);
    wake_for(at_ns);
}

static void extend(struct hold *hold, uint64_t sent_ns, int64_t left_ms)
{
    uint64_t lost_ns = lease_lost_ns(sent_ns, left_ms);

    if (lost_ns > hold->lost_ns)
        lose_at(hold, lost_ns);
    renew_at(hold, sent_ns + renewal_ns(hold));
}

/* ---- renewals ------------------------------------------------------ */

static void unref(struct hold *hold)
{
    if (--hold->references == 0)
        free(hold);
}

/* Whether it says nothing against the leases themselves. */
static bool is_transient(lks_code code)
{
    return code == LKS_UNAVAILABLE || code == LKS_DEADLINE_EXCEEDED || code == LKS_RESOURCE_EXHAUSTED ||
           code == LKS_CANCELLED;
}

/* A batch failed as a whole. Where one of its leases may be the reason, halves are
 * tried, so that in the end it falls alone. */
static void renew_again(struct hold *hold, size_t n, const lks_error *error)
{
    uint32_t pause_ms = lease_pause_ms(hold->lock->lease_ms, error);

    if (!is_transient(error->code) && n > 1) {
        hold->batch_max = (uint32_t)n / 2;
        pause_ms = error->retry_after_ms;
    }
    renew_at(hold, clock_in_ms(pause_ms));
}

static void take_result(struct hold *hold, const struct batch *batch, const lks_lease_result *result,
                        const lks_error *error)
{
    uint64_t now = clock_now_ns();

    if (hold->ended || now >= hold->lost_ns)
        return;
    if (!result) {
        renew_again(hold, batch->n, error);
    } else if (result->outcome == LKS_RENEW_OUTCOME_RENEWED) {
        hold->batch_max = hold->batch_max < BATCH_MAX / 2 ? hold->batch_max * 2 : BATCH_MAX;
        extend(hold, batch->sent_ns, result->lease_ms);
    } else {
        hold->reason = LKS_LOSS_TAKEN;
        lose_at(hold, now);
    }
}

/* Takes the lock; frees the batch. */
static void batch_done(void *arg, lks_code code, const lks_renew_response *response, const lks_error *error)
{
    struct batch *batch = arg;
    bool answered = code == LKS_OK && response->n_results == batch->n;
    lks_error none;

    if (!answered && code == LKS_OK) {
        lks_error_set(&none, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer without a result for each lease");
        error = &none;
    }
    pthread_mutex_lock(&watchdog.lock);
    for (size_t i = 0; i < batch->n; i++) {
        take_result(batch->holds[i], batch, answered ? response->results[i] : NULL, error);
        unref(batch->holds[i]);
    }
    pthread_mutex_unlock(&watchdog.lock);
    free(batch);
}

/* Starts the call. Nothing of the library is called back before it returns, so the
 * lock may be held: a hold that was ended is not in it, and its channel still open. */
static lks_code batch_start(struct batch *batch, lks_channel *channel, lks_error *error)
{
    lks_lease leases[BATCH_MAX], *list[BATCH_MAX];
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    uint64_t first_lost_ns = CLOCK_NEVER;

    for (size_t i = 0; i < batch->n; i++) {
        const struct hold *hold = batch->holds[i];

        leases[i] = (lks_lease)LKS_LEASE_INIT;
        leases[i].group = hold->lock->group;
        leases[i].token = hold->token;
        leases[i].lease_ms = hold->lock->lease_ms;
        list[i] = &leases[i];
        if (hold->lost_ns < first_lost_ns)
            first_lost_ns = hold->lost_ns;
    }
    request.n_leases = batch->n;
    request.leases = list;
    batch->sent_ns = clock_now_ns();
    uint64_t left_ns = first_lost_ns > batch->sent_ns ? first_lost_ns - batch->sent_ns : 0;
    const lks_call_options options = {.timeout_ms = lease_call_ms(left_ns), .insist = true};
    return lks_lock_renew_start(channel, &request, &options, batch_done, batch, NULL, error);
}

/* Renews the lease that is due first and, so that calls are well filled and few, those
 * that will be due within the next third of its time. */
static void renew_first(struct watch *watch, uint64_t now)
{
    struct hold *hold = of_renewal(heap_first(&watch->renewals));
    uint64_t until_ns = now + renewal_ns(hold);
    size_t batch_max = hold->batch_max;
    struct batch *batch = malloc(sizeof *batch);
    lks_error error;

    if (!batch) {
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        renew_again(hold, 1, &error);
        return;
    }
    for (batch->n = 0; batch->n < batch_max;) {
        heap_clear(&watch->renewals, &hold->renewal);
        hold->references++;
        batch->holds[batch->n++] = hold;
        if (heap_next_ns(&watch->renewals) > until_ns)
            break;
        hold = of_renewal(heap_first(&watch->renewals));
        if (hold->batch_max < batch_max)
            batch_max = hold->batch_max;
    }
    if (batch_start(batch, watch->channel, &error) == LKS_OK)
        return;
    for (size_t i = 0; i < batch->n; i++) {
        renew_again(batch->holds[i], batch->n, &error);
        unref(batch->holds[i]);
    }
    free(batch);
}

/* ---- the thread --------------------------------------------------------------- */

/* Tells of the first loss. The lock is let go meanwhile. */
static void tell_first_loss(struct watch *watch)
{
    struct hold *hold = of_loss(heap_first(&watch->losses));
    const struct lock *lock = hold->lock;
    const lks_lock_loss loss = {.group = lock->group, .name = lock->name, .fence = hold->fence, .reason = hold->reason};

    heap_clear(&watch->losses, &hold->loss);
    heap_clear(&watch->renewals, &hold->renewal);
    if (!lock->on_lost)
        return;
    hold->references++;
    watchdog.telling = telling = hold;
    pthread_mutex_unlock(&watchdog.lock);
    lock->on_lost(lock->arg, &loss);
    pthread_mutex_lock(&watchdog.lock);
    watchdog.telling = telling = NULL;
    unref(hold);
    pthread_cond_broadcast(&watchdog.told);
}

/* Tells of one loss if one is due. */
static bool tell_loss(uint64_t now)
{
    struct watch *watch;

    LIST_FOREACH(watch, &watchdog.watches, in_watches) {
        if (heap_next_ns(&watch->losses) <= now) {
            tell_first_loss(watch);
            return true;
        }
    }
    return false;
}

/* Does what is due; returns when there will be more. */
static uint64_t run_due(void)
{
    uint64_t next_ns = CLOCK_NEVER, now = clock_now_ns();
    struct watch *watch;

    while (tell_loss(now))
        now = clock_now_ns();
    LIST_FOREACH(watch, &watchdog.watches, in_watches) {
        uint64_t loss_ns = heap_next_ns(&watch->losses), renewal_ns;

        while ((renewal_ns = heap_next_ns(&watch->renewals)) <= now)
            renew_first(watch, now);
        if (loss_ns < next_ns)
            next_ns = loss_ns;
        if (renewal_ns < next_ns)
            next_ns = renewal_ns;
    }
    return next_ns;
}

static void *keep_watch(void *arg)
{
    bool idle = false;

    (void)arg;
    pthread_setname_np(pthread_self(), "lks-watchdog");
    pthread_mutex_lock(&watchdog.lock);
    for (;;) {
        watchdog.until_ns = run_due();
        if (watchdog.expected == 0 && idle)
            break;
        if (watchdog.expected == 0)
            watchdog.until_ns = clock_in_ms(LINGER_MS);
        const struct timespec until = clock_timespec(watchdog.until_ns);
        int waited = watchdog.until_ns == CLOCK_NEVER
                         ? pthread_cond_wait(&watchdog.earlier, &watchdog.lock)
                         : pthread_cond_clockwait(&watchdog.earlier, &watchdog.lock, CLOCK_MONOTONIC, &until);
        idle = waited == ETIMEDOUT && watchdog.expected == 0;
    }
    watchdog.running = false;
    pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

static bool start_thread(void)
{
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;

    if (pthread_attr_init(&detached) != 0)
        return false;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    /* The process' signals are its own business. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&thread, &detached, keep_watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return started;
}

/* ---- for lock.c --------------------------------------------------------------- */

struct watch *watchdog_attach(lks_channel *channel)
{
    struct watch *watch;

    pthread_mutex_lock(&watchdog.lock);
    LIST_FOREACH(watch, &watchdog.watches, in_watches)
        if (watch->channel == channel)
            break;
    if (!watch && (watch = calloc(1, sizeof *watch))) {
        watch->channel = channel;
        LIST_INSERT_HEAD(&watchdog.watches, watch, in_watches);
    }
    if (watch)
        watch->users++;
    pthread_mutex_unlock(&watchdog.lock);
    return watch;
}

void watchdog_detach(struct watch *watch)
{
    pthread_mutex_lock(&watchdog.lock);
    if (--watch->users == 0) {
        LIST_REMOVE(watch, in_watches);
        heap_free(&watch->renewals);
        heap_free(&watch->losses);
        free(watch);
    }
    pthread_mutex_unlock(&watchdog.lock);
}

static bool make_room(struct watch *watch)
{
    return heap_reserve(&watch->renewals, watch->expected + 1) && heap_reserve(&watch->losses, watch->expected + 1);
}

lks_code watchdog_expect(struct watch *watch, lks_error *error)
{
    lks_code code = LKS_OK;

    pthread_mutex_lock(&watchdog.lock);
    if (!make_room(watch)) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    } else if (!watchdog.running && !(watchdog.running = start_thread())) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot start a thread");
    } else {
        watch->expected++;
        watchdog.expected++;
    }
    pthread_mutex_unlock(&watchdog.lock);
    return code;
}

static void unexpect(struct watch *watch)
{
    watch->expected--;
    if (--watchdog.expected == 0)
        wake_for(clock_in_ms(LINGER_MS));
}

void watchdog_unexpect(struct watch *watch)
{
    pthread_mutex_lock(&watchdog.lock);
    unexpect(watch);
    pthread_mutex_unlock(&watchdog.lock);
}

void watchdog_begin(struct hold *hold, uint64_t sent_ns, int64_t left_ms)
{
    pthread_mutex_lock(&watchdog.lock);
    hold->batch_max = BATCH_MAX;
    hold->reason = LKS_LOSS_UNRENEWED;
    extend(hold, sent_ns, left_ms);
    pthread_mutex_unlock(&watchdog.lock);
}

bool watchdog_end(struct hold *hold)
{
    struct watch *watch = hold->lock->watch;

    pthread_mutex_lock(&watchdog.lock);
    bool lost = clock_now_ns() >= hold->lost_ns;
    hold->ended = true;
    heap_clear(&watch->renewals, &hold->renewal);
    heap_clear(&watch->losses, &hold->loss);
    unexpect(watch);
    pthread_mutex_unlock(&watchdog.lock);
    return lost;
}

void watchdog_drop(struct hold *hold)
{
    pthread_mutex_lock(&watchdog.lock);
    unref(hold);
    pthread_mutex_unlock(&watchdog.lock);
}

uint64_t watchdog_left_ns(const struct hold *hold)
{
    pthread_mutex_lock(&watchdog.lock);
    uint64_t now_ns = clock_now_ns(); /* under the lock: nothing is renewed after a look that saw it lost */
    uint64_t left_ns = hold->lost_ns > now_ns ? hold->lost_ns - now_ns : 0;
    pthread_mutex_unlock(&watchdog.lock);
    return left_ns;
}

bool watchdog_is_lost(const struct hold *hold)
{
    return watchdog_left_ns(hold) == 0;
}

const struct hold *watchdog_telling(void)
{
    return telling;
}

void watchdog_quiesce(const struct lock *lock)
{
    pthread_mutex_lock(&watchdog.lock);
    while (watchdog.telling && watchdog.telling->lock == lock)
        pthread_cond_wait(&watchdog.told, &watchdog.lock);
    pthread_mutex_unlock(&watchdog.lock);
}
