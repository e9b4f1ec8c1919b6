/* Used by greeting.c before a connection is used, and by health.c later, because settings of a running Redis can
 * change. */
#include "store/safety.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "store/value.h"

size_t safety_words(const char **words)
{
    static const char *const all[] = {"CONFIG",
                                      "GET",
                                      "save",
                                      "appendonly",
                                      "appendfsync",
                                      "maxmemory",
                                      "maxmemory-policy",
                                      "min-replicas-to-write",
                                      "min-replicas-max-lag"};

    memcpy(words, all, sizeof all);
    return sizeof all / sizeof *all;
}

safety safety_of(const redisReply *reply)
{
    safety s = {.known = reply->type == REDIS_REPLY_ARRAY};

    if (!s.known)
        return s;
    s.min_replicas = strtol(value_field_text(reply, "min-replicas-to-write"), NULL, 10);
    s.max_lag_s = strtol(value_field_text(reply, "min-replicas-max-lag"), NULL, 10);
    s.appends = strcmp(value_field_text(reply, "appendonly"), "yes") == 0;
    s.snapshots = value_field_text(reply, "save")[0] != '\0';
    s.evicts = strcmp(value_field_text(reply, "maxmemory"), "0") != 0 &&
               strcmp(value_field_text(reply, "maxmemory-policy"), "noeviction") != 0;
    if (s.appends)
        snprintf(s.fsync, sizeof s.fsync, "%s", value_field_text(reply, "appendfsync"));
    if (s.evicts)
        s.danger = "the store evicts keys when its memory is full (maxmemory-policy is not noeviction)";
    else if (!s.appends && !s.snapshots)
        s.danger = "the store keeps nothing on disk (appendonly is no and save is empty)";
    s.snapshots_only = !s.danger && !s.appends;
    return s;
}

void safety_log(const safety *now, const safety *before, bool allow_unsafe)
{
    /* Hosted stores often forbid CONFIG. */
    if (!now->known && (!before || before->known))
        log_warn("store-safety-unknown", "reason=\"CONFIG GET is not permitted\"");
    if (now->danger && (!before || now->danger != before->danger))
        log_warn("store-unsafe", "reason=\"%s\"%s", now->danger, allow_unsafe ? " allowed=yes" : "");
    if (now->snapshots_only && (!before || !before->snapshots_only))
        log_warn("store-snapshots-only",
                 "reason=\"appendonly is no: a crash loses the writes after the last snapshot\"");
}
