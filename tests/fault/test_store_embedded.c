/* The embedded store: its redis-server starts and ends with the server, and answered changes survive every kill. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "embedded_scene.h"
#include "store/aof.h"
#include "support/process.h"
#include "support/tempdir.h"
#include "test.h"

enum { KILLS = 8, WRITES_PER_KILL = 200, STORE_PAUSE_MIN_MS = 100 };

static _Atomic uint64_t clock_is_ahead_ns; /* of every test that puts it on */

/* Where redis-server listens. */
static const char *socket_of(void)
{
    static char path[300];

    snprintf(path, sizeof path, "%s/redis.sock", s.dir);
    return path;
}

/* The file of that pattern in s.dir. */
static const char *found(const char *pattern)
{
    static char path[320];
    char whole[320];
    glob_t all;

    snprintf(whole, sizeof whole, "%s/%s", s.dir, pattern);
    assert_int_equal(glob(whole, 0, NULL, &all), 0);
    assert_int_equal(all.gl_pathc, 1);
    snprintf(path, sizeof path, "%s", all.gl_pathv[0]);
    globfree(&all);
    return path;
}

static off_t size_of(const char *path)
{
    struct stat at;

    assert_int_equal(stat(path, &at), 0);
    return at.st_size;
}

/* ---- life ----------------------------------------------------------------------- */

/* Whether redis-server said so in its log. */
static bool redis_said(const char *text)
{
    char path[300], line[512];
    bool found = false;

    snprintf(path, sizeof path, "%s/redis.log", s.dir);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file))
        found = strstr(line, text);
    fclose(file);
    return found;
}

TEST(data_is_there_after_an_orderly_end)
{
    struct stat at;

    open_store(NULL);
    pid_t redis = redis_of(getpid());
    assert_true(redis > 0);
    assert_int_equal(stat(socket_of(), &at), 0);
    assert_int_equal(at.st_mode & 07777, 0700);
    assert_int_equal(stat(s.dir, &at), 0);
    assert_int_equal(at.st_mode & 07777, 0700);
    assert_true(getsid(redis) != getsid(0));
    store_driver_wait(s.d, put("a"));
    store_driver_close_store(s.d);
    assert_true(process_wait_gone(redis, 0));
    assert_true(redis_said("Redis is now ready to exit"));
    assert_int_equal(stat(socket_of(), &at), -1);
    open_store("everysec");
    assert_there("a");
    store_driver_wait(s.d, put("b"));
    store_driver_close_store(s.d);
    open_store("everysec");
    assert_there("b");
}

/* promise T16 */
TEST(redis_is_set_up_as_promised)
{
    static const char *const expected[][2] = {{"port", "port\n0\n"},
                                              {"appendonly", "appendonly\nyes\n"},
                                              {"appendfsync", "appendfsync\nalways\n"},
                                              {"aof-load-truncated", "aof-load-truncated\nno\n"},
                                              {"save", "save\n\n"},
                                              {"maxmemory-policy", "maxmemory-policy\nnoeviction\n"}};
    open_store(NULL);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const char *ask[] = {"redis-cli", "-s", socket_of(), "CONFIG", "GET", expected[i][0], NULL};
        process *cli = process_spawn(ask, NULL);
        assert_non_null(cli);
        assert_false(process_wait_line(cli, "no such line", NULL, 0, WAIT_MS)); /* to the output's end */
        assert_string_equal(process_output(cli), expected[i][1]);
        process_free(cli);
    }
}

/* redis-server inherits the lock, and no other descriptor of this process. */
/* promise T14: a data directory has one server; the rest of a dead server is waited for */
TEST(only_the_lock_is_inherited)
{
    char path[64], target[PATH_MAX];
    int open_here = dup(STDIN_FILENO), locks = 0; /* not close-on-exec */

    open_store(NULL);
    for (int fd = 0; fd < 1024; fd++) {
        struct stat ours, theirs;
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)redis_of(getpid()), fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n < 0)
            continue;
        target[n] = '\0';
        locks += strcmp(target, s.dir) == 0;
        if (fd > STDERR_FILENO && fstat(open_here, &ours) == 0 && stat(path, &theirs) == 0)
            assert_false(ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev);
    }
    assert_int_equal(locks, 1);
    close(open_here);
}

