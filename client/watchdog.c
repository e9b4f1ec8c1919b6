/* Invariant: a hold that counts as lost never counts as held again; a hold that was
 * ended is in no renewal that starts later; the time of loss always lies before the
 * end of the lease, as counted from the sending of the request that set it.
 *
 * Each hold has two timers, one for its renewal and one for its loss. A renewal goes
 * out as an asynchronous call, whose answer moves both; so the thread itself never
 * waits for a server, and a loss is told in time whatever servers do. */
#include "watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>

#include <lockstock/v1/lock.lks_client.h>

enum {
    COMPANY_MAX = 256, /* leases in one Renew, as the contract allows */
    CALL_MS_MIN = 20,
    CALL_MS_MAX = 10000,
    MARGIN_PART = 10, /* of the lease, by which it counts as lost earlier */
    MARGIN_MS_MAX = 1000,
    PAUSE_PART = 30, /* of the lease, after a renewal that failed */
    PAUSE_MS_MIN = 5,
    PAUSE_MS_MAX = 1000,
    LINGER_MS = 1000,
    ROOM_MIN = 16
};

struct watch {
    lks_channel *channel;
    size_t users;           /* locks of the channel */
    size_t expected, room;  /* holds and attempts at one; timers there is room for */
    struct timers renewals; /* of holds that are not being renewed right now */
    struct timers losses;   /* of all holds that are not lost */
    LIST_ENTRY(watch) in_watches;
};

/* One Renew under way. */
struct round {
    uint64_t sent_ns;
    size_t n;
    struct hold *holds[COMPANY_MAX];
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
} dog = {.lock = PTHREAD_MUTEX_INITIALIZER, .earlier = PTHREAD_COND_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};

static _Thread_local const struct hold *telling;

static uint64_t part_ms(uint64_t ms, unsigned part, uint64_t least, uint64_t most)
{
    uint64_t share = ms / part;

    return share < least ? least : share > most ? most : share;
}

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
    if (at_ns < dog.until_ns)
        pthread_cond_signal(&dog.earlier);
}

static void lose_at(struct hold *hold, uint64_t at_ns)
{
    hold->lost_ns = at_ns;
    timers_set(&hold->lock->watch->losses, &hold->loss, at_ns);
    wake_for(at_ns);
}

static void renew_at(struct hold *hold, uint64_t at_ns)
{
    if (at_ns >= hold->renew_until_ns) {
        hold->reason = LKS_LOSS_MAX_HOLD;
        return;
    }
    timers_set(&hold->lock->watch->renewals, &hold->renewal, at_ns);
    wake_for(at_ns);
}

static void extend(struct hold *hold, uint64_t sent_ns, int64_t left_ms)
{
    uint64_t left = left_ms > 0 ? (uint64_t)left_ms : 0;
    uint64_t margin = part_ms(left, MARGIN_PART, 1, MARGIN_MS_MAX);
    uint64_t lost_ns = sent_ns + (left > margin ? left - margin : 0) * CLOCK_NS_PER_MS;

    if (lost_ns > hold->lost_ns)
        lose_at(hold, lost_ns);
    renew_at(hold, sent_ns + lock_renewal_ns(hold->lock));
}

/* ---- a round of renewals ------------------------------------------------------ */

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

/* A round failed as a whole. Where one of its leases may be the reason, halves are
 * tried, so that in the end it falls alone. */
static void renew_again(struct hold *hold, size_t n, const lks_error *error)
{
    uint64_t pause_ms = part_ms(hold->lock->lease_ms, PAUSE_PART, PAUSE_MS_MIN, PAUSE_MS_MAX);

    if (!is_transient(error->code) && n > 1) {
        hold->company = (uint32_t)n / 2;
        pause_ms = 0;
    }
    if (pause_ms < error->retry_after_ms)
        pause_ms = error->retry_after_ms;
    renew_at(hold, clock_now_ns() + pause_ms * CLOCK_NS_PER_MS);
}

static void take_result(struct hold *hold, const struct round *round, const lks_lease_result *result,
                        const lks_error *error)
{
    uint64_t now = clock_now_ns();

    if (hold->ended || now >= hold->lost_ns)
        return;
    if (result == NULL) {
        renew_again(hold, round->n, error);
    } else if (result->outcome == LKS_RENEW_OUTCOME_RENEWED) {
        hold->company = hold->company < COMPANY_MAX / 2 ? hold->company * 2 : COMPANY_MAX;
        extend(hold, round->sent_ns, result->lease_ms);
    } else {
        hold->reason = LKS_LOSS_TAKEN;
        lose_at(hold, now);
    }
}

