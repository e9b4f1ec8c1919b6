/* All names that the generated files define, each with its place, to find equal names. */
#ifndef LOCKSTOCK_GEN_NAMES_H
#define LOCKSTOCK_GEN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "pool.h"

typedef struct gen_names {
    size_t n, room;
    struct name *list;
} gen_names;

/* Adds a name. `at` is its place; `wanted`: its file is generated now. Returns the name. */
const char *names_add(gen_names *names, gen_pool *pool, const char *name, const char *at, bool wanted);

/* Reports each pair of elements with equal names of which at least one is wanted, in the order of adding. No name
 * may be added afterwards. */
void names_clashes(gen_names *names, gen_pool *pool, FILE *errors);

#endif
