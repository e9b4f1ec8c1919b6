/* redis-server 7.0, killed while it wrote a transaction, kept the torn half of it
 * and ran it after a later restart: an order was sold in half, or twice. The
 * embedded store cuts the half off before it starts redis-server again. */

#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
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

static void write_files(const void *data, size_t len)
{
    static const char manifest[] = "file appendonly.aof.3.base.rdb seq 3 type b\n"
                                   "file appendonly.aof.2.incr.aof seq 2 type h\n"
                                   "file appendonly.aof.3.incr.aof seq 3 type i\n";

    write_file("appendonly.aof.manifest", manifest, sizeof manifest - 1);
    write_file("appendonly.aof.3.incr.aof", data, len);
}

static void assert_content(const char *path, const void *data, size_t len)
{
    static char text[sizeof first + sizeof second + 300000];
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), len);
    assert_memory_equal(text, data, len);
    fclose(file);
}

/* A file of these bytes ends up so long. What was cut off is kept, but for zeros at its end. */
static void assert_repaired(const void *data, size_t len, size_t expected)
{
    aof_repaired done;
    lks_error error;
    char kept[512];
    size_t last = len;

    while (last > expected && ((const char *)data)[last - 1] == '\0')
        last--;
    write_files(data, len);
    if (aof_repair(dir, false, NULL, NULL, &done, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(done.cut, len - expected);
    assert_int_equal(size_of(dir, "appendonly.aof.3.incr.aof"), expected);
    if (last == expected) {
        assert_string_equal(done.kept, "");
        return;
    }
    snprintf(kept, sizeof kept, "%s/%s", dir, done.kept);
    assert_content(kept, (const char *)data + expected, last - expected);
    assert_int_equal(unlink(kept), 0);
}

/* A file of these bytes is refused, and left as it is. */
static void assert_damaged(const void *data, size_t len, size_t at)
{
    aof_repaired done;
    lks_error error;
    char says[64];

    snprintf(says, sizeof says, "damaged at byte %zu,", at);
    write_files(data, len);
    assert_int_equal(aof_repair(dir, false, NULL, NULL, &done, &error), LKS_FAILED_PRECONDITION);
    assert_non_null(strstr(error.message, "appendonlydir/appendonly.aof.3.incr.aof"));
    if (!strstr(error.message, says))
        fail_msg("no \"%s\" in: %s", says, error.message);
    assert_content(path_of(dir, "appendonly.aof.3.incr.aof"), data, len);
}

/* Torn at each byte: exactly the part before the transaction stays. */
/* promise T16 */
TEST(test_torn_anywhere)
{
    const size_t n_first = sizeof first - 1, n_second = sizeof second - 1;
    char whole[sizeof first + sizeof second];

    memcpy(whole, first, n_first);
    memcpy(whole + n_first, second, n_second);
    for (size_t n = n_first; n < n_first + n_second; n++)
        assert_repaired(whole, n, n_first);
    assert_repaired(whole, n_first + n_second, n_first + n_second);
    assert_repaired(whole, n_first - 1, strlen("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"));
    assert_repaired(whole, 0, 0);
}

/* As on a full disk: the copy is not written as a whole. */
/* promise T16 */
TEST(test_bytes_that_cannot_be_kept_are_not_cut)
{
    struct rlimit before;
    aof_repaired done;
    lks_error error;
    glob_t copies;
    char pattern[256];

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    write_files(second, sizeof second - 3);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 8, .rlim_max = before.rlim_max}), 0);
    lks_code code = aof_repair(dir, false, NULL, NULL, &done, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(code, LKS_UNAVAILABLE);
    assert_non_null(strstr(error.message, "cannot repair appendonlydir/appendonly.aof.3.incr.aof"));
    assert_int_equal(done.cut, 0);
    assert_content(path_of(dir, "appendonly.aof.3.incr.aof"), second, sizeof second - 3);
    snprintf(pattern, sizeof pattern, "%s/cut-*", dir);
    assert_int_equal(glob(pattern, 0, NULL, &copies), GLOB_NOMATCH);
}

TEST(test_remarks_are_no_commands)
{
    static const char remarked[] = "#TS:1628217470\r\n*1\r\n$4\r\nPING\r\n#TS:16";

    assert_repaired(remarked, sizeof remarked - 1, sizeof remarked - 1 - 6);
}

