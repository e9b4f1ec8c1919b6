/* The store on a real Redis that is killed, flushed, filled up, made a replica: what was answered stays, and nothing but
 * the promised codes is seen. */
#include <uv.h>

#include "functions/library.h"
#include "support/redis_fixture.h"
#include "test.h"
#include "unit/store_scene.h"

enum { URL_BYTES = 256 };

static redis_fixture *redis;

static void open_store(const store_options *options)
{
    store_options full = *options;

    if (!full.url)
        full.url = redis_fixture_url(redis);
    scene_open(&full);
}

static int redis_alone(void **state)
{
    scene_begin();
    redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    assert_non_null(redis);
    return 0;
}

static int ready(void **state)
{
    redis_alone(state);
    open_store(&(store_options){0});
    store_driver_wait_ready(here.d, true);
    return 0;
}

static int end(void **state)
{
    scene_end(state);
    redis_fixture_free(redis);
    return 0;
}

/* Fails unless the reply to the command begins so. */
static void tell_redis(const char *command, const char *expected)
{
    char *reply = redis_fixture_command(redis, command);

    assert_non_null(reply);
    if (strncmp(reply, expected, strlen(expected)) != 0)
        fail_msg("%s: expected %s, got %s", command, expected, reply);
    free(reply);
}

/* promise T6 */
TEST_WITH(flushed_functions_are_loaded_unseen, ready, end)
{
    outcome *o[50];

    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 25; i++)
            o[i] = store_driver_submit(here.d, &(driver_call){.function = "add", .args = {"1"}});
        uv_run(store_driver_loop(here.d), UV_RUN_NOWAIT);
        tell_redis("FUNCTION FLUSH", "+OK");
        for (int i = 25; i < 50; i++)
            o[i] = store_driver_submit(here.d, &(driver_call){.function = "add", .args = {"1"}});
        for (int i = 0; i < 50; i++) {
            store_driver_wait(here.d, o[i]);
            assert_outcome(o[i], LKS_OK, LKS_APPLIED_YES);
        }
    }
    assert_int_equal(outcome_number(store_driver_call(here.d, &(driver_call){.function = "add", .args = {"0"}}), 1),
                     500);
    assert_int_equal(store_driver_ups(here.d), 1);
}

/* Calls that must not be repeated: NO had no effect, YES has it once, MAYBE either. */
TEST_WITH(applied_is_correct_over_kill_9, ready, end)
{
    enum { N = 300 };
    static outcome *o[N];
    static char names[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        o[i] = store_driver_submit(here.d, &(driver_call){.function = "put", .args = {names[i], names[i]}});
        if (i == N / 2)
            store_driver_wait(here.d, o[N / 4]);
        if (i == N - 20)
            redis_fixture_kill(redis);
    }
    for (int i = 0; i < N; i++)
        store_driver_wait(here.d, o[i]);
    assert_true(redis_fixture_restart(redis));
    store_driver_wait_ready(here.d, true);
    for (int i = 0; i < N; i++) {
        outcome *got = store_driver_call(here.d, &(driver_call){.function = "get", .args = {names[i]}});
        bool there = strcmp(outcome_text(got, 1), names[i]) == 0;
        if (o[i]->applied != LKS_APPLIED_MAYBE && there != (o[i]->applied == LKS_APPLIED_YES))
            fail_msg("call %d ended %s, applied %s, and is %s", i, lks_code_name(o[i]->code),
                     lks_applied_name(o[i]->applied), there ? "there" : "not there");
    }
}

/* promise T2 */
TEST_WITH(full_memory_refuses_and_still_lets_a_server_start, ready, end)
{
    tell_redis("CONFIG SET maxmemory 1", "+OK");
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "put", .args = {"a", "b"}});
    assert_outcome(o, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_true(o->retry_after_ms > 0);
    store_driver_close_store(here.d);
    open_store(&(store_options){0});
    store_driver_wait_ready(here.d, true);
    tell_redis("CONFIG SET maxmemory 0", "+OK");
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "put", .args = {"a", "b"}}), LKS_OK,
                   LKS_APPLIED_YES);
}

