/* A MariaDB of a test's own, by examples/ledger/mariadb.sh: no network, a unix socket, its data in a directory that is
 * removed at the end. */
#ifndef LOCKSTOCK_TESTS_MARIADB_FIXTURE_H
#define LOCKSTOCK_TESTS_MARIADB_FIXTURE_H

#include <stdbool.h>

typedef struct mariadb_fixture mariadb_fixture;

/* Whether it can be started; says on stdout that tests are skipped where it cannot. */
bool mariadb_fixture_is_installed(void);

/* Starts it. NULL on failure, which is said on stderr. */
mariadb_fixture *mariadb_fixture_start(void);

/* The socket's path; the user is root, without a password. */
const char *mariadb_fixture_socket(const mariadb_fixture *fixture);

/* kill -9. Its data stays. */
void mariadb_fixture_kill(mariadb_fixture *fixture);

/* After a kill: a new one on the same data. False: it does not start, which is said on stderr. */
bool mariadb_fixture_restart(mariadb_fixture *fixture);

/* Takes NULL. */
void mariadb_fixture_free(mariadb_fixture *fixture);

#endif
