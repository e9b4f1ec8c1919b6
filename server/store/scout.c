/* Invariant: there is an address to go to: the URL has a host. */
#include "store/scout.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "store/connection.h"
#include "store/errors.h"

enum { CONNECT_TIMEOUT_MS = 2000, SILENCE_TIMEOUT_MS = 1000, DOUBLINGS_MAX = 4 };

typedef struct address {
    char host[SLOTS_HOST_BYTES];
    uint16_t port;
} address;

struct scout {
    scout_options options;
    connection *connection;
    greeting greeting;
    address at;
    address *addresses; /* of all nodes, then of the URL */
    size_t n_addresses, next_address;
    size_t tries;      /* to be greeted, in a row */
    unsigned patience; /* looks that the one under way has left */
    bool greeted, asking;

    void (*closed)(void *arg);
    void *closed_arg;
};

static void take_addresses(scout *s, const slots_map *map)
{
    const url *given = s->options.url;
    address *all = memory_alloc((map->n + given->n_hosts) * sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < map->n; i++) {
        if (map->node[i].host[0] == '\0' || map->node[i].failed)
            continue;
        strcpy(all[n].host, map->node[i].host);
        all[n++].port = map->node[i].port;
    }
    for (size_t i = 0; i < given->n_hosts; i++) {
        snprintf(all[n].host, sizeof all[n].host, "%s", given->hosts[i].name);
        all[n++].port = given->hosts[i].port;
    }
    free(s->addresses);
    s->addresses = all;
    s->n_addresses = n;
}

/* A node that is away keeps others from being asked for one look only; but who is far away needs more, so each time around they
 * get twice as many. */
static void go_on(scout *s)
{
    size_t rounds = s->tries++ / s->n_addresses;

    s->at = s->addresses[s->next_address++ % s->n_addresses];
    s->greeted = false;
    connection_move(s->connection, s->at.host, s->at.port, STORE_FAULT(STORE_UNREACHABLE, "another node is asked"));
    s->patience = 1U << (rounds < DOUBLINGS_MAX ? rounds : DOUBLINGS_MAX);
}

static void on_answer(void *arg, const redisReply *reply, bool sent)
{
    scout *s = arg;
    slots_map map;
    (void)sent;

    s->asking = false;
    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_STRING || !slots_read(&map, reply->str, reply->len, s->at.host)) {
        connection_drop(s->connection,
                        STORE_FAULT(STORE_MISFIT, "the store's answer to CLUSTER NODES is not understood"));
        return;
    }
    take_addresses(s, &map);
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
    if (s->greeted ? elsewhere && !s->asking : --s->patience == 0)
        go_on(s);
    else if (s->greeted)
        ask(s);
}

static void on_up(void *arg)
{
    scout *s = arg;

    greeting_start(&s->greeting, s->connection);
}

static void on_greeted(void *arg, greeting_verdict verdict, store_fault fault)
{
    scout *s = arg;

    if (verdict == GREETING_PASSED && s->greeting.cluster) {
        connection_ready(s->connection);
        s->greeted = true;
        s->tries = 0;
        ask(s);
        return;
    }
    if (verdict == GREETING_PASSED)
        fault = STORE_FAULT(STORE_MISFIT, "the store is no Redis Cluster");
    if (verdict != GREETING_REFUSED)
        s->options.on_misfit(s->options.arg, fault);
    connection_drop(s->connection, fault);
}

static void on_down(void *arg, store_fault fault)
{
    scout *s = arg;

    s->greeted = false;
    s->patience = 1;
    s->options.on_lost(s->options.arg, fault);
}

scout *scout_open(const scout_options *options)
{
    scout *s = memory_alloc(sizeof *s);

    *s = (scout){.options = *options, .tries = 1, .patience = 1};
    take_addresses(s, &(const slots_map){.n = 0});
    s->at = s->addresses[s->next_address++];
    s->greeting = (greeting){.as = options->as, .any_role = true, .done = on_greeted, .arg = s};
    const connection_options to_connection = {
        .loop = options->loop,
        .tls = options->tls,
        .host = s->at.host,
        .port = s->at.port,
        .connect_timeout_ms = options->connect_timeout_ms ? options->connect_timeout_ms : CONNECT_TIMEOUT_MS,
        .silence_timeout_ms = SILENCE_TIMEOUT_MS,
        .on_up = on_up,
        .on_down = on_down,
        .arg = s,
    };
    s->connection = connection_open(&to_connection);
    return s;
}

static void on_closed(void *arg)
{
    scout *s = arg;
    void (*closed)(void *closed_arg) = s->closed;
    void *closed_arg = s->closed_arg;

    free(s->addresses);
    free(s);
    closed(closed_arg);
}

void scout_close(scout *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    connection_close(s->connection, on_closed, s);
}