/* Not torn but damaged. */
/* promise T16 */
TEST(test_damage_is_not_repaired)
{
    static const struct {
        const char *text;
        size_t at;
    } damaged[] = {
        {"*1\r\n$4\r\nPING\r\nhello\r\n*1\r\n", 14},
        {"*x\r\n", 0},
        {"*1\r\n$4\r\nPINGPONG\r\n*1", 0},
        {"*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n", 15}, /* the first one's EXEC is gone */
        {"*1\r\n$4\r\nEXEC\r\n", 0},                        /* its MULTI is */
        {"*2\r\n$3\r\nGET\r\n$9999\r\na\r\n*1\r\n$4\r\nPING\r\n", 0},
        {"*1\r\n$4\r\nPING\r\n*1\r\n$5000\r\nMULTI\r\n*2\r\n$3\r\nget\r\n", 14},
    };

    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        assert_damaged(damaged[i].text, strlen(damaged[i].text), damaged[i].at);
}

/* Eight changed bytes anywhere before the last transaction never lose the rest of the file: the file is
 * refused, or is read as before if a value has changed. */
/* promise T16 */
TEST(test_damage_in_the_middle_cuts_nothing)
{
    static const char *const changes[] = {"99999999", "\r\n$77777", "*9\r\n$900", "xxxxxxxx"};
    enum { COPIES = 4 };
    const size_t n_first = sizeof first - 1, n_second = sizeof second - 1, len = n_first + COPIES * n_second;
    char whole[sizeof first + COPIES * sizeof second], changed[sizeof whole];
    size_t n_refused = 0;
    aof_repaired done;
    lks_error error;

    memcpy(whole, first, n_first);
    for (size_t i = 0; i < COPIES; i++)
        memcpy(whole + n_first + i * n_second, second, n_second);
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        for (size_t at = 0; at + 8 <= len - n_second; at++) {
            memcpy(changed, whole, len);
            memcpy(changed + at, changes[c], 8);
            write_files(changed, len);
            lks_code code = aof_repair(dir, false, NULL, NULL, &done, &error);
            n_refused += code == LKS_FAILED_PRECONDITION;
            if (code != LKS_FAILED_PRECONDITION)
                assert_int_equal(code, LKS_OK);
            assert_int_equal(done.cut, 0);
            assert_content(path_of(dir, "appendonly.aof.3.incr.aof"), changed, len);
        }
    }
    assert_true(n_refused > 0);
}

/* Commands after the tear are found at each offset, also across the border of two read buffers. */
/* promise T16 */
TEST(test_commands_after_a_tear_are_found_at_every_offset)
{
    static const char torn[] = "*2\r\n$3\r\nGET\r\n$9999999\r\n", behind[] = "*1\r\n$4\r\nEXEC\r\n";
    static char text[70000 + 100];
    size_t n = sizeof torn - 1;

    memcpy(text, torn, n);
    memset(text + n, 'v', sizeof text - n);
    assert_repaired(text, sizeof text, 0);
    for (size_t at = 65536 - 80; at < 65536 + 80; at++) {
        memset(text + n, 'v', sizeof text - n);
        memcpy(text + at, behind, sizeof behind - 1);
        assert_damaged(text, sizeof text, 0);
    }
}

/* A power loss leaves zeros where bytes did not reach the disk: as many as there are. */
/* promise T16 */
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
            assert_repaired(text, n + zeros[i], n == n_first + n_second ? n : n_first);
        }
    }
    assert_repaired(text + sizeof text - 1000, 1000, 0);
}

