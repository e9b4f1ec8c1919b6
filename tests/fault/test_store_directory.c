/* The embedded store's directory: it belongs to one server and to one user, and what
 * is wrong with it is named.
 *
 * Called with --hold DIR this program is such a server: it opens the store, says
 * "ready", and stays until it is killed. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "embedded_scene.h"
#include "support/process.h"
#include "support/tempdir.h"
#include "test.h"

enum { OTHER_UID = 12345 };

/* ---- one server a directory ------------------------------------------------------ */

static process *hold(void)
{
    char self[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    const char *args[] = {self, "--hold", s.dir, NULL};
    process *holder = process_spawn(args, NULL);

    assert_non_null(holder);
    assert_true(process_wait_line(holder, "ready", NULL, 0, WAIT_MS));
    return holder;
}

static void assert_refused(const process *holder)
{
    char pid[32];
    lks_error error;

    snprintf(pid, sizeof pid, "(pid %d)", (int)process_pid(holder));
    assert_int_equal(try_open(NULL, &error), LKS_UNAVAILABLE);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_non_null(strstr(error.message, "used by another lockstockd"));
    assert_non_null(strstr(error.message, pid));
}

/* The file in it only names the owner of the directory: removing or replacing it does not release the lock. */
/* promise T14 */
TEST(a_second_server_is_refused_though_the_lock_file_is_replaced)
{
    char lock[300], note[32];

    process *holder = hold();
    pid_t redis = redis_of(process_pid(holder));
    assert_true(redis > 0);
    assert_refused(holder);
    snprintf(lock, sizeof lock, "%s/lock", s.dir);
    snprintf(note, sizeof note, "%d\n", (int)process_pid(holder));
    assert_int_equal(unlink(lock), 0);
    assert_true(tempdir_write(lock, note));
    assert_refused(holder);
    process_free(holder);
    open_store(NULL);
    assert_true(process_wait_gone(redis, 0));
}

/* Another directory that has its name by now is not the one that was locked: it is neither served nor written. */
/* promise T14 */
TEST(a_moved_directory_is_served_where_it_is)
{
    char moved[300], path[320];
    struct stat found;

    open_store(NULL);
    store_driver_wait(s.d, put("a"));
    snprintf(moved, sizeof moved, "%s/moved", s.parent);
    assert_int_equal(rename(s.dir, moved), 0);
    assert_int_equal(mkdir(s.dir, 0700), 0);
    kill(redis_of(getpid()), SIGKILL);
    store_driver_wait_ready(s.d, false);
    store_driver_wait_ready(s.d, true);
    assert_there("a");
    snprintf(path, sizeof path, "%s/appendonlydir", s.dir);
    assert_int_equal(stat(path, &found), -1);
    process *other = hold();
    store_driver_wait(s.d, put("b"));
    assert_there("b");
    process_free(other);
    store_driver_close_store(s.d);
    snprintf(s.url, sizeof s.url, "embedded:%s", moved);
    open_store(NULL);
    assert_there("b");
}

/* The dead server is not even reaped when the next one starts. */
/* promise T15 */
TEST(a_killed_server_takes_its_redis_along)
{
    for (int i = 0; i < 5; i++) {
        process *holder = hold();
        pid_t redis = redis_of(process_pid(holder));
        assert_true(redis > 0);
        kill(process_pid(holder), SIGKILL);
        open_store(NULL);
        assert_true(process_wait_gone(redis, 0));
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        store_driver_wait(s.d, put(name));
        assert_there("n0");
        store_driver_close_store(s.d);
        process_free(holder);
    }
}

/* Something left by a server that is dead still holds the lock, for a while. */
/* promise T14 */
TEST(the_rest_of_a_dead_server_is_waited_out)
{
    char lock[300];

    assert_int_equal(mkdir(s.dir, 0700), 0);
    snprintf(lock, sizeof lock, "%s/lock", s.dir);
    assert_true(tempdir_write(lock, "999999999\n"));
    const char *args[] = {"flock", s.dir, "sh", "-c", "echo locked; sleep 1", NULL};
    process *rest = process_spawn(args, NULL);
    assert_non_null(rest);
    assert_true(process_wait_line(rest, "locked", NULL, 0, WAIT_MS));
    open_store(NULL);
    process_free(rest);
}

/* promise T14 */
TEST(a_lock_that_stays_is_refused_in_the_end)
{
    lks_error error;

    assert_int_equal(mkdir(s.dir, 0700), 0);
    int fd = open(s.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(try_open(NULL, &error), LKS_UNAVAILABLE);
    assert_non_null(strstr(error.message, "is still used by another process"));
    close(fd);
}

/* ---- one user a directory -------------------------------------------------------- */

/* Other users may not read the files of redis-server, even if they may list DIR; nor files that an
 * older server left readable. */
/* promise F2 */
TEST(the_data_is_for_this_user_alone)
{
    char path[320];
    struct stat found;
    mode_t mask = umask(022);

    assert_int_equal(mkdir(s.dir, 0755), 0);
    open_store(NULL);
    store_driver_wait(s.d, put("a"));
    store_driver_close_store(s.d);
    static const char *const files[] = {"lock",
                                        "redis.log",
                                        "appendonlydir",
                                        "appendonlydir/appendonly.aof.manifest",
                                        "appendonlydir/appendonly.aof.1.incr.aof",
                                        "appendonlydir/appendonly.aof.1.base.rdb"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", s.dir, files[i]);
        assert_int_equal(stat(path, &found), 0);
        assert_int_equal(found.st_mode & 077, 0);
    }
    snprintf(path, sizeof path, "%s/appendonlydir", s.dir);
    assert_int_equal(chmod(path, 0755), 0);
    open_store(NULL);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 077, 0);
    umask(mask);
}

static void assert_unusable(const char *why)
{
    lks_error error;

    assert_int_equal(try_open(NULL, &error), LKS_INVALID_ARGUMENT);
    if (!strstr(error.message, why))
        fail_msg("no \"%s\" in: %s", why, error.message);
    assert_int_equal(redis_of(getpid()), 0);
}

/* promise F2 */
TEST(links_in_the_directory_are_not_followed)
{
    static const char *const names[] = {"lock", "redis.log"};
    char link[300], target[300];
    struct stat found;

    assert_int_equal(mkdir(s.dir, 0700), 0);
    snprintf(target, sizeof target, "%s/precious", s.parent);
    assert_true(tempdir_write(target, "precious"));
    for (size_t i = 0; i < 2; i++) {
        snprintf(link, sizeof link, "%s/%s", s.dir, names[i]);
        unlink(link);
        assert_int_equal(symlink(target, link), 0);
        assert_unusable("symbolic link");
        assert_int_equal(unlink(link), 0);
        assert_int_equal(mkfifo(link, 0600), 0);
        assert_unusable(names[i]);
        assert_int_equal(unlink(link), 0);
    }
    assert_int_equal(stat(target, &found), 0);
    assert_int_equal(found.st_size, strlen("precious"));
    open_store(NULL);
}

/* promise F2: the embedded store's directory belongs to this user alone; links in it are not followed; others cannot
 * read its data */
TEST(a_directory_of_others_is_refused)
{
    assert_int_equal(mkdir(s.dir, 0700), 0);
    assert_int_equal(chmod(s.dir, 0770), 0);
    assert_unusable("other users can write");
    assert_int_equal(chmod(s.dir, 01707), 0);
    assert_unusable("other users can write");
    assert_int_equal(chmod(s.dir, 0700), 0);
    if (geteuid() == 0) { /* only root can give it away */
        assert_int_equal(chown(s.dir, OTHER_UID, OTHER_UID), 0);
        assert_unusable("another user");
        assert_int_equal(chown(s.dir, geteuid(), getegid()), 0);
    }
    open_store(NULL);
}

/* ---- what cannot be started ------------------------------------------------------ */

TEST(missing_program_or_directory_is_named)
{
    lks_error error;
    char path[300], *saved = strdup(getenv("PATH"));

    setenv("PATH", "/nonexistent", 1);
    assert_int_equal(try_open(NULL, &error), LKS_UNAVAILABLE);
    assert_non_null(strstr(error.message, "is it installed?"));
    setenv("PATH", saved, 1);
    free(saved);

    assert_int_equal(try_open("sometimes", &error), LKS_INVALID_ARGUMENT);
    snprintf(s.url, sizeof s.url, "embedded:%s/no/such/parent", s.parent);
    assert_int_equal(try_open(NULL, &error), LKS_INVALID_ARGUMENT);
    snprintf(path, sizeof path, "%s/file", s.parent);
    assert_true(tempdir_write(path, ""));
    snprintf(s.url, sizeof s.url, "embedded:%s", path);
    assert_int_equal(try_open(NULL, &error), LKS_INVALID_ARGUMENT);
}

/* It may listen for a moment before it finds that it cannot load its data. */
TEST(a_redis_that_cannot_load_its_data_is_fatal)
{
    lks_error error = {0};
    char path[300];

    assert_int_equal(mkdir(s.dir, 0700), 0);
    snprintf(path, sizeof path, "%s/appendonlydir", s.dir);
    assert_true(tempdir_write(path, "in the way"));
    if (try_open(NULL, &error) == LKS_OK) {
        store_driver_until(s.d, is_fatal, &s);
        snprintf(error.message, sizeof error.message, "%s", store_fatal(store_driver_store(s.d)));
        store_driver_close_store(s.d);
    }
    assert_non_null(strstr(error.message, "redis.log"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(redis_of(getpid()), 0);
    open_store(NULL); /* the lock was released */
}

/* promise T18 */
TEST(long_path_works)
{
    char name[130];

    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(s.url, sizeof s.url, "embedded:%s/%s", s.parent, name);
    open_store(NULL);
    store_driver_wait(s.d, put("a"));
}

static int hold_forever(const char *dir)
{
    s.d = store_driver_new();
    snprintf(s.url, sizeof s.url, "embedded:%s", dir);
    open_store(NULL);
    puts("ready");
    fflush(stdout);
    return uv_run(store_driver_loop(s.d), UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--hold") == 0)
        return hold_forever(argv[2]);
    return TEST_RUN(.setup = embedded_set_up, .teardown = embedded_tear_down);
}
