/* A chained hash table of fixed width. Ids are nng's pipe ids, which count up, so
 * their low bits spread evenly. */
#include <stdlib.h>

#include "connections.h"

enum { WIDTH = 1024 };

struct connections {
    uint32_t max;
    uint32_t n;
    connection *heads[WIDTH];
};

connections *connections_new(uint32_t max)
{
    connections *all = calloc(1, sizeof *all);
    if (all)
        all->max = max;
    return all;
}

void connections_free(connections *all)
{
    for (size_t i = 0; all && i < WIDTH; i++) {
        for (connection *at = all->heads[i], *next; at; at = next) {
            next = at->next;
            free(at);
        }
    }
    free(all);
}

bool connections_add(connections *all, uint32_t id)
{
    if (all->n >= all->max)
        return false;
    connection *added = malloc(sizeof *added);
    if (!added)
        return false;
    *added = (connection){.id = id, .next = all->heads[id % WIDTH]};
    all->heads[id % WIDTH] = added;
    all->n++;
    return true;
}

void connections_remove(connections *all, uint32_t id)
{
    for (connection **at = &all->heads[id % WIDTH]; *at; at = &(*at)->next) {
        if ((*at)->id == id) {
            connection *gone = *at;
            *at = gone->next;
            free(gone);
            all->n--;
            return;
        }
    }
}

connection *connections_find(const connections *all, uint32_t id)
{
    connection *at = all->heads[id % WIDTH];
    while (at && at->id != id)
        at = at->next;
    return at;
}
