/* PAUSED --timer--> CONNECTING --link_up--> UP
 *     ^ ^---link_down, timer---/              |
 *     +-----------------link_down-------------+
 *
 * Invariant: a slot is only SENDING or AWAITING while the state is UP, or it is `engine_owned`. A call is in
 * calls[place] of its slot exactly while call->slot is that slot. */
#include "client/wire/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/frame.h>

#include "base/address.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/container.h"
#include "client/wire/engine.h"

enum {
    PAUSE_MS_MIN = 20,
    PAUSE_MS_MAX = 1000,
    CONNECT_MS = 10000, /* libnng may have stopped trying by then */
    FRAMES_MAX = 4,     /* of each lane that coalesces */
    FRAME_CALLS_MAX = 64,
    WHY_BYTES_MAX = 160
};

typedef enum connection_state { CONNECTION_PAUSED, CONNECTION_CONNECTING, CONNECTION_UP } connection_state;

struct connection {
    struct link base;
    const struct engine *engine;
    connection_options options;
    char *url;
    connection_state state;
    char why[WHY_BYTES_MAX]; /* why it is not up */
    struct timer timer;      /* the end of PAUSED or CONNECTING */
    uint32_t failures;       /* since a call was answered */
    slot *idle;
    uint32_t in_flight[LANES], frames[LANES]; /* calls, and the messages that carry them */
    uint32_t prompt_max, waiting_max;         /* calls; waiting_max: of WAITING */
};

static struct connection *connection_of(struct link *link)
{
    return container_of(link, struct connection, base);
}

/* ---- the state ------------------------------------------------------------------------------ */

/* The only place where the state changes. The timer ends states that might not end by themselves. */
static void enter(struct connection *c, connection_state state)
{
    struct heap *timers = &c->options.loop->timers;

    c->state = state;
    if (state == CONNECTION_UP)
        heap_clear(timers, &c->timer);
    else if (state == CONNECTION_CONNECTING)
        heap_set(timers, &c->timer, clock_in_ms(CONNECT_MS));
    else
        heap_set(timers, &c->timer,
                 clock_now_ns() + backoff_ns(PAUSE_MS_MIN, PAUSE_MS_MAX, c->failures++, c->options.random));
}

static void forget(struct connection *c, slot *s)
{
    if (c->engine->forget)
        c->engine->forget(s);
}

static lks_code begin(struct connection *c, lks_error *error)
{
    enter(c, CONNECTION_CONNECTING);
    lks_code code = c->engine->connect(&c->base, error);
    if (code != LKS_OK)
        enter(c, CONNECTION_PAUSED);
    return code;
}

static void run_due(struct timer *timer)
{
    struct connection *c = container_of(timer, struct connection, timer);

    if (c->state == CONNECTION_PAUSED)
        begin(c, NULL);
    else
        link_down(&c->base, NULL);
}

void link_up(struct link *link)
{
    struct connection *c = connection_of(link);

    c->why[0] = '\0';
    enter(c, CONNECTION_UP);
}

void slot_lose(slot *s)
{
    struct connection *c = connection_of(s->link);

    if (s->state == SLOT_SENDING && c->engine->withdraw(s)) {
        slot_end(s, SLOT_UNSENT, NULL, 0);
        return;
    }
    if (s->state == SLOT_SENDING)
        slot_sent(s);
    if (s->state == SLOT_AWAITING) {
        forget(c, s);
        slot_end(s, SLOT_LOST, NULL, 0);
    }
}

void link_down(struct link *link, const char *why)
{
    struct connection *c = connection_of(link);

    if (why)
        snprintf(c->why, sizeof c->why, "%s", why);
    enter(c, CONNECTION_PAUSED);
    for (size_t i = 0; i < link->n_slots; i++)
        if (!link->slots[i]->engine_owned)
            slot_lose(link->slots[i]);
    c->engine->disconnect(link);
}

void connection_suspect(struct connection *c)
{
    if (c->state == CONNECTION_UP && c->engine->looks_dead && c->engine->looks_dead(&c->base))
        link_down(&c->base, NULL);
}

void connection_flush(struct connection *c)
{
    if (c->engine->flush)
        c->engine->flush(&c->base);
}

loop_source *connection_source(struct connection *c)
{
    return c->state == CONNECTION_UP && c->engine->source ? c->engine->source(&c->base) : NULL;
}

const char *connection_url(const struct connection *c)
{
    return c->url;
}

bool connection_is_up(const struct connection *c)
{
    return c->state == CONNECTION_UP;
}

bool connection_has_failed(const struct connection *c)
{
    return c->failures > 0;
}

