/* The list is in the order of adding until names_clashes sorts it. */
#include "names.h"

#include <stdlib.h>
#include <string.h>

struct name {
    const char *name;
    const char *at;
    bool wanted;
    size_t order;
};

const char *names_add(gen_names *names, gen_pool *pool, const char *name, const char *at, bool wanted)
{
    if (names->n == names->room) {
        names->room = names->room == 0 ? 256 : 2 * names->room;
        struct name *list = pool_alloc(pool, names->room, sizeof *list);
        if (names->n > 0) {
            memcpy(list, names->list, names->n * sizeof *list);
        }
        names->list = list;
    }
    names->list[names->n] = (struct name){name, at, wanted, names->n};
    names->n++;
    return name;
}

static int compare_names(const void *a, const void *b)
{
    const struct name *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order : (left->order > right->order) - (left->order < right->order);
}

void names_clashes(gen_names *names, FILE *errors)
{
    if (names->n == 0) {
        return;
    }
    qsort(names->list, names->n, sizeof *names->list, compare_names);
    for (size_t i = 1; i < names->n; i++) {
        const struct name *first = &names->list[i - 1], *second = &names->list[i];
        if (strcmp(first->name, second->name) == 0 && (first->wanted || second->wanted)) {
            fprintf(errors, "%s: its name in C, %s, is also that of %s\n", second->at, second->name, first->at);
        }
    }
}
