/* Invariant: every command ends exactly once, in the order sent.
 *
 *            +------------------------- pause over ------------------------+
 *            v                                                             |
 *   RESOLVING --address--> CONNECTING --> GREETING --greeted--> READY --> PAUSING
 *        \______________________\____________\___ lost, late, dropped ___/
 *
 * and from each state to CLOSED. One timer: it bounds RESOLVING, CONNECTING and
 * GREETING, ticks in READY, and ends PAUSING. */
#include "store/connection.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "net/close_barrier.h"
#include "net/resolve.h"
#include "store/adapter.h"
#include "store/errors.h"
#include "store/secrets.h"

enum { PAUSE_MIN_MS = 20, PAUSE_MAX_MS = 1000, SILENT_TICKS_MAX = 4, ADDRESS_BYTES = 64, REASON_BYTES = 160 };

typedef enum state { RESOLVING, CONNECTING, GREETING, READY, PAUSING, CLOSED } state;

typedef struct expected {
    connection_reply *on_reply;
    void *arg;
    uint64_t start; /* bytes appended before it */
} expected;

struct connection {
    connection_options options;
    state state;
    adapter *adapter; /* NULL unless CONNECTING, GREETING, READY */
    uv_timer_t timer;
    uv_async_t resolved;
    struct resolution *resolution; /* of options.host, from RESOLVING until its answer is used; NULL: none */
    bool has_address;              /* with waits_for_address: the address is known since the last loss */
    bool due;                      /* the pause is over, but the address is not known */
    uint32_t failures;             /* in a row */
    uint64_t random;
    char address[ADDRESS_BYTES];
    unsigned next_address; /* the index for the next attempt, of a name with several addresses */

    expected *queue; /* a ring */
    size_t first, n, room;
    uint64_t appended; /* bytes, on this connection */
    bool was_sent;     /* for the command that is being ended */
    uint64_t replies;
    unsigned silent_ticks; /* since the last reply, or since the first command that waits for a reply */
    bool pinged;           /* on a connection with messages: PING was sent, and no reply has come since */
    kept_fault retiring;   /* why the connection will be dropped after the replies; none: it is not retiring */

    close_barrier barrier;
};

static void pause_then_connect(connection *c);

/* ---- what is expected ---------------------------------------------------------- */

static void expect(connection *c, const expected *e)
{
    if (c->n == c->room) {
        size_t room = c->room ? c->room * 2 : 64;
        expected *grown = memory_alloc(room * sizeof *grown);
        for (size_t i = 0; i < c->n; i++)
            grown[i] = c->queue[(c->first + i) % c->room];
        free(c->queue);
        c->queue = grown;
        c->first = 0;
        c->room = room;
    }
    if (c->n == 0)
        c->silent_ticks = 0;
    c->queue[(c->first + c->n++) % c->room] = *e;
}

static expected next_expected(connection *c)
{
    expected e = c->queue[c->first];

    c->first = (c->first + 1) % c->room;
    c->n--;
    return e;
}

/* Closes the socket and ends the commands on it. */
static void disconnect(connection *c)
{
    uint64_t sent = c->adapter ? c->appended - adapter_unsent(c->adapter) : 0;
    adapter *gone = c->adapter;

    c->adapter = NULL;
    adapter_close(gone);
    uv_timer_stop(&c->timer);
    for (size_t n = c->n; n > 0; n--) {
        expected e = next_expected(c);
        c->was_sent = sent > e.start;
        e.on_reply(e.arg, NULL);
    }
}

/* ---- life ---------------------------------------------------------------------- */

void connection_drop(connection *c, store_fault fault)
{
    kept_fault kept = {0}; /* the fault's text may belong to the adapter */

    if (c->state == PAUSING || c->state == CLOSED)
        return;
    fault_keep(&kept, fault);
    c->state = PAUSING;
    c->has_address = false;
    disconnect(c);
    pause_then_connect(c);
    c->options.on_down(c->options.arg, fault_of(&kept));
}

static void drop_for(connection *c, const char *what, const char *why)
{
    char text[2 * REASON_BYTES];

    snprintf(text, sizeof text, "%s: %s", what, why);
    connection_drop(c, STORE_FAULT(STORE_UNREACHABLE, text));
}

static const char unreachable[] = "the store cannot be reached";
static const char not_found[] = "the store's host cannot be found";

static void on_lost(void *arg, const char *reason)
{
    connection *c = arg;

    drop_for(c, c->state == CONNECTING ? unreachable : "the connection to the store broke", reason);
}

