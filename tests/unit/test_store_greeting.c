/* What a fresh connection must pass: credentials, database, version, role,
 * safety, data layout, library; against a fake Redis that differs in one thing. */
#include "support/fake_redis.h"
#include "support/kept_stderr.h"
#include "support/store_driver.h"
#include "test.h"

/* One command answered in another way: its first words, and the reply. */
typedef struct twist {
    const char *first, *second;
    const char *reply;
} twist;

typedef struct stage {
    store_driver *d;
    fake_redis *fake;
    twist twist;
    char words[2048]; /* all that was said */
} stage;

static const char *play(void *arg, size_t argc, const char *const *argv)
{
    stage *s = arg;
    size_t used = strlen(s->words);

    for (size_t i = 0; i < argc && i < 5 && used < sizeof s->words - 1; i++)
        used +=
            (size_t)snprintf(s->words + used, sizeof s->words - used, "%.64s%s", argv[i], i + 1 < argc ? " " : "\n");
    if (s->twist.first && strcmp(argv[0], s->twist.first) == 0 &&
        (!s->twist.second || (argc > 1 && strcmp(argv[1], s->twist.second) == 0)))
        return s->twist.reply;
    return fake_usual;
}

/* `prefix` stands before the socket's path: credentials. */
static void open_store(stage *s, const twist *with, const char *prefix, const char *suffix, bool allow_unsafe)
{
    char url[256];

    *s = (stage){.d = store_driver_new()};
    if (with)
        s->twist = *with;
    s->fake = fake_redis_start(store_driver_loop(s->d), play, s);
    snprintf(url, sizeof url, "unix://%s%s%s", prefix, fake_redis_url(s->fake) + strlen("unix://"), suffix);
    const store_options options = {.url = url, .allow_unsafe = allow_unsafe};
    assert_int_equal(store_driver_open(s->d, &options, NULL), LKS_OK);
}

static void close_store(stage *s)
{
    store_driver_close_store(s->d);
    fake_redis_stop(s->fake);
    store_driver_free(s->d);
}

static bool is_fatal(void *arg)
{
    return store_fatal(store_driver_store(((stage *)arg)->d));
}

static bool has_reason(void *arg)
{
    const char *reason = store_driver_reason(((stage *)arg)->d);

    return reason[0] != '\0';
}

/* promise T8 */
TEST(credentials_and_database_come_first)
{
    stage s;

    open_store(&s, NULL, "us%20er:pass%2Fword@", "?db=7", false);
    store_driver_wait_ready(s.d, true);
    assert_ptr_equal(strstr(s.words, "AUTH us er pass/word\nSELECT 7\nHELLO\n"), s.words);
    close_store(&s);
    open_store(&s, NULL, ":pw@", "", false);
    store_driver_wait_ready(s.d, true);
    assert_ptr_equal(strstr(s.words, "AUTH pw\nHELLO\n"), s.words);
    close_store(&s);
}

#define CONFIG(save, append, memory, policy_len, policy)                                    \
    "*8\r\n$4\r\nsave\r\n" save "$10\r\nappendonly\r\n" append "$9\r\nmaxmemory\r\n" memory \
    "$16\r\nmaxmemory-policy\r\n$" policy_len "\r\n" policy "\r\n"
#define NO_SAVE "$0\r\n\r\n"
#define SAVE "$6\r\n3600 1\r\n"
#define YES "$3\r\nyes\r\n"
#define NO "$2\r\nno\r\n"
#define NOLIMIT "$1\r\n0\r\n"
#define LIMIT "$3\r\n100\r\n"

static const struct unsafe {
    twist twist;
    const char *why; /* NULL = safe */
} configs[] = {
    {{"CONFIG", NULL, CONFIG(NO_SAVE, YES, NOLIMIT, "11", "allkeys-lru")}, NULL},
    {{"CONFIG", NULL, CONFIG(NO_SAVE, YES, LIMIT, "10", "noeviction")}, NULL},
    {{"CONFIG", NULL, CONFIG(SAVE, NO, NOLIMIT, "10", "noeviction")}, NULL},
    {{"CONFIG", NULL, "-NOPERM this user has no permissions to run the 'config|get' command\r\n"}, NULL},
    {{"CONFIG", NULL, "-ERR unknown command 'CONFIG'\r\n"}, NULL},
    {{"CONFIG", NULL, CONFIG(NO_SAVE, YES, LIMIT, "11", "allkeys-lru")}, "evicts keys"},
    {{"CONFIG", NULL, CONFIG(NO_SAVE, YES, LIMIT, "12", "volatile-ttl")}, "evicts keys"},
    {{"CONFIG", NULL, CONFIG(NO_SAVE, NO, NOLIMIT, "10", "noeviction")}, "keeps nothing on disk"},
};

