/* Asked by health.c once a second. */
#include "store/replication.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { PARTS = 3, REPLICA_PARTS = 3, LAG_BYTES = 16 * 1024 * 1024, LAG_S = 5, HOST_BYTES = 256, TEXT_BYTES = 512 };

size_t replication_words(bool by_role, const char **words)
{
    words[0] = by_role ? "ROLE" : "INFO";
    words[1] = "replication";
    return by_role ? 1 : 2;
}

/* Of both offsets, the second being what it has confirmed. */
static void add(replication *r, const char *host, const char *port, long long primary, long long own, int64_t silent_s)
{
    if (r->replicas == STORE_REPLICAS_MAX)
        return;
    store_replica *one = &r->replica[r->replicas++];
    snprintf(one->address, sizeof one->address, "%s:%s", host, port);
    one->behind_bytes = primary > own ? (uint64_t)primary - (uint64_t)own : 0;
    one->silent_s = silent_s;
}

/* {"master", offset, {{address, port, "offset"}...}} */
static void read_role(const redisReply *reply, replication *r)
{
    if (reply->elements < 1 || reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    r->known = true;
    r->primary = strcmp(reply->element[0]->str, "master") == 0;
    if (!r->primary || reply->elements != PARTS || reply->element[2]->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i < reply->element[2]->elements; i++) {
        const redisReply *one = reply->element[2]->element[i];
        bool right = one->type == REDIS_REPLY_ARRAY && one->elements == REPLICA_PARTS;
        for (size_t k = 0; right && k < REPLICA_PARTS; k++)
            right = one->element[k]->type == REDIS_REPLY_STRING;
        if (right)
            add(r, one->element[0]->str, one->element[1]->str, reply->element[1]->integer,
                strtoll(one->element[2]->str, NULL, 10), -1);
    }
}

/* What follows `name`; 0 without it. */
static long long number(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

/* "role:master", "slave0:ip=A,port=P,state=online,offset=N,lag=S", "master_repl_offset:N", a line each. One that is not
 * online yet is being sent the data. */
static void read_info(const char *text, replication *r)
{
    char line[TEXT_BYTES], host[HOST_BYTES], port[8];
    long long primary = number(text, "master_repl_offset:");

    r->known = strstr(text, "role:") != NULL;
    r->primary = strstr(text, "role:master") != NULL;
    for (; *text && r->primary; text += strcspn(text, "\n"), text += *text == '\n') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\r\n"), text);
        if (sscanf(line, "slave%*u:ip=%255[^,],port=%7[^,]", host, port) == 2 && strstr(line, ",state=online,"))
            add(r, host, port, primary, number(line, ",offset="), number(line, ",lag="));
    }
}

void replication_read(const redisReply *reply, replication *ret)
{
    *ret = (replication){0};
    if (reply->type == REDIS_REPLY_ARRAY)
        read_role(reply, ret);
    else if (reply->type == REDIS_REPLY_STRING)
        read_info(reply->str, ret);
}

static void log_lag(const replication *now, replication_told *told, const char *address)
{
    const store_replica *bad = NULL;

    for (unsigned i = 0; i < now->replicas && !bad; i++)
        if (now->replica[i].behind_bytes > LAG_BYTES || now->replica[i].silent_s > LAG_S)
            bad = &now->replica[i];
    if (bad && !told->lags)
        log_warn("store-replica-lags", "primary=%s replica=%s behind_bytes=%llu silent_s=%lld", address, bad->address,
                 (unsigned long long)bad->behind_bytes, (long long)bad->silent_s);
    told->lags = bad;
}

void replication_log(const replication *now, replication_told *told, const char *address)
{
    if (now->replicas > told->replicas)
        log_info("store-replicas", "primary=%s connected=%u", address, now->replicas);
    else if (now->replicas < told->replicas)
        log_warn("store-replica-lost", "primary=%s connected=%u before=%u", address, now->replicas, told->replicas);
    told->replicas = now->replicas;
    log_lag(now, told, address);
}
