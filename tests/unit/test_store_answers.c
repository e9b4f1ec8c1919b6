/* The answers of Redis to an FCALL, row by row of docs/guarantees.md, and invalid
 * ones: garbage ends the connection, never the server. */
#include <uv.h>

#include "store_scene.h"
#include "test.h"

/* ---- what Redis may answer ----------------------------------------------------- */

#define REFUSED(reply, reason)                                                  \
    {                                                                           \
        reply, LKS_UNAVAILABLE, LKS_APPLIED_NO, true, LKS_REASON_STORE_##reason \
    }
#define BROKEN(reply)                                                      \
    {                                                                      \
        reply, LKS_INTERNAL, LKS_APPLIED_MAYBE, false, LKS_REASON_INTERNAL \
    }

/* promise W19 */
/* promise T1: LOADING, BUSY, CLUSTERDOWN, MASTERDOWN, NOREPLICAS, MISCONF, FUNCTION KILL: UNAVAILABLE, NO, retry
 * after */
/* promise T2: OOM: RESOURCE_EXHAUSTED, NO; calls that return units still work */
/* promise T8 */
/* promise T9 */
TEST(each_error_reply_has_its_meaning)
{
    static const struct row {
        const char *reply;
        lks_code code;
        lks_applied applied;
        bool retry_after;
        lks_reason reason;
    } rows[] = {
        REFUSED("-LOADING Redis is loading the dataset in memory\r\n", LOADING),
        REFUSED("-BUSY Redis is busy running a script.\r\n", BUSY),
        REFUSED("-CLUSTERDOWN The cluster is down\r\n", CLUSTER_DOWN),
        REFUSED("-MASTERDOWN Link with MASTER is down\r\n", FAILING_OVER),
        REFUSED("-NOREPLICAS Not enough good replicas to write.\r\n", TOO_FEW_REPLICAS),
        REFUSED("-MISCONF Errors writing to the AOF file\r\n", DISK_FAILED),
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, true,
         LKS_REASON_STORE_OUT_OF_MEMORY},
        REFUSED("-ERR Script killed by user with SCRIPT KILL... script: echo_1, on @user_function:7.\r\n", BUSY),
        BROKEN("-ERR Script killed by users\r\n"),
        BROKEN("-ERR something else\r\n"),
        BROKEN("-BUSYGROUP is not BUSY\r\n"),
        BROKEN("-WRONGTYPE from nowhere\r\n"),
        BROKEN("+OK\r\n"),
        BROKEN("$-1\r\n"),
        BROKEN("*0\r\n"),
        {"[ERR :6 NO m  id_reused]", LKS_ALREADY_EXISTS, LKS_APPLIED_NO, false, LKS_REASON_ID_REUSED},
        BROKEN("[ERR :13 MAYBE m secret  ]"),
        BROKEN("[ERR :13 YES m   ]"),
        BROKEN("[ERR :6 NO m  ]"),
        BROKEN("[ERR]"),
        BROKEN("[ERR :0 NO m   ]"),
        BROKEN("[ERR :99 NO m   ]"),
        BROKEN("[ERR 6 NO m   ]"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("%.40s\n", rows[i].reply);
        scene_reply(rows[i].reply, 1);
        outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .repeatable = true});
        assert_outcome(o, rows[i].code, rows[i].applied);
        assert_int_equal(o->retry_after_ms > 0, rows[i].retry_after);
        lks_error error;
        lks_error_set_reason(&error, o->code, o->applied, o->reason, "%s", o->message);
        assert_int_equal(error.reason, rows[i].reason);
        assert_null(strstr(o->message, "secret"));
    }
    assert_int_equal(store_driver_ups(here.d), 1);
    assert_int_equal(fake_redis_connections(here.fake), 1);
}

/* promise T7 */
TEST(call_refused_during_a_slot_move_is_sent_again)
{
    static const char *const replies[] = {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
                                          "-MOVED 1 127.0.0.1:7001\r\n", "-ASK 1 127.0.0.1:7001\r\n"};
    for (size_t i = 0; i < 3; i++) {
        scene_reply(replies[i], 2);
        scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
    }
    scene_answer("FCALL", replies[0]);
    outcome *never = store_driver_call(here.d, &(driver_call){.function = "echo", .timeout_ms = 120});
    assert_outcome(never, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
}

/* At its deadline a caller has left: it would not get the reason. */
/* promise T7 */
TEST(without_time_for_another_try_the_reason_is_answered_at_once)
{
    scene_answer("FCALL", "-ASK 1 127.0.0.1:7001\r\n");
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .timeout_ms = 95});
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_non_null(strstr(o->message, "slot is moving"));
    assert_int_equal(scene_seen("FCALL"), 1);
}

