/* A chained hash table of fixed width (nng's pipe ids count up, so their low bits
 * spread evenly), and a janitor that looks through it now and then.
 *
 *   open --doom, found dead--> doomed --quiet--> gone --REM_POST--> returned
 *                                                       (from any state)
 *
 * nng may overlook that a connection was reset, and it says REM_POST from its reaper
 * thread, which may hang: so the janitor finds the dead, and a gone connection takes no
 * place. nng may say REM_POST while another thread still delivers a message of the
 * connection; whoever is last tells the loss, so that it never overtakes a message. No
 * nng function, and no callback, is called under the lock. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include <lockstock/rpc/exchange.h>

#include "net/nng/connections.h"

enum {
    WIDTH = 1024,
    JANITOR_MS = 250,
};

/* Long enough that what was on its way has arrived: nng hangs when a connection is
 * closed in the middle of a message. */
static const uint64_t QUIET_NS = 500000000;

typedef enum state { OPEN, DOOMED, GONE, RETURNED, STATES } state;

typedef struct connection {
    struct connection *next;
    uint32_t id;
    uint32_t in_flight;
    uint32_t delivering;
    uint64_t moved_ns; /* doomed: when a message last came or went */
    state state;
    bool told;    /* that it is lost */
    bool sending; /* someone has the turn */
    connection_turn *first;
    connection_turn **end;
} connection;

struct connections {
    pthread_mutex_t lock;
    uint32_t max;
    uint32_t n_in[STATES];
    bool refusing;
    nng_aio *janitor;
    connections_lost *on_lost;
    void *arg;
    connection *heads[WIDTH];
};

/* ---- the table, under lock --------------------------------------------------- */

static connection **place_of(connections *all, uint32_t id)
{
    connection **at = &all->heads[id % WIDTH];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static bool add(connections *all, uint32_t id)
{
    bool room = all->n_in[OPEN] + all->n_in[DOOMED] < all->max;
    connection *added = room ? malloc(sizeof *added) : NULL;
    if (!added)
        return false;
    *added = (connection){.id = id};
    *place_of(all, id) = added;
    all->n_in[OPEN]++;
    return true;
}

static void set_state(connections *all, connection *at, state next)
{
    all->n_in[at->state]--;
    all->n_in[next]++;
    at->state = next;
}

/* Whether its loss is to be told, after the unlock. Frees what nobody needs any more. */
static bool settle(connections *all, connection *at)
{
    if (at->state < GONE || at->delivering > 0)
        return false;
    bool tell = !at->told;
    at->told = true;
    if (at->state == RETURNED && !at->sending) {
        *place_of(all, at->id) = at->next;
        all->n_in[RETURNED]--;
        free(at);
    }
    return tell;
}

/* The ids of all connections that are `wanted`; the caller frees them. */
static uint32_t *ids_of(connections *all, bool (*wanted)(const connection *), size_t *n)
{
    uint32_t *ids = malloc((all->max + 1) * sizeof *ids);
    *n = 0;
    for (size_t i = 0; ids && i < WIDTH; i++)
        for (connection *at = all->heads[i]; at; at = at->next)
            if (wanted(at))
                ids[(*n)++] = at->id;
    return ids;
}

static bool is_open(const connection *at)
{
    return at->state == OPEN;
}

static bool is_quiet(const connection *at)
{
    return at->state == DOOMED && lks_rpc_now_ns() - at->moved_ns >= QUIET_NS;
}

/* GONE or RETURNED; nothing when it is that already, or was never taken. */
static void lose(connections *all, uint32_t id, state next)
{
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id);
    bool tell = false;
    if (at && at->state < next) {
        set_state(all, at, next);
        tell = settle(all, at);
    }
    pthread_mutex_unlock(&all->lock);
    if (tell)
        all->on_lost(all->arg, id);
}

/* The kernel knows the peer's address as long as the connection stands. */
static bool is_dead(uint32_t id)
{
    nng_sockaddr address;
    int failure = nng_pipe_get_addr((nng_pipe){.id = id}, NNG_OPT_REMADDR, &address);
    return failure == NNG_ECLOSED || failure == NNG_ENOENT || failure == (NNG_ESYSERR | ENOTCONN);
}

/* ---- the janitor ------------------------------------------------------------- */

static void close_quiet(connections *all)
{
    size_t n;
    pthread_mutex_lock(&all->lock);
    uint32_t *ids = all->n_in[DOOMED] > 0 ? ids_of(all, is_quiet, &n) : NULL;
    pthread_mutex_unlock(&all->lock);
    for (size_t i = 0; ids && i < n; i++) {
        lose(all, ids[i], GONE);
        nng_pipe_close((nng_pipe){.id = ids[i]});
    }
    free(ids);
}

static void find_dead(connections *all)
{
    size_t n;
    pthread_mutex_lock(&all->lock);
    uint32_t *ids = all->n_in[OPEN] > 0 ? ids_of(all, is_open, &n) : NULL;
    pthread_mutex_unlock(&all->lock);
    for (size_t i = 0; ids && i < n; i++)
        if (is_dead(ids[i]))
            connections_doom(all, ids[i]);
    free(ids);
}

