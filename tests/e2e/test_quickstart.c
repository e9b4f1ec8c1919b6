/* Code in README and docs/ is a file that is compiled and run here, to the letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/server_fixture.h"

static char *read_file(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");

    assert_non_null(text);
    if (file == NULL) {
        fail_msg("cannot read %s", path);
    }
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    assert_true(n > 0);
    return text;
}

/* The page's block under `marker` is the source file. */
static void assert_shows(const char *page_path, const char *marker, const char *source_path)
{
    char *page = read_file(page_path), *source = read_file(source_path);
    char *block = strstr(page, marker);

    assert_non_null(block);
    block += strlen(marker);
    char *end = strstr(block, "```\n");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(block, source);
    free(page);
    free(source);
}

static void test_readme_shows_the_file(void **state)
{
    (void)state;
    assert_shows(README_PATH, "<!-- examples/quickstart.c -->\n```c\n", QUICKSTART_SOURCE);
}

static void test_stock_page_shows_the_file(void **state)
{
    (void)state;
    assert_shows(STOCK_PAGE_PATH, "<!-- examples/cart.c -->\n```c\n", CART_SOURCE);
}

static void test_locks_page_shows_the_file(void **state)
{
    (void)state;
    assert_shows(LOCKS_PAGE_PATH, "<!-- examples/fence.c -->\n```c\n", FENCE_SOURCE);
}

static void assert_says(const char *program, const char *url, const char *text)
{
    const char *const argv[] = {program, url, NULL};
    process *p = process_spawn(argv, NULL);

    assert_non_null(p);
    assert_true(process_exited_with(p, 0, 60000));
    assert_string_equal(process_output(p), text);
    process_free(p);
}

static void test_they_run(void **state)
{
    (void)state;
    server_fixture *server = server_fixture_start(NULL);
    assert_non_null(server);
    assert_says(QUICKSTART_PATH, server_fixture_url(server), "yours\n");
    assert_says(QUICKSTART_PATH, server_fixture_url(server), "yours\n"); /* the same order again */
    assert_says(CART_PATH, server_fixture_url(server),
                "order-1: sold\norder-1: sold before\norder-2: enough of phone\n"
                "ledger: order-1 sold 1 of phone\nledger: order-1 sold 2 of cover\n");
    assert_says(FENCE_PATH, server_fixture_url(server), "the second writes\nthe first is too late\n");
    assert_true(server_fixture_stop(server, 60000));
    server_fixture_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readme_shows_the_file),
        cmocka_unit_test(test_stock_page_shows_the_file),
        cmocka_unit_test(test_locks_page_shows_the_file),
        cmocka_unit_test(test_they_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
