/* Invariant: a message is read after a PONG on its own connection, so that all that
 * was published before are in. */
#include "services/servers.h"

#include <stdio.h>

#include <hiredis/hiredis.h>

#include "services/script.h"

enum { SERVERS = 4 };

static redisContext *listening[SERVERS];

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
    while (atoi(strchr(harness_redis(script_harness, "PUBSUB NUMSUB ls:wake:%s", server), '\n') + 1) > 0)
        ;
}

void server_up(const char *server)
{
    redisContext **c = &listening[index_of(server)];
    char path[256];

    server_down(server);
    assert_int_equal(sscanf(harness_redis(script_harness, "CONFIG GET unixsocket"), "%*s %255s", path), 1);
    *c = redisConnectUnix(path);
    assert_non_null(*c);
    freeReplyObject(redisCommand(*c, "SUBSCRIBE ls:wake:%s", server));
}

int servers_reset(void **state)
{
    int result = script_reset(state);

    harness_redis(script_harness, "CONFIG SET maxmemory 0"); /* as a test that failed may have left it */
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
