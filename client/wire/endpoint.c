/* Invariant: messages are only ever sent on `link`, while it is connected; a link that
 * was lost is among `lost` until its last slot is idle, then closed. */
#include "client/wire/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/backoff.h"

enum {
    PAUSE_MS_MIN = 20,
    PAUSE_MS_MAX = 1000,
    PATIENCE_MS = 10000, /* with a link that does not connect; libnng may have given up on it */
    FRAMES_MAX = 4,      /* of each lane that coalesces */
    FRAME_CALLS_MAX = 64,
    WHY_BYTES_MAX = 160
};

struct endpoint {
    endpoint_options options;
    char *url;
    link_options link_options;
    struct link *link; /* NULL during a pause */
    TAILQ_HEAD(, link) lost;
    bool connected;
    char why[WHY_BYTES_MAX]; /* it is not */
    struct timer timer;      /* the end of the pause, or of the patience */
    uint32_t failures;       /* since a call was answered */
    loop_signal changed;
    uint32_t in_flight[ENDPOINT_LANES], frames[ENDPOINT_LANES]; /* calls, and the messages that they are in */
    uint32_t prompt_max, waiting_max;                           /* calls; waiting_max: of WAITING */
};

/* ---- links come and go --------------------------------------------------------- */

static void wake_at(struct endpoint *endpoint, uint64_t at_ns)
{
    heap_set(&endpoint->options.loop->timers, &endpoint->timer, at_ns);
}

/* No message goes to the link any more; those it has end on it. */
static void lose_link(struct endpoint *endpoint)
{
    link_abandon(endpoint->link);
    TAILQ_INSERT_TAIL(&endpoint->lost, endpoint->link, in_list);
    endpoint->link = NULL;
    endpoint->connected = false;
    uint64_t pause_ns = backoff_ns(PAUSE_MS_MIN, PAUSE_MS_MAX, endpoint->failures++, endpoint->options.random);
    wake_at(endpoint, clock_now_ns() + pause_ns);
}

static void open_link(struct endpoint *endpoint)
{
    if (link_open(&endpoint->link_options, &endpoint->link, NULL) == LKS_OK)
        wake_at(endpoint, clock_in_ms(PATIENCE_MS));
    else
        wake_at(endpoint, clock_in_ms(PAUSE_MS_MAX));
}

static void run_due(struct timer *timer)
{
    struct endpoint *endpoint = (struct endpoint *)((char *)timer - offsetof(struct endpoint, timer));

    if (endpoint->link)
        lose_link(endpoint);
    else
        open_link(endpoint);
}

static void look_again(struct endpoint *endpoint)
{
    if (!endpoint->link)
        return;
    link_state state = link_state_of(endpoint->link);
    bool was_connected = endpoint->connected;
    endpoint->connected = state == LINK_UP;
    if (endpoint->connected)
        heap_clear(&endpoint->options.loop->timers, &endpoint->timer);
    else if (was_connected || state == LINK_OVER)
        lose_link(endpoint);
}

static void run_changed(loop_task *task)
{
    struct endpoint *endpoint = (struct endpoint *)((char *)task - offsetof(struct endpoint, changed.task));

    loop_lower(&endpoint->changed);
    look_again(endpoint);
}

static void on_moved(void *arg, const char *why)
{
    struct endpoint *endpoint = arg;

    snprintf(endpoint->why, sizeof endpoint->why, "%s", why ? why : "");
    look_again(endpoint);
}

static void on_outcome(void *arg, link_slot *slot, link_outcome outcome, const void *data, size_t len)
{
    struct endpoint *endpoint = arg;
    const endpoint_events *events = endpoint->options.events;
    void *owner = slot->owner;

    if (outcome != LINK_SENT) {
        endpoint->in_flight[slot->lane] -= slot->n;
        endpoint->frames[slot->lane]--;
    }
    if (outcome == LINK_LOST && slot->link == endpoint->link)
        lose_link(endpoint); /* nng may never say so itself */
    if (outcome == LINK_SENT)
        events->sent(owner);
    else if (outcome == LINK_UNSENT)
        events->unsent(owner);
    else if (outcome == LINK_LOST)
        events->lost(owner);
    if (outcome == LINK_REPLY) {
        endpoint->failures = 0;
        events->reply(owner, data, len);
    }
}

void endpoint_suspect(struct endpoint *endpoint)
{
    if (endpoint->connected && endpoint->link->options.engine->overlooks_losses && endpoint->link->awaiting == 0)
        lose_link(endpoint);
}

void endpoint_flush(struct endpoint *endpoint)
{
    if (endpoint->connected)
        link_flush(endpoint->link);
}

loop_source *endpoint_source(const struct endpoint *endpoint)
{
    return endpoint->connected ? link_source(endpoint->link) : NULL;
}

void endpoint_tidy(struct endpoint *endpoint)
{
    struct link *next;

    for (struct link *link = TAILQ_FIRST(&endpoint->lost); link; link = next) {
        next = TAILQ_NEXT(link, in_list);
        if (link->in_use == 0) {
            TAILQ_REMOVE(&endpoint->lost, link, in_list);
            link_close(link);
        }
    }
}

/* ---- messages -------------------------------------------------------------------- */

const char *endpoint_url(const struct endpoint *endpoint)
{
    return endpoint->url;
}

bool endpoint_connected(const struct endpoint *endpoint)
{
    return endpoint->connected;
}

