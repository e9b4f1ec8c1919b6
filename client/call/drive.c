/* A channel without a thread, for the event loop of the program. */
#include <limits.h>

#include "base/clock.h"
#include "client/call/channel.h"
#include "client/loop/forks.h"

int lks_channel_fd(const lks_channel *channel)
{
    return channel->options.driven ? channel->loop.epoll_fd : -1;
}

int lks_channel_timeout_ms(const lks_channel *channel)
{
    if (!channel->options.driven)
        return -1;
    uint64_t until_ns = channel->loop.sleeps_until_ns, now_ns = clock_now_ns();
    if (until_ns == CLOCK_NEVER)
        return -1;
    uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

lks_code lks_channel_step(lks_channel *channel, lks_error *error)
{
    const char *wrong = NULL;

    lks_error_clear(error);
    if (!channel->options.driven)
        wrong = "options.driven: is not set; the channel has its own thread";
    else if (channel_on_completion_thread())
        wrong = "lks_channel_step must not be called inside itself";
    else if (channel->forks != forks_so_far())
        wrong = "the channel belongs to the process before the fork";
    if (wrong)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s", wrong);
    channel_step(channel);
    return LKS_OK;
}
