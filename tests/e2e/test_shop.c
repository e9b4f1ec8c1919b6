/* examples/shop: its scenes, each by the command, with a lockstockd of the test's own; what they print stands in
 * docs/scenes.md. */

#include "e2e/scene_page.h"
#include "support/counts.h"
#include "support/server_fixture.h"

enum { LIMIT_MS = 500000 };

static server_fixture *server;

static int start(void **state)
{
    server = server_fixture_start(NULL);
    return server ? 0 : -1;
}

static int stop(void **state)
{
    int status = server_fixture_stop(server, 60000) ? 0 : -1;

    server_fixture_free(server);
    return status;
}

static process *run(const char *scene, int code)
{
    char buyers[16];
    const char *const argv[] = {SHOP_SCENES_PATH, "--url", server_fixture_url(server), "--scene", scene, "--buyers",
                                buyers,           NULL};

    snprintf(buyers, sizeof buyers, "%zu", counts_of(40, 1000));
    process *p = process_spawn(argv, NULL);
    assert_non_null(p);
    if (!process_exited_with(p, code, LIMIT_MS))
        fail_msg("scene %s", scene);
    return p;
}

static void run_documented(const char *scene)
{
    process *p = run(scene, 0);

    assert_on_scene_page(process_output(p));
    process_free(p);
}

TEST(double_clicks)
{
    process *p = run("m", 0);

    if (strstr(process_output(p), "skipped:"))
        printf("%s", process_output(p));
    else
        assert_on_scene_page(process_output(p));
    process_free(p);
}

TEST(two_tabs)
{
    run_documented("n");
}

TEST(retry_storm)
{
    run_documented("o");
}

TEST(killed_in_the_handler)
{
    run_documented("p");
}

TEST(frozen_in_the_handler)
{
    run_documented("q");
}

/* Exit statuses are what scripts go by. */
TEST(what_is_not_a_scene)
{
    process *p = run("z", 2);

    assert_non_null(strstr(process_output(p), "no scene \"z\""));
    process_free(p);
}

TEST_MAIN(.setup_all = start, .teardown_all = stop)
