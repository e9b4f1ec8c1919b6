/* README's call in C is a file that is compiled and run here, to the letter. */
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

static void test_readme_shows_the_file(void **state)
{
    static const char marker[] = "<!-- examples/quickstart.c -->\n```c\n";
    char *readme = read_file(README_PATH), *source = read_file(QUICKSTART_SOURCE);

    (void)state;
    char *block = strstr(readme, marker);
    assert_non_null(block);
    block += sizeof marker - 1;
    char *end = strstr(block, "```\n");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(block, source);
    free(readme);
    free(source);
}

static void assert_quickstart_says(const char *url, const char *text)
{
    const char *const argv[] = {QUICKSTART_PATH, url, NULL};
    process *p = process_spawn(argv, NULL);

    assert_non_null(p);
    assert_true(process_exited_with(p, 0, 60000));
    assert_string_equal(process_output(p), text);
    process_free(p);
}

static void test_it_runs(void **state)
{
    (void)state;
    server_fixture *server = server_fixture_start(NULL);
    assert_non_null(server);
    assert_quickstart_says(server_fixture_url(server), "yours\n");
    assert_quickstart_says(server_fixture_url(server), "yours\n"); /* the same order again */
    assert_true(server_fixture_stop(server, 60000));
    server_fixture_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readme_shows_the_file),
        cmocka_unit_test(test_it_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