/* promise T8 */
TEST(denied_means_not_ready)
{
    static const char *const replies[] = {"-NOAUTH Authentication required.\r\n",
                                          "-WRONGPASS invalid username-password pair or user is disabled.\r\n"};
    for (size_t i = 0; i < 2; i++) {
        store_driver_wait_ready(here.d, true);
        unsigned connections = fake_redis_connections(here.fake);
        scene_reply(replies[i], 1);
        scene_assert_echo(LKS_INTERNAL, LKS_APPLIED_NO);
        store_driver_wait_ready(here.d, false);
        assert_non_null(strstr(store_driver_reason(here.d), "the store"));
        store_driver_wait_ready(here.d, true);
        assert_int_equal(fake_redis_connections(here.fake), connections + 1);
    }
}

/* For instance of a user without access to all keys. */
/* promise T8 */
TEST(noperm_fails_only_its_own_call)
{
    scene_reply("-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", 1);
    outcome *denied = scene_submit(), *other = scene_submit();
    store_driver_wait(here.d, denied);
    store_driver_wait(here.d, other);
    assert_outcome(denied, LKS_INTERNAL, LKS_APPLIED_NO);
    assert_int_equal(denied->reason, LKS_REASON_STORE_PERMISSION_DENIED);
    assert_outcome(other, LKS_OK, LKS_APPLIED_YES);
    scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(fake_redis_connections(here.fake), 1);
    assert_int_equal(store_driver_ups(here.d), 1);
}

/* Calls that are out when one is denied still get their answers. */
TEST(retired_connection_answers_its_pending_calls)
{
    scene_reply("-NOAUTH Authentication required.\r\n", 1);
    outcome *denied = scene_submit(), *other = scene_submit();
    store_driver_wait(here.d, denied);
    store_driver_wait(here.d, other);
    assert_outcome(denied, LKS_INTERNAL, LKS_APPLIED_NO);
    assert_int_equal(denied->reason, LKS_REASON_STORE_LOGIN_REFUSED);
    assert_outcome(other, LKS_OK, LKS_APPLIED_YES);
    assert_int_equal(scene_seen("FCALL"), 2);
    store_driver_wait_ready(here.d, true); /* and then it is gone */
    assert_int_equal(fake_redis_connections(here.fake), 2);
}

