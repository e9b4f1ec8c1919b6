#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "mangle.h"

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
        if (names->n > 0)
            memcpy(list, names->list, names->n * sizeof *list);
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

typedef struct clash {
    const struct name *first, *second;
} clash;

static int compare_clashes(const void *a, const void *b)
{
    size_t left = ((const clash *)a)->second->order, right = ((const clash *)b)->second->order;
    return (left > right) - (left < right);
}

/* Two elements often clash in several names. Whether an earlier clash of the two was reported: only the first one
 * is. */
static bool is_reported(const clash *clashes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(clashes[i].first->at, clashes[n].first->at) == 0 &&
            strcmp(clashes[i].second->at, clashes[n].second->at) == 0)
            return true;
    return false;
}

void names_clashes(gen_names *names, gen_pool *pool, FILE *errors)
{
    clash *clashes = pool_alloc(pool, names->n, sizeof *clashes);
    size_t n = 0;
    if (names->n > 0)
        qsort(names->list, names->n, sizeof *names->list, compare_names);
    for (size_t i = 1; i < names->n; i++) {
        const struct name *first = &names->list[i - 1], *second = &names->list[i];
        if (strcmp(first->name, second->name) == 0 && (first->wanted || second->wanted))
            clashes[n++] = (clash){first, second};
    }
    for (size_t i = 0; i < names->n; i++)
        if (names->list[i].wanted && mangle_is_taken(names->list[i].name))
            fprintf(errors, "%s: its name in C, %s, is a word of C or C++\n", names->list[i].at, names->list[i].name);
    qsort(clashes, n, sizeof *clashes, compare_clashes);
    for (size_t i = 0; i < n; i++) {
        if (!is_reported(clashes, i)) {
            fprintf(errors, "%s: its name in C, %s, is also that of %s\n", clashes[i].second->at,
                    clashes[i].second->name, clashes[i].first->at);
        }
    }
}
