/* Invariant: each entry is in the chain of its bucket and in the list of use, there are
 * n <= capacity of them, and the list's first is the one used last. */
#include "services/ratelimit_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "memory.h"

typedef struct entry {
    struct entry *chain;         /* of the bucket */
    struct entry *newer, *older; /* in the list of use */
    cached_policy policy;
    size_t ns_len, name_len;
    char text[]; /* namespace, then name */
} entry;

struct ratelimit_cache {
    size_t capacity, n;
    entry *first, *last;
    entry *bucket[]; /* capacity of them */
};

static entry **bucket_of(ratelimit_cache *c, const char *ns, size_t ns_len, const char *name, size_t name_len)
{
    return &c->bucket[hash_more(hash_more(HASH_START, ns, ns_len), name, name_len) % c->capacity];
}

/* Where the entry is pointed at from its chain; where a new one belongs when there is none. */
static entry **find(ratelimit_cache *c, lks_rpc_slice ns, const char *name)
{
    size_t name_len = strlen(name);
    entry **at = bucket_of(c, ns.data, ns.len, name, name_len);

    for (; *at; at = &(*at)->chain) {
        const entry *e = *at;
        if (e->ns_len == ns.len && e->name_len == name_len && memcmp(e->text, ns.data, ns.len) == 0 &&
            memcmp(e->text + ns.len, name, name_len) == 0)
            break;
    }
    return at;
}

static void unlist(ratelimit_cache *c, entry *e)
{
    *(e->newer ? &e->newer->older : &c->first) = e->older;
    *(e->older ? &e->older->newer : &c->last) = e->newer;
}

static void list_first(ratelimit_cache *c, entry *e)
{
    e->newer = NULL;
    e->older = c->first;
    *(c->first ? &c->first->newer : &c->last) = e;
    c->first = e;
}

static void drop(ratelimit_cache *c, entry **at)
{
    entry *e = *at;

    *at = e->chain;
    unlist(c, e);
    c->n--;
    free(e);
}

ratelimit_cache *ratelimit_cache_new(size_t capacity)
{
    ratelimit_cache *c = memory_alloc(sizeof *c + capacity * sizeof c->bucket[0]);

    c->capacity = capacity;
    return c;
}

void ratelimit_cache_free(ratelimit_cache *c)
{
    entry *e = c ? c->first : NULL;

    while (e) {
        entry *older = e->older;
        free(e);
        e = older;
    }
    free(c);
}

const cached_policy *ratelimit_cache_find(ratelimit_cache *c, lks_rpc_slice ns, const char *name)
{
    entry *e = *find(c, ns, name);

    if (!e)
        return NULL;
    unlist(c, e);
    list_first(c, e);
    return &e->policy;
}

void ratelimit_cache_forget(ratelimit_cache *c, lks_rpc_slice ns, const char *name)
{
    entry **at = find(c, ns, name);

    if (*at)
        drop(c, at);
}

static void drop_last(ratelimit_cache *c)
{
    const entry *e = c->last;
    entry **at = bucket_of(c, e->text, e->ns_len, e->text + e->ns_len, e->name_len);

    while (*at != e)
        at = &(*at)->chain;
    drop(c, at);
}

void ratelimit_cache_put(ratelimit_cache *c, lks_rpc_slice ns, const char *name, const cached_policy *policy)
{
    size_t name_len = strlen(name);

    ratelimit_cache_forget(c, ns, name);
    if (c->n == c->capacity)
        drop_last(c);
    entry *e = memory_alloc(sizeof *e + ns.len + name_len);
    *e = (entry){.policy = *policy, .ns_len = ns.len, .name_len = name_len};
    memcpy(e->text, ns.data, ns.len);
    memcpy(e->text + ns.len, name, name_len);
    entry **at = find(c, ns, name);
    e->chain = *at;
    *at = e;
    list_first(c, e);
    c->n++;
}