static void on_connected(void *arg)
{
    connection *c = arg;

    c->state = GREETING;
    uv_timer_again(&c->timer);
    c->options.on_up(c->options.greeting, c);
}

static void on_reply(void *arg, const redisReply *reply)
{
    connection *c = arg;
    bool pushed = c->n == 0;

    if (pushed && !c->options.on_push) {
        connection_drop(c, STORE_FAULT(INTERNAL, "the store sent an unexpected reply"));
        return;
    }
    c->silent_ticks = 0;
    c->pinged = false;
    c->replies++;
    if (pushed) {
        c->options.on_push(c->options.arg, reply);
        return;
    }
    expected e = next_expected(c);
    e.on_reply(e.arg, reply);
    if (c->n == 0 && c->retiring.text[0] != '\0')
        connection_drop(c, fault_of(&c->retiring));
}

static void on_late(uv_timer_t *timer)
{
    connection *c = timer->data;

    if (c->state == GREETING)
        connection_drop(c, STORE_FAULT(STORE_SILENT, "the store does not answer the greeting"));
    else
        drop_for(c, unreachable, "it does not answer in time");
}

static void connect_to(connection *c, const char *address)
{
    const adapter_events events = {.connected = on_connected, .reply = on_reply, .lost = on_lost, .arg = c};
    lks_error error;

    c->state = CONNECTING;
    c->appended = 0;
    fault_keep(&c->retiring, (store_fault){0});
    const adapter_target to = {.path = c->options.path, .address = address, .port = c->options.port};
    const secrets_tls *by = c->options.tls;
    const char *name = by && by->server_name ? by->server_name : c->options.host;
    if (adapter_open(c->options.loop, &to, by ? by->context : NULL, name, &events, &c->adapter, &error) != LKS_OK)
        drop_for(c, unreachable, error.message);
}

static void choose_address(connection *c, const struct addrinfo *all)
{
    unsigned n = 0;
    const struct addrinfo *chosen = all;

    for (const struct addrinfo *a = all; a; a = a->ai_next)
        n++;
    for (unsigned skip = c->next_address++ % n; skip > 0; skip--)
        chosen = chosen->ai_next;
    if (chosen->ai_family == AF_INET6)
        uv_ip6_name((const struct sockaddr_in6 *)(const void *)chosen->ai_addr, c->address, sizeof c->address);
    else
        uv_ip4_name((const struct sockaddr_in *)(const void *)chosen->ai_addr, c->address, sizeof c->address);
}

static void connect_to_one_of(connection *c, struct addrinfo *all)
{
    choose_address(c, all);
    freeaddrinfo(all);
    connect_to(c, c->address);
}

/* Any thread. */
static void wake_loop(void *arg)
{
    uv_async_send(&((connection *)arg)->resolved);
}

static void on_resolved(uv_async_t *async)
{
    connection *c = async->data;
    const char *why;

    if (c->state != RESOLVING || !c->resolution || !resolve_is_over(c->resolution))
        return;
    struct addrinfo *all = resolve_end(c->resolution, &why);
    c->resolution = NULL;
    if (all)
        connect_to_one_of(c, all);
    else
        drop_for(c, not_found, why);
}

static void start_connecting(connection *c)
{
    c->state = RESOLVING;
    uv_timer_start(&c->timer, on_late, c->options.connect_timeout_ms, c->options.connect_timeout_ms);
    if (c->options.path) {
        connect_to(c, NULL);
        return;
    }
    if (c->resolution) { /* the last attempt's, whose answer can be used */
        on_resolved(&c->resolved);
        return;
    }
    struct addrinfo *numeric = resolve_numeric(c->options.host, c->options.port);
    if (numeric)
        connect_to_one_of(c, numeric);
    else if (!(c->resolution = resolve_start(c->options.host, c->options.port, wake_loop, c)))
        drop_for(c, not_found, "out of memory or threads");
}

static void on_pause_over(uv_timer_t *timer)
{
    connection *c = timer->data;

    c->due = c->options.waits_for_address && !c->has_address;
    if (!c->due)
        start_connecting(c);
}

/* After a good connection the first pause is short. */
static void pause_then_connect(connection *c)
{
    uint64_t ns = backoff_ns(PAUSE_MIN_MS, PAUSE_MAX_MS, c->failures++, &c->random);

    uv_timer_start(&c->timer, on_pause_over, ns / CLOCK_NS_PER_MS, 0);
}