static void on_janitor(void *arg)
{
    connections *all = arg;
    if (nng_aio_result(all->janitor) != 0)
        return;
    find_dead(all);
    close_quiet(all);
    nng_sleep_aio(JANITOR_MS, all->janitor);
}

/* ---- what nng tells ---------------------------------------------------------- */

/* Over WebSocket: a browser opened it for a page. nng itself takes any. */
static bool is_of_a_page(nng_pipe pipe)
{
    char *origin = NULL;
    bool is = nng_pipe_get_string(pipe, NNG_OPT_WS_REQUEST_HEADER "Origin", &origin) == 0;
    nng_strfree(origin);
    return is;
}

/* Before a message of it is read. */
static void on_added(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    connections *all = arg;
    (void)event;
    bool of_a_page = is_of_a_page(pipe);
    pthread_mutex_lock(&all->lock);
    bool accepted = !all->refusing && !of_a_page && add(all, (uint32_t)nng_pipe_id(pipe));
    pthread_mutex_unlock(&all->lock);
    if (!accepted)
        nng_pipe_close(pipe);
}

static void on_removed(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    lose(arg, (uint32_t)nng_pipe_id(pipe), RETURNED);
}

/* ---- the rest ---------------------------------------------------------------- */

connections *connections_new(nng_socket socket, uint32_t max, connections_lost *on_lost, void *arg)
{
    connections *all = calloc(1, sizeof *all);
    if (!all || nng_aio_alloc(&all->janitor, on_janitor, all) != 0) {
        free(all);
        return NULL;
    }
    all->max = max;
    all->on_lost = on_lost;
    all->arg = arg;
    pthread_mutex_init(&all->lock, NULL);
    nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_added, all);
    nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_removed, all);
    nng_sleep_aio(JANITOR_MS, all->janitor);
    return all;
}

void connections_refuse_new(connections *all)
{
    pthread_mutex_lock(&all->lock);
    all->refusing = true;
    pthread_mutex_unlock(&all->lock);
}

uint32_t connections_enter(connections *all, uint32_t id)
{
    uint32_t n = 0;
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id);
    if (at && at->state == OPEN) {
        n = ++at->in_flight;
        at->delivering++;
    } else if (at && at->state == DOOMED) {
        at->moved_ns = lks_rpc_now_ns();
    }
    pthread_mutex_unlock(&all->lock);
    return n;
}

void connections_leave(connections *all, uint32_t id)
{
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id);
    if (at) {
        at->in_flight--;
        at->moved_ns = at->state == DOOMED ? lks_rpc_now_ns() : 0;
    }
    pthread_mutex_unlock(&all->lock);
}

bool connections_take_turn(connections *all, uint32_t id, connection_turn *turn)
{
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id);
    bool now = !at || !at->sending;
    if (at && now) {
        at->sending = true;
        at->end = &at->first;
    } else if (at) {
        *turn = (connection_turn){0};
        *at->end = turn;
        at->end = &turn->next;
    }
    pthread_mutex_unlock(&all->lock);
    return now;
}

connection_turn *connections_pass_turn(connections *all, uint32_t id)
{
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id);
    connection_turn *turn = at ? at->first : NULL;
    if (turn) {
        at->first = turn->next;
        if (!at->first)
            at->end = &at->first;
    } else if (at) {
        at->sending = false;
    }
    bool tell = at && settle(all, at);
    pthread_mutex_unlock(&all->lock);
    if (tell)
        all->on_lost(all->arg, id);
    return turn;
}

bool connections_stands(connections *all, uint32_t id)
{
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id);
    bool open = at && at->state == OPEN;
    pthread_mutex_unlock(&all->lock);
    bool dead = open && is_dead(id);
    if (dead)
        connections_doom(all, id);
    return open && !dead;
}

void connections_delivered(connections *all, uint32_t id)
{
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id); /* there: it stays while something is delivered */
    at->delivering--;
    bool tell = settle(all, at);
    pthread_mutex_unlock(&all->lock);
    if (tell)
        all->on_lost(all->arg, id);
}

void connections_doom(connections *all, uint32_t id)
{
    pthread_mutex_lock(&all->lock);
    connection *at = *place_of(all, id);
    if (at && at->state == OPEN) {
        at->moved_ns = lks_rpc_now_ns();
        set_state(all, at, DOOMED);
    }
    pthread_mutex_unlock(&all->lock);
}

size_t connections_count(connections *all)
{
    pthread_mutex_lock(&all->lock);
    size_t n = all->n_in[OPEN] + all->n_in[DOOMED];
    pthread_mutex_unlock(&all->lock);
    return n;
}

size_t connections_leaked(connections *all)
{
    pthread_mutex_lock(&all->lock);
    size_t n = all->n_in[GONE];
    pthread_mutex_unlock(&all->lock);
    return n;
}

void connections_stop(connections *all)
{
    nng_aio_stop(all->janitor);
}

void connections_free(connections *all)
{
    if (!all)
        return;
    nng_aio_free(all->janitor);
    for (size_t i = 0; i < WIDTH; i++) {
        for (connection *at = all->heads[i], *next; at; at = next) {
            next = at->next;
            free(at);
        }
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
}