/* promise T15: a killed server ends its redis-server; an ended redis-server is restarted, after growing pauses if it
 * keeps ending; not if it fails by itself, and not with less than 1 MiB of free disk, which is reported */
TEST(ended_redis_is_restarted)
{
    open_store(NULL);
    for (int i = 0; i < 3; i++) {
        pid_t redis = redis_of(getpid());
        char name[16];
        assert_true(redis > 0);
        assert_int_equal(kill(redis, i == 1 ? SIGTERM : SIGKILL), 0);
        store_driver_wait_ready(s.d, false);
        snprintf(name, sizeof name, "n%d", i);
        outcome *o = put(name);
        store_driver_wait_ready(s.d, true);
        store_driver_wait(s.d, o);
        assert_true(redis_of(getpid()) != redis);
    }
}

/* ---- pauses between starts ---------------------------------------------------------- */

/* The pauses of the embedded store (CMakeLists.txt: --wrap) are noted, and are none. */
uint64_t __real_backoff_ns(uint32_t least_ms, uint32_t most_ms, uint32_t failures, uint64_t *random);
uint64_t __wrap_backoff_ns(uint32_t least_ms, uint32_t most_ms, uint32_t failures, uint64_t *random);

static struct pauses {
    bool noted;
    unsigned n;
    uint32_t failures; /* before the last one */
} pauses;

uint64_t __wrap_backoff_ns(uint32_t least_ms, uint32_t most_ms, uint32_t failures, uint64_t *random)
{
    uint64_t ns = __real_backoff_ns(least_ms, most_ms, failures, random);

    if (least_ms != STORE_PAUSE_MIN_MS || !pauses.noted)
        return ns;
    pauses.n++;
    pauses.failures = failures;
    return 0;
}

static void note_pauses(bool noted)
{
    pauses = (struct pauses){.noted = noted};
}

/* A clock that can be put on. */
uint64_t __real_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
    return __real_clock_now_ns() + clock_is_ahead_ns;
}

static void kill_and_wait(void)
{
    kill(redis_of(getpid()), SIGKILL);
    store_driver_wait_ready(s.d, false);
    store_driver_wait_ready(s.d, true);
}

/* As on a full disk: it serves, and ends with the first write. A short time of service must not reset
 * the pauses. */
/* promise T15 */
TEST(pauses_grow_while_it_serves_only_for_moments)
{
    enum { TIMES = 5 };

    open_store(NULL);
    note_pauses(true);
    for (uint32_t i = 0; i < TIMES; i++) {
        kill_and_wait();
        assert_int_equal(pauses.n, i); /* the first time there is none */
        assert_int_equal(pauses.failures, i);
    }
    clock_is_ahead_ns += UINT64_C(60000000000);
    kill_and_wait();
    assert_int_equal(pauses.n, TIMES - 1); /* it had served for long */
    note_pauses(false);
}

/* ---- a redis-server that fails in itself --------------------------------------------- */

/* The program in front of PATH as redis-server, in Python: it does this. */
static char *path_before;

static void replace_redis(const char *does)
{
    char dir[200], program[300], text[512], path[4096];

    snprintf(dir, sizeof dir, "%s/bin", s.parent);
    assert_true(mkdir(dir, 0700) == 0 || errno == EEXIST);
    snprintf(program, sizeof program, "%s/redis-server", dir);
    snprintf(text, sizeof text, "#!/usr/bin/python3\nimport os, signal, socket\n%s\n", does);
    assert_true(tempdir_write(program, text));
    assert_int_equal(chmod(program, 0700), 0);
    path_before = strdup(getenv("PATH"));
    snprintf(path, sizeof path, "%s:%s", dir, path_before);
    setenv("PATH", path, 1);
}

static void put_redis_back(void)
{
    setenv("PATH", path_before, 1);
    free(path_before);
}