/* Takes the lock; frees the round. */
static void round_done(void *arg, lks_code code, const lks_renew_response *response, const lks_error *error)
{
    struct round *round = arg;
    bool answered = code == LKS_OK && response->n_results == round->n;
    lks_error none;

    if (!answered && code == LKS_OK) {
        lks_error_set(&none, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer without a result for each lease");
        error = &none;
    }
    pthread_mutex_lock(&dog.lock);
    for (size_t i = 0; i < round->n; i++) {
        take_result(round->holds[i], round, answered ? response->results[i] : NULL, error);
        unref(round->holds[i]);
    }
    pthread_mutex_unlock(&dog.lock);
    free(round);
}

/* Starts the call. Nothing of the library is called back before it returns, so the
 * lock may be held: a hold that was ended is not in it, and its channel still open. */
static lks_code round_start(struct round *round, lks_channel *channel, lks_error *error)
{
    lks_lease leases[COMPANY_MAX], *list[COMPANY_MAX];
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    uint64_t first_lost_ns = CLOCK_NEVER;

    for (size_t i = 0; i < round->n; i++) {
        const struct hold *hold = round->holds[i];

        leases[i] = (lks_lease)LKS_LEASE_INIT;
        leases[i].group = hold->lock->group;
        leases[i].token = (char *)hold->token;
        leases[i].lease_ms = hold->lock->lease_ms;
        list[i] = &leases[i];
        if (hold->lost_ns < first_lost_ns)
            first_lost_ns = hold->lost_ns;
    }
    request.n_leases = round->n;
    request.leases = list;
    round->sent_ns = clock_now_ns();
    uint64_t left_ms = first_lost_ns > round->sent_ns ? (first_lost_ns - round->sent_ns) / CLOCK_NS_PER_MS : 0;
    const lks_call_options options = {.timeout_ms = (uint32_t)part_ms(left_ms, 1, CALL_MS_MIN, CALL_MS_MAX),
                                      .insist = true};
    return lks_lock_renew_start(channel, &request, &options, round_done, round, NULL, error);
}

/* Renews the lease that is due first and, so that calls are well filled and few, those
 * that will be due within the next third of its time. */
static void renew_first(struct watch *watch, uint64_t now)
{
    struct hold *hold = of_renewal(timers_first(&watch->renewals));
    uint64_t until_ns = now + lock_renewal_ns(hold->lock);
    size_t company = hold->company;
    struct round *round = malloc(sizeof *round);
    lks_error error;

    if (round == NULL) {
        lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        renew_again(hold, 1, &error);
        return;
    }
    for (round->n = 0; round->n < company;) {
        timers_clear(&watch->renewals, &hold->renewal);
        hold->references++;
        round->holds[round->n++] = hold;
        if (timers_next_ns(&watch->renewals) > until_ns)
            break;
        hold = of_renewal(timers_first(&watch->renewals));
        if (hold->company < company)
            company = hold->company;
    }
    if (round_start(round, watch->channel, &error) == LKS_OK)
        return;
    for (size_t i = 0; i < round->n; i++) {
        renew_again(round->holds[i], round->n, &error);
        unref(round->holds[i]);
    }
    free(round);
}

/* ---- the thread --------------------------------------------------------------- */

/* Tells of the first loss. The lock is let go meanwhile. */
static void tell_first_loss(struct watch *watch)
{
    struct hold *hold = of_loss(timers_first(&watch->losses));
    const struct lock *lock = hold->lock;
    const lks_lock_loss loss = {.group = lock->group, .name = lock->name, .fence = hold->fence, .reason = hold->reason};

    timers_clear(&watch->losses, &hold->loss);
    timers_clear(&watch->renewals, &hold->renewal);
    if (lock->on_lost == NULL)
        return;
    hold->references++;
    dog.telling = telling = hold;
    pthread_mutex_unlock(&dog.lock);
    lock->on_lost(lock->arg, &loss);
    pthread_mutex_lock(&dog.lock);
    dog.telling = telling = NULL;
    unref(hold);
    pthread_cond_broadcast(&dog.told);
}

/* Tells of one loss if one is due. */
static bool tell_loss(uint64_t now)
{
    struct watch *watch;

    LIST_FOREACH(watch, &dog.watches, in_watches) {
        if (timers_next_ns(&watch->losses) <= now) {
            tell_first_loss(watch);
            return true;
        }
    }
    return false;
}

/* Does what is due; returns when there will be more. */
static uint64_t make_round(void)
{
    uint64_t next_ns = CLOCK_NEVER, now = clock_now_ns();
    struct watch *watch;

    while (tell_loss(now))
        now = clock_now_ns();
    LIST_FOREACH(watch, &dog.watches, in_watches) {
        uint64_t loss_ns = timers_next_ns(&watch->losses), renewal_ns;

        while ((renewal_ns = timers_next_ns(&watch->renewals)) <= now)
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
    pthread_mutex_lock(&dog.lock);
    for (;;) {
        dog.until_ns = make_round();
        if (dog.expected == 0 && idle)
            break;
        if (dog.expected == 0)
            dog.until_ns = clock_now_ns() + LINGER_MS * CLOCK_NS_PER_MS;
        const struct timespec until = {.tv_sec = (time_t)(dog.until_ns / 1000000000),
                                       .tv_nsec = (long)(dog.until_ns % 1000000000)};
        int waited = dog.until_ns == CLOCK_NEVER
                         ? pthread_cond_wait(&dog.earlier, &dog.lock)
                         : pthread_cond_clockwait(&dog.earlier, &dog.lock, CLOCK_MONOTONIC, &until);
        idle = waited == ETIMEDOUT && dog.expected == 0;
    }
    dog.running = false;
    pthread_mutex_unlock(&dog.lock);
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

/* ---- for held.c --------------------------------------------------------------- */

struct watch *watchdog_attach(lks_channel *channel)
{
    struct watch *watch;

    pthread_mutex_lock(&dog.lock);
    LIST_FOREACH(watch, &dog.watches, in_watches) {
        if (watch->channel == channel)
            break;
    }
    if (watch == NULL && (watch = calloc(1, sizeof *watch)) != NULL) {
        watch->channel = channel;
        LIST_INSERT_HEAD(&dog.watches, watch, in_watches);
    }
    if (watch != NULL)
        watch->users++;
    pthread_mutex_unlock(&dog.lock);
    return watch;
}

void watchdog_detach(struct watch *watch)
{
    pthread_mutex_lock(&dog.lock);
    if (--watch->users == 0) {
        LIST_REMOVE(watch, in_watches);
        timers_fini(&watch->renewals);
        timers_fini(&watch->losses);
        free(watch);
    }
    pthread_mutex_unlock(&dog.lock);
}

static bool make_room(struct watch *watch)
{
    if (watch->expected < watch->room)
        return true;
    size_t room = watch->room < ROOM_MIN ? ROOM_MIN : 2 * watch->room;
    if (!timers_reserve(&watch->renewals, room) || !timers_reserve(&watch->losses, room))
        return false;
    watch->room = room;
    return true;
}

lks_code watchdog_expect(struct watch *watch, lks_error *error)
{
    lks_code code = LKS_OK;

    pthread_mutex_lock(&dog.lock);
    if (!make_room(watch)) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    } else if (!dog.running && !(dog.running = start_thread())) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot start a thread");
    } else {
        watch->expected++;
        dog.expected++;
    }
    pthread_mutex_unlock(&dog.lock);
    return code;
}

static void unexpect(struct watch *watch)
{
    watch->expected--;
    if (--dog.expected == 0)
        wake_for(clock_now_ns() + LINGER_MS * CLOCK_NS_PER_MS);
}

void watchdog_unexpect(struct watch *watch)
{
    pthread_mutex_lock(&dog.lock);
    unexpect(watch);
    pthread_mutex_unlock(&dog.lock);
}

void watchdog_begin(struct hold *hold, uint64_t sent_ns, int64_t left_ms)
{
    pthread_mutex_lock(&dog.lock);
    hold->company = COMPANY_MAX;
    hold->reason = LKS_LOSS_UNRENEWED;
    extend(hold, sent_ns, left_ms);
    pthread_mutex_unlock(&dog.lock);
}

bool watchdog_end(struct hold *hold)
{
    struct watch *watch = hold->lock->watch;

    pthread_mutex_lock(&dog.lock);
    bool lost = clock_now_ns() >= hold->lost_ns;
    hold->ended = true;
    timers_clear(&watch->renewals, &hold->renewal);
    timers_clear(&watch->losses, &hold->loss);
    unexpect(watch);
    pthread_mutex_unlock(&dog.lock);
    return lost;
}

void watchdog_drop(struct hold *hold)
{
    pthread_mutex_lock(&dog.lock);
    unref(hold);
    pthread_mutex_unlock(&dog.lock);
}

bool watchdog_is_lost(const struct hold *hold)
{
    pthread_mutex_lock(&dog.lock);
    bool lost = clock_now_ns() >= hold->lost_ns;
    pthread_mutex_unlock(&dog.lock);
    return lost;
}

const struct hold *watchdog_telling(void)
{
    return telling;
}

void watchdog_quiesce(const struct lock *lock)
{
    pthread_mutex_lock(&dog.lock);
    while (dog.telling != NULL && dog.telling->lock == lock)
        pthread_cond_wait(&dog.told, &dog.lock);
    pthread_mutex_unlock(&dog.lock);
}
