/* Every name the generated files define, and where each comes from, so that two
 * that come out alike are found. */
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

/* `at` says where the name comes from; `wanted`, whether its file is generated
 * now. Returns the name. */
const char *names_add(gen_names *names, gen_pool *pool, const char *name, const char *at, bool wanted);

/* Writes a line for each two elements with a name alike, of which at least one is
 * wanted, in the order of adding. Sorts the list: nothing may be added after. */
void names_clashes(gen_names *names, gen_pool *pool, FILE *errors);

#endif