void connection_move(connection *c, const char *host, uint16_t port, store_fault fault)
{
    c->options.path = NULL;
    c->options.host = host;
    c->options.port = port;
    c->next_address = 0;
    c->failures = 0;
    resolve_cancel(c->resolution);
    c->resolution = NULL;
    connection_drop(c, fault);
    c->has_address = true;
    if (c->state == PAUSING)
        uv_timer_start(&c->timer, on_pause_over, 0, 0);
}

void connection_confirm(connection *c)
{
    c->has_address = true;
    if (c->due && c->state == PAUSING)
        uv_timer_start(&c->timer, on_pause_over, 0, 0);
}

static void on_pong(void *arg, const redisReply *reply)
{
    (void)arg;
    (void)reply;
}

/* On a connection with messages the answer arrives as a message, not as a reply to the command. */
static void ping(connection *c)
{
    const char *word = "PING";

    if (!c->options.on_push) {
        connection_words(c, on_pong, NULL, 1, &word);
        return;
    }
    c->pinged = true;
    c->silent_ticks = 0;
    adapter_append_words(c->adapter, 1, &word);
    connection_flush(c);
}

/* Counts ticks, not time: after this process was stopped, one tick comes before the replies that are waiting. */
static void on_tick(uv_timer_t *timer)
{
    connection *c = timer->data;

    if (c->n == 0 && !c->pinged)
        ping(c);
    else if (++c->silent_ticks > SILENT_TICKS_MAX)
        connection_drop(c, STORE_FAULT(STORE_SILENT, "the store does not answer"));
}

void connection_ready(connection *c)
{
    uint64_t tick = c->options.silence_timeout_ms / SILENT_TICKS_MAX + 1;

    c->state = READY;
    c->failures = 0;
    c->pinged = false;
    adapter_trust(c->adapter);
    if (c->options.silence_timeout_ms > 0)
        uv_timer_start(&c->timer, on_tick, tick, tick);
    else
        uv_timer_stop(&c->timer);
}

void connection_retire(connection *c, store_fault fault)
{
    if (c->n == 0) {
        connection_drop(c, fault);
        return;
    }
    fault_keep(&c->retiring, fault);
}

/* ---- commands ------------------------------------------------------------------ */

/* Expects the reply to the command just appended. `before`: the bytes that were unsent before it. */
static void appended(connection *c, size_t before, connection_reply *reply, void *arg)
{
    const expected e = {.on_reply = reply, .arg = arg, .start = c->appended};

    c->appended += adapter_unsent(c->adapter) - before;
    expect(c, &e);
}

void connection_command(connection *c, connection_reply *reply, void *arg, const char *command, size_t len)
{
    size_t before = adapter_unsent(c->adapter);

    adapter_append(c->adapter, command, len);
    appended(c, before, reply, arg);
}

void connection_append(connection *c, connection_reply *reply, void *arg, size_t argc, const char **argv)
{
    size_t before = adapter_unsent(c->adapter);

    adapter_append_words(c->adapter, argc, argv);
    appended(c, before, reply, arg);
}

void connection_words(connection *c, connection_reply *reply, void *arg, size_t argc, const char **argv)
{
    connection_append(c, reply, arg, argc, argv);
    connection_flush(c);
}

bool connection_was_sent(const connection *c)
{
    return c->was_sent;
}

uint64_t connection_replies(const connection *c)
{
    return c->replies;
}

void connection_flush(connection *c)
{
    if (c->adapter)
        adapter_flush(c->adapter);
}

/* ---- beginning and end --------------------------------------------------------- */

connection *connection_open(const connection_options *options)
{
    connection *c = memory_alloc(sizeof *c);

    *c = (connection){.options = *options, .state = PAUSING, .random = backoff_random()};
    uv_timer_init(options->loop, &c->timer);
    uv_async_init(options->loop, &c->resolved, on_resolved);
    c->timer.data = c->resolved.data = c;
    uv_timer_start(&c->timer, on_pause_over, 0, 0);
    return c;
}

static void release(void *owner)
{
    connection *c = owner;

    free(c->queue);
    free(c);
}

void connection_close(connection *c, close_barrier *within)
{
    close_barrier_add(within);
    c->state = CLOSED;
    disconnect(c);
    resolve_cancel(c->resolution);
    close_barrier_handle(&c->barrier, &c->timer);
    close_barrier_handle(&c->barrier, &c->resolved);
    close_barrier_begin(&c->barrier, c, release, close_barrier_done, within);
}
