/* The policies of the domains that Envoy asked about lately, and finding the one that a
 * descriptor meets. What it holds is as old as its times say; whether that is too old is
 * the caller's to say. Loop thread only. */
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
    const char *value; /* "" = none; what is long is hashed */
    const char *start; /* what a pattern is compared with: as much of it as a name can hold */
} domain_entry;

/* All policies of one domain. */
typedef struct domain_policies {
    int64_t version;     /* what the store called this reading */
    uint64_t read_ns;    /* CLOCK_MONOTONIC, before it was read */
    uint64_t checked_ns; /* before it was last found to be still the same */
    size_t n;
    const domain_policy *policy; /* by name, in the order of bytes */
    bool has_stars;              /* set by ratelimit_domains_put: one is met by beginnings */
} domain_policies;

/* Room for `capacity` policies, those of one domain at least. */
ratelimit_domains *ratelimit_domains_new(size_t capacity);

/* Takes NULL. */
void ratelimit_domains_free(ratelimit_domains *all);

/* What is known of a domain, which is now the most recently used one; valid until another
 * is put. NULL: nothing. `domain` is percent-encoded. */
domain_policies *ratelimit_domains_find(ratelimit_domains *all, lks_rpc_slice ns, const char *domain);

/* Keeps a copy in place of what was known. */
void ratelimit_domains_put(ratelimit_domains *all, lks_rpc_slice ns, const char *domain, const domain_policies *read);

/* A policy has changed: forgets its domain. */
void ratelimit_domains_forget(ratelimit_domains *all, lks_rpc_slice ns, const char *policy);

/* The most specific policy that is met by the whole of a descriptor; NULL: none. An entry
 * is met by its key and value, by its key and the beginning of its value with a star
 * behind, or by its key alone, in this order, the longer beginning first; and the first
 * entry counts before the second. */
const domain_policy *domain_policies_find(const domain_policies *in, const char *domain, const domain_entry *entries,
                                          size_t n);

#endif
