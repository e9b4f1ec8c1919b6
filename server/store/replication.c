/* Asked by node.c once a second where another Redis may take the primary's place. */
#include "store/replication.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 3, REPLICA_PARTS = 3 };

size_t replication_words(const char **words)
{
    words[0] = "ROLE";
    return REPLICATION_WORDS;
}

/* {"master", offset, {{address, port, "offset"}...}} */
replication replication_of(const redisReply *reply)
{
    replication r = {0};

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 || reply->element[0]->type != REDIS_REPLY_STRING)
        return r;
    r.known = true;
    r.primary = strcmp(reply->element[0]->str, "master") == 0;
    if (!r.primary || reply->elements != PARTS || reply->element[2]->type != REDIS_REPLY_ARRAY)
        return r;
    for (size_t i = 0; i < reply->element[2]->elements; i++) {
        const redisReply *one = reply->element[2]->element[i];
        if (one->type != REDIS_REPLY_ARRAY || one->elements != REPLICA_PARTS ||
            one->element[2]->type != REDIS_REPLY_STRING)
            continue;
        long long lag = reply->element[1]->integer - strtoll(one->element[2]->str, NULL, 10);
        r.replicas++;
        if (lag > 0 && (uint64_t)lag > r.lag_bytes)
            r.lag_bytes = (uint64_t)lag;
    }
    return r;
}