/* Zeros in a value are the value's; zeros with something behind are damage. */
TEST(test_other_zeros)
{
    static const char in_value[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\n\0\0\0\0\0\0\r\n";
    static const char torn_value[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6\r\n\0\0\0";
    static const char damaged[] = "*1\r\n$4\r\nPING\r\n\0\0\0\0*1\r\n$4\r\nPING\r\n";

    assert_repaired(in_value, sizeof in_value - 1, sizeof in_value - 1);
    assert_repaired(torn_value, sizeof torn_value - 1, 0);
    assert_damaged(damaged, sizeof damaged - 1, 14);
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
/* promise T18 */
TEST(test_progress_is_reported)
{
    static const char head[] = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$629145600\r\n";
    const off_t size = (off_t)sizeof head - 1 + 629145600 + 2;
    aof_repaired done;
    lks_error error;

    assert_repaired(first, sizeof first - 1, sizeof first - 1);
    write_file("appendonly.aof.3.incr.aof", head, sizeof head - 1);
    const char *path = path_of(dir, "appendonly.aof.3.incr.aof");
    assert_int_equal(truncate(path, size - 2), 0);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs("\r\n*1\r\n", file);
    fclose(file);
    told t = {.stop_after = 1};
    assert_int_equal(aof_repair(dir, false, on_progress, &t, &done, &error), LKS_CANCELLED);
    assert_int_equal(size_of(dir, "appendonly.aof.3.incr.aof"), size + 4);
    t = (told){0};
    assert_int_equal(aof_repair(dir, false, on_progress, &t, &done, &error), LKS_OK);
    assert_int_equal(t.n, size / AOF_PROGRESS_BYTES);
    assert_int_equal(t.size, size + 4);
    assert_int_equal(done.cut, 4);
}

TEST(test_a_new_directory)
{
    aof_repaired done = {.cut = -1};
    lks_error error;

    assert_int_equal(aof_repair(dir, false, NULL, NULL, &done, &error), LKS_OK);
    assert_int_equal(done.cut, 0);
}

static lks_code repair_with(const char *name, const char *text, bool has_served, lks_error *error)
{
    aof_repaired done;

    write_file(name, text, strlen(text));
    lks_code code = aof_repair(dir, has_served, NULL, NULL, &done, error);
    assert_int_equal(done.cut, 0);
    assert_int_equal(unlink(path_of(dir, name)), 0);
    return code;
}

/* Without its manifest a store looks like a new one. What a redis-server leaves that was killed at its very first
 * start is one. */
/* promise T16 */
TEST(test_a_missing_manifest_is_not_a_new_store)
{
    static const char *const of_a_store[] = {"appendonly.aof.1.incr.aof", "appendonly.aof.2.base.rdb",
                                             "appendonly.aof.7.incr.aof"};
    static const char *const of_nothing[] = {"temp-appendonly.aof.manifest", "appendonly.aof.1.base.rdb"};
    lks_error error;

    for (size_t i = 0; i < sizeof of_a_store / sizeof *of_a_store; i++) {
        assert_int_equal(repair_with(of_a_store[i], "*1", false, &error), LKS_FAILED_PRECONDITION);
        assert_non_null(strstr(error.message, "manifest is missing, but there are other files"));
    }
    for (size_t i = 0; i < sizeof of_nothing / sizeof *of_nothing; i++)
        assert_int_equal(repair_with(of_nothing[i], "REDIS", false, &error), LKS_OK);
    assert_int_equal(repair_with("appendonly.aof.1.incr.aof", "", false, &error), LKS_OK);
    assert_int_equal(repair_with("appendonly.aof.1.base.rdb", "REDIS", true, &error), LKS_FAILED_PRECONDITION);
    assert_non_null(strstr(error.message, "manifest is missing, but a store was served"));
}

static void assert_reply(redis_fixture *redis, const char *command, const char *expected)
{
    char *reply = redis_fixture_command(redis, command);

    assert_non_null(reply);
    assert_string_equal(reply, expected);
    free(reply);
}

/* The story as it happened, with a real redis-server. */
/* promise T16 */
TEST_WITH(test_half_a_transaction_never_runs, NULL, NULL)
{
    static const char name[] = "appendonly.aof.1.incr.aof";
    aof_repaired done;
    lks_error error;

    redis_fixture *redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(redis);
    assert_reply(redis, "EVAL \"redis.call('SET','half','1') redis.call('SET','whole','1') return 1\" 0", ":1\r\n");
    redis_fixture_kill(redis);

    /* Killed in the middle of EXEC. */
    assert_int_equal(truncate(path_of(redis_fixture_dir(redis), name), size_of(redis_fixture_dir(redis), name) - 4), 0);
    assert_int_equal(aof_repair(redis_fixture_dir(redis), true, NULL, NULL, &done, &error), LKS_OK);
    assert_true(done.cut > 0);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "EXISTS half whole", ":0\r\n");
    assert_reply(redis, "EVAL \"redis.call('SET','x','1') redis.call('SET','y','1') return 1\" 0", ":1\r\n");
    redis_fixture_kill(redis);

    assert_int_equal(aof_repair(redis_fixture_dir(redis), true, NULL, NULL, &done, &error), LKS_OK);
    assert_int_equal(done.cut, 0);
    assert_true(redis_fixture_restart(redis));
    assert_reply(redis, "EXISTS half whole", ":0\r\n");
    assert_reply(redis, "EXISTS x y", ":2\r\n");
    redis_fixture_free(redis);
}

TEST_MAIN(.setup = make_dir, .teardown = remove_dir)
