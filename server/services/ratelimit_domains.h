/* The policies of the domains that Envoy has asked about, and the search for the policy that matches a descriptor. The
 * caller decides by their times whether they are too old. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_RATELIMIT_DOMAINS_H
#define LOCKSTOCK_SERVER_RATELIMIT_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>

#include "services/ratelimit.h"

typedef struct ratelimit_domains ratelimit_domains;

typedef struct domain_policy {
    const char *name;
    bool shadow;
    limit_spec spec;
} domain_policy;

/* An entry of a descriptor, percent-encoded. */
typedef struct domain_entry {
    const char *key;
    const char *value; /* "" = none; a long value is hashed */
    const char *start; /* for patterns: the part of the value that fits into a name */
} domain_entry;

/* All policies of one domain. */
typedef struct domain_policies {
    int64_t version;     /* the version from the store */
    uint64_t read_ns;    /* CLOCK_MONOTONIC, before the domain was read */
    uint64_t checked_ns; /* the same, before it was last found unchanged */
    size_t n;
    const domain_policy *policy; /* sorted by name, bytewise */
    bool has_stars;              /* set by ratelimit_domains_put: a name contains a star */
} domain_policies;

/* Makes room for `capacity` policies, at least those of one domain. */
ratelimit_domains *ratelimit_domains_new(size_t capacity);

/* Takes NULL. */
void ratelimit_domains_free(ratelimit_domains *all);

/* Finds a domain, which becomes the most recently used one; valid until another is put. NULL: not known. `domain` is
 * percent-encoded. */
domain_policies *ratelimit_domains_find(ratelimit_domains *all, lks_rpc_slice ns, const char *domain);

/* Replaces the known policies of the domain by a copy of `read`. */
void ratelimit_domains_put(ratelimit_domains *all, lks_rpc_slice ns, const char *domain, const domain_policies *read);

/* Forgets the domain of a policy that has changed. */
void ratelimit_domains_forget(ratelimit_domains *all, lks_rpc_slice ns, const char *policy);

/* Returns the most specific policy that matches all entries of a descriptor; NULL: none. An entry matches by its key
 * and value, or else by its key and a beginning of its value followed by a star, the longest first, or else by its key
 * alone. The first entry takes precedence over the second. */
const domain_policy *domain_policies_find(const domain_policies *in, const char *domain, const domain_entry *entries,
                                          size_t n);

#endif