const char *endpoint_why(const struct endpoint *endpoint)
{
    return endpoint->why;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t endpoint_room(const struct endpoint *endpoint, endpoint_lane lane)
{
    uint32_t waiting = endpoint->in_flight[ENDPOINT_WAITING], prompt = 0;

    for (int other = 0; other < ENDPOINT_LANES; other++)
        if (other != ENDPOINT_WAITING)
            prompt += endpoint->in_flight[other];
    uint32_t room = lane == ENDPOINT_WAITING ? endpoint->waiting_max - waiting : endpoint->prompt_max - prompt;
    room = least(room, endpoint->link_options.slots_max - waiting - prompt);
    if (endpoint_coalesces(lane))
        return endpoint->frames[lane] < FRAMES_MAX ? least(room, FRAME_CALLS_MAX) : 0;
    return least(room, 1);
}

/* How many calls may be on a connection. Where waiting calls count as any other, a quarter
 * of the room is kept from them. */
static void set_limits(struct endpoint *endpoint)
{
    const endpoint_options *options = &endpoint->options;
    uint32_t prompt = options->in_flight_max, waiting = options->waiting_max, share = prompt - (prompt + 3) / 4;

    if (endpoint->link_options.engine->shares_room) {
        share = share > 0 ? share : 1;
        waiting = waiting < share ? waiting : share;
        endpoint->link_options.slots_max = prompt;
    } else {
        endpoint->link_options.slots_max = prompt < UINT32_MAX - waiting ? prompt + waiting : UINT32_MAX;
    }
    endpoint->prompt_max = prompt;
    endpoint->waiting_max = waiting;
}

endpoint_slot *endpoint_send(struct endpoint *endpoint, endpoint_lane lane, uint32_t n, link_message *message,
                             void *owner)
{
    link_slot *slot = link_send(endpoint->link, message, (int)lane, n, owner);

    if (slot) {
        endpoint->in_flight[lane] += n;
        endpoint->frames[lane]++;
    }
    return slot;
}

void endpoint_withdraw(endpoint_slot *slot)
{
    link_withdraw(slot);
}

void endpoint_forget(endpoint_slot *slot)
{
    struct endpoint *endpoint = slot->link->options.arg;

    if (slot->n == 1) {
        link_forget(slot);
        return;
    }
    slot->n--;
    endpoint->in_flight[slot->lane]--;
}

/* ---- opening and closing ----------------------------------------------------------- */

static const struct scheme {
    const char *prefix, *name; /* name: what the engine calls it */
    const struct link_engine *engine;
    const char *form;
} schemes[] = {
    {"tcp://", "tcp://", &link_sp, "tcp://HOST:PORT"},
    {"tls://", "tls://", &link_sp, "tls://HOST:PORT"},
    {"unix://", "unix://", &link_sp, "unix:///PATH"},
    {"nng+tcp://", "tcp://", &link_nng, "nng+tcp://HOST:PORT"},
    {"nng+ws://", "ws://", &link_nng, "nng+ws://HOST:PORT/PATH"},
};

/* NULL with *error. */
static const struct scheme *scheme_of(const char *url, lks_error *error)
{
    const char *end = strstr(url, "://");

    for (const struct scheme *scheme = schemes; scheme < schemes + sizeof schemes / sizeof *schemes; scheme++) {
        size_t len = strlen(scheme->prefix);

        if (strncmp(url, scheme->prefix, len) != 0)
            continue;
        if (scheme->engine->is_address(scheme->name, url + len))
            return scheme;
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: must be %s", scheme->form);
        return NULL;
    }
    if (!end)
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                      "urls: has no scheme; tcp://HOST:PORT, tls://, unix://, nng+tcp:// and nng+ws:// are known");
    else
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                      "urls: unknown scheme %.*s; tcp, tls, unix, nng+tcp and nng+ws are known",
                      end - url > 32 ? 32 : (int)(end - url), url);
    return NULL;
}

lks_code endpoint_open(const char *url, size_t len, const endpoint_options *options, struct endpoint **ret,
                       lks_error *error)
{
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    const struct scheme *scheme = NULL;
    lks_error why;
    lks_code code;

    if (!endpoint)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    endpoint->options = *options;
    endpoint->timer.due = run_due;
    endpoint->changed.task.run = run_changed;
    TAILQ_INIT(&endpoint->lost);
    endpoint->url = strndup(url, len);
    if (!endpoint->url) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        goto cleanup;
    }
    scheme = scheme_of(endpoint->url, &why);
    if (!scheme) {
        code = lks_error_set(error, why.code, LKS_APPLIED_NO, "%s", why.message);
        goto cleanup;
    }
    endpoint->link_options = (link_options){
        .engine = scheme->engine,
        .scheme = scheme->name,
        .address = endpoint->url + strlen(scheme->prefix),
        .message_bytes_max = options->message_bytes_max,
        .loop = options->loop,
        .tls = options->tls,
        .server_name = options->server_name,
        .changed = &endpoint->changed,
        .moved = on_moved,
        .outcome = on_outcome,
        .arg = endpoint,
    };
    set_limits(endpoint);
    code = link_open(&endpoint->link_options, &endpoint->link, error);
    if (code != LKS_OK)
        goto cleanup;
    wake_at(endpoint, clock_in_ms(PATIENCE_MS));
    *ret = endpoint;
    return LKS_OK;
cleanup:
    endpoint_close(endpoint);
    return code;
}

void endpoint_close(struct endpoint *endpoint)
{
    struct link *link;

    if (!endpoint)
        return;
    heap_clear(&endpoint->options.loop->timers, &endpoint->timer);
    link_close(endpoint->link);
    while ((link = TAILQ_FIRST(&endpoint->lost))) {
        TAILQ_REMOVE(&endpoint->lost, link, in_list);
        link_close(link);
    }
    free(endpoint->url);
    free(endpoint);
}
