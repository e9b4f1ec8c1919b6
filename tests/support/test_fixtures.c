/* The fixtures keep their word: ready means ready, kept data survives kill -9,
 * and nothing stays behind. */

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process.h"
#include "support/redis_fixture.h"
#include "test.h"

static void assert_reply(redis_fixture *redis, const char *command, const char *expected)
{
    char *reply = redis_fixture_command(redis, command);

    assert_non_null(reply);
    assert_string_equal(reply, expected);
    free(reply);
}

TEST(test_redis_keeps_data_over_kill)
{
    redis_fixture *redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(redis);
    assert_reply(redis, "SET a 1", "+OK\r\n");
    pid_t first = redis_fixture_pid(redis);
    redis_fixture_kill(redis);
    assert_int_equal(redis_fixture_pid(redis), 0);
    assert_int_equal(kill(first, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "GET a", "$1\r\n1\r\n");
    assert_true(redis_fixture_stop(redis));

    char *dir = strdup(redis_fixture_dir(redis));
    struct stat status;
    assert_int_equal(stat(dir, &status), 0);
    redis_fixture_free(redis);
    assert_int_equal(stat(dir, &status), -1);
    free(dir);
}

TEST(test_redis_without_file_forgets)
{
    redis_fixture *redis = redis_fixture_start(NULL);
    assert_non_null(redis);
    assert_reply(redis, "SET a 1", "+OK\r\n");
    redis_fixture_kill(redis);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "GET a", "$-1\r\n");
    redis_fixture_free(redis);
}

TEST(test_process_output_and_status)
{
    const char *const argv[] = {"sh", "-c", "echo one; echo two=$WORD >&2; exit 3", NULL};
    const char *const env[] = {"WORD=zwei", NULL};
    process *p = process_spawn(argv, env);
    char line[64];

    assert_non_null(p);
    assert_true(process_wait_line(p, "two", line, sizeof line, 10000));
    assert_string_equal(line, "two=zwei");
    assert_false(process_wait_line(p, "three", NULL, 0, 10000));
    assert_true(process_exited_with(p, 3, 10000));
    assert_string_equal(process_output(p), "one\ntwo=zwei\n");
    process_free(p);
}

TEST(test_process_of_no_program)
{
    const char *const argv[] = {"/nonexistent/program", NULL};
    process *p = process_spawn(argv, NULL);

    assert_non_null(p);
    assert_true(process_exited_with(p, 127, 10000));
    process_free(p);
}

TEST(test_process_counts)
{
    const char *const argv[] = {"sh", "-c", "cat /dev/zero >/dev/null & echo up; wait", NULL};
    process *p = process_spawn(argv, NULL);

    assert_non_null(p);
    assert_true(process_wait_line(p, "up", NULL, 0, 10000));
    pid_t pid = process_pid(p);
    assert_true(process_fd_count(pid) >= 3);
    assert_true(process_rss_kib(pid) > 0);
    assert_int_equal(process_thread_count(pid), 1);
    pid_t child;
    while ((child = process_find_child(pid, "/dev/zero")) == 0)
        process_pause();
    assert_false(process_wait_gone(child, 0));
    kill(child, SIGKILL);
    assert_true(process_wait_gone(child, 10000));
    process_free(p);
}

TEST_MAIN()