static void assert_broken(void)
{
    store_driver_until(s.d, is_fatal, &s);
    assert_non_null(strstr(store_fatal(store_driver_store(s.d)), "redis-server ends before it serves"));
    store_driver_close_store(s.d);
    assert_int_equal(redis_of(getpid()), 0);
}

/* promise T15 */
TEST(a_redis_that_aborts_while_it_loads_is_fatal)
{
    lks_error error;

    replace_redis("listener = socket.socket(socket.AF_UNIX)\n"
                  "listener.bind('redis.sock')\n"
                  "listener.listen()\n"
                  "listener.accept()\n"
                  "os.abort()");
    if (try_open(NULL, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_broken();
    put_redis_back();
}

/* One that was killed from outside may serve the next time. */
/* promise T15 */
TEST(a_redis_that_ends_before_it_listens_is_fatal_unless_it_was_killed)
{
    lks_error error;

    replace_redis("os.kill(os.getpid(), signal.SIGSEGV)");
    assert_int_equal(try_open(NULL, &error), LKS_FAILED_PRECONDITION);
    assert_non_null(strstr(error.message, "redis-server ends before it serves"));
    put_redis_back();
    replace_redis("os.kill(os.getpid(), signal.SIGKILL)");
    assert_int_equal(try_open(NULL, &error), LKS_UNAVAILABLE);
    put_redis_back();
}

/* Several times, for what was short at the first may be there at the second. */
/* promise T15 */
TEST(a_restarted_redis_that_fails_again_and_again_is_fatal)
{
    open_store(NULL);
    note_pauses(true);
    replace_redis("os.abort()");
    kill(redis_of(getpid()), SIGKILL);
    assert_broken();
    assert_int_equal(pauses.n, 2);
    put_redis_back();
    note_pauses(false);
}

/* ---- the socket ---------------------------------------------------------------------- */

/* A connection of the test's own. */
static int connect_to(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

/* A cleanup job may remove the socket at any time. The next start makes a new one, and
 * redis-server is restarted as soon as a connection needs the socket. */
/* promise T18 */
TEST(removed_socket_is_recreated)
{
    static const char cut_off[] = "CLIENT KILL TYPE normal SKIPME yes\r\n";
    open_store(NULL);
    for (int i = 0; i < 2; i++) {
        pid_t redis = redis_of(getpid());
        int fd = connect_to(socket_of());
        assert_int_equal(unlink(socket_of()), 0);
        if (i == 0)
            assert_int_equal(kill(redis, SIGKILL), 0);
        else
            assert_int_equal(write(fd, cut_off, sizeof cut_off - 1), sizeof cut_off - 1);
        store_driver_wait_ready(s.d, false);
        store_driver_wait_ready(s.d, true);
        assert_true(redis_of(getpid()) != redis);
        store_driver_wait(s.d, put("a"));
        assert_there("a");
        close(fd);
    }
}

/* ---- repairing beside the loop ---------------------------------------------------- */

/* aof_repair of the store is replaced by this (CMakeLists.txt: --wrap): while it is held it goes on until it is told to
 * stop. */
lks_code __real_aof_repair(const char *dir, bool has_served, aof_progress *progress, void *arg, aof_repaired *ret,
                           lks_error *error);
lks_code __wrap_aof_repair(const char *dir, bool has_served, aof_progress *progress, void *arg, aof_repaired *ret,
                           lks_error *error);

static struct repairing {
    atomic_bool held, begun, stopped;
} repairing;

lks_code __wrap_aof_repair(const char *dir, bool has_served, aof_progress *progress, void *arg, aof_repaired *ret,
                           lks_error *error)
{
    repairing.begun = true;
    while (repairing.held && !repairing.stopped) {
        process_pause();
        repairing.stopped = !progress(arg, 1, 2);
    }
    if (repairing.stopped)
        return lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "stopped");
    return __real_aof_repair(dir, has_served, progress, arg, ret, error);
}

static bool has_begun(void *arg)
{
    return repairing.begun;
}

/* An open store, whose file is being repaired. */
static void hold_repairing(void)
{
    open_store(NULL);
    store_driver_wait(s.d, put("a"));
    repairing.begun = false;
    repairing.held = true;
    kill(redis_of(getpid()), SIGKILL);
    store_driver_wait_ready(s.d, false);
    store_driver_until(s.d, has_begun, NULL);
}

/* promise T18 */
TEST(loop_keeps_running_during_the_repair_of_the_file)
{
    hold_repairing();
    outcome *o = store_driver_call(s.d, &(driver_call){.function = "get", .args = {"a"}, .timeout_ms = 50});
    assert_int_equal(o->code, LKS_DEADLINE_EXCEEDED); /* which the loop has reported */
    assert_false(repairing.stopped);
    repairing.held = false;
    store_driver_wait_ready(s.d, true);
    assert_there("a");
}

/* promise T18 */
TEST(closing_stops_the_repair)
{
    hold_repairing();
    store_driver_close_store(s.d);
    assert_true(repairing.stopped);
    assert_int_equal(redis_of(getpid()), 0);
    repairing.held = repairing.stopped = false;
    open_store(NULL);
}

static bool always(void *arg)
{
    return true;
}

/* Before the loop runs, when the store cannot be closed yet. */
/* promise T18 */
TEST(stop_request_cancels_opening)
{
    const store_options options = {.url = s.url, .stop_requested = always};
    lks_error error;

    replace_redis("signal.pause()"); /* never listens */
    assert_int_equal(store_driver_open(s.d, &options, &error), LKS_CANCELLED);
    assert_int_equal(redis_of(getpid()), 0);
    put_redis_back();
    open_store(NULL);
}

TEST(closing_while_redis_is_down_is_orderly)
{
    open_store(NULL);
    kill(redis_of(getpid()), SIGKILL);
    store_driver_close_store(s.d);
    assert_int_equal(redis_of(getpid()), 0);
    open_store(NULL);
}

/* ---- what was answered survives ------------------------------------------------- */

/* With fsync always only: with everysec redis-server keeps what it answered in its own memory while an fsync is under
 * way. */
/* promise T16 */
TEST(answers_survive_kill_9_in_the_middle)
{
    static outcome *o[KILLS * WRITES_PER_KILL];
    static char names[KILLS * WRITES_PER_KILL][16];
    int n = 0;

    open_store("always");
    note_pauses(true);
    for (int round = 0; round < KILLS; round++) {
        int first = n;
        for (int i = 0; i < WRITES_PER_KILL; i++, n++) {
            snprintf(names[n], sizeof names[n], "w%d", n);
            o[n] = put(names[n]);
            if (i % 20 == 19)
                uv_run(store_driver_loop(s.d), UV_RUN_NOWAIT);
        }
        store_driver_wait(s.d, o[first + round * (WRITES_PER_KILL / KILLS)]);
        kill(redis_of(getpid()), SIGKILL);
        store_driver_wait_ready(s.d, false);
        store_driver_wait_ready(s.d, true);
    }
    for (int i = 0; i < n; i++)
        store_driver_wait(s.d, o[i]);
    for (int i = 0; i < n; i++) {
        assert_outcome(o[i], LKS_OK, LKS_APPLIED_YES);
        assert_there(names[i]);
    }
    note_pauses(false);
}

/* A kill may leave half a record at the end of the file. It is kept beside. */
/* promise T16: answered changes survive kill -9 of redis-server and of lockstockd; a cut transaction never runs in
 * part */
TEST(a_cut_record_is_dropped)
{
    open_store(NULL);
    store_driver_wait(s.d, put("first"));
    store_driver_wait(s.d, put("last"));
    store_driver_close_store(s.d);
    const char *file = found("appendonlydir/*.incr.aof");
    assert_int_equal(truncate(file, size_of(file) - 3), 0);
    open_store(NULL);
    assert_there("first");
    assert_true(size_of(found("cut-0-from-*-of-appendonly.aof.1.incr.aof")) > 0);
}

static int tear_down(void **state)
{
    clock_is_ahead_ns = 0;
    return embedded_tear_down(state);
}

TEST_MAIN(.setup = embedded_set_up, .teardown = tear_down)
