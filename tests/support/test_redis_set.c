/* What packaging/redis-set.sh starts: all agree when it is ready, a killed primary is replaced, slots move with their
 * keys, and nothing stays behind. */

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process.h"
#include "support/redis_set_fixture.h"
#include "test.h"

enum { NODES_MAX = 16, GONE_MS = 10000 };

static void assert_answer(const redis_set *set, unsigned short port, const char *command, const char *expected)
{
    char *answer = redis_set_command(set, port, command);

    assert_non_null(answer);
    answer[strcspn(answer, "\n")] = '\0';
    assert_string_equal(answer, expected);
    free(answer);
}

static size_t pids_of(const redis_set *set, pid_t pids[static NODES_MAX])
{
    size_t n = 0;

    for (unsigned short port; n < NODES_MAX && (port = redis_set_port(set, n)) != 0; n++)
        assert_true((pids[n] = redis_set_pid(set, port)) > 0);
    return n;
}

static void free_all(redis_set *set, size_t n_expected)
{
    struct stat status;
    pid_t pids[NODES_MAX];
    char *dir = strdup(redis_set_dir(set));

    assert_int_equal(pids_of(set, pids), n_expected);
    redis_set_free(set);
    for (size_t i = 0; i < n_expected; i++)
        assert_true(process_wait_gone(pids[i], GONE_MS));
    assert_int_equal(stat(dir, &status), -1);
    free(dir);
}

TEST(a_clusters_slots_move_with_their_keys)
{
    redis_set *set = redis_cluster_start(3, 0, NULL);

    assert_non_null(set);
    assert_int_equal(strncmp(redis_set_url(set), "redis+cluster://127.0.0.1:", 26), 0);
    unsigned short first = redis_set_primary(set, 0), last = redis_set_primary(set, 2);
    assert_true(first != 0 && last != 0 && first != last && redis_set_primary(set, 3) == 0);
    assert_answer(set, first, "CLUSTER KEYSLOT {b}", "3300");
    assert_answer(set, first, "SET {b} 1", "OK");
    assert_answer(set, first, "SET {b}\"\\ 2", "OK"); /* a name with what redis-cli quotes */
    assert_true(redis_set_move_slots(set, 3000, 3999, last));
    assert_answer(set, last, "GET {b}", "1");
    assert_answer(set, last, "GET {b}\"\\", "2");
    assert_answer(set, first, "DBSIZE", "0");
    assert_answer(set, last, "CLUSTER COUNTKEYSINSLOT 3300", "2");
    free_all(set, 3);
}

static void assert_failovers(const redis_set *set, const char *refused)
{
    for (size_t i = 0; i < 4; i++) {
        char *answer = redis_set_command(set, redis_set_port(set, i), "CONFIG GET cluster-replica-no-failover");
        assert_non_null(answer);
        assert_non_null(strstr(answer, refused));
        free(answer);
    }
}

static bool is_importing(const redis_set *set, unsigned short port)
{
    char *answer = redis_set_command(set, port, "CLUSTER NODES");
    bool is = answer && strstr(answer, "[3000-<-");

    free(answer);
    return is;
}

TEST(no_replica_takes_over_while_slots_move)
{
    redis_set *set = redis_cluster_start(2, 1, NULL);
    int moved = -1;

    assert_non_null(set);
    unsigned short from = redis_set_port(set, 0), to = redis_set_port(set, 1);
    assert_failovers(set, "no-failover\nno");
    assert_answer(set, from, "SET {b} 1", "OK");
    assert_answer(set, to, "CONFIG SET maxmemory 1", "OK"); /* so that the keys of the slot stay where they are */
    pid_t mover = fork();
    assert_true(mover >= 0);
    if (mover == 0)
        _exit(redis_set_move_slots(set, 3000, 3500, to) ? 0 : 1);
    while (!is_importing(set, to))
        assert_int_equal(waitpid(mover, &moved, WNOHANG), 0);
    assert_failovers(set, "no-failover\nyes");
    assert_answer(set, to, "CONFIG SET maxmemory 0", "OK");
    assert_int_equal(waitpid(mover, &moved, 0), mover);
    assert_int_equal(moved, 0);
    assert_failovers(set, "no-failover\nno");
    assert_answer(set, to, "GET {b}", "1");
    free_all(set, 4);
}

TEST(a_clusters_killed_primary_is_replaced_and_comes_back_as_a_replica)
{
    redis_set *set = redis_cluster_start(3, 1, NULL);

    assert_non_null(set);
    unsigned short first = redis_set_primary(set, 0);
    assert_answer(set, first, "SET {b} 1", "OK");
    unsigned short second = redis_set_failover(set, first);
    assert_true(second != 0 && second != first);
    assert_true(redis_set_wait(set));
    assert_answer(set, second, "GET {b}", "1");
    assert_true(redis_set_kill(set, second));
    assert_int_equal(redis_set_pid(set, second), 0);
    assert_int_equal(redis_set_failover(set, second), first);
    assert_true(redis_set_restart(set, second));
    assert_true(redis_set_wait(set));
    assert_answer(set, second, "ROLE", "slave");
    assert_answer(set, first, "GET {b}", "1");
    free_all(set, 6);
}

TEST(sentinels_replace_a_killed_primary)
{
    const char *const args[] = {"--password", "secret", NULL};
    redis_set *set = redis_sentinel_start(2, 3, args);

    assert_non_null(set);
    assert_int_equal(strncmp(redis_set_url(set), "redis+sentinel://:secret@127.0.0.1:", 35), 0);
    assert_non_null(strstr(redis_set_url(set), "/lockstock"));
    unsigned short first = redis_set_primary(set, 0);
    assert_answer(set, first, "SET b 1", "OK");
    assert_true(redis_set_wait(set));
    assert_true(redis_set_kill(set, first));
    unsigned short second = redis_set_failover(set, first);
    assert_true(second != 0 && second != first);
    assert_answer(set, second, "GET b", "1");
    assert_true(redis_set_restart(set, first));
    assert_true(redis_set_wait(set));
    assert_answer(set, first, "ROLE", "slave");
    free_all(set, 6);
}

TEST_MAIN()
