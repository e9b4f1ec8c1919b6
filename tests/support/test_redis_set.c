/* What packaging/redis-set.sh starts: all agree when it is ready, a killed primary is replaced, slots move with their
 * keys, and nothing stays behind. */

#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process.h"
#include "support/redis_set_fixture.h"
#include "test.h"

enum { NODES_MAX = 16, WORDS_MAX = 8, GONE_MS = 10000 };

static void assert_answer(const redis_set *set, unsigned short port, const char *command, const char *expected)
{
    char *answer = redis_set_command(set, port, command);

    assert_non_null(answer);
    answer[strcspn(answer, "\n")] = '\0';
    assert_string_equal(answer, expected);
    free(answer);
}

/* The words with spaces between them. */
__attribute__((format(printf, 3, 4))) static void assert_refused(int code, const char *text, const char *format, ...)
{
    const char *words[WORDS_MAX + 1] = {NULL};
    char line[512], *rest = NULL;
    size_t n = 0;
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *word = strtok_r(line, " ", &rest); word && n < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    assert_true(redis_set_refuses(words, code, text));
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
    const char *const args[] = {"--password", "a b#1/@%\u00e9", NULL};
    redis_set *set = redis_cluster_start(3, 0, args);

    assert_non_null(set);
    assert_non_null(strstr(redis_set_url(set), "redis+cluster://:a%20b%231%2F%40%25%C3%A9@127.0.0.1:"));
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

/* As where the answer of a MIGRATE was lost: the key is on both, and who has the slot has gone on with it. */
TEST(a_move_that_was_cut_off_is_finished_by_a_repeat)
{
    redis_set *set = redis_cluster_start(2, 0, NULL);
    char command[128];

    assert_non_null(set);
    unsigned short from = redis_set_primary(set, 0), to = redis_set_primary(set, 1);
    char *id = redis_set_command(set, from, "CLUSTER MYID");
    assert_non_null(id);
    snprintf(command, sizeof command, "CLUSTER SETSLOT 3300 IMPORTING %.40s", id);
    free(id);
    assert_answer(set, to, command, "OK");
    assert_answer(set, from, "SET {b} old", "OK");
    snprintf(command, sizeof command, "MIGRATE 127.0.0.1 %hu {b} 0 5000 COPY", to);
    assert_answer(set, from, command, "OK");
    assert_answer(set, from, "SET {b} new", "OK");
    assert_true(redis_set_move_slots(set, 3300, 3300, to));
    assert_answer(set, to, "GET {b}", "new");
    free_all(set, 2);
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

TEST(what_cannot_be_done_is_refused_with_the_reason)
{
    redis_set *set = redis_cluster_start(2, 1, NULL);
    char command[128];

    assert_non_null(set);
    assert_int_equal(strncmp(redis_set_url(set), "redis+cluster://127.0.0.1:", 26), 0);
    const char *dir = redis_set_dir(set);
    unsigned short from = redis_set_port(set, 0), to = redis_set_port(set, 1), replica = redis_set_port(set, 2);
    assert_refused(1, "99 is no port of this set", "kill %s 99", dir);
    assert_refused(1, "99 is no port of this set", "start %s 99", dir);
    assert_refused(1, "99 is no port of this set", "cli %s 99 PING", dir);
    assert_refused(2, "redis-set.sh cli DIR PORT", "cli %s", dir);
    assert_refused(1, "99 is no port of this set", "failover %s 99", dir);
    assert_refused(1, "is no primary with slots", "failover %s %hu", dir, replica);
    assert_refused(1, "99 is no port of this set", "move %s 0 1 99", dir);
    assert_refused(1, "is no primary", "move %s 0 1 %hu", dir, replica);
    assert_refused(1, "FIRST is a number from 0 to 16383, not 'x'", "move %s x 1 %hu", dir, to);
    assert_refused(1, "LAST is a number from 0 to 16383, not '16384'", "move %s 0 16384 %hu", dir, to);
    assert_refused(1, "FIRST is 5, behind LAST, 4", "move %s 5 4 %hu", dir, to);
    assert_refused(1, "--primaries is a number from 1", "cluster %s/2 --primaries 0", dir);
    assert_refused(1, "--replicas is a number from 0", "cluster %s/2 --replicas x", dir);
    assert_refused(1, "--sentinels is a number from 1", "sentinel %s/2 --sentinels -1", dir);
    assert_refused(1, "no quotes", "cluster %s/2 --password a\"b", dir);
    assert_refused(1, "/output", "cluster %s/2 --conf nonsense", dir);
    char *id = redis_set_command(set, to, "CLUSTER MYID");
    assert_non_null(id);
    snprintf(command, sizeof command, "CLUSTER FORGET %.40s", id);
    free(id);
    assert_answer(set, from, command, "OK");
    assert_refused(1, "I don't know about node", "move %s 0 1 %hu", dir, to);
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
    /* Shortly after it: the others vote for no replica of a primary twice in 4 s. */
    assert_int_equal(redis_set_failover(set, second), first);
    assert_int_equal(redis_set_failover(set, first), second);
    assert_true(redis_set_wait(set));
    assert_answer(set, second, "GET {b}", "1");
    assert_true(redis_set_kill(set, second));
    assert_int_equal(redis_set_pid(set, second), 0);
    assert_int_equal(redis_set_failover(set, second), first);
    assert_int_equal(redis_set_failover(set, second), first); /* it has been replaced already */
    assert_true(redis_set_restart(set, second));
    assert_true(redis_set_wait(set));
    assert_answer(set, second, "ROLE", "slave");
    assert_answer(set, first, "GET {b}", "1");
    free_all(set, 6);
}

TEST(sentinels_replace_a_killed_primary)
{
    const char *const args[] = {"--password", "a/b#@1", NULL};
    redis_set *set = redis_sentinel_start(2, 3, args);

    assert_non_null(set);
    assert_non_null(strstr(redis_set_url(set), "redis+sentinel://:a%2Fb%23%401@127.0.0.1:"));
    assert_non_null(strstr(redis_set_url(set), "/lockstock"));
    const char *dir = redis_set_dir(set);
    unsigned short first = redis_set_primary(set, 0);
    assert_refused(1, "99 is no port of this set", "failover %s 99", dir);
    assert_refused(1, "is not the primary", "failover %s %hu", dir, redis_set_port(set, 1));
    assert_refused(1, "is not the primary", "failover %s %hu", dir, redis_set_port(set, 3));
    assert_refused(1, "only a cluster has slots", "move %s 0 1 %hu", dir, first);
    assert_answer(set, first, "SET b 1", "OK");
    assert_true(redis_set_wait(set));
    assert_true(redis_set_kill(set, first));
    unsigned short second = redis_set_failover(set, first);
    assert_true(second != 0 && second != first);
    assert_answer(set, second, "GET b", "1");
    assert_int_equal(redis_set_failover(set, first), second); /* it has been replaced already */
    assert_true(redis_set_restart(set, first));
    assert_true(redis_set_wait(set));
    assert_answer(set, first, "ROLE", "slave");
    assert_refused(1, "is not the primary", "failover %s %hu", dir, first);
    unsigned short third = redis_set_failover(set, second);
    assert_true(third != 0 && third != second);
    unsigned short fourth = redis_set_failover(set, third);
    assert_true(fourth != 0 && fourth != third);
    free_all(set, 6);
}

TEST_MAIN()
