/* A primary with replicas and sentinels of a test's own, on 127.0.0.1 (packaging/redis-set.sh, whose header says what is in
 * it). AOF always; a node that is down for 1 s is replaced. Main thread only (see process.h). Failures go to stderr.
 *
 *     redis_set *set = redis_sentinel_start(2, 3);
 *     server_fixture *server = server_fixture_start(&(server_fixture_options){.store = redis_set_url(set)});
 *     unsigned short old = redis_set_primary(set, 0), now = redis_set_failover(set, old);
 *     redis_set_free(set);
 */
#ifndef LOCKSTOCK_TESTS_REDIS_SET_FIXTURE_H
#define LOCKSTOCK_TESTS_REDIS_SET_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct redis_set redis_set;

/* Waits until all nodes agree, some 3 s. NULL on failure. The caller frees. */
redis_set *redis_sentinel_start(int replicas, int sentinels);

/* "redis+sentinel://127.0.0.1:12020,.../lockstock": all sentinels. */
const char *redis_set_url(const redis_set *set);

/* The port of the i-th node in the order of starting: the primary, then replicas, then sentinels. 0: there is none. */
unsigned short redis_set_port(const redis_set *set, size_t i);

/* The port of the i-th node that reports to be a primary now, in the same order; 0: there is none. */
unsigned short redis_set_primary(const redis_set *set, size_t i);

/* Its pid, for signals; 0 while it does not run. */
pid_t redis_set_pid(const redis_set *set, unsigned short port);

/* kill -9; returns when it is gone. And starts it again on its files; returns when it answers. */
bool redis_set_kill(redis_set *set, unsigned short port);
bool redis_set_restart(redis_set *set, unsigned short port);

/* Has another node take the place of a primary: at once when that answers, else as soon as the others notice. Returns
 * the new primary's port when all others know; 0 on failure. */
unsigned short redis_set_failover(redis_set *set, unsigned short port);

/* Waits until all that run agree, and replicas follow. */
bool redis_set_wait(redis_set *set);

/* One command to one node, words separated by spaces; redis-cli's answer as text, to be freed. NULL on failure. */
char *redis_set_command(const redis_set *set, unsigned short port, const char *command);

/* Kills all, removes the directory, frees. Takes NULL. */
void redis_set_free(redis_set *set);

#endif
