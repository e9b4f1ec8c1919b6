/* Fences: each grant of a name has a greater one than every grant before it, also
 * when the clock steps back or the key is lost; and the fence register. */
#include "services/lock_script.h"

#include <time.h>

static int64_t now_us(void)
{
    return atoll(harness_redis(h, "EVAL %s 0",
                               "local t = redis.call('TIME')\n"
                               "local offset = redis.call('GET', 'ls:test:clock_offset_us') or '0'\n"
                               "return string.format('%.0f', t[1] * 1000000 + t[2] + offset)"));
}

TEST(fences_grow_from_grant_to_grant)
{
    static const char *const targets[] = {"a", "a:S", "a:P1/3", "a"};
    char alias[] = "T0";
    uint64_t last = 0;

    for (size_t i = 0; i < 20; i++) {
        alias[1] = (char)('A' + i);
        says(acquire(alias, targets[i % 4]), "ACQUIRED");
        assert_true(fence() > last);
        last = fence();
        if (i % 3 == 0)
            pass_seconds(1000);
        else
            release(alias, "");
    }
    assert_true(last < (UINT64_C(1) << 53));
}

TEST(each_holder_and_each_name_has_its_own)
{
    acquire("T1", "a:P1/3 b:S");
    uint64_t a1 = acquired->fences[0]->fence;
    uint64_t b1 = acquired->fences[1]->fence;
    acquire("T2", "b:S a:P2/3");
    uint64_t b2 = acquired->fences[0]->fence;
    uint64_t a2 = acquired->fences[1]->fence;
    assert_true(a2 > a1 && b2 > b1);
    inspect("a");
    assert_int_equal(inspected->holders[0]->fence, a1);
    assert_int_equal(inspected->holders[1]->fence, a2);
    assert_int_equal(inspected->last_fence, a2);
}

TEST(fences_grow_while_the_clock_steps_back)
{
    uint64_t last = 0;
    char alias[] = "T0";

    for (size_t i = 0; i < 10; i++) {
        alias[1] = (char)('0' + i);
        says(acquire(alias, "a"), "ACQUIRED");
        assert_true(fence() > last);
        last = fence();
        says(release(alias, ""), "RELEASED");
        pass_seconds(-3600);
    }
}

TEST(a_fence_outlives_release_and_expiry)
{
    acquire("T1", "a");
    uint64_t first = fence();
    release("T1", "");
    says(inspect("a"), "FREE");
    assert_int_equal(inspected->last_fence, first);
    pass_seconds(-3600);
    acquire("T2", "a");
    uint64_t second = fence();
    assert_int_equal(second, first + 1);
    pass_seconds(1000);
    says(inspect("a"), "FREE");
    assert_int_equal(inspected->last_fence, second);
    acquire("T3", "a");
    assert_int_equal(fence(), second + 1);
}

/* So one that is given after the key was lost is greater. */
TEST(a_fence_is_an_instant_where_the_clock_has_not_stepped_back)
{
    acquire("T1", "a");
    release("T1", "");
    pass_seconds(10);
    uint64_t now = (uint64_t)now_us();
    acquire("T2", "a");
    assert_true(fence() >= now);
    acquire("T3", "b:S");
    pass_seconds(10);
    now = (uint64_t)now_us();
    acquire("T4", "b:S c");
    assert_true(acquired->fences[0]->fence >= now);
    assert_true(acquired->fences[1]->fence >= now);
}

TEST(a_lost_key_does_not_bring_a_fence_back)
{
    acquire("T1", "a");
    uint64_t before = fence();
    harness_redis(h, "DEL ls:{default/g}:lock:n:a");
    acquire("T2", "a");
    assert_true(fence() > before);
    before = fence();
    harness_redis(h, "FLUSHALL");
    int64_t now = now_us();
    acquire("T3", "a");
    assert_true(fence() > before);
    assert_true(fence() >= (uint64_t)now);
}

TEST(a_replay_takes_no_new_fence)
{
    acquire("T1", "a:S");
    uint64_t first = fence();
    acquire("T2", "a:S");
    acquire("T1", "a:S");
    assert_int_equal(fence(), first);
}

