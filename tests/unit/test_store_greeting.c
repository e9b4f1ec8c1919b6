/* The greeting of a new connection: credentials, database, version, role,
 * safety, data layout, library; against a fake Redis that differs in one answer. */
#include "store_scene.h"
#include "support/kept_stderr.h"
#include "test.h"

/* `words` are answered with `reply`. */
static void open_store(const char *words, const char *reply, const char *credentials, const char *suffix,
                       bool allow_unsafe)
{
    scene_begin();
    scene_answer(words, reply);
    scene_open_url(&(store_options){.allow_unsafe = allow_unsafe}, credentials, suffix);
}

static void becomes_ready(void)
{
    store_driver_wait_ready(here.d, true);
    assert_null(store_fatal(store_driver_store(here.d)));
}

/* promise T8 */
TEST(credentials_and_database_come_first)
{
    open_store("", NULL, "us%20er:pass%2Fword@", "?db=7", false);
    store_driver_wait_ready(here.d, true);
    assert_ptr_equal(strstr(fake_redis_log(here.fake), "AUTH us er pass/word\nSELECT 7\nHELLO\n"),
                     fake_redis_log(here.fake));
    open_store("", NULL, ":pw@", "", false);
    store_driver_wait_ready(here.d, true);
    assert_ptr_equal(strstr(fake_redis_log(here.fake), "AUTH pw\nHELLO\n"), fake_redis_log(here.fake));
}

/* promise T12 */
TEST(a_store_that_loses_data_by_design_is_refused_unless_allowed)
{
    static const struct row {
        const char *config, *why; /* NULL = safe */
    } rows[] = {
        {"[appendonly yes maxmemory 0 maxmemory-policy allkeys-lru]", NULL},
        {"[appendonly yes maxmemory 100 maxmemory-policy noeviction]", NULL},
        {"[save 3600_1 appendonly no maxmemory 0 maxmemory-policy noeviction]", NULL},
        {"-NOPERM this user has no permissions to run the 'config|get' command\r\n", NULL},
        {"-ERR unknown command 'CONFIG'\r\n", NULL},
        {"[appendonly yes maxmemory 100 maxmemory-policy allkeys-lru]", "evicts keys"},
        {"[appendonly yes maxmemory 100 maxmemory-policy volatile-ttl]", "evicts keys"},
        {"[appendonly no maxmemory 0 maxmemory-policy noeviction]", "keeps nothing on disk"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_store("CONFIG", rows[i].config, "", "", false);
        if (rows[i].why) {
            scene_until_fatal(rows[i].why);
            scene_until_reason(rows[i].why);
            assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_UNSAFE);
            assert_int_equal(store_driver_ups(here.d), 0);
        } else {
            becomes_ready();
        }
        open_store("CONFIG", rows[i].config, "", "", true);
        becomes_ready();
    }
}

