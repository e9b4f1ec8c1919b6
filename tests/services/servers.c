/* Invariant: a message is read after a PONG on its own connection, so that all that
 * was published before are in. */
#include "services/servers.h"

#include <hiredis/hiredis.h>

enum { SERVERS = 4, PARKED_MAX = 2048 };

static redisContext *listening[SERVERS];
static parked all[PARKED_MAX];
static size_t n_parked;

static size_t index_of(const char *server)
{
    assert_true(server[0] == 'S' && server[1] >= '1' && server[1] < '1' + SERVERS);
    return (size_t)(server[1] - '1');
}

void server_down(const char *server)
{
    redisContext **c = &listening[index_of(server)];

    if (!*c)
        return;
    redisFree(*c);
    *c = NULL;
    /* Redis has noticed when it counts none. */
    while (atoi(strchr(harness_redis(h, "PUBSUB NUMSUB ls:wake:%s", server), '\n') + 1) > 0)
        ;
}

void server_up(const char *server)
{
    redisContext **c = &listening[index_of(server)];
    char path[256];

    server_down(server);
    assert_int_equal(sscanf(harness_redis(h, "CONFIG GET unixsocket"), "%*s %255s", path), 1);
    *c = redisConnectUnix(path);
    assert_non_null(*c);
    freeReplyObject(redisCommand(*c, "SUBSCRIBE ls:wake:%s", server));
}

int servers_reset(void **state)
{
    int result = script_reset(state);

    n_parked = 0;
    for (char id[] = "S1"; id[1] < '1' + SERVERS; id[1]++)
        server_down(id);
    server_up("S1");
    server_up("S2");
    return result;
}

int servers_close(void **state)
{
    for (size_t i = 0; i < SERVERS; i++)
        if (listening[i])
            redisFree(listening[i]);
    return script_close(state);
}

void servers_read(void (*take)(char server, const char *text))
{
    for (size_t i = 0; i < SERVERS; i++) {
        redisReply *reply = NULL;
        if (!listening[i])
            continue;
        redisAppendCommand(listening[i], "PING");
        for (;;) {
            assert_int_equal(redisGetReply(listening[i], (void **)&reply), REDIS_OK);
            if (strcmp(reply->element[0]->str, "message") != 0)
                break;
            take((char)('1' + i), reply->element[2]->str);
            freeReplyObject(reply);
        }
        freeReplyObject(reply);
    }
}

/* ---- calls that wait ---- */

const parked *park(const char *server, const char *key, const char *token, const void *request)
{
    parked *p = &all[n_parked++];

    assert_true(n_parked <= PARKED_MAX);
    snprintf(p->server, sizeof p->server, "%s", server);
    snprintf(p->key, sizeof p->key, "%s", key);
    snprintf(p->token, sizeof p->token, "%s", token);
    p->call = start_at(p->server, request);
    return p;
}

bool is_waiting(const parked *p)
{
    return harness_is_parked(p->call);
}

const parked *find(const char *server, const char *token)
{
    const parked *last = NULL;

    for (size_t i = n_parked; i-- > 0;) {
        if (strcmp(all[i].server, server) != 0 || strcmp(all[i].token, token) != 0)
            continue;
        if (is_waiting(&all[i]))
            return &all[i];
        last = last ? last : &all[i];
    }
    if (!last)
        fail_msg("%s parks no call of %s", server, token);
    return last;
}

const parked *parked_at(size_t i)
{
    return i < n_parked ? &all[i] : NULL;
}

void happen(const parked *p, service_event event)
{
    harness_event(h, p->call, event);
}

void happen_with(const parked *p, const char *numbers)
{
    harness_wake_with(h, p->call, numbers);
}