/* promise T12 */
TEST(a_store_that_loses_data_by_design_is_refused_unless_allowed)
{
    stage s;

    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        open_store(&s, &configs[i].twist, "", "", false);
        if (configs[i].why) {
            store_driver_until(s.d, is_fatal, &s);
            assert_non_null(strstr(store_fatal(store_driver_store(s.d)), configs[i].why));
            store_driver_until(s.d, has_reason, &s);
            assert_int_equal(store_driver_fault(s.d), LKS_REASON_STORE_UNSAFE);
            assert_int_equal(store_driver_ups(s.d), 0);
        } else {
            store_driver_wait_ready(s.d, true);
        }
        close_store(&s);
        open_store(&s, &configs[i].twist, "", "", true);
        store_driver_wait_ready(s.d, true);
        assert_null(store_fatal(store_driver_store(s.d)));
        close_store(&s);
    }
}

/* promise T12: a store that loses data by design, is too old, has another layout or another library is refused */
TEST(a_misfit_is_fatal)
{
    static const struct row {
        twist twist;
        const char *why;
    } rows[] = {
        {{"HELLO", NULL, "-ERR unknown command 'HELLO'\r\n"}, "older than Redis 7.0"},
        {{"HELLO", NULL, "*4\r\n$7\r\nversion\r\n$5\r\n6.2.7\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"}, "6.2.7"},
        {{"GET", NULL, "$1\r\n2\r\n"}, "data layout is version 2, this server's is 3: it is older than release 0.1.0"},
        {{"GET", NULL, "$3\r\n4.1\r\n"}, "data layout is version 4.1, this server's is 3: a newer lockstockd wrote it"},
        {{"GET", NULL, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"}, "foreign data"},
        {{"FUNCTION", "LIST", "*1\r\n*2\r\n$12\r\nlibrary_code\r\n$5\r\nother\r\n"}, "another text"},
        {{"FUNCTION", "LIST", "*1\r\n*0\r\n"}, "another text"},
    };
    stage s;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_store(&s, &rows[i].twist, "", "", true);
        outcome *o = store_driver_submit(s.d, &(driver_call){.function = "echo"});
        store_driver_until(s.d, is_fatal, &s);
        assert_non_null(strstr(store_fatal(store_driver_store(s.d)), rows[i].why));
        close_store(&s);
        (void)o;
    }
}

/* promise T12 */
TEST(what_may_pass_is_tried_until_it_does)
{
    static const struct row {
        twist twist;
        const char *why;
        lks_reason reason;
    } rows[] = {
        {{"AUTH", NULL, "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
         "refuses the credentials",
         LKS_REASON_STORE_LOGIN_REFUSED},
        {{"HELLO", NULL, "-NOAUTH HELLO must be called with the client already authenticated\r\n"},
         "wants credentials",
         LKS_REASON_STORE_LOGIN_REFUSED},
        {{"AUTH", NULL, "-ERR AUTH <password> called without any password configured for the default user.\r\n"},
         "the store has no password, and one was given",
         LKS_REASON_STORE_LOGIN_REFUSED},
        {{"SELECT", NULL, "-ERR DB index is out of range\r\n"},
         "the store has no database 99 (--store)",
         LKS_REASON_STORE_NO_DATABASE},
        {{"SELECT", NULL, "-ERR SELECT is not allowed in cluster mode\r\n"},
         "its URL is redis+cluster://",
         LKS_REASON_STORE_MISFIT},
        {{"SELECT", NULL, "-NOPERM this user has no permissions to run the 'select' command\r\n"},
         "permission",
         LKS_REASON_STORE_PERMISSION_DENIED},
        {{"HELLO", NULL, "-DENIED Redis is running in protected mode because protected mode is enabled\r\n"},
         "protected mode",
         LKS_REASON_STORE_LOGIN_REFUSED},
        {{"HELLO", NULL, "*4\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$7\r\nreplica\r\n"},
         "read-only replica",
         LKS_REASON_STORE_IS_REPLICA},
        {{"HELLO", NULL, "+OK\r\n"}, "not understood", LKS_REASON_STORE_MISFIT},
        {{"GET", NULL, "-LOADING Redis is loading the dataset in memory\r\n"}, "loading", LKS_REASON_STORE_LOADING},
        {{"GET", NULL, "-NOPERM this user has no permissions\r\n"}, "permission", LKS_REASON_STORE_PERMISSION_DENIED},
        {{"GET", NULL, ":1\r\n"}, "not understood", LKS_REASON_STORE_MISFIT},
        {{"FUNCTION", "LIST", "-NOPERM this user has no permissions\r\n"},
         "permission",
         LKS_REASON_STORE_PERMISSION_DENIED},
        {{"FUNCTION", "LIST", "+OK\r\n"}, "no library", LKS_REASON_STORE_MISFIT},
        {{"HELLO", NULL, "garbage\r\n"}, "no reply", LKS_REASON_STORE_UNREACHABLE},
        {{"GET", NULL, fake_close}, "closed", LKS_REASON_STORE_UNREACHABLE},
    };
    stage s;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("%s: %s\n", rows[i].twist.first, rows[i].why);
        open_store(&s, &rows[i].twist, ":pw@", "?db=99", false);
        store_driver_until(s.d, has_reason, &s);
        assert_non_null(strstr(store_driver_reason(s.d), rows[i].why));
        assert_int_equal(store_driver_fault(s.d), rows[i].reason);
        assert_int_equal(store_driver_ups(s.d), 0);
        assert_null(store_fatal(store_driver_store(s.d)));
        s.twist = (twist){0};
        store_driver_wait_ready(s.d, true);
        close_store(&s);
    }
}

/* promise T12 */
TEST(the_layout_is_noted_where_there_is_none)
{
    static const twist none = {"GET", NULL, "$-1\r\n"};
    stage s;

    open_store(&s, &none, "", "", false);
    store_driver_wait_ready(s.d, true);
    assert_non_null(strstr(s.words, "SET ls:{meta}:schema 3 NX GET\n"));
    close_store(&s);
    open_store(&s, NULL, "", "", false);
    store_driver_wait_ready(s.d, true);
    assert_null(strstr(s.words, "SET ls:{meta}:schema"));
    close_store(&s);
}

TEST(a_silent_greeting_times_out)
{
    static const twist silence = {"HELLO", NULL, fake_silent};
    stage s = {.d = store_driver_new(), .twist = silence};

    s.fake = fake_redis_start(store_driver_loop(s.d), play, &s);
    const store_options options = {.url = fake_redis_url(s.fake), .connect_timeout_ms = 30};
    assert_int_equal(store_driver_open(s.d, &options, NULL), LKS_OK);
    store_driver_until(s.d, has_reason, &s);
    assert_non_null(strstr(store_driver_reason(s.d), "greeting"));
    assert_int_equal(store_driver_fault(s.d), LKS_REASON_STORE_SILENT);
    s.twist = (twist){0};
    store_driver_wait_ready(s.d, true);
    close_store(&s);
}

/* What the process writes to stderr while a store fails in every way that has to
 * do with its credentials. */
/* promise T8: NOAUTH, WRONGPASS: INTERNAL, not ready; NOPERM: INTERNAL, that call alone; no secret in the log */
TEST(no_secret_is_logged)
{
    static const twist refused[] = {
        {"AUTH", NULL, "-WRONGPASS invalid username-password pair hunter2\r\n"},
        {"AUTH", NULL, "-ERR hunter2 is wrong\r\n"},
        {"HELLO", NULL, "-NOAUTH hunter2\r\n"},
    };
    stage s;

    kept_stderr_begin();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        open_store(&s, &refused[i], "user:hunter2@", "", false);
        store_driver_until(s.d, has_reason, &s);
        assert_null(strstr(store_driver_reason(s.d), "hunter2"));
        s.twist = (twist){0};
        store_driver_wait_ready(s.d, true);
        close_store(&s);
    }
    assert_int_equal(kept_stderr_count("hunter2"), 0);
    kept_stderr_end();
}

TEST_MAIN()
