/* Invariant: there is always an address to connect to, because the URL has a host. */
#include "store/scout.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "net/close_barrier.h"
#include "store/connection.h"
#include "store/errors.h"

enum { SILENCE_TIMEOUT_MS = 1000, DOUBLINGS_MAX = 4 };

struct scout {
    scout_options options;
    connection *connection;
    greeting greeting;
    struct address at;
    struct address *addresses; /* of all nodes, then those of the URL */
    size_t n_addresses, next_address;
    size_t tries;        /* in a row */
    unsigned looks_left; /* looks until the next node is tried */
    bool greeted, asking;
    close_barrier barrier;
};

static void set_addresses(scout *s, const slots_map *map)
{
    const url *given = s->options.url;
    struct address *all = memory_alloc((map->n + given->n_hosts) * sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < map->n; i++) {
        if (map->node[i].host[0] == '\0' || map->node[i].failed)
            continue;
        strcpy(all[n].host, map->node[i].host);
        all[n++].port = map->node[i].port;
    }
    for (size_t i = 0; i < given->n_hosts; i++)
        all[n++] = given->hosts[i];
    free(s->addresses);
    s->addresses = all;
    s->n_addresses = n;
}

/* The scout leaves a node that does not answer after one look. A distant node needs longer, so each round through all
 * nodes doubles the number of looks. */
static void try_next(scout *s)
{
    size_t rounds = s->tries++ / s->n_addresses;

    s->at = s->addresses[s->next_address++ % s->n_addresses];
    s->greeted = false;
    connection_move(s->connection, s->at.host, s->at.port,
                    STORE_FAULT(STORE_UNREACHABLE, "the server asks another node"));
    s->looks_left = 1U << (rounds < DOUBLINGS_MAX ? rounds : DOUBLINGS_MAX);
}

static void on_answer(void *arg, const redisReply *reply)
{
    scout *s = arg;
    slots_map map;

    s->asking = false;
    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_STRING || !slots_read(&map, reply->str, reply->len, s->at.host)) {
        connection_drop(s->connection,
                        STORE_FAULT(STORE_MISFIT, "the store's answer to CLUSTER NODES is not understood"));
        return;
    }
    set_addresses(s, &map);
    s->options.on_map(s->options.arg, &map);
    slots_clear(&map);
}

static void ask(scout *s)
{
    const char *words[] = {"CLUSTER", "NODES"};

    if (s->asking)
        return;
    s->asking = true;
    connection_words(s->connection, on_answer, s, 2, words);
}

void scout_look(scout *s, bool elsewhere)
{
    if (s->greeted ? elsewhere && !s->asking : --s->looks_left == 0)
        try_next(s);
    else if (s->greeted)
        ask(s);
}

static void on_misfit(void *arg, store_fault fault)
{
    const scout *s = arg;

    s->options.on_misfit(s->options.arg, fault);
}

static void on_greeted(void *arg)
{
    scout *s = arg;
    const store_fault misfit = STORE_FAULT(STORE_MISFIT, "the store is not a Redis Cluster");

    if (!s->greeting.cluster) {
        on_misfit(s, misfit);
        connection_drop(s->connection, misfit);
        return;
    }
    connection_ready(s->connection);
    s->greeted = true;
    s->tries = 0;
    ask(s);
}

static void on_down(void *arg, store_fault fault)
{
    scout *s = arg;

    s->greeted = false;
    s->looks_left = 1;
    s->options.on_lost(s->options.arg, fault);
}

scout *scout_open(const scout_options *options)
{
    scout *s = memory_alloc(sizeof *s);

    *s = (scout){.options = *options, .tries = 1, .looks_left = 1};
    set_addresses(s, &(const slots_map){.n = 0});
    s->at = s->addresses[s->next_address++];
    s->greeting =
        (greeting){.as = options->as, .any_role = true, .on_passed = on_greeted, .on_fatal = on_misfit, .arg = s};
    const connection_options to_connection = {
        .loop = options->loop,
        .tls = options->tls,
        .host = s->at.host,
        .port = s->at.port,
        .connect_timeout_ms = options->connect_timeout_ms,
        .silence_timeout_ms = SILENCE_TIMEOUT_MS,
        .on_up = greeting_start,
        .greeting = &s->greeting,
        .on_down = on_down,
        .arg = s,
    };
    s->connection = connection_open(&to_connection);
    return s;
}

static void release(void *owner)
{
    scout *s = owner;

    free(s->addresses);
    free(s);
}

void scout_close(scout *s, close_barrier *within)
{
    close_barrier_add(within);
    connection_close(s->connection, &s->barrier);
    close_barrier_begin(&s->barrier, s, release, close_barrier_done, within);
}
