/* Invariant: a lease that counts as lost never counts as held again; no renewal that starts after lease_end contains
 * the lease.
 *
 * Each lease has a timer for its renewal and one for its loss. A renewal is an asynchronous call whose answer sets
 * both, so the keeper's thread never waits for a server and reports a loss in time even if servers do not answer. */
#include "client/lease/lease.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/thread.h"
#include "client/lease/lease_time.h"
#include "client/loop/forks.h"

/* A lease that is held for less than WATCH_AFTER_MS is not watched, which saves calls for short locks. */
enum { LINGER_MS = 1000, WATCH_AFTER_MS = 200, WATCH_AGAIN_MS = 100, WATCH_FAILED_MS = 1000 };

/* The leases of one kind on one channel. */
struct lease_set {
    lks_channel *channel;
    const lease_kind *kind;
    size_t n;                  /* leases; there is room for their timers */
    struct heap renewals;      /* leases that are HELD and must be renewed */
    struct heap losses;        /* leases that are HELD or RENEWING */
    struct lease_watch *watch; /* the call under way; NULL: none */
    uint64_t watch_ns;         /* when the next watch begins; 0: with the first lease that is held */
    LIST_ENTRY(lease_set) in_sets;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t earlier;  /* there is work before until_ns */
    pthread_cond_t reported; /* a `lost` has returned */
    LIST_HEAD(, lease_set) sets;
    uint64_t until_ns;
    bool running;
    const struct lease *reporting;
} keeper = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .earlier = PTHREAD_COND_INITIALIZER, .reported = PTHREAD_COND_INITIALIZER};

static _Thread_local struct lease *reporting;

/* Identifies the first process that kept leases: 1 + its count of forks; 0 = none yet. */
static atomic_uint process;

lks_code lease_check_process(lks_error *error)
{
    unsigned none = 0, own = forks_so_far() + 1;

    atomic_compare_exchange_strong(&process, &none, own);
    if (atomic_load(&process) == own)
        return LKS_OK;
    return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                         "leases belong to the process before the fork; the child must exec");
}

static struct lease *of_renewal(struct timer *timer)
{
    return container_of(timer, struct lease, renewal);
}

static struct lease *of_loss(struct timer *timer)
{
    return container_of(timer, struct lease, loss);
}

void lease_ref(struct lease *lease)
{
    atomic_fetch_add(&lease->references, 1);
}

void lease_drop(struct lease *lease)
{
    if (atomic_fetch_sub(&lease->references, 1) == 1)
        lease->kind->free(lease);
}

/* ---- one lease; under the lock ------------------------------------------------- */

static void wake_for(uint64_t at_ns)
{
    if (at_ns < keeper.until_ns)
        pthread_cond_signal(&keeper.earlier);
}

/* Only a lease that is HELD has a renewal timer, and only one that is HELD or RENEWING a loss timer. */
static void move(struct lease *lease, lease_state to)
{
    lease->state = to;
    if (!lease->set)
        return;
    if (to != LEASE_HELD)
        heap_clear(&lease->set->renewals, &lease->renewal);
    if (to == LEASE_LOST || to == LEASE_ENDED)
        heap_clear(&lease->set->losses, &lease->loss);
}

static void lose_at(struct lease *lease, uint64_t at_ns)
{
    lease->lost_ns = at_ns;
    if (!lease->set)
        return;
    heap_set(&lease->set->losses, &lease->loss, at_ns);
    wake_for(at_ns);
}

static uint64_t renewal_ns(const struct lease *lease, int64_t left_ms)
{
    uint64_t third_ns = lease_renewal_ns(left_ms < lease->lease_ms ? (uint32_t)left_ms : lease->lease_ms);
    uint64_t wanted_ns = lease->renew_ms * CLOCK_NS_PER_MS;

    return wanted_ns > 0 && wanted_ns < third_ns ? wanted_ns : third_ns;
}

static void hold(struct lease *lease, uint64_t renew_ns)
{
    move(lease, LEASE_HELD);
    if (renew_ns >= lease->renew_until_ns) {
        lease->reason = LKS_LOSS_MAX_HOLD;
        return;
    }
    heap_set(&lease->set->renewals, &lease->renewal, renew_ns);
    wake_for(renew_ns);
}

