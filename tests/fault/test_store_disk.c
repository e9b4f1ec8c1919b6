/* The embedded store on a disk that is full: redis-server is not started there, and callers get the reason. */
/* promise T15 */
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "embedded_scene.h"
#include "test.h"

static bool is_full; /* the disk */

/* What fstatvfs is where sizes of files have 64 bits, as libuv has it. */
int __real_fstatvfs64(int fd, struct statvfs64 *ret);
int __wrap_fstatvfs64(int fd, struct statvfs64 *ret);
int __wrap_fstatvfs64(int fd, struct statvfs64 *ret)
{
    int failed = __real_fstatvfs64(fd, ret);

    if (is_full)
        ret->f_bavail = 1;
    return failed;
}

static bool is_reported(void *arg)
{
    return strstr(store_driver_reason(s.d), "cannot write its data to disk: less than 1 MiB is free");
}

static void fill_disk_and_kill_redis(void)
{
    is_full = true;
    kill(redis_of(getpid()), SIGKILL);
    store_driver_until(s.d, is_reported, NULL);
}

TEST(a_redis_that_ends_on_a_full_disk_is_started_when_there_is_room)
{
    const char *reason;
    store_view view;

    open_store(NULL);
    store_driver_wait(s.d, put("a"));
    fill_disk_and_kill_redis();
    assert_int_equal(redis_of(getpid()), 0);
    assert_false(store_driver_ready(s.d, &reason));
    assert_non_null(strstr(reason, "less than 1 MiB"));
    store_describe(store_driver_store(s.d), &view);
    assert_non_null(strstr(view.fault.text, "less than 1 MiB"));
    const outcome *refused = put("b");
    store_driver_wait(s.d, refused);
    assert_int_equal(refused->reason, LKS_REASON_STORE_DISK_FAILED);
    assert_non_null(strstr(refused->message, "less than 1 MiB"));
    is_full = false;
    store_driver_wait_ready(s.d, true);
    assert_there("a");
    fill_disk_and_kill_redis(); /* embedded_tear_down closes it so */
}

TEST(a_store_on_a_full_disk_may_be_opened_later)
{
    lks_error error;

    is_full = true;
    assert_int_equal(try_open(NULL, &error), LKS_UNAVAILABLE);
    assert_non_null(strstr(error.message, "less than 1 MiB"));
    is_full = false;
    open_store(NULL);
}

static int set_up(void **state)
{
    is_full = false;
    return embedded_set_up(state);
}

TEST_MAIN(.setup = set_up, .teardown = embedded_tear_down)
