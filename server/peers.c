/* Invariant: an entry exists exactly while its connection has a call under way,
 * so the table is bounded by the calls in flight and forgets by itself. */
#include "peers.h"

#include <stddef.h>
#include <stdlib.h>

enum { N_BUCKETS = 1024 };

typedef struct entry {
    struct entry *next;
    uint32_t peer;
    uint32_t calls;
} entry;

struct peers {
    uint32_t limit;
    entry *buckets[N_BUCKETS];
};

peers *peers_new(uint32_t limit)
{
    peers *all = calloc(1, sizeof *all);

    if (all)
        all->limit = limit;
    return all;
}

void peers_free(peers *all)
{
    for (size_t i = 0; all && i < N_BUCKETS; i++) {
        while (all->buckets[i]) {
            entry *gone = all->buckets[i];
            all->buckets[i] = gone->next;
            free(gone);
        }
    }
    free(all);
}

/* The link that points to the peer's entry, or the one where it belongs. */
static entry **find(peers *all, uint32_t peer)
{
    entry **link = &all->buckets[peer % N_BUCKETS];

    while (*link && (*link)->peer != peer)
        link = &(*link)->next;
    return link;
}

bool peers_enter(peers *all, uint32_t peer)
{
    entry **link = find(all, peer);

    if (!*link) {
        *link = malloc(sizeof **link);
        if (!*link)
            return false;
        **link = (entry){.peer = peer};
    }
    if ((*link)->calls == all->limit)
        return false;
    (*link)->calls++;
    return true;
}

void peers_leave(peers *all, uint32_t peer)
{
    entry **link = find(all, peer);

    if (*link && --(*link)->calls == 0) {
        entry *gone = *link;
        *link = gone->next;
        free(gone);
    }
}
