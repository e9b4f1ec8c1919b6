/* An ensemble of ZooKeeper of a test's own, on loopback ports, its data in a temporary directory. Main thread only
 * (see process.h). Failures are printed on stderr. */
#ifndef LOCKSTOCK_TESTS_ZOOKEEPER_FIXTURE_H
#define LOCKSTOCK_TESTS_ZOOKEEPER_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct zookeeper_fixture zookeeper_fixture;

enum { ZOOKEEPER_FIXTURE_MAX = 3 };

/* Whether Java and ZooKeeper are installed. Returns false, with the missing one on stderr: then skip(). */
bool zookeeper_fixture_can_start(void);

/* Starts n members, 1 or 3, and waits until all serve. Their session timeouts are 1 to 10 seconds. NULL on failure. The
 * caller frees. */
zookeeper_fixture *zookeeper_fixture_start(size_t n);

/* "127.0.0.1:11001,127.0.0.1:11004", for the whole life of the fixture. */
const char *zookeeper_fixture_hosts(const zookeeper_fixture *fixture);

/* The port for clients of member i, which counts from 0. */
unsigned short zookeeper_fixture_port(const zookeeper_fixture *fixture, size_t i);

/* Sends a signal to member i. SIGKILL and SIGSTOP: returns when it is gone, or all its threads have stopped. */
void zookeeper_fixture_signal(zookeeper_fixture *fixture, size_t i, int signal_number);

/* Starts member i again after SIGKILL, on its data and port, without a wait. False: it cannot be started. */
bool zookeeper_fixture_start_again(zookeeper_fixture *fixture, size_t i);

/* Waits until all members that run serve. False after a minute, or when one has ended. Not while one is stopped. */
bool zookeeper_fixture_wait(zookeeper_fixture *fixture);

/* The member that leads, or the only one; -1: none does now. */
int zookeeper_fixture_leader(const zookeeper_fixture *fixture);

/* What member i answers to a four-letter word ("srvr", "cons"), to be freed; NULL: nothing. */
char *zookeeper_fixture_ask(const zookeeper_fixture *fixture, size_t i, const char *word);

/* Kills all, removes the directory, frees. Takes NULL. */
void zookeeper_fixture_free(zookeeper_fixture *fixture);

#endif
