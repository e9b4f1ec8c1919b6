/* docs/scenes.md, which has the tables of scenes as they are printed. */
#ifndef LOCKSTOCK_TESTS_SCENE_PAGE_H
#define LOCKSTOCK_TESTS_SCENE_PAGE_H

#include "test.h"

/* Fails unless the page has the table, to the letter. SCENES_PAGE_PATH names the page. */
static inline void assert_on_scene_page(const char *table)
{
    enum { PAGE_MAX = 1 << 17 };
    FILE *file = fopen(SCENES_PAGE_PATH, "r");
    char *page = calloc(1, PAGE_MAX);

    assert_non_null(file);
    assert_non_null(page);
    assert_in_range(fread(page, 1, PAGE_MAX - 1, file), 1, PAGE_MAX - 2);
    fclose(file);
    if (table[0] == '\0' || !strstr(page, table))
        fail_msg("not a table of %s:\n%s", SCENES_PAGE_PATH, table);
    free(page);
}

#endif