static void extend(struct lease *lease, uint64_t sent_ns, int64_t left_ms)
{
    lose_at(lease, lease_lost_ns(sent_ns, left_ms));
    hold(lease, sent_ns + renewal_ns(lease, left_ms));
}

/* ---- renewals ------------------------------------------------------------------ */

/* Whether the error is not about the leases themselves. */
static bool is_transient(lks_code code)
{
    return code == LKS_UNAVAILABLE || code == LKS_DEADLINE_EXCEEDED || code == LKS_RESOURCE_EXHAUSTED ||
           code == LKS_CANCELLED;
}

/* A batch failed as a whole. If one of its leases may be the reason, halves are tried, until that lease fails
 * alone. */
static void renew_again(struct lease *lease, size_t n, const lks_error *error)
{
    uint32_t pause_ms = lease_pause_ms(lease->lease_ms, error);

    if (!is_transient(error->code) && n > 1) {
        lease->batch_max = n / 2;
        pause_ms = error->retry_after_ms;
    }
    hold(lease, clock_in_ms(pause_ms));
}

static void take_answer(const struct lease_renewal *renewal, const struct lease_batch *batch, const lks_error *error)
{
    struct lease *lease = renewal->lease;
    uint64_t now = clock_now_ns();

    if (lease->state != LEASE_RENEWING || now >= lease->lost_ns)
        return;
    if (error) {
        renew_again(lease, batch->n, error);
    } else if (renewal->left_ms > 0) {
        lease->batch_max =
            lease->batch_max < lease->kind->batch_max / 2 ? lease->batch_max * 2 : lease->kind->batch_max;
        extend(lease, batch->sent_ns, renewal->left_ms);
    } else {
        lease->reason = LKS_LOSS_TAKEN;
        lose_at(lease, now);
    }
}

void lease_answered(struct lease_batch *batch, const lks_error *error)
{
    pthread_mutex_lock(&keeper.lock);
    for (size_t i = 0; i < batch->n; i++)
        take_answer(&batch->renewals[i], batch, error);
    pthread_mutex_unlock(&keeper.lock);
    for (size_t i = 0; i < batch->n; i++)
        lease_drop(batch->renewals[i].lease);
    free(batch);
}

/* Runs under the lock, which is safe because the channel does not call back before this returns. So no lease of the
 * batch has ended, and its channel is still open. */
static lks_code send_batch(const struct lease_set *set, struct lease_batch *batch, lks_error *error)
{
    uint64_t first_lost_ns = CLOCK_NEVER;

    for (size_t i = 0; i < batch->n; i++)
        if (batch->renewals[i].lease->lost_ns < first_lost_ns)
            first_lost_ns = batch->renewals[i].lease->lost_ns;
    batch->sent_ns = clock_now_ns();
    uint64_t left_ns = first_lost_ns > batch->sent_ns ? first_lost_ns - batch->sent_ns : 0;
    return set->kind->renew(set->channel, batch, lease_call_ms(left_ns), error);
}

/* Renews the lease that is due first and others that are due by until_ns, in one call. Returns how many. */
static size_t renew_first(struct lease_set *set, uint64_t until_ns)
{
    struct lease *lease = of_renewal(heap_first(&set->renewals));
    size_t batch_max = lease->batch_max;
    struct lease_batch *batch = malloc(sizeof *batch + batch_max * sizeof *batch->renewals);
    lks_error error;

    if (!batch) {
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        renew_again(lease, 1, &error);
        return 1;
    }
    for (batch->n = 0; batch->n < batch_max;) {
        move(lease, LEASE_RENEWING);
        lease_ref(lease);
        batch->renewals[batch->n++] = (struct lease_renewal){.lease = lease};
        if (heap_next_ns(&set->renewals) > until_ns)
            break;
        lease = of_renewal(heap_first(&set->renewals));
        if (lease->batch_max < batch_max)
            batch_max = lease->batch_max;
    }
    size_t n = batch->n;
    if (send_batch(set, batch, &error) == LKS_OK)
        return n;
    for (size_t i = 0; i < n; i++) {
        renew_again(batch->renewals[i].lease, n, &error);
        lease_drop(batch->renewals[i].lease);
    }
    free(batch);
    return n;
}

/* Also renews leases that are due within the next third of the first one's time, so that calls are few and large. */
static void renew_due(struct lease_set *set, uint64_t now)
{
    const struct lease *first = of_renewal(heap_first(&set->renewals));

    renew_first(set, now + renewal_ns(first, first->lease_ms));
}