/* promise T7: MOVED, ASK, TRYAGAIN, READONLY: retried within the deadline, NO; a replica is left */
TEST_WITH(a_replica_is_waited_out, ready, end)
{
    tell_redis("REPLICAOF 127.0.0.1 1", "+OK");
    outcome *o = store_driver_submit(here.d, &(driver_call){.function = "put", .args = {"a", "b"}});
    store_driver_wait_ready(here.d, false);
    assert_int_equal(o->ends, 0);
    tell_redis("REPLICAOF NO ONE", "+OK");
    store_driver_wait(here.d, o);
    assert_outcome(o, LKS_OK, LKS_APPLIED_YES);
}

static bool was_asked_twice(void *arg)
{
    char *stats = redis_fixture_command(redis, "INFO commandstats");
    const char *asked = strstr(stats, "cmdstat_config|get:calls=");
    bool twice = asked && atoi(asked + strlen("cmdstat_config|get:calls=")) >= 2;

    free(stats);
    return twice;
}

/* Settings that were checked at the start are checked again, so that no lock is lost to a setting
 * that is changed at run time. */
/* promise B10: a store whose settings become unsafe is not used until they are safe again */
TEST_WITH(a_store_that_becomes_unsafe_is_not_used, redis_alone, end)
{
    const driver_call echo = {.function = "echo", .timeout_ms = 60000};
    open_store(&(store_options){.safety_check_ms = 10});
    store_driver_wait_ready(here.d, true);
    tell_redis("CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru", "+OK");
    scene_until_reason("evicts");
    store_driver_wait_ready(here.d, false);
    outcome *refused = store_driver_call(here.d, &echo);
    assert_outcome(refused, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_non_null(strstr(refused->message, "evicts"));
    assert_null(store_fatal(store_driver_store(here.d)));
    tell_redis("CONFIG SET maxmemory-policy noeviction appendonly no", "+OK");
    scene_until_reason("nothing on disk");
    tell_redis("CONFIG SET appendonly yes", "+OK");
    store_driver_wait_ready(here.d, true);
    assert_outcome(store_driver_call(here.d, &echo), LKS_OK, LKS_APPLIED_YES);
    store_driver_close_store(here.d);
    /* A server that allows it continues. */
    open_store(&(store_options){.safety_check_ms = 10, .allow_unsafe = true});
    store_driver_wait_ready(here.d, true);
    tell_redis("CONFIG SET maxmemory-policy allkeys-lru", "+OK");
    tell_redis("CONFIG RESETSTAT", "+OK");
    store_driver_until(here.d, was_asked_twice, NULL);
    assert_true(store_driver_ready(here.d, NULL));
}

/* Two libraries of other servers: one last used long ago, one never noted. */
TEST_WITH(forgotten_libraries_go_after_seven_days, redis_alone, end)
{
    tell_redis("FUNCTION LOAD \"#!lua name=lockstock_old\\nredis.register_function('f1', function() end)\"", "$13");
    tell_redis("FUNCTION LOAD \"#!lua name=lockstock_new\\nredis.register_function('f2', function() end)\"", "$13");
    tell_redis("FUNCTION LOAD \"#!lua name=someone\\nredis.register_function('f3', function() end)\"", "$7");
    tell_redis("HSET ls:{meta}:libraries old 1000", ":1");
    tell_redis("HSET ls:{meta}:libraries someone 1000", ":1");
    open_store(&(store_options){0});
    store_driver_wait_ready(here.d, true);
    for (bool gone = false; !gone;) {
        assert_outcome(store_driver_call(here.d, &(driver_call){.function = "echo"}), LKS_OK, LKS_APPLIED_YES);
        char *reply = redis_fixture_command(redis, "FUNCTION LIST LIBRARYNAME lockstock_old");
        gone = strcmp(reply, "*0\r\n") == 0;
        free(reply);
    }
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "echo"}), LKS_OK, LKS_APPLIED_YES);
    tell_redis("HEXISTS ls:{meta}:libraries old", ":0");
    tell_redis("HEXISTS ls:{meta}:libraries new", ":1");
    tell_redis("HEXISTS ls:{meta}:libraries 7e577e577e577e57", ":1");
    tell_redis("FUNCTION LIST LIBRARYNAME lockstock_new", "*1");
    tell_redis("FUNCTION LIST LIBRARYNAME someone", "*1");
}

