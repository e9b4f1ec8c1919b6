#include "support/mariadb_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/process.h"
#include "support/tempdir.h"

enum { LIMIT_MS = 100000 };

struct mariadb_fixture {
    process *process;
    char *dir;
    char data[256], socket[256];
};

bool mariadb_fixture_is_installed(void)
{
    if (system("PATH=\"$PATH:/usr/sbin\"; command -v mariadbd mariadb-install-db >/dev/null") == 0)
        return true;
    printf("skipped: MariaDB is not installed (apt-get install mariadb-server)\n");
    return false;
}

static bool start(mariadb_fixture *fixture)
{
    const char *const argv[] = {MARIADB_SH, fixture->data, NULL};

    fixture->process = process_spawn(argv, NULL);
    if (fixture->process && process_wait_line(fixture->process, "ready for connections", NULL, 0, LIMIT_MS))
        return true;
    fprintf(stderr, "mariadbd does not start: %s\n", fixture->process ? process_output(fixture->process) : "");
    return false;
}

mariadb_fixture *mariadb_fixture_start(void)
{
    mariadb_fixture *fixture = calloc(1, sizeof *fixture);

    if (!fixture || !(fixture->dir = tempdir_make())) {
        free(fixture);
        return NULL;
    }
    snprintf(fixture->data, sizeof fixture->data, "%s/mariadb", fixture->dir);
    snprintf(fixture->socket, sizeof fixture->socket, "%s/mariadb/sock", fixture->dir);
    if (start(fixture))
        return fixture;
    mariadb_fixture_free(fixture);
    return NULL;
}

const char *mariadb_fixture_socket(const mariadb_fixture *fixture)
{
    return fixture->socket;
}

void mariadb_fixture_kill(mariadb_fixture *fixture)
{
    process_kill(fixture->process);
    process_free(fixture->process);
    fixture->process = NULL;
}

bool mariadb_fixture_restart(mariadb_fixture *fixture)
{
    return start(fixture);
}

void mariadb_fixture_free(mariadb_fixture *fixture)
{
    if (!fixture)
        return;
    process_free(fixture->process);
    tempdir_remove(fixture->dir);
    free(fixture);
}