/* ---- watches ------------------------------------------------------------------- */

/* Renews all leases afterwards: one of them may have been taken away before the server had the watch. */
static void begin_watch(struct lease_set *set)
{
    struct lease_watch *watch = malloc(sizeof *watch);

    if (watch)
        *watch = (struct lease_watch){.set = set};
    if (!watch || set->kind->watch(set->channel, watch, NULL) != LKS_OK) {
        free(watch);
        set->watch_ns = clock_in_ms(WATCH_FAILED_MS);
        return;
    }
    set->watch = watch;
    set->watch_ns = CLOCK_NEVER;
    for (size_t left = set->renewals.n, n; left > 0; left -= n < left ? n : left)
        n = renew_first(set, CLOCK_NEVER - 1);
}

void lease_watched(struct lease_watch *watch, const lks_error *error)
{
    struct lease_set *set;

    pthread_mutex_lock(&keeper.lock);
    lks_call_free(watch->call);
    set = watch->set;
    if (set) {
        set->watch = NULL;
        /* An older server, or a token without the right to read, always refuses. */
        set->watch_ns = !error                      ? clock_in_ms(WATCH_AGAIN_MS)
                        : is_transient(error->code) ? clock_in_ms(WATCH_FAILED_MS)
                                                    : CLOCK_NEVER;
        wake_for(set->watch_ns);
    }
    pthread_mutex_unlock(&keeper.lock);
    free(watch);
}

/* ---- the thread ---------------------------------------------------------------- */

/* The lock is released while `lost` runs. */
static void report_loss(struct lease *lease)
{
    move(lease, LEASE_LOST);
    if (!lease->kind->lost)
        return;
    lease_ref(lease);
    keeper.reporting = reporting = lease;
    pthread_mutex_unlock(&keeper.lock);
    lease->kind->lost(lease, lease->reason);
    pthread_mutex_lock(&keeper.lock);
    keeper.reporting = reporting = NULL;
    lease_drop(lease);
    pthread_cond_broadcast(&keeper.reported);
}

/* Reports one loss, if one is due. */
static bool report_due(uint64_t now)
{
    struct lease_set *set;

    LIST_FOREACH(set, &keeper.sets, in_sets) {
        if (heap_next_ns(&set->losses) <= now) {
            report_loss(of_loss(heap_first(&set->losses)));
            return true;
        }
    }
    return false;
}

/* Does what is due; returns when the next work is due. */
static uint64_t run_due(void)
{
    uint64_t next_ns = CLOCK_NEVER, now = clock_now_ns();
    struct lease_set *set;

    while (report_due(now))
        now = clock_now_ns();
    LIST_FOREACH(set, &keeper.sets, in_sets) {
        uint64_t loss_ns = heap_next_ns(&set->losses), renewal_ns;

        if (set->watch_ns > 0 && set->watch_ns <= now)
            begin_watch(set);
        while ((renewal_ns = heap_next_ns(&set->renewals)) <= now)
            renew_due(set, now);
        if (set->watch_ns > 0 && set->watch_ns < next_ns)
            next_ns = set->watch_ns;
        if (loss_ns < next_ns)
            next_ns = loss_ns;
        if (renewal_ns < next_ns)
            next_ns = renewal_ns;
    }
    return next_ns;
}

static void *keep(void *arg)
{
    bool idle = false;

    (void)arg;
    pthread_setname_np(pthread_self(), "lks-keeper");
    pthread_mutex_lock(&keeper.lock);
    for (;;) {
        keeper.until_ns = run_due();
        bool unused = LIST_EMPTY(&keeper.sets);
        if (unused && idle)
            break;
        if (unused)
            keeper.until_ns = clock_in_ms(LINGER_MS);
        const struct timespec until = clock_timespec(keeper.until_ns);
        int waited = keeper.until_ns == CLOCK_NEVER
                         ? pthread_cond_wait(&keeper.earlier, &keeper.lock)
                         : pthread_cond_clockwait(&keeper.earlier, &keeper.lock, CLOCK_MONOTONIC, &until);
        idle = waited == ETIMEDOUT && LIST_EMPTY(&keeper.sets);
    }
    keeper.running = false;
    pthread_mutex_unlock(&keeper.lock);
    return NULL;
}