/* ---- the user that docs/store.md asks for --------------------------------------- */

/* The line of the document that begins with ACL SETUSER, with a password. */
static void make_documented_user(void)
{
    FILE *file = fopen(STORE_MD, "r");
    char line[1024] = "", *secret;

    assert_non_null(file);
    while (strncmp(line, "ACL SETUSER lockstock ", 22) != 0)
        assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    secret = strstr(line, ">PASSWORD");
    assert_non_null(secret);
    memcpy(secret, ">pass/wor", 9);
    tell_redis(line, "+OK");
}

TEST_WITH(the_documented_user_is_enough, redis_alone, end)
{
    char url[URL_BYTES];

    make_documented_user();
    snprintf(url, sizeof url, "unix://lockstock:pass%%2fwor@%s", redis_fixture_socket(redis));
    const store_options listening = scene_listens((store_options){.url = url});
    open_store(&listening);
    store_driver_wait_ready(here.d, true); /* which includes that it has subscribed */
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "add", .args = {"1"}}), LKS_OK,
                   LKS_APPLIED_YES);
    tell_redis("FUNCTION FLUSH", "+OK");
    assert_outcome(store_driver_call(here.d, &(driver_call){.function = "add", .args = {"1"}}), LKS_OK,
                   LKS_APPLIED_YES);
    tell_redis("ACL LOG", "*0"); /* nothing was denied, the upkeep included */

    store_driver_close_store(here.d);
    const store_options release = {.url = url, .library_text = functions_text, .library_digest = functions_digest};
    open_store(&release);
    store_driver_wait_ready(here.d, true);
}

/* Every command that the library's text names, with as many words as it takes. */
TEST_WITH(the_documented_user_may_run_every_command_of_the_library, redis_alone, end)
{
    static const char *const callers[] = {"redis.call('", "redis.pcall('", "write('"};
    unsigned found = 0;

    make_documented_user();
    for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
        for (const char *at = functions_text; (at = strstr(at, callers[i]));) {
            char command[256], *reply = NULL, of_cluster[16] = " ";
            at += strlen(callers[i]);
            sscanf(at, "CLUSTER', '%14[A-Z]'", of_cluster + 1);
            const char *sub = strncmp(at, "XINFO'", 6) == 0    ? " STREAM"
                              : strncmp(at, "MEMORY'", 7) == 0 ? " USAGE"
                              : strncmp(at, "PUBSUB'", 7) == 0 ? " NUMSUB"
                              : of_cluster[1] != '\0'          ? of_cluster
                                                               : "";
            const char *word = strncmp(at, "PUB", 3) == 0 ? "ls:wake:id" : "ls:{t}:k";
            int used = snprintf(command, sizeof command, "ACL DRYRUN lockstock %.*s%s", (int)strcspn(at, "'"), at, sub);
            do {
                free(reply);
                reply = redis_fixture_command(redis, command);
                used += snprintf(command + used, sizeof command - (size_t)used, " %s", word);
            } while (strstr(reply, "wrong number of arguments") && used < 200);
            if (strcmp(reply, "+OK\r\n") != 0)
                fail_msg("%s: %s", command, reply);
            free(reply);
            found++;
        }
    }
    assert_true(found > 10);
    tell_redis("ACL DRYRUN lockstock PUBLISH ls:wake:id x", "+OK");
    static const char *const denied[] = {
        "FLUSHALL", "KEYS ls:*",         "GET foreign",       "CONFIG SET save x",
        "EVAL x 0", "FUNCTION FLUSH",    "SHUTDOWN",          "CLIENT KILL TYPE normal",
        "ACL LIST", "PUBLISH foreign x", "SUBSCRIBE foreign", "PSUBSCRIBE *"};
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        char command[128];
        snprintf(command, sizeof command, "ACL DRYRUN lockstock %s", denied[i]);
        tell_redis(command, "$");
    }
}

TEST_MAIN()
