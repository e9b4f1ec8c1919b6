/* A primary's report of its replicas, by INFO, or by ROLE where only that is permitted. */
/* promise CL6 */
#include "store_scene.h"
#include "test.h"

static store_primary primary;

static int begin(void **state)
{
    scene_begin();
    scene_answer("INFO", "-NOPERM this user has no permissions to run the 'info' command\r\n");
    scene_answer("ROLE", "[master :90 [[::1 1 20] [b 2 95]]]");
    return 0;
}

static void info(const char *text)
{
    char reply[1024];

    snprintf(reply, sizeof reply, "'%s", text);
    scene_answer("INFO replication", reply);
}

static void open_store(unsigned wait_replicas)
{
    scene_open(&(store_options){.wait_replicas = wait_replicas, .role_check_ms = 100});
}

static bool tells(void *arg)
{
    return store_describe_primary(store_driver_store(here.d), 0, &primary) && primary.tells_replicas;
}

static void is_replica(size_t i, const char *address, uint64_t behind, int64_t silent_s)
{
    assert_in_range(i + 1, 1, primary.n_replicas);
    assert_string_equal(primary.replicas[i].address, address);
    assert_int_equal(primary.replicas[i].behind_bytes, behind);
    assert_int_equal(primary.replicas[i].silent_s, silent_s);
}

static void is_used(int64_t memory, int64_t max, int64_t file)
{
    assert_int_equal(primary.use.memory_bytes, memory);
    assert_int_equal(primary.use.memory_max_bytes, max);
    assert_int_equal(primary.use.file_bytes, file);
}

TEST_WITH(info_gives_state_offset_and_lag_of_replicas, begin, scene_end)
{
    info("# Replication\r\nrole:master\r\nconnected_slaves:3\r\n"
         "slave0:ip=10.0.0.1,port=6379,state=online,offset=400,lag=7\r\n"
         "slave1:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0\r\n"
         "slave2:ip=::1,port=6380,state=online,offset=1000,lag=0\r\n"
         "master_replid:aa\r\nmaster_repl_offset:1000\r\nsecond_repl_offset:-1\r\n"
         "# Memory\r\nused_memory:7\r\ntotal_system_memory:11\r\nmaxmemory:9\r\n# "
         "Persistence\r\naof_current_size:5\r\n");
    open_store(0);
    store_driver_until(here.d, tells, NULL);
    assert_int_equal(primary.n_replicas, 2);
    is_replica(0, "10.0.0.1:6379", 600, 7);
    is_replica(1, "::1:6380", 0, 0);
    is_used(7, 9, 5);
    assert_string_equal(primary.address, fake_redis_url(here.fake) + strlen("unix://"));
    assert_false(store_describe_primary(store_driver_store(here.d), 1, &primary));
}

TEST_WITH(impossible_numbers_do_not_overflow, begin, scene_end)
{
    info("role:master\r\n"
         "slave0:ip=a,port=1,state=online,offset=-9223372036854775808,lag=-9223372036854775808\r\n"
         "master_repl_offset:9223372036854775807\r\n");
    open_store(0);
    store_driver_until(here.d, tells, NULL);
    is_replica(0, "a:1", UINT64_MAX, INT64_MIN);
}

TEST_WITH(without_info_role_gives_replicas_without_lag, begin, scene_end)
{
    open_store(2);
    store_driver_wait_ready(here.d, true);
    assert_true(tells(NULL));
    assert_int_equal(primary.n_replicas, 2);
    is_replica(0, "::1:1", 70, -1);
    is_replica(1, "b:2", 0, -1);
    is_used(-1, -1, -1);
}

/* Then the replicas are unknown, and WAIT decides. */
TEST_WITH(without_info_and_role_calls_are_still_sent, begin, scene_end)
{
    scene_answer("ROLE", "-NOPERM this user has no permissions to run the 'role' command\r\n");
    open_store(2);
    store_driver_wait_ready(here.d, true);
    assert_false(tells(NULL));
    assert_int_equal(primary.n_replicas, 0);
}

TEST_MAIN()