bool link_is_up(const struct link *link)
{
    return connection_is_up(container_of(link, const struct connection, base));
}

const char *connection_why(const struct connection *c)
{
    return c->why;
}

/* ---- room ------------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* limit - n, or 0; the limit may have fallen below n. */
static uint32_t minus(uint32_t limit, uint32_t n)
{
    return limit > n ? limit - n : 0;
}

static bool coalesces(const struct connection *c, connection_lane lane)
{
    return !c->engine->one_call_per_message && (lane == LANE_COALESCED || lane == LANE_COALESCED_SETTLING);
}

/* With engines whose servers count waiting calls like others, waiting calls may not use a quarter of the room. */
static uint32_t waiting_share(uint32_t room)
{
    uint32_t share = room - room / 4 - (room % 4 != 0);

    return share > 0 ? share : least(room, 1);
}

uint32_t connection_load(const struct connection *c)
{
    uint32_t n = 0;

    for (int lane = 0; lane < LANES; lane++)
        n += c->in_flight[lane];
    return n;
}

uint32_t connection_room(const struct connection *c, connection_lane lane)
{
    uint32_t waiting = c->in_flight[LANE_WAITING];
    uint32_t prompt = c->in_flight[LANE_PROMPT] + c->in_flight[LANE_COALESCED] + c->in_flight[LANE_COALESCED_SETTLING];
    uint32_t waiting_max = least(c->waiting_max, waiting_share(c->base.taken_max));
    uint32_t room = lane == LANE_WAITING ? minus(waiting_max, waiting) : c->prompt_max - prompt;

    room = least(room, minus(least(c->base.slots_max, c->base.taken_max), waiting + prompt));
    if (coalesces(c, lane))
        return c->frames[lane] < FRAMES_MAX ? least(room, FRAME_CALLS_MAX) : 0;
    return least(room, 1);
}

static void set_limits(struct connection *c)
{
    uint32_t prompt = c->options.in_flight_max, waiting = c->options.waiting_max;

    c->base.taken_max = UINT32_MAX;
    if (c->engine->shares_room) {
        waiting = least(waiting, waiting_share(prompt));
        c->base.slots_max = prompt;
    } else {
        c->base.slots_max = prompt < UINT32_MAX - waiting ? prompt + waiting : UINT32_MAX;
    }
    c->prompt_max = prompt;
    c->waiting_max = waiting;
}

/* ---- messages out -------------------------------------------------------------------------------- */

