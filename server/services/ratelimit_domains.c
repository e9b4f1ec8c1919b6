/* Invariant: a domain and its policies are one block of memory, so they are kept or dropped together. */
#include "services/ratelimit_domains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "memory.h"

typedef struct domain {
    TAILQ_ENTRY(domain) next;
    domain_policies policies;
    lks_rpc_slice ns;
    const char *name;
    domain_policy policy[]; /* followed by their text */
} domain;

struct ratelimit_domains {
    size_t capacity, n;                   /* policies */
    TAILQ_HEAD(domain_list, domain) list; /* the most recently used first */
};

/* ---- what is known ---------------------------------------------------------------------- */

ratelimit_domains *ratelimit_domains_new(size_t capacity)
{
    ratelimit_domains *all = memory_alloc(sizeof *all);

    *all = (ratelimit_domains){.capacity = capacity};
    TAILQ_INIT(&all->list);
    return all;
}

/* A domain without policies counts as one. */
static size_t size_of(const domain *d)
{
    return d->policies.n + 1;
}

static void drop(ratelimit_domains *all, domain *d)
{
    TAILQ_REMOVE(&all->list, d, next);
    all->n -= size_of(d);
    free(d);
}

void ratelimit_domains_free(ratelimit_domains *all)
{
    while (all && !TAILQ_EMPTY(&all->list))
        drop(all, TAILQ_FIRST(&all->list));
    free(all);
}

static domain *find(ratelimit_domains *all, lks_rpc_slice ns, const char *name, size_t len)
{
    domain *d;

    TAILQ_FOREACH(d, &all->list, next)
        if (d->ns.len == ns.len && memcmp(d->ns.data, ns.data, ns.len) == 0 && strlen(d->name) == len &&
            memcmp(d->name, name, len) == 0)
            return d;
    return NULL;
}

domain_policies *ratelimit_domains_find(ratelimit_domains *all, lks_rpc_slice ns, const char *name)
{
    domain *d = find(all, ns, name, strlen(name));

    if (!d)
        return NULL;
    TAILQ_REMOVE(&all->list, d, next);
    TAILQ_INSERT_HEAD(&all->list, d, next);
    return &d->policies;
}

void ratelimit_domains_forget(ratelimit_domains *all, lks_rpc_slice ns, const char *policy)
{
    domain *d = find(all, ns, policy, strcspn(policy, "/"));

    if (d)
        drop(all, d);
}

static char *put_text(char **to, const char *text, size_t len)
{
    char *copy = *to;

    memcpy(copy, text, len);
    copy[len] = '\0';
    *to += len + 1;
    return copy;
}

void ratelimit_domains_put(ratelimit_domains *all, lks_rpc_slice ns, const char *name, const domain_policies *read)
{
    size_t bytes = read->n * sizeof read->policy[0] + ns.len + strlen(name) + 2;

    for (size_t i = 0; i < read->n; i++)
        bytes += strlen(read->policy[i].name) + 1;
    domain *d = memory_alloc(sizeof *d + bytes);
    char *text = (char *)&d->policy[read->n];
    *d = (domain){.policies = *read, .ns.len = ns.len};
    d->policies.policy = d->policy;
    d->ns.data = put_text(&text, ns.data, ns.len);
    d->name = put_text(&text, name, strlen(name));
    for (size_t i = 0; i < read->n; i++) {
        d->policy[i] = read->policy[i];
        d->policy[i].name = put_text(&text, read->policy[i].name, strlen(read->policy[i].name));
        d->policies.has_stars = d->policies.has_stars || strchr(read->policy[i].name, '*');
    }
    ratelimit_domains_forget(all, ns, name);
    while (!TAILQ_EMPTY(&all->list) && all->n + size_of(d) > all->capacity)
        drop(all, TAILQ_LAST(&all->list, domain_list));
    TAILQ_INSERT_HEAD(&all->list, d, next);
    all->n += size_of(d);
}

/* ---- search ----------------------------------------------------------------------------- */

/* Policies from `from` up to, not including, `to`. */
typedef struct range {
    size_t from, to;
} range;

typedef struct search {
    const domain_policies *in;
    const domain_entry *entries;
    size_t n;
    char name[SERVICE_NAME_BYTES_MAX + 1]; /* as far as the search has got */
} search;

/* Returns the first policy in the range whose first `len` bytes are not before the name's, or, with `past`, are after
 * them. */
static size_t bound(const search *s, range within, size_t len, bool past)
{
    while (within.from < within.to) {
        size_t middle = within.from + (within.to - within.from) / 2;
        int order = strncmp(s->in->policy[middle].name, s->name, len);
        if (order < 0 || (past && order == 0))
            within.from = middle + 1;
        else
            within.to = middle;
    }
    return within.from;
}

static range begin_with(const search *s, range within, size_t len)
{
    return (range){bound(s, within, len, false), bound(s, within, len, true)};
}

static const domain_policy *look(search *s, size_t at, size_t len, range within);

/* Adds this entry to the first `len` bytes of the name, then searches for the other entries. */
static const domain_policy *look_for(search *s, size_t at, size_t len, range within, const char *value,
                                     size_t value_len, const char *star)
{
    bool last = at + 1 == s->n, bare = value_len == 0 && *star == '\0';
    int more = snprintf(s->name + len, sizeof s->name - len, "%s%s%.*s%s%s", s->entries[at].key, bare ? "" : "=",
                        (int)value_len, value, star, last ? "" : "/");

    len += (size_t)more;
    if (len > SERVICE_NAME_BYTES_MAX)
        return NULL;
    range found = begin_with(s, within, last ? len + 1 : len); /* including its NUL, to match the whole name */
    if (found.from == found.to)
        return NULL;
    return last ? &s->in->policy[found.from] : look(s, at + 1, len, found);
}

/* Tries each way to match an entry, the most specific first. */
static const domain_policy *look(search *s, size_t at, size_t len, range within)
{
    const domain_entry *entry = &s->entries[at];
    const domain_policy *found = look_for(s, at, len, within, entry->value, strlen(entry->value), "");

    for (size_t n = s->in->has_stars ? strlen(entry->start) + 1 : 0; n > 0 && !found; n--)
        found = look_for(s, at, len, within, entry->start, n - 1, "*");
    if (!found && entry->value[0] != '\0')
        found = look_for(s, at, len, within, "", 0, "");
    return found;
}

const domain_policy *domain_policies_find(const domain_policies *in, const char *name, const domain_entry *entries,
                                          size_t n)
{
    search s = {.in = in, .entries = entries, .n = n};
    int len = snprintf(s.name, sizeof s.name, "%s/", name);

    if (n == 0 || len > SERVICE_NAME_BYTES_MAX)
        return NULL;
    return look(&s, 0, (size_t)len, begin_with(&s, (range){0, in->n}, (size_t)len));
}
