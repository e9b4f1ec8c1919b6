/* redis-server 7.0, killed while it wrote a transaction, kept the torn half of it
 * and ran it after a later restart: an order was sold in half, or twice. The
 * embedded store cuts the half off before it starts redis-server again. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/aof.h"
#include "support/redis_fixture.h"
#include "support/tempdir.h"
#include "test.h"

static const char first[] = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
static const char second[] = "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$1\r\n1\r\n"
                             "*3\r\n$3\r\nSET\r\n$5\r\nwhole\r\n$1\r\n1\r\n*1\r\n$4\r\nEXEC\r\n";

static char *dir;

static int make_dir(void **state)
{
    char path[256];

    dir = tempdir_make();
    snprintf(path, sizeof path, "%s/appendonlydir", dir);
    return mkdir(path, 0700);
}

static int remove_dir(void **state)
{
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
    assert_int_equal(aof_mend(dir, NULL, NULL, &cut), 0);
    assert_int_equal(cut, len - expected);
    assert_int_equal(size_of(dir, "appendonly.aof.3.incr.aof"), expected);
}

/* Torn at each byte: what is before the transaction stays, all of it and no more. */
TEST(test_torn_anywhere)
{
    const size_t n_first = sizeof first - 1, n_second = sizeof second - 1;
    char whole[sizeof first + sizeof second];

    memcpy(whole, first, n_first);
    memcpy(whole + n_first, second, n_second);
    for (size_t n = n_first; n < n_first + n_second; n++)
        assert_mended(whole, n, n_first);
    assert_mended(whole, n_first + n_second, n_first + n_second);
    assert_mended(whole, n_first - 1, strlen("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"));
    assert_mended(whole, 0, 0);
}

TEST(test_remarks_are_no_commands)
{
    static const char remarked[] = "#TS:1628217470\r\n*1\r\n$4\r\nPING\r\n#TS:16";

    assert_mended(remarked, sizeof remarked - 1, sizeof remarked - 1 - 6);
}

/* Not torn but damaged: redis-server is to see it. */
TEST(test_damage_is_left_alone)
{
    static const char *const damaged[] = {"*1\r\n$4\r\nPING\r\nhello\r\n*1\r\n", "*x\r\n",
                                          "*1\r\n$4\r\nPINGPONG\r\n*1"};

    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        assert_mended(damaged[i], strlen(damaged[i]), strlen(damaged[i]));
}

/* A power loss leaves zeros where bytes did not reach the disk: as many as there are. */
TEST(test_zeros_at_the_end)
{
    static const size_t zeros[] = {1, 511, 512, 513, 70000, 300000};
    static char text[sizeof first + sizeof second + 300000];
    const size_t n_first = sizeof first - 1, n_second = sizeof second - 1;

    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        for (size_t n = n_first; n <= n_first + n_second; n += i == 1 ? 1 : 7) {
            memset(text, 0, sizeof text);
            memcpy(text, first, n_first);
            memcpy(text + n_first, second, n - n_first);
            assert_mended(text, n + zeros[i], n == n_first + n_second ? n : n_first);
        }
    }
    assert_mended(text + sizeof text - 1000, 1000, 0);
}

/* Zeros in a value are the value's; zeros with something behind are damage. */
TEST(test_other_zeros)
{
    static const char in_value[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\n\0\0\0\0\0\0\r\n";
    static const char torn_value[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\n\0\0\0";
    static const char damaged[] = "*1\r\n$4\r\nPING\r\n\0\0\0\0*1\r\n$4\r\nPING\r\n";

    assert_mended(in_value, sizeof in_value - 1, sizeof in_value - 1);
    assert_mended(torn_value, sizeof torn_value - 1, 0);
    assert_mended(damaged, sizeof damaged - 1, sizeof damaged - 1);
}

typedef struct told {
    int n;
    off_t done, size;
    int stop_after;
} told;

static bool on_progress(void *arg, off_t done, off_t size)
{
    told *t = arg;

    assert_true(done > t->done && done <= size);
    t->done = done;
    t->size = size;
    return ++t->n != t->stop_after;
}

/* A value of 600 MiB that is a hole. */
TEST(test_progress_is_told)
{
    static const char head[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$629145600\r\n";
    const off_t size = (off_t)sizeof head - 1 + 629145600 + 2;
    off_t cut;

    assert_mended(first, sizeof first - 1, sizeof first - 1);
    write_file("appendonly.aof.3.incr.aof", head, sizeof head - 1);
    const char *path = path_of(dir, "appendonly.aof.3.incr.aof");
    assert_int_equal(truncate(path, size - 2), 0);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs("\r\n*1\r\n", file);
    fclose(file);
    told t = {.stop_after = 1};
    assert_int_equal(aof_mend(dir, on_progress, &t, &cut), ECANCELED);
    assert_int_equal(size_of(dir, "appendonly.aof.3.incr.aof"), size + 4);
    t = (told){0};
    assert_int_equal(aof_mend(dir, on_progress, &t, &cut), 0);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.size, size + 4);
    assert_int_equal(cut, 4);
}

TEST(test_a_new_directory)
{
    off_t cut = -1;

    assert_int_equal(aof_mend(dir, NULL, NULL, &cut), 0);
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
TEST_WITH(test_half_a_transaction_never_runs, NULL, NULL)
{
    static const char name[] = "appendonly.aof.1.incr.aof";
    off_t cut;

    redis_fixture *redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(redis);
    assert_reply(redis, "EVAL \"redis.call('SET','half','1') redis.call('SET','whole','1') return 1\" 0", ":1\r\n");
    redis_fixture_kill(redis);

    /* Killed in the middle of EXEC. */
    assert_int_equal(truncate(path_of(redis_fixture_dir(redis), name), size_of(redis_fixture_dir(redis), name) - 4), 0);
    assert_int_equal(aof_mend(redis_fixture_dir(redis), NULL, NULL, &cut), 0);
    assert_true(cut > 0);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "EXISTS half whole", ":0\r\n");
    assert_reply(redis, "EVAL \"redis.call('SET','x','1') redis.call('SET','y','1') return 1\" 0", ":1\r\n");
    redis_fixture_kill(redis);

    assert_int_equal(aof_mend(redis_fixture_dir(redis), NULL, NULL, &cut), 0);
    assert_int_equal(cut, 0);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "EXISTS half whole", ":0\r\n");
    assert_reply(redis, "EXISTS x y", ":2\r\n");
    redis_fixture_free(redis);
}

TEST_MAIN(.setup = make_dir, .teardown = remove_dir)