/* NULL when out of memory. */
static slot *take_slot(struct connection *c)
{
    slot *s = c->idle;

    if (s) {
        c->idle = s->next_idle;
        return s;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->link = &c->base;
    s->id = (uint32_t)c->base.n_slots;
    s->room = 1;
    s->calls = &s->single;
    c->base.slots[c->base.n_slots++] = s;
    return s;
}

static void put_idle(struct connection *c, slot *s)
{
    s->state = SLOT_IDLE;
    s->engine_owned = false;
    s->next_idle = c->idle;
    c->idle = s;
}

static bool make_room(slot *s, uint32_t n)
{
    if (n <= s->room)
        return true;
    frame_call **calls = calloc(n, sizeof(frame_call *));
    if (!calls)
        return false;
    if (s->calls != &s->single)
        free(s->calls);
    s->calls = calls;
    s->room = n;
    return true;
}

/* How many calls from the head of the queue fit into one message, at least one. *bytes: their size at most. */
static uint32_t gather(const frame_queue *queue, uint32_t room, size_t *bytes)
{
    uint32_t n = 0;
    frame_call *call;

    *bytes = 0;
    TAILQ_FOREACH(call, queue, in_queue) {
        size_t more = request_bytes_max(call->request, call->tries != 0);
        if (n == room || (n > 0 && *bytes + more > REQUEST_FRAME_BYTES_MAX))
            break;
        *bytes += more;
        n++;
    }
    return n;
}

static uint32_t timeout_ms_of(const frame_call *call, uint64_t now_ns)
{
    uint64_t deadline_ns = call->request->deadline_ns;
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / CLOCK_NS_PER_MS : 0;

    return left_ms < UINT32_MAX ? (uint32_t)left_ms + 1 : UINT32_MAX;
}

/* NULL when out of memory. */
static message *write_message(slot *s, const frame_queue *queue, size_t bytes, uint64_t now_ns)
{
    message *m = malloc(sizeof *m + MESSAGE_HEADROOM + bytes);
    frame_call *call = TAILQ_FIRST(queue);

    if (!m)
        return NULL;
    uint8_t *at = message_body(m);
    for (uint32_t i = 0; i < s->n; i++, call = TAILQ_NEXT(call, in_queue)) {
        s->calls[i] = call;
        at = request_write(call->request, call->tries != 0, call->applied != LKS_APPLIED_NO,
                           timeout_ms_of(call, now_ns), at);
    }
    m->slot = NULL;
    m->len = (size_t)(at - message_body(m));
    return m;
}

/* NULL when out of memory. */
static slot *send_first(struct connection *c, const frame_queue *queue, uint32_t n, size_t bytes, uint64_t now_ns)
{
    slot *s = take_slot(c);

    if (!s)
        return NULL;
    message *m = NULL;
    if (make_room(s, n)) {
        s->n = s->left = n;
        m = write_message(s, queue, bytes, now_ns);
    }
    s->state = SLOT_SENDING;
    if (m && c->engine->send(s, m))
        return s;
    free(m);
    put_idle(c, s);
    return NULL;
}

void connection_send(struct connection *c, connection_lane lane, const frame_queue *queue)
{
    uint64_t now_ns = clock_now_ns();
    size_t bytes;
    uint32_t n = gather(queue, connection_room(c, lane), &bytes);
    slot *s = send_first(c, queue, n, bytes, now_ns);

    if (!s) {
        for (uint32_t i = 0; i < n; i++)
            TAILQ_FIRST(queue)->events->no_memory(TAILQ_FIRST(queue));
        return;
    }
    s->lane = (int)lane;
    c->in_flight[lane] += n;
    c->frames[lane]++;
    for (uint32_t i = 0; i < n; i++) {
        frame_call *call = s->calls[i];

        call->connection = c;
        call->slot = s;
        call->place = i;
        call->events->sending(call, now_ns);
    }
}

void connection_withdraw(frame_call *call)
{
    slot *s = call->slot;

    if (call->connection->engine->withdraw(s))
        slot_end(s, SLOT_UNSENT, NULL, 0);
    else
        slot_sent(s);
}

void connection_forget(frame_call *call)
{
    struct connection *c = call->connection;
    slot *s = call->slot;

    s->calls[call->place] = NULL;
    call->slot = NULL;
    s->left--;
    c->in_flight[s->lane]--;
    if (s->left > 0)
        return;
    forget(c, s);
    put_idle(c, s);
    c->frames[s->lane]--;
}

/* ---- the end of a message ----------------------------------------------------------------------------- */

/* All calls are still in the message here: a call leaves its message only once it is sent. */
void slot_sent(slot *s)
{
    uint64_t now_ns = clock_now_ns();

    s->state = SLOT_AWAITING;
    for (uint32_t i = 0; i < s->n; i++)
        s->calls[i]->events->sent(s->calls[i], now_ns);
}

/* Removes and returns the next call of a slot that has ended; NULL after the last. */
static frame_call *next_call(slot *s, uint32_t *i)
{
    while (*i < s->n) {
        frame_call *call = s->calls[(*i)++];
        if (call) {
            call->slot = NULL;
            return call;
        }
    }
    return NULL;
}

/* n results for the calls of the message; one for several calls refuses all of them. results NULL: the answer is
 * malformed. */
static void report_answer(struct connection *c, slot *s, Lockstock__Rpc__V1__Result *const *results, size_t n,
                          const char *why)
{
    frame_call *call;
    uint32_t i = 0;

    c->failures = 0;
    while ((call = next_call(s, &i)))
        if (results)
            call->events->answered(call, results[n == s->n ? i - 1 : 0], s->n > 1);
        else
            call->events->malformed(call, why);
}

static void report_reply(struct connection *c, slot *s, const void *data, size_t len)
{
    Lockstock__Rpc__V1__Reply *reply = NULL;
    lks_error error;

    lks_rpc_arena_reset(c->options.arena);
    if (lks_rpc_reply_decode(data, len, s->n, c->options.arena, &reply, &error) == LKS_OK)
        report_answer(c, s, reply->results, reply->n_results, NULL);
    else
        report_answer(c, s, NULL, 0, error.message);
}

static void vacate(struct connection *c, slot *s)
{
    c->in_flight[s->lane] -= s->left;
    c->frames[s->lane]--;
    put_idle(c, s);
}

void slot_answer(slot *s, Lockstock__Rpc__V1__Result *result, const char *why)
{
    struct connection *c = connection_of(s->link);

    vacate(c, s);
    report_answer(c, s, result ? &result : NULL, 1, why);
}

void slot_end(slot *s, slot_outcome outcome, const void *data, size_t len)
{
    struct connection *c = connection_of(s->link);
    frame_call *call;
    uint32_t i = 0;

    vacate(c, s);
    if (outcome == SLOT_REPLY) {
        report_reply(c, s, data, len);
        return;
    }
    while ((call = next_call(s, &i)))
        (outcome == SLOT_UNSENT ? call->events->unsent : call->events->lost)(call);
}

/* ---- opening and closing ------------------------------------------------------------------------------ */

static const struct scheme {
    const char *prefix, *name; /* name: the engine's name for it */
    const struct engine *engine;
    const char *form;
    bool is_encrypted;
} schemes[] = {
    {"tcp://", "tcp://", &engine_sp, "tcp://HOST:PORT", false},
    {"tls://", "tls://", &engine_sp, "tls://HOST:PORT", true},
    {"unix://", "unix://", &engine_sp, "unix:///PATH", false},
    {"grpc://", "grpc://", &engine_grpc, "grpc://HOST:PORT", false},
    {"grpcs://", "grpcs://", &engine_grpc, "grpcs://HOST:PORT", true},
    {"grpc+unix://", "grpc+unix://", &engine_grpc, "grpc+unix:///PATH", false},
    {"nng+tcp://", "tcp://", &engine_nng, "nng+tcp://HOST:PORT", false},
    {"nng+ws://", "ws://", &engine_nng, "nng+ws://HOST:PORT/PATH", false},
};

static const struct scheme *find_scheme(const char *url)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (url_after(url, schemes[i].prefix))
            return &schemes[i];
    return NULL;
}

