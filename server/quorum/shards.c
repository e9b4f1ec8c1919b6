#include "quorum/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "memory.h"
#include "quorum/paths.h"

void shards_clear(shards *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->names[i].name);
    free(s->names);
    s->names = NULL;
    s->n = s->at = 0;
}

static int by_digest(const void *a, const void *b)
{
    const shard_name *left = a, *right = b;

    return strcmp(left->digest, right->digest);
}

static void add_name(shards *s, const char *name)
{
    char hex[DIGEST_HEX_LEN + 1];
    shard_name *to = &s->names[s->n];

    digest_hex(name, strlen(name), hex);
    snprintf(to->digest, sizeof to->digest, "%.*s", SHARD_DIGEST_CHARS, hex);
    const int order = strcmp(to->digest, s->after);
    if (order < 0 || (order == 0 && !s->including))
        return;
    to->name = memory_copy(name, strlen(name));
    s->n++;
}

static void on_children(void *arg, zk_code code, const char *const *names, size_t n)
{
    shards *s = arg;

    if (code != ZK_OK) {
        s->end(s->arg, false);
        return;
    }
    s->names = memory_alloc((n + 1) * sizeof *s->names);
    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], s->prefix, strlen(s->prefix)) == 0)
            add_name(s, names[i]);
    qsort(s->names, s->n, sizeof *s->names, by_digest);
    s->after[0] = '\0';
    shards_next(s);
}

static char *path_at(const shards *s)
{
    char shard[SHARD_PATH_BYTES];
    const char *name = s->names[s->at].name;
    const size_t room = sizeof shard + strlen(name) + 1;
    char *path = memory_alloc(room);

    paths_of_shard(s->shard, shard);
    snprintf(path, room, "%s/%s", shard, name);
    return path;
}

static void on_group(void *arg, zk_code code, const char *data, size_t len, int32_t version)
{
    shards *s = arg;
    char *path = path_at(s);
    stored_group found;

    s->at++;
    if (code != ZK_OK && code != ZK_NO_NODE) {
        free(path);
        s->end(s->arg, false);
        return;
    }
    stored_init(&found);
    const bool is_good = code == ZK_OK && stored_unpack(&found, data, len);
    s->group(s->arg, path, is_good ? &found : NULL, version);
    stored_free(&found);
    free(path);
}

static void read_names(shards *s)
{
    char path[SHARD_PATH_BYTES];

    paths_of_shard(s->shard, path);
    zk_children(s->quorum->zookeeper, path, false, on_children, s);
}

void shards_next(shards *s)
{
    if (s->quorum->state != QUORUM_READY) {
        s->end(s->arg, false);
    } else if (!s->names) {
        read_names(s);
    } else if (s->at < s->n) {
        char *path = path_at(s);
        zk_get(s->quorum->zookeeper, path, on_group, s);
        free(path);
    } else if (++s->shard < SHARDS) {
        shards_clear(s);
        read_names(s);
    } else {
        s->end(s->arg, true);
    }
}

const char *shards_digest(const shards *s)
{
    return s->names[s->at - 1].digest;
}