/* promise T12: a store that loses data by design, is too old, has another layout or another library is refused */
TEST(a_misfit_is_fatal)
{
    static const struct row {
        const char *words, *reply, *why;
    } rows[] = {
        {"HELLO", "-ERR unknown command 'HELLO'\r\n", "older than Redis 7.0"},
        {"HELLO", "[version 6.2.7 role master]", "6.2.7"},
        {"GET", "'2", "data layout is version 2, this server's is 3: it is older than release 0.1.0"},
        {"GET", "'4.1", "data layout is version 4.1, this server's is 3: a newer lockstockd wrote it"},
        {"GET", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "foreign data"},
        {SCENE_LIBRARY, "[[library_code other]]", "another text"},
        {SCENE_LIBRARY, "[[]]", "another text"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_store(rows[i].words, rows[i].reply, "", "", true);
        scene_submit();
        scene_until_fatal(rows[i].why);
    }
}

/* promise T12 */
TEST(transient_greeting_error_is_retried_until_it_passes)
{
    static const struct row {
        const char *words, *reply, *why;
        lks_reason reason;
    } rows[] = {
        {"AUTH", "-WRONGPASS invalid username-password pair or user is disabled.\r\n", "refuses the credentials",
         LKS_REASON_STORE_LOGIN_REFUSED},
        {"HELLO", "-NOAUTH HELLO must be called with the client already authenticated\r\n", "wants credentials",
         LKS_REASON_STORE_LOGIN_REFUSED},
        {"AUTH", "-ERR AUTH <password> called without any password configured for the default user.\r\n",
         "the store has no password, and one was given", LKS_REASON_STORE_LOGIN_REFUSED},
        {"SELECT", "-ERR DB index is out of range\r\n", "the store has no database 99 (--store)",
         LKS_REASON_STORE_NO_DATABASE},
        {"SELECT", "-ERR SELECT is not allowed in cluster mode\r\n", "its URL is redis+cluster://",
         LKS_REASON_STORE_MISFIT},
        {"SELECT", "-NOPERM this user has no permissions to run the 'select' command\r\n", "permission",
         LKS_REASON_STORE_PERMISSION_DENIED},
        {"HELLO", "-DENIED Redis is running in protected mode because protected mode is enabled\r\n", "protected mode",
         LKS_REASON_STORE_LOGIN_REFUSED},
        {"HELLO", "[version 7.0.15 role replica]", "read-only replica", LKS_REASON_STORE_IS_REPLICA},
        {"HELLO", "+OK\r\n", "not understood", LKS_REASON_STORE_MISFIT},
        {"GET", "-LOADING Redis is loading the dataset in memory\r\n", "loading", LKS_REASON_STORE_LOADING},
        {"GET", "-NOPERM this user has no permissions\r\n", "permission", LKS_REASON_STORE_PERMISSION_DENIED},
        {"GET", ":1\r\n", "not understood", LKS_REASON_STORE_MISFIT},
        {SCENE_LIBRARY, "-NOPERM this user has no permissions\r\n", "permission", LKS_REASON_STORE_PERMISSION_DENIED},
        {SCENE_LIBRARY, "+OK\r\n", "not a library", LKS_REASON_STORE_MISFIT},
        {"HELLO", "garbage\r\n", "a malformed reply", LKS_REASON_STORE_UNREACHABLE},
        {"GET", fake_close, "closed", LKS_REASON_STORE_UNREACHABLE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("%s: %s\n", rows[i].words, rows[i].why);
        open_store(rows[i].words, rows[i].reply, ":pw@", "?db=99", false);
        scene_until_reason(rows[i].why);
        assert_int_equal(store_driver_fault(here.d), rows[i].reason);
        assert_int_equal(store_driver_ups(here.d), 0);
        assert_null(store_fatal(store_driver_store(here.d)));
        scene_answer(rows[i].words, NULL);
        becomes_ready();
    }
}

/* promise T12 */
TEST(missing_layout_version_is_written)
{
    open_store("GET", "$-1\r\n", "", "", false);
    store_driver_wait_ready(here.d, true);
    assert_int_equal(scene_seen("SET ls:{meta}:schema 3 NX GET"), 1);
    open_store("", NULL, "", "", false);
    store_driver_wait_ready(here.d, true);
    assert_int_equal(scene_seen("SET ls:{meta}:schema"), 0);
}

TEST(a_silent_greeting_times_out)
{
    scene_begin();
    scene_answer("HELLO", fake_silent);
    scene_open(&(store_options){.connect_timeout_ms = 30});
    scene_until_reason("greeting");
    assert_int_equal(store_driver_fault(here.d), LKS_REASON_STORE_SILENT);
    scene_answer("HELLO", NULL);
    becomes_ready();
}

/* The process' stderr while a store fails in every way that concerns its credentials. */
/* promise T8: NOAUTH, WRONGPASS: INTERNAL, not ready; NOPERM: INTERNAL, that call alone; no secret in the log */
TEST(no_secret_is_logged)
{
    static const struct row {
        const char *words, *reply;
    } rows[] = {
        {"AUTH", "-WRONGPASS invalid username-password pair hunter2\r\n"},
        {"AUTH", "-ERR hunter2 is wrong\r\n"},
        {"HELLO", "-NOAUTH hunter2\r\n"},
    };

    kept_stderr_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_store(rows[i].words, rows[i].reply, "user:hunter2@", "", false);
        scene_until_reason("store");
        assert_null(strstr(store_driver_reason(here.d), "hunter2"));
        scene_answer(rows[i].words, NULL);
        becomes_ready();
    }
    assert_int_equal(kept_stderr_count("hunter2"), 0);
    kept_stderr_end();
}

TEST_MAIN(.teardown = scene_end)
