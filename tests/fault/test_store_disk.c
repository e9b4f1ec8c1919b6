/* The embedded store on a disk that is full: redis-server is not started there, and who asks is told why. */
/* promise T15 */
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "support/process.h"
#include "support/store_driver.h"
#include "support/tempdir.h"
#include "test.h"

static struct {
    char *dir;
    char url[320];
    store_driver *d;
    bool is_full; /* the disk */
} here;

/* What fstatvfs is where sizes of files have 64 bits, as libuv has it. */
int __real_fstatvfs64(int fd, struct statvfs64 *ret);
int __wrap_fstatvfs64(int fd, struct statvfs64 *ret);
int __wrap_fstatvfs64(int fd, struct statvfs64 *ret)
{
    int failed = __real_fstatvfs64(fd, ret);

    if (here.is_full)
        ret->f_bavail = 1;
    return failed;
}

static int set_up(void **state)
{
    (void)state;
    here.dir = tempdir_make();
    here.d = store_driver_new();
    here.is_full = false;
    snprintf(here.url, sizeof here.url, "embedded:%s/data", here.dir);
    return here.dir ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    store_driver_free(here.d);
    tempdir_remove(here.dir);
    return 0;
}

static lks_code open_store(lks_error *error)
{
    const store_options options = {.url = here.url};

    return store_driver_open(here.d, &options, error);
}

static bool is_told(void *arg)
{
    (void)arg;
    return strstr(store_driver_reason(here.d), "cannot write its data to disk: less than 1 MiB is free");
}

static outcome *call(const char *function, const char *name)
{
    return store_driver_call(here.d, &(driver_call){.function = function, .args = {name, name}, .weight = 1});
}

TEST(a_redis_that_ends_on_a_full_disk_is_started_when_there_is_room)
{
    const char *reason;
    store_view view;
    lks_error error;

    assert_int_equal(open_store(&error), LKS_OK);
    store_driver_wait_ready(here.d, true);
    assert_outcome(call("put", "a"), LKS_OK, LKS_APPLIED_YES);
    here.is_full = true;
    kill(process_find_child(getpid(), "redis-server"), SIGKILL);
    store_driver_until(here.d, is_told, NULL);
    assert_int_equal(process_find_child(getpid(), "redis-server"), 0);
    assert_false(store_ready(store_driver_store(here.d), &reason));
    assert_non_null(strstr(reason, "less than 1 MiB"));
    store_look(store_driver_store(here.d), &view);
    assert_non_null(strstr(view.fault.text, "less than 1 MiB"));
    here.is_full = false;
    store_driver_wait_ready(here.d, true);
    assert_string_equal(outcome_text(call("get", "a"), 1), "a");
}

TEST(a_store_may_be_closed_while_its_disk_is_full)
{
    lks_error error;

    assert_int_equal(open_store(&error), LKS_OK);
    store_driver_wait_ready(here.d, true);
    here.is_full = true;
    kill(process_find_child(getpid(), "redis-server"), SIGKILL);
    store_driver_until(here.d, is_told, NULL);
    store_driver_close_store(here.d);
}

TEST(a_store_on_a_full_disk_may_be_opened_later)
{
    lks_error error;

    here.is_full = true;
    assert_int_equal(open_store(&error), LKS_UNAVAILABLE);
    assert_non_null(strstr(error.message, "less than 1 MiB"));
    here.is_full = false;
    assert_int_equal(open_store(&error), LKS_OK);
    store_driver_wait_ready(here.d, true);
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)