TEST(the_register_refuses_what_is_lower)
{
    says(check_fence("disk", 5), "OK 5");
    says(check_fence("disk", 5), "OK 5");
    says(check_fence("disk", 4), "STALE 5");
    says(check_fence("disk", 9), "OK 9");
    says(check_fence("disk", 5), "STALE 9");
    pass_seconds(9007199254 - time(NULL)); /* to where fences are as large as numbers are exact */
    says(check_fence("disk", 9007199254740991), "OK 9007199254740991");
    says(check_fence("disk", 9007199254740990), "STALE 9007199254740991");
    says(check_fence("disk", 9007199254740991), "OK 9007199254740991");
}

TEST(registers_are_apart_and_stay)
{
    says(check_fence("a", 7), "OK 7");
    says(check_fence("b}:lock:r", 3), "OK 3");
    says(check_fence("b", 2), "OK 2");
    says(check_fence("a", 6), "STALE 7");
    says(harness_redis(h, "PTTL ls:{default/a}:lock:r"), "-1");
    pass_seconds(100 * 86400);
    says(check_fence("a", 6), "STALE 7");
    harness_namespace(h, "other");
    says(check_fence("a", 6), "OK 6");
}

TEST(a_foreign_register_is_left_alone)
{
    harness_redis(h, "SET ls:{default/a}:lock:r foreign");
    says(check_fence("a", 7), "FAILED_PRECONDITION NO the store holds foreign data under this name");
    says(harness_redis(h, "GET ls:{default/a}:lock:r"), "foreign");
    harness_redis(h, "HSET ls:{default/b}:lock:r f 1");
    says(check_fence("b", 7), "FAILED_PRECONDITION NO the store holds foreign data under this name");
    says(reset_fence("a", 7), "FAILED_PRECONDITION NO the store holds foreign data under this name");
    says(reset_fence("b", 0), "FAILED_PRECONDITION NO the store holds foreign data under this name");
}

/* One call with a number that is no fence would make every holder STALE for good. */
TEST(what_no_clock_can_have_given_is_refused)
{
    static const char refused[] =
        "INVALID_ARGUMENT NO fence: over 24 hours ahead of the store's clock, no lock can have given it";

    acquire("T1", "a");
    uint64_t given = fence();
    says_begin(check_fence("row", given), "OK ");
    remember();
    says(check_fence("row", SERVICE_QUANTITY_MAX), refused);
    says(check_fence("row", given + 90000000000), refused);
    says(reset_fence("row", SERVICE_QUANTITY_MAX), refused);
    expect_unchanged();
    says_begin(check_fence("row", given), "OK ");
    /* What was given before the clock stepped back is taken. */
    pass_seconds(-80000);
    says_begin(check_fence("row", given), "OK ");
    says_begin(check_fence("row", given + 1), "OK ");
}

TEST(a_register_is_reset)
{
    says(check_fence("row", 9000), "OK 9000");
    says(reset_fence("row", 70), "9000");
    says(check_fence("row", 69), "STALE 70");
    says(check_fence("row", 71), "OK 71");
    says(reset_fence("row", 0), "71");
    says(harness_snapshot(h), "");
    says(check_fence("row", 1), "OK 1");
    says(reset_fence("never", 0), "0");
    says(reset_fence("never", 5), "0");
    says(check_fence("never", 4), "STALE 5");
    says(reset_fence("", 5), "INVALID_ARGUMENT NO resource: must not be empty");
    says(reset_fence("never", UINT64_MAX), "INVALID_ARGUMENT NO fence: must be 0 to 9007199254740991");
}

/* What fences are for: the lease of a frozen holder is over, the next one has
 * written, and the first wakes up. */
TEST(a_late_holder_is_kept_out)
{
    acquire("T1", "a");
    uint64_t frozen = fence();
    pass_seconds(1000);
    acquire("T2", "a");
    uint64_t next = fence();
    says_begin(check_fence("row", next), "OK ");
    says_begin(check_fence("row", frozen), "STALE ");
    says_begin(check_fence("row", next), "OK ");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
