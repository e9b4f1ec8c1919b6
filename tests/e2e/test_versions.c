/* examples/versions: scene l, with a MariaDB of its own. */

#include "e2e/scene_page.h"
#include "support/mariadb_fixture.h"
#include "support/server_fixture.h"

enum { LIMIT_MS = 100000 };

static mariadb_fixture *database;
static server_fixture *server;

static int start(void **state)
{
    if (!mariadb_fixture_is_installed())
        return 0;
    database = mariadb_fixture_start();
    server = server_fixture_start(NULL);
    return database && server ? 0 : -1;
}

static int stop(void **state)
{
    int status = !server || server_fixture_stop(server, LIMIT_MS) ? 0 : -1;

    server_fixture_free(server);
    mariadb_fixture_free(database);
    return status;
}

TEST(same_buyers_by_each_way)
{
    if (!database)
        skip();
    const char *const argv[] = {VERSIONS_PATH, server_fixture_url(server), mariadb_fixture_socket(database), NULL};
    process *p = process_spawn(argv, NULL);
    assert_non_null(p);
    assert_true(process_exited_with(p, 0, LIMIT_MS));
    assert_on_scene_page(process_output(p));
    process_free(p);
}

TEST(without_a_database_it_says_so)
{
    if (!database)
        skip();
    const char *const argv[] = {VERSIONS_PATH, server_fixture_url(server), "/nowhere/sock", NULL};
    process *p = process_spawn(argv, NULL);
    assert_non_null(p);
    assert_true(process_exited_with(p, 1, LIMIT_MS));
    assert_non_null(strstr(process_output(p), "MariaDB at /nowhere/sock"));
    process_free(p);
}

TEST_MAIN(.setup_all = start, .teardown_all = stop)
