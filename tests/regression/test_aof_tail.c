/* redis-server 7.0, killed while it wrote a transaction, kept the torn half of it
 * and ran it after a later restart: an order was sold in half, or twice. The
 * embedded store cuts the half off before it starts redis-server again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/aof.h"
#include "support/redis_fixture.h"
#include "support/tempdir.h"

static const char first[] = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
static const char second[] = "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$1\r\n1\r\n"
                             "*3\r\n$3\r\nSET\r\n$5\r\nwhole\r\n$1\r\n1\r\n*1\r\n$4\r\nEXEC\r\n";

static char *dir;

static int make_dir(void **state)
{
    char path[256];

    (void)state;
    dir = tempdir_make();
    snprintf(path, sizeof path, "%s/appendonlydir", dir);
    return mkdir(path, 0700);
}

static int remove_dir(void **state)
{
    (void)state;
    tempdir_remove(dir);
    return 0;
}

static const char *path_of(const char *where, const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/appendonlydir/%s", where, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t len)
{
    FILE *file = fopen(path_of(dir, name), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    fclose(file);
}

static off_t size_of(const char *where, const char *name)
{
    struct stat status;

    assert_int_equal(stat(path_of(where, name), &status), 0);
    return status.st_size;
}

/* A file of these bytes ends up so long. */
static void assert_mended(const void *data, size_t len, size_t expected)
{
    static const char manifest[] = "file appendonly.aof.3.base.rdb seq 3 type b\n"
                                   "file appendonly.aof.2.incr.aof seq 2 type h\n"
                                   "file appendonly.aof.3.incr.aof seq 3 type i\n";
    off_t cut = -1;

    write_file("appendonly.aof.manifest", manifest, sizeof manifest - 1);
    write_file("appendonly.aof.3.incr.aof", data, len);
    assert_int_equal(aof_mend(dir, &cut), 0);
    assert_int_equal(cut, len - expected);
    assert_int_equal(size_of(dir, "appendonly.aof.3.incr.aof"), expected);
}

/* Torn at each byte: what is before the transaction stays, all of it and no more. */
static void test_torn_anywhere(void **state)
{
    const size_t n_first = sizeof first - 1, n_second = sizeof second - 1;
    char whole[sizeof first + sizeof second];

    (void)state;
    memcpy(whole, first, n_first);
    memcpy(whole + n_first, second, n_second);
    for (size_t n = n_first; n < n_first + n_second; n++) {
        assert_mended(whole, n, n_first);
    }
    assert_mended(whole, n_first + n_second, n_first + n_second);
    assert_mended(whole, n_first - 1, strlen("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"));
    assert_mended(whole, 0, 0);
}

static void test_remarks_are_no_commands(void **state)
{
    static const char remarked[] = "#TS:1628217470\r\n*1\r\n$4\r\nPING\r\n#TS:16";

    (void)state;
    assert_mended(remarked, sizeof remarked - 1, sizeof remarked - 1 - 6);
}

/* Not torn but damaged: redis-server is to see it. */
static void test_damage_is_left_alone(void **state)
{
    static const char *const damaged[] = {"*1\r\n$4\r\nPING\r\nhello\r\n*1\r\n", "*x\r\n",
                                          "*1\r\n$4\r\nPINGPONG\r\n*1"};

    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_mended(damaged[i], strlen(damaged[i]), strlen(damaged[i]));
    }
}

static void test_a_new_directory(void **state)
{
    off_t cut = -1;

    (void)state;
    assert_int_equal(aof_mend(dir, &cut), 0);
    assert_int_equal(cut, 0);
}

static void assert_reply(redis_fixture *redis, const char *command, const char *expected)
{
    char *reply = redis_fixture_command(redis, command);

    assert_non_null(reply);
    assert_string_equal(reply, expected);
    free(reply);
}

/* The story as it happened, with a real redis-server. */
static void test_half_a_transaction_never_runs(void **state)
{
    static const char name[] = "appendonly.aof.1.incr.aof";
    off_t cut;

    (void)state;
    redis_fixture *redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(redis);
    assert_reply(redis, "EVAL \"redis.call('SET','half','1') redis.call('SET','whole','1') return 1\" 0", ":1\r\n");
    redis_fixture_kill(redis);

    /* Killed in the middle of EXEC. */
    assert_int_equal(truncate(path_of(redis_fixture_dir(redis), name), size_of(redis_fixture_dir(redis), name) - 4), 0);
    assert_int_equal(aof_mend(redis_fixture_dir(redis), &cut), 0);
    assert_true(cut > 0);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "EXISTS half whole", ":0\r\n");
    assert_reply(redis, "EVAL \"redis.call('SET','x','1') redis.call('SET','y','1') return 1\" 0", ":1\r\n");
    redis_fixture_kill(redis);

    assert_int_equal(aof_mend(redis_fixture_dir(redis), &cut), 0);
    assert_int_equal(cut, 0);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "EXISTS half whole", ":0\r\n");
    assert_reply(redis, "EXISTS x y", ":2\r\n");
    redis_fixture_free(redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_torn_anywhere, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_remarks_are_no_commands, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_damage_is_left_alone, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_a_new_directory, make_dir, remove_dir),
        cmocka_unit_test(test_half_a_transaction_never_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
