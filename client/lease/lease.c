/* Invariant: what counts as lost never counts as held again; what was ended is
 * not renewed. One that is renewed counts as a call of its channel
 * from its init to its end, so that there always is room for its timer. */
#include "client/lease/lease.h"

#include <stddef.h>

#include "client/call/channel.h"
#include "client/lease/lease_time.h"
#include "base/clock.h"

static void unref(struct lease *lease)
{
    if (atomic_fetch_sub(&lease->references, 1) != 1)
        return;
    pthread_mutex_destroy(&lease->lock);
    lease->ops->free(lease);
}

/* ---- on the loop thread ------------------------------------------------------ */

static void renew_at(struct lease *lease, uint64_t at_ns)
{
    if (at_ns < lease->renew_until_ns)
        heap_set(&lease->channel->loop.timers, &lease->renewal, at_ns);
}

/* When a lease is renewed, counted from the request that set it: at a third of its length, or of what is left when
 * that is less. */
static uint64_t renewal_ns(const struct lease *lease, int64_t left_ms)
{
    return lease_renewal_ns(left_ms < lease->lease_ms ? (uint32_t)left_ms : lease->lease_ms);
}

static void renew_again(struct lease *lease, const lks_error *error)
{
    renew_at(lease, clock_in_ms(lease_pause_ms(lease->lease_ms, error)));
}

/* What is left until it counts as lost; 0: there is nothing to renew. */
static uint64_t left_ns(struct lease *lease)
{
    pthread_mutex_lock(&lease->lock);
    uint64_t now = clock_now_ns();
    uint64_t left = !lease->ended && now < lease->lost_ns ? lease->lost_ns - now : 0;
    pthread_mutex_unlock(&lease->lock);
    return left;
}

static void run_renewal(struct timer *timer)
{
    struct lease *lease = (struct lease *)((char *)timer - offsetof(struct lease, renewal));
    uint64_t left = left_ns(lease);
    lks_error error;

    if (left == 0)
        return;
    lease->sent_ns = clock_now_ns();
    atomic_fetch_add(&lease->references, 1);
    if (lease->ops->renew(lease, lease_call_ms(left), &error) == LKS_OK)
        return;
    renew_again(lease, &error);
    unref(lease);
}

void lease_answered(struct lease *lease, lease_answer answer, int64_t left_ms, const lks_error *error)
{
    pthread_mutex_lock(&lease->lock);
    uint64_t now = clock_now_ns();
    bool kept = !lease->ended && now < lease->lost_ns;
    if (kept && answer == LEASE_LOST)
        lease->lost_ns = now;
    if (kept && answer == LEASE_RENEWED)
        lease->lost_ns = lease_lost_ns(lease->sent_ns, left_ms);
    pthread_mutex_unlock(&lease->lock);
    if (kept && answer == LEASE_RENEWED)
        renew_at(lease, lease->sent_ns + renewal_ns(lease, left_ms));
    if (kept && answer == LEASE_UNKNOWN)
        renew_again(lease, error);
    unref(lease);
}

static void run_start(loop_task *task)
{
    struct lease *lease = (struct lease *)((char *)task - offsetof(struct lease, start));

    renew_at(lease, lease->first_ns);
}

static void run_stop(loop_task *task)
{
    struct lease *lease = (struct lease *)((char *)task - offsetof(struct lease, stop));

    heap_clear(&lease->channel->loop.timers, &lease->renewal);
    channel_dismiss(lease->channel);
    unref(lease);
}

/* ---- the owner's ---------------------------------------------------------------- */

lks_code lease_init(struct lease *lease, lks_channel *channel, const lease_ops *ops, uint32_t lease_ms,
                    uint32_t keep_ms, lks_error *error)
{
    lks_code code = keep_ms != 0 ? channel_admit(channel, false, error) : LKS_OK;

    if (code != LKS_OK)
        return code;
    *lease = (struct lease){
        .channel = channel,
        .ops = ops,
        .lease_ms = lease_ms,
        .keep_ms = keep_ms,
        .references = 1,
        .start = {.run = run_start},
        .stop = {.run = run_stop},
        .renewal = {.due = run_renewal},
    };
    pthread_mutex_init(&lease->lock, NULL);
    return LKS_OK;
}

void lease_begin(struct lease *lease, uint64_t sent_ns, int64_t left_ms)
{
    lease->begun = true;
    pthread_mutex_lock(&lease->lock);
    lease->lost_ns = lease_lost_ns(sent_ns, left_ms);
    pthread_mutex_unlock(&lease->lock);
    if (lease->keep_ms == 0)
        return;
    lease->renew_until_ns = lease->keep_ms == LEASE_ALWAYS ? CLOCK_NEVER : clock_in_ms(lease->keep_ms);
    lease->first_ns = sent_ns + renewal_ns(lease, left_ms);
    atomic_fetch_add(&lease->references, 1);
    loop_post(&lease->channel->loop, &lease->start);
}

bool lease_is_lost(struct lease *lease)
{
    pthread_mutex_lock(&lease->lock);
    bool lost = clock_now_ns() >= lease->lost_ns;
    pthread_mutex_unlock(&lease->lock);
    return lost;
}

void lease_end(struct lease *lease)
{
    pthread_mutex_lock(&lease->lock);
    lease->ended = true;
    pthread_mutex_unlock(&lease->lock);
    if (lease->keep_ms != 0 && lease->begun)
        loop_post(&lease->channel->loop, &lease->stop);
    else if (lease->keep_ms != 0)
        channel_dismiss(lease->channel);
    unref(lease);
}