bool connection_is_encrypted(const char *url)
{
    const struct scheme *scheme = find_scheme(url);

    return scheme && scheme->is_encrypted;
}

/* NULL with *error. */
static const struct scheme *scheme_of(const char *url, lks_error *error)
{
    const struct scheme *scheme = find_scheme(url);
    const char *end = strstr(url, "://");

    if (scheme && scheme->engine->is_address(scheme->name, url + strlen(scheme->prefix)))
        return scheme;
    if (scheme)
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: must be %s", scheme->form);
    else if (!end)
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                      "urls: has no scheme; tcp://HOST:PORT, tls://, unix://, grpc://, grpcs://, grpc+unix://, "
                      "nng+tcp:// and nng+ws:// are supported");
    else
        lks_error_set(
            error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
            "urls: unknown scheme %.*s; tcp, tls, unix, grpc, grpcs, grpc+unix, nng+tcp and nng+ws are supported",
            end - url > 32 ? 32 : (int)(end - url), url);
    return NULL;
}

/* NULL when out of memory. `scheme` must be that of the URL. */
static struct connection *connection_new(char *url, const struct scheme *scheme, const connection_options *options)
{
    struct connection *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->engine = scheme->engine;
    c->options = *options;
    c->timer.due = run_due;
    set_limits(c);
    c->base.scheme = scheme->name;
    c->base.address = url + strlen(scheme->prefix);
    c->base.message_bytes_max = options->message_bytes_max;
    c->base.keepalive_ms = options->keepalive_ms;
    c->base.keepalive_timeout_ms = options->keepalive_timeout_ms;
    c->base.loop = options->loop;
    c->base.tls = scheme->is_encrypted ? options->tls : NULL;
    c->base.server_name = options->server_name;
    c->base.first_address = options->first_address;
    c->base.slots = calloc(c->base.slots_max, sizeof(slot *));
    if (c->base.slots && c->engine->open(&c->base)) {
        c->url = url;
        return c;
    }
    free(c->base.slots);
    free(c);
    return NULL;
}

lks_code connection_open(const char *url, size_t len, const connection_options *options, struct connection **ret,
                         lks_error *error)
{
    char *copy = strndup(url, len);

    if (!copy)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    const struct scheme *scheme = scheme_of(copy, error);
    struct connection *c = scheme ? connection_new(copy, scheme, options) : NULL;
    if (!c) {
        free(copy);
        return scheme ? lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory")
                      : LKS_INVALID_ARGUMENT;
    }
    lks_code code = begin(c, error);
    if (code == LKS_OK)
        *ret = c;
    else
        connection_close(c);
    return code;
}

void connection_close(struct connection *c)
{
    if (!c)
        return;
    heap_clear(&c->options.loop->timers, &c->timer);
    c->engine->close(&c->base);
    for (size_t i = 0; i < c->base.n_slots; i++) {
        if (c->base.slots[i]->calls != &c->base.slots[i]->single)
            free(c->base.slots[i]->calls);
        free(c->base.slots[i]);
    }
    free(c->base.slots);
    free(c->url);
    free(c);
}
