/* Invariant: what counts as lost never counts as held again; the time of loss lies
 * before the end of the lease, as counted from the sending of the request that set it;
 * what was ended is not renewed. One that is renewed counts as a call of its channel
 * from its init to its end, so that there always is room for its timer. */
#include "keeper.h"

#include <stddef.h>

#include "channel.h"
#include "clock.h"

enum {
    RENEWALS = 3, /* a lease */
    CALL_MS_MIN = 20,
    CALL_MS_MAX = 10000,
    MARGIN_PART = 10, /* of the lease, by which it counts as lost earlier */
    MARGIN_MS_MAX = 1000,
    PAUSE_PART = 30, /* of the lease, after a renewal that failed */
    PAUSE_MS_MIN = 5,
    PAUSE_MS_MAX = 1000
};

static uint64_t between(uint64_t ms, uint64_t least, uint64_t most)
{
    return ms < least ? least : ms > most ? most : ms;
}

static void unref(struct keeper *keeper)
{
    if (atomic_fetch_sub(&keeper->references, 1) != 1)
        return;
    pthread_mutex_destroy(&keeper->lock);
    keeper->ops->free(keeper);
}

static uint64_t lost_ns_of(uint64_t sent_ns, int64_t left_ms)
{
    uint64_t left = left_ms > 0 ? (uint64_t)left_ms : 0;
    uint64_t margin = between(left / MARGIN_PART, 1, MARGIN_MS_MAX);

    return sent_ns + (left > margin ? left - margin : 0) * CLOCK_NS_PER_MS;
}

static uint64_t next_ns_of(const struct keeper *keeper, uint64_t sent_ns)
{
    return sent_ns + keeper->lease_ms * CLOCK_NS_PER_MS / RENEWALS;
}

/* ---- on the driver thread ------------------------------------------------------ */

static void renew_at(struct keeper *keeper, uint64_t at_ns)
{
    if (at_ns < keeper->renew_until_ns)
        timers_set(&keeper->channel->timers, &keeper->renewal, at_ns);
}

static void renew_again(struct keeper *keeper, const lks_error *error)
{
    uint64_t pause_ms = between(keeper->lease_ms / PAUSE_PART, PAUSE_MS_MIN, PAUSE_MS_MAX);

    if (pause_ms < error->retry_after_ms)
        pause_ms = error->retry_after_ms;
    renew_at(keeper, clock_now_ns() + pause_ms * CLOCK_NS_PER_MS);
}

/* What is left until it counts as lost; 0: there is nothing to renew. */
static uint64_t left_ns(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    uint64_t now = clock_now_ns();
    uint64_t left = !keeper->ended && now < keeper->lost_ns ? keeper->lost_ns - now : 0;
    pthread_mutex_unlock(&keeper->lock);
    return left;
}

static void run_renewal(struct timer *timer)
{
    struct keeper *keeper = (struct keeper *)((char *)timer - offsetof(struct keeper, renewal));
    uint64_t left = left_ns(keeper);
    lks_error error;

    if (left == 0)
        return;
    keeper->sent_ns = clock_now_ns();
    atomic_fetch_add(&keeper->references, 1);
    uint64_t timeout_ms = between(left / CLOCK_NS_PER_MS, CALL_MS_MIN, CALL_MS_MAX);
    if (keeper->ops->renew(keeper, (uint32_t)timeout_ms, &error) == LKS_OK)
        return;
    renew_again(keeper, &error);
    unref(keeper);
}

void keeper_answered(struct keeper *keeper, keeper_answer answer, int64_t left_ms, const lks_error *error)
{
    pthread_mutex_lock(&keeper->lock);
    uint64_t now = clock_now_ns();
    bool kept = !keeper->ended && now < keeper->lost_ns;
    if (kept && answer == KEEPER_LOST)
        keeper->lost_ns = now;
    if (kept && answer == KEEPER_RENEWED)
        keeper->lost_ns = lost_ns_of(keeper->sent_ns, left_ms);
    pthread_mutex_unlock(&keeper->lock);
    if (kept && answer == KEEPER_RENEWED)
        renew_at(keeper, next_ns_of(keeper, keeper->sent_ns));
    if (kept && answer == KEEPER_UNKNOWN)
        renew_again(keeper, error);
    unref(keeper);
}

static void run_start(inbox_item *item)
{
    struct keeper *keeper = (struct keeper *)((char *)item - offsetof(struct keeper, start));

    renew_at(keeper, keeper->first_ns);
}

static void run_stop(inbox_item *item)
{
    struct keeper *keeper = (struct keeper *)((char *)item - offsetof(struct keeper, stop));

    timers_clear(&keeper->channel->timers, &keeper->renewal);
    channel_dismiss(keeper->channel);
    unref(keeper);
}

/* ---- the owner's ---------------------------------------------------------------- */

lks_code keeper_init(struct keeper *keeper, lks_channel *channel, const keeper_ops *ops, uint32_t lease_ms,
                     uint32_t keep_ms, lks_error *error)
{
    lks_code code = keep_ms != 0 ? channel_admit(channel, false, error) : LKS_OK;

    if (code != LKS_OK)
        return code;
    *keeper = (struct keeper){
        .channel = channel,
        .ops = ops,
        .lease_ms = lease_ms,
        .keep_ms = keep_ms,
        .references = 1,
        .start = {.run = run_start},
        .stop = {.run = run_stop},
        .renewal = {.due = run_renewal},
    };
    pthread_mutex_init(&keeper->lock, NULL);
    return LKS_OK;
}

void keeper_begin(struct keeper *keeper, uint64_t sent_ns, int64_t left_ms)
{
    keeper->begun = true;
    pthread_mutex_lock(&keeper->lock);
    keeper->lost_ns = lost_ns_of(sent_ns, left_ms);
    pthread_mutex_unlock(&keeper->lock);
    if (keeper->keep_ms == 0)
        return;
    keeper->renew_until_ns =
        keeper->keep_ms == KEEPER_ALWAYS ? CLOCK_NEVER : clock_now_ns() + keeper->keep_ms * CLOCK_NS_PER_MS;
    keeper->first_ns = next_ns_of(keeper, sent_ns);
    atomic_fetch_add(&keeper->references, 1);
    inbox_push(&keeper->channel->inbox, &keeper->start);
}

bool keeper_is_lost(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool lost = clock_now_ns() >= keeper->lost_ns;
    pthread_mutex_unlock(&keeper->lock);
    return lost;
}

void keeper_end(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->ended = true;
    pthread_mutex_unlock(&keeper->lock);
    if (keeper->keep_ms != 0 && keeper->begun)
        inbox_push(&keeper->channel->inbox, &keeper->stop);
    else if (keeper->keep_ms != 0)
        channel_dismiss(keeper->channel);
    unref(keeper);
}