/* ---- sets; under the lock ------------------------------------------------------- */

/* Takes a lease out of its set. */
static void leave_set(struct lease_set *set)
{
    if (--set->n > 0)
        return;
    LIST_REMOVE(set, in_sets);
    heap_free(&set->renewals);
    heap_free(&set->losses);
    if (set->watch) {
        set->watch->set = NULL;
        lks_call_cancel(set->watch->call);
    }
    free(set);
    if (LIST_EMPTY(&keeper.sets))
        wake_for(clock_in_ms(LINGER_MS));
}

/* False when out of memory. */
static bool join_set(struct lease *lease)
{
    struct lease_set *set;

    LIST_FOREACH(set, &keeper.sets, in_sets)
        if (set->channel == lease->channel && set->kind == lease->kind)
            break;
    if (!set && (set = calloc(1, sizeof *set))) {
        set->channel = lease->channel;
        set->kind = lease->kind;
        LIST_INSERT_HEAD(&keeper.sets, set, in_sets);
    }
    if (!set)
        return false;
    set->n++;
    lease->set = set;
    if (heap_reserve(&set->renewals, set->n) && heap_reserve(&set->losses, set->n))
        return true;
    leave_set(set);
    return false;
}

/* ---- for the owners ------------------------------------------------------------- */

lks_code lease_expect(struct lease *lease, lks_error *error)
{
    lks_code code = lease_check_process(error);

    if (code != LKS_OK)
        return code;
    atomic_store(&lease->references, 1);
    lease->set = NULL;
    lease->state = LEASE_EXPECTED;
    lease->lost_ns = 0;
    lease->renewal.place = lease->loss.place = 0;
    if (lease->keep_ms == 0)
        return LKS_OK;
    pthread_mutex_lock(&keeper.lock);
    if (!join_set(lease)) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    } else if (!keeper.running && !(keeper.running = thread_start(keep, NULL))) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot start a thread");
        leave_set(lease->set);
    }
    pthread_mutex_unlock(&keeper.lock);
    return code;
}

void lease_begin(struct lease *lease, uint64_t sent_ns, int64_t left_ms)
{
    pthread_mutex_lock(&keeper.lock);
    lease->batch_max = lease->kind->batch_max;
    lease->reason = LKS_LOSS_UNRENEWED;
    lease->renew_until_ns = lease->keep_ms == 0              ? 0
                            : lease->keep_ms == LEASE_ALWAYS ? CLOCK_NEVER
                                                             : clock_in_ms(lease->keep_ms);
    extend(lease, sent_ns, left_ms);
    if (lease->set && lease->kind->watch && lease->set->watch_ns == 0) {
        lease->set->watch_ns = clock_in_ms(WATCH_AFTER_MS);
        wake_for(lease->set->watch_ns);
    }
    pthread_mutex_unlock(&keeper.lock);
}

bool lease_end(struct lease *lease)
{
    pthread_mutex_lock(&keeper.lock);
    bool lost = clock_now_ns() >= lease->lost_ns;
    move(lease, LEASE_ENDED);
    if (lease->set)
        leave_set(lease->set);
    lease->set = NULL;
    pthread_mutex_unlock(&keeper.lock);
    return lost;
}

uint64_t lease_left_ns(const struct lease *lease)
{
    if (lease_check_process(NULL) != LKS_OK)
        return 0;
    pthread_mutex_lock(&keeper.lock);
    uint64_t now_ns =
        clock_now_ns(); /* under the lock, so that a lease that was seen as lost is not renewed afterwards */
    uint64_t left_ns = lease->lost_ns > now_ns ? lease->lost_ns - now_ns : 0;
    pthread_mutex_unlock(&keeper.lock);
    return left_ns;
}

bool lease_is_lost(const struct lease *lease)
{
    return lease_left_ns(lease) == 0;
}

struct lease *lease_reporting(void)
{
    return reporting;
}

void lease_quiesce(bool (*is_of)(const struct lease *lease, const void *arg), const void *arg)
{
    pthread_mutex_lock(&keeper.lock);
    while (keeper.reporting && is_of(keeper.reporting, arg))
        pthread_cond_wait(&keeper.reported, &keeper.lock);
    pthread_mutex_unlock(&keeper.lock);
}