/* It would never be quiet under a stream of calls. */
/* promise T8 */
TEST(a_retired_connection_gets_no_call)
{
    scene_reply("-NOAUTH Authentication required.\r\n", 1);
    scene_reply(fake_silent, 1);
    outcome *denied = scene_submit(), *owed = scene_submit();
    store_driver_wait(here.d, denied);
    outcome *next = store_driver_call(here.d, &(driver_call){.function = "echo", .timeout_ms = 200});
    assert_outcome(next, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_int_equal(scene_seen("FCALL"), 2);
    fake_redis_say(here.fake, "[DONE]");
    store_driver_wait(here.d, owed);
    assert_outcome(owed, LKS_OK, LKS_APPLIED_YES);
    store_driver_wait_ready(here.d, true);
}

/* So are the types of RESP3, which were not requested. */
/* promise T13 */
TEST(garbage_ends_the_connection_not_the_server)
{
    static const char *const replies[] = {
        ",1.5\r\n",
        "*1\r\n*1\r\n,1.5\r\n",
        "#t\r\n",
        "*1\r\n*1\r\n#f\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "*1\r\n*1\r\n?x\r\n",
        "$99999999999999999999\r\n",
        "*2147483647\r\n",
        "*1\r\n*2000000\r\n$1\r\na\r\n",
        ":12x\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    };
    scene_restart_with(&(store_options){.silence_timeout_ms = 600000}); /* not by silence */
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        print_message("%.30s\n", replies[i]);
        scene_reply(replies[i], 1);
        scene_assert_echo(LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
    }
}

/* A string; and elements, each of which is whole, so that none waits in the reader's buffer. */
/* promise T13: garbage, endless and unasked replies, and answers of another type, end the connection or the step, not
 * the server; silence is noticed, on the wake channel too */
TEST(a_reply_without_end_is_cut_off)
{
    enum { BYTES = 1024 * 1024, STRING_BYTES = 108, STRINGS = BYTES / STRING_BYTES };
    static char bytes[BYTES + 1], strings[STRINGS * STRING_BYTES + 1];
    static const struct row {
        const char *head, *part;
    } rows[] = {{"*1\r\n*1\r\n$500000000\r\n", bytes}, {"*1\r\n*1048576\r\n", strings}};

    memset(bytes, 'x', BYTES);
    for (size_t i = 0; i < STRINGS; i++)
        snprintf(strings + STRING_BYTES * i, STRING_BYTES + 1, "$100\r\n%0100zu\r\n", i);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scene_restart_with(&(store_options){.silence_timeout_ms = 600000}); /* not by silence, however slow this is */
        scene_reply(rows[i].head, 1);
        outcome *o = store_driver_submit(here.d, &(driver_call){.function = "echo", .timeout_ms = 600000});
        scene_until_seen("FCALL", 1);
        for (int k = 0; k < 100; k++) { /* MiB; the connection takes 64 of one reply */
            fake_redis_say(here.fake, rows[i].part);
            uv_run(store_driver_loop(here.d), UV_RUN_NOWAIT);
        }
        store_driver_wait(here.d, o);
        assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
        assert_non_null(strstr(store_driver_reason(here.d), "the store's reply is too long"));
    }
}

/* Before the greeting the peer is not known to be Redis: small limits of bytes and elements apply. */
/* promise T13 */
TEST(a_greeting_without_end_is_cut_off_early)
{
    enum { BYTES = 2 * 1024 * 1024 };
    static char text[BYTES + 1], numbers[BYTES + 1];
    const char *const replies[] = {text, numbers};

    memset(text, 'x', BYTES);
    memcpy(text, "$500000000\r\n", 12);
    for (size_t i = 0; i < BYTES / 4; i++)
        memcpy(numbers + 4 * i, ":1\r\n", 4);
    memcpy(numbers, "*1000000\r\n:1\r\n:123\r\n", 20);
    for (size_t i = 0; i < 2; i++) {
        scene_restart_with(&(store_options){.connect_timeout_ms = 600000});
        scene_answer("HELLO", replies[i]);
        fake_redis_hang_up(here.fake);
        scene_until_reason("the store's reply is too long");
        scene_answer("HELLO", NULL);
        store_driver_wait_ready(here.d, true);
    }
}

/* A new connection gets this answer; it is used. */
static void reconnect_with(const char *words, const char *answer)
{
    unsigned seen = scene_seen(words);

    scene_answer(words, answer);
    fake_redis_hang_up(here.fake);
    scene_until_seen(words, seen + 1);
    store_driver_wait_ready(here.d, true);
    scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
}

/* Impossible times. */
/* promise T13 */
TEST(a_library_of_an_impossible_age_is_not_deleted)
{
    static const char *const times[] = {"'-9223372036854775808", "'9223372036854775807", "'1699999999", ":1\r\n"};

    scene_answer(SCENE_LIBRARIES, "[[library_name lockstock_aaaa]]");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        reconnect_with("HGET", times[i]);
        assert_int_equal(scene_seen("FUNCTION DELETE"), 0);
    }
}

/* promise T13 */
TEST(impossible_store_time_is_ignored)
{
    static const char *const times[] = {"[9223372036854775807 0]", "[-9223372036854775808 0]",
                                        "[1700000000 9223372036854775807]", "[:1]"};
    store_view view;

    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        reconnect_with("TIME", times[i]);
        store_describe(store_driver_store(here.d), &view);
        assert_int_equal(view.at_ms, 0);
    }
}

/* promise T13 */
TEST(unsolicited_reply_ends_the_connection)
{
    fake_redis_say(here.fake, "+OK\r\n");
    store_driver_wait_ready(here.d, false);
    store_driver_wait_ready(here.d, true);
    scene_assert_echo(LKS_OK, LKS_APPLIED_YES);
}

TEST_MAIN(.setup = scene_start, .teardown = scene_end)
