#include "embedded_scene.h"

#include "support/process.h"
#include "support/tempdir.h"
#include "test.h"

scene s;

int embedded_set_up(void **state)
{
    s = (scene){.parent = tempdir_make(), .d = store_driver_new()};
    if (!s.parent)
        return -1;
    snprintf(s.dir, sizeof s.dir, "%s/data", s.parent);
    snprintf(s.url, sizeof s.url, "embedded:%s", s.dir);
    return 0;
}

lks_code try_open(const char *fsync, lks_error *error)
{
    const store_options options = {.url = s.url, .fsync = fsync};

    return store_driver_open(s.d, &options, error);
}

void open_store(const char *fsync)
{
    lks_error error;

    if (try_open(fsync, &error) != LKS_OK)
        fail_msg("%s", error.message);
    store_driver_wait_ready(s.d, true);
}

int embedded_tear_down(void **state)
{
    store_driver_free(s.d);
    tempdir_remove(s.parent);
    return 0;
}

pid_t redis_of(pid_t parent)
{
    return process_find_child(parent, "redis-server");
}

outcome *put(const char *name)
{
    return store_driver_submit(
        s.d, &(driver_call){.function = "put", .args = {name, name}, .repeatable = true, .weight = 1});
}

void assert_there(const char *name)
{
    outcome *o = store_driver_call(s.d, &(driver_call){.function = "get", .args = {name}});

    assert_string_equal(outcome_text(o, 1), name);
}

bool is_fatal(void *arg)
{
    return store_fatal(store_driver_store(((scene *)arg)->d));
}
