/* Invariant: calls[i] is a call that is SENDING, WITHDRAWING or AWAITING in this frame, or NULL once
 * it left; a frame lives while one is left, and as long has its slot. */
#include "client/call/frame.h"

#include <stdlib.h>

#include <lockstock/rpc/frame.h>

#include "client/call/call.h"
#include "base/clock.h"

struct frame {
    endpoint_slot *slot;
    bool withdrawn;
    uint32_t n, left;
    lks_call *calls[];
};

/* ---- out ---------------------------------------------------------------------------- */

/* How many from the head of the queue fit into one message, at least one. *bytes: what they
 * take at most. */
static uint32_t gather(const call_list *queue, uint32_t room, size_t *bytes)
{
    uint32_t n = 0;
    lks_call *call;

    *bytes = 0;
    TAILQ_FOREACH(call, queue, in_line) {
        size_t more = request_bytes_max(call->request, call->tries != 0);
        if (n == room || (n > 0 && *bytes + more > REQUEST_FRAME_BYTES_MAX))
            break;
        *bytes += more;
        n++;
    }
    return n;
}

static uint32_t timeout_ms_of(const lks_call *call, uint64_t now_ns)
{
    uint64_t deadline_ns = call->request->deadline_ns;
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / CLOCK_NS_PER_MS : 0;

    return left_ms < UINT32_MAX ? (uint32_t)left_ms + 1 : UINT32_MAX;
}

/* The first n of the queue. */
static void fill(struct frame *frame, const call_list *queue, link_message *message, uint64_t now_ns)
{
    uint8_t *at = link_message_body(message);
    lks_call *call = TAILQ_FIRST(queue);

    for (uint32_t i = 0; i < frame->n; i++, call = TAILQ_NEXT(call, in_line)) {
        frame->calls[i] = call;
        at = request_write(call->request, call->tries != 0, call->applied != LKS_APPLIED_NO,
                           timeout_ms_of(call, now_ns), at);
    }
    message->len = (size_t)(at - link_message_body(message));
}

static struct frame *frame_new(uint32_t n)
{
    struct frame *frame = malloc(sizeof *frame + n * sizeof(lks_call *));

    if (frame)
        *frame = (struct frame){.n = n, .left = n};
    return frame;
}

void frame_send(lks_channel *channel, endpoint_lane lane, struct endpoint *endpoint)
{
    call_list *queue = &channel->queue[lane];
    uint64_t now_ns = clock_now_ns();
    size_t bytes;
    uint32_t n = gather(queue, endpoint_room(endpoint, lane), &bytes);
    struct frame *frame = frame_new(n);
    link_message *message = link_message_new(bytes);

    if (frame && message) {
        fill(frame, queue, message, now_ns);
        frame->slot = endpoint_send(endpoint, lane, n, message, frame);
    }
    if (!frame || !frame->slot) {
        free(message);
        free(frame);
        for (uint32_t i = 0; i < n; i++)
            call_cannot_send(TAILQ_FIRST(queue));
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        call_sending(frame->calls[i], frame, i, endpoint, now_ns);
}

void frame_withdraw(struct frame *frame)
{
    if (frame->withdrawn)
        return;
    frame->withdrawn = true;
    endpoint_withdraw(frame->slot);
}

void frame_leave(lks_call *call)
{
    struct frame *frame = call->frame;

    frame->calls[call->place] = NULL;
    call->frame = NULL;
    endpoint_forget(frame->slot);
    if (--frame->left == 0)
        free(frame);
}

/* ---- what became of it ---------------------------------------------------------------- */

/* Tells each call; those that leave then are the last of it, perhaps. */
static void on_sent(void *owner)
{
    struct frame *frame = owner;
    uint64_t now_ns = clock_now_ns();
    uint32_t n = frame->n;

    frame->left++; /* it is still looked at */
    for (uint32_t i = 0; i < n; i++)
        if (frame->calls[i])
            call_sent(frame->calls[i], now_ns);
    if (--frame->left == 0)
        free(frame);
}

/* The slot is over, and so is the frame. */
static void tell_all(struct frame *frame, void (*tell)(lks_call *call))
{
    for (uint32_t i = 0; i < frame->n; i++)
        if (frame->calls[i]) {
            frame->calls[i]->frame = NULL;
            tell(frame->calls[i]);
        }
    free(frame);
}

static void on_unsent(void *owner)
{
    tell_all(owner, call_unsent);
}

static void on_lost(void *owner)
{
    tell_all(owner, call_lost);
}

/* One result for several calls is the refusal of all of them. */
static void on_reply(void *owner, const void *data, size_t len)
{
    struct frame *frame = owner;
    Lockstock__Rpc__V1__Reply *reply = NULL;
    lks_rpc_arena *arena = NULL;
    lks_error error;

    for (uint32_t i = 0; i < frame->n; i++) {
        lks_call *call = frame->calls[i];
        if (!call)
            continue;
        if (!arena) {
            arena = call->channel->arena;
            lks_rpc_arena_reset(arena);
            if (lks_rpc_reply_decode(data, len, frame->n, arena, &reply, &error) != LKS_OK)
                reply = NULL;
        }
        call->frame = NULL;
        if (reply)
            call_answered(call, reply->results[reply->n_results == frame->n ? i : 0], frame->n > 1);
        else
            call_misread(call, error.message);
    }
    free(frame);
}

const endpoint_events frame_events = {on_sent, on_unsent, on_reply, on_lost};
