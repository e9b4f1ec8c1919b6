/* Chooses the server of the next call, and reports the state of the channel. Loop thread. */
#include "client/call/channel.h"

void channel_avoid(lks_channel *channel, const struct connection *connection)
{
    if (channel->connections[channel->current] == connection)
        channel->current = (channel->current + 1) % channel->n_connections;
}

/* The lane of the oldest queued call that the connection has room for; LANES: none. */
static connection_lane next_lane(const lks_channel *channel, const struct connection *connection)
{
    connection_lane next = LANES;
    uint64_t oldest = UINT64_MAX;

    for (connection_lane lane = LANE_PROMPT; lane < LANES; lane++) {
        const frame_call *first = TAILQ_FIRST(&channel->queue[lane]);

        if (first && first->enqueued < oldest && connection_room(connection, lane) > 0) {
            oldest = first->enqueued;
            next = lane;
        }
    }
    return next;
}

/* The current connection, or the next one that is up, which becomes current when a call goes to it. A call that failed
 * there waits for another connection, which may come up meanwhile. */
static struct connection *first_up(lks_channel *channel, connection_lane *lane)
{
    for (size_t i = 0; i < channel->n_connections; i++) {
        size_t at = (channel->current + i) % channel->n_connections;

        if (!connection_is_up(channel->connections[at]))
            continue;
        *lane = next_lane(channel, channel->connections[at]);
        if (*lane == LANES)
            return NULL;
        channel->current = at;
        return channel->connections[at];
    }
    return NULL;
}

/* By policy: the next connection with room, or the connection with room that has the fewest calls. */
static struct connection *next_with_room(lks_channel *channel, connection_lane *ret)
{
    bool takes_turns = channel->options.policy == LKS_ROUND_ROBIN;
    struct connection *chosen = NULL;
    size_t chosen_at = 0;

    for (size_t i = 0; i < channel->n_connections && !(chosen && takes_turns); i++) {
        size_t at = (channel->current + i) % channel->n_connections;
        struct connection *c = channel->connections[at];
        connection_lane lane = connection_is_up(c) ? next_lane(channel, c) : LANES;

        if (lane == LANES || (chosen && connection_load(c) >= connection_load(chosen)))
            continue;
        chosen = c;
        chosen_at = at;
        *ret = lane;
    }
    if (chosen)
        channel->current = (chosen_at + 1) % channel->n_connections;
    return chosen;
}

struct connection *channel_choose(lks_channel *channel, connection_lane *lane)
{
    return channel->options.policy == LKS_PICK_FIRST ? first_up(channel, lane) : next_with_room(channel, lane);
}

/* ---- the state of the channel ------------------------------------------------------------------- */

static lks_channel_state state_now(const lks_channel *channel)
{
    lks_channel_state state = LKS_CHANNEL_UNREACHABLE;

    for (size_t i = 0; i < channel->n_connections; i++) {
        if (connection_is_up(channel->connections[i]))
            return LKS_CHANNEL_READY;
        if (!connection_has_failed(channel->connections[i]))
            state = LKS_CHANNEL_CONNECTING;
    }
    return state;
}

bool channel_connected(const lks_channel *channel)
{
    return state_now(channel) == LKS_CHANNEL_READY;
}

void channel_report_state(lks_channel *channel)
{
    lks_channel_state state = state_now(channel);

    if (state == atomic_load_explicit(&channel->state, memory_order_relaxed))
        return;
    atomic_store(&channel->state, state);
    if (channel->options.on_state)
        channel->options.on_state(channel->options.on_state_arg, state);
}

lks_channel_state lks_channel_get_state(const lks_channel *channel)
{
    return atomic_load(&channel->state);
}
