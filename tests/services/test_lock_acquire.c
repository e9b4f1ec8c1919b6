/* Acquire: who gets a lock, who is told who has it, and that a token is granted
 * once whatever is sent again. */
#include "services/lock_script.h"

TEST(a_free_lock_is_acquired)
{
    says(acquire("T1", "a"), "ACQUIRED");
    assert_int_equal(acquired->lease_ms, LEASE_MS);
    assert_string_equal(acquired->token, token_of("T1"));
    assert_string_equal(acquired->group, "g");
    assert_int_equal(acquired->n_fences, 1);
    assert_string_equal(acquired->fences[0]->name, "a");
    assert_true(fence() > 0);
    says(inspect("a"), "EXCLUSIVE T1");
}

TEST(a_held_lock_is_busy_and_tells_its_holder)
{
    acquire("T1", "a");
    pass_seconds(400);
    says(acquire("T2", "a"), "BUSY a held by T1");
    about(acquired->holder->lease_ms, LEASE_MS - 400000);
    assert_int_equal(acquired->n_fences, 0);
    assert_string_equal(acquired->token, token_of("T2"));
    says(inspect("a"), "EXCLUSIVE T1");
}

TEST(busy_changes_nothing)
{
    acquire("T1", "b");
    remember();
    says(acquire("T2", "a b c"), "BUSY b held by T1");
    expect_unchanged();
    says(inspect("a"), "FREE");
}

TEST(all_targets_are_taken_at_once)
{
    says(acquire("T1", "c a:S b:P2/5"), "ACQUIRED");
    assert_int_equal(acquired->n_fences, 3);
    assert_string_equal(acquired->fences[0]->name, "c");
    assert_string_equal(acquired->fences[1]->name, "a");
    assert_string_equal(acquired->fences[2]->name, "b");
    says(inspect("c"), "EXCLUSIVE T1");
    says(inspect("a"), "SHARED T1");
    says(inspect("b"), "PERMIT/5 T1=2");
}

TEST(the_same_token_again_is_the_same_grant)
{
    acquire("T1", "a b:S");
    uint64_t first[2] = {acquired->fences[0]->fence, acquired->fences[1]->fence};
    remember();
    pass_seconds(400);
    says(acquire("T1", "a b:S"), "ACQUIRED again");
    assert_int_equal(acquired->fences[0]->fence, first[0]);
    assert_int_equal(acquired->fences[1]->fence, first[1]);
    about(acquired->lease_ms, LEASE_MS - 400000);
    expect_unchanged();
}

TEST(the_same_token_for_other_targets_is_refused)
{
    static const char *const others[] = {"b", "a:S", "a b", "a:P1/1"};

    acquire("T1", "a");
    remember();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        says(acquire("T1", others[i]), "ALREADY_EXISTS NO token: used for other targets");
    expect_unchanged();
    release("T1", "");
    acquire("T2", "p:P1/5");
    says(acquire("T2", "p:P2/5"), "ALREADY_EXISTS NO token: used for other targets");
}

TEST(a_released_token_is_spent)
{
    acquire("T1", "a");
    release("T1", "");
    says(acquire("T1", "a"), "TOKEN_SPENT");
    says(acquire("T1", "b"), "TOKEN_SPENT");
    says(inspect("a"), "FREE");
}

TEST(a_token_released_in_part_is_spent)
{
    acquire("T1", "a b");
    release("T1", "a");
    says(acquire("T1", "a b"), "TOKEN_SPENT");
    says(acquire("T1", "b"), "TOKEN_SPENT");
    says(inspect("a"), "FREE");
    says(inspect("b"), "EXCLUSIVE T1");
}

TEST(a_late_copy_after_the_release_is_no_ghost)
{
    says(release("T1", "a"), "NOT_HELD");
    says(acquire("T1", "a"), "TOKEN_SPENT");
    says(inspect("a"), "FREE");
}

TEST(a_token_whose_lease_ran_out_is_spent)
{
    acquire("T1", "a");
    pass_seconds(1000);
    says(acquire("T1", "a"), "TOKEN_SPENT");
    says(acquire("T1", "b"), "TOKEN_SPENT");
    says(inspect("a"), "FREE");
    says(acquire("T2", "a"), "ACQUIRED");
    says(acquire("T1", "a"), "TOKEN_SPENT");
    says(inspect("a"), "EXCLUSIVE T2");
}

TEST(a_lease_excludes_others_until_its_end)
{
    acquire("T1", "a");
    pass_seconds(900);
    says(acquire("T2", "a"), "BUSY a held by T1");
    pass_seconds(100);
    says(acquire("T2", "a"), "ACQUIRED");
}

/* With a clock that stands still: to the microsecond. */
TEST(a_lease_ends_at_its_end_and_not_before)
{
    harness_alter(h, "redis.call('TIME')", "{'1700000000', '0'}");
    acquire_for("T1", "a", 10);
    harness_redis(h, "INCRBY ls:test:clock_offset_us 9999");
    says(acquire("T2", "a"), "BUSY a held by T1");
    assert_int_equal(acquired->holder->lease_ms, 0);
    says(acquire("T1", "a"), "ACQUIRED again");
    harness_redis(h, "INCRBY ls:test:clock_offset_us 1");
    says(acquire("T1", "a"), "TOKEN_SPENT");
    says(acquire("T2", "a"), "ACQUIRED");
}

static const char *acquire_without_token(lks_acquire_request *request)
{
    static lks_target target;
    static lks_target *targets[] = {&target};

    *request = message(acquire_request, );
    target = message(target, .name = "lone name", .mode = LKS_LOCK_MODE_SHARED);
    request->n_targets = 1;
    request->targets = targets;
    request->lease_ms = LEASE_MS;
    acquired = answer_to(request);
    assert_int_equal(err.code, LKS_OK);
    return acquired->token;
}

TEST(an_empty_token_is_made_up_and_an_empty_group_is_the_name)
{
    lks_acquire_request request;
    const char *one = acquire_without_token(&request);
    const char *two = acquire_without_token(&request);

    assert_int_equal(strlen(one), 32);
    assert_string_not_equal(one, two);
    assert_int_equal(acquired->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    assert_string_equal(acquired->group, "lone name");

    const char *names[] = {"lone name"};
    lks_release_request given_back = message(release_request, .n_names = 1, .names = names, .token = acquired->token);
    const lks_release_response *released = answer_to(&given_back);
    assert_non_null(released);
    assert_int_equal(released->outcome, LKS_RELEASE_OUTCOME_RELEASED);
}

TEST(namespaces_do_not_see_each_other)
{
    acquire("T1", "a");
    harness_namespace(h, "other");
    says(inspect("a"), "FREE");
    says(acquire("T1", "a"), "ACQUIRED");
    says(release("T1", ""), "RELEASED");
    /* Names that would lead into "default" if they were not encoded. */
    static const char *const odd[] = {"default/g}:lock:n:a", "}", "a}:{", "../default"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char alias[4] = {'N', (char)('0' + i)};
        harness_namespace(h, odd[i]);
        says(acquire(alias, "a"), "ACQUIRED");
        says(release(alias, ""), "RELEASED");
    }
    harness_namespace(h, "default");
    says(inspect("a"), "EXCLUSIVE T1");
}

TEST(odd_names_are_names_like_others)
{
    static const char *const odd[] = {"a}b", "a:b", "a/b", "a%2Fb", "a%", "*", "[a]", "a b", "\xe5\xa5\xbd", "'\"\\"};
    enum { N = sizeof odd / sizeof odd[0] };

    for (size_t i = 0; i < N; i++) {
        lks_target target = message(target, .name = odd[i]);
        lks_target *targets[] = {&target};
        char token[] = "0}:/%*\xe5\xa5\xbd{}{}{}{}";
        token[0] = (char)('0' + i);
        lks_acquire_request request = message(acquire_request, .group = "g", .token = token, .owner = odd[i],
                                              .n_targets = 1, .targets = targets, .lease_ms = LEASE_MS);
        says(call(&request), "OK");
    }
    for (size_t i = 0; i < N; i++) {
        inspect(odd[i]);
        assert_string_equal(inspected->name, odd[i]);
        assert_int_equal(inspected->n_holders, 1);
        assert_string_equal(inspected->holders[0]->owner, odd[i]);
    }
}

TEST(calls_sent_together_are_one_after_the_other)
{
    lks_acquire_request request[3];
    lks_target target[3];
    lks_target *targets[3][1];
    const void *requests[3];
    const void *responses[3];
    lks_error errors[3];

    for (int shared = 0; shared < 2; shared++) {
        harness_reset(h);
        for (size_t i = 0; i < 3; i++) {
            request[i] = message(acquire_request, );
            target[i] = message(target, .name = "a", .mode = shared ? LKS_LOCK_MODE_SHARED : LKS_LOCK_MODE_EXCLUSIVE);
            targets[i][0] = &target[i];
            request[i].n_targets = 1;
            request[i].targets = targets[i];
            request[i].token = token_of(i == 0 ? "T0" : i == 1 ? "T1" : "T2");
            request[i].lease_ms = LEASE_MS;
            requests[i] = &request[i];
        }
        ask_together(3, requests, responses, errors);
        uint64_t last = 0;
        for (size_t i = 0; i < 3; i++) {
            const lks_acquire_response *one = responses[i];
            assert_int_equal(errors[i].code, LKS_OK);
            if (i > 0 && !shared) {
                assert_int_equal(one->outcome, LKS_ACQUIRE_OUTCOME_BUSY);
                continue;
            }
            assert_int_equal(one->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
            assert_true(one->fences[0]->fence > last);
            last = one->fences[0]->fence;
        }
    }
}

TEST(a_lost_record_does_not_let_a_token_in_twice)
{
    acquire("T1", "a:S");
    harness_redis(h, "DEL %s%s", "ls:{default/g}:lock:t:", token_of("T1"));
    says(acquire("T1", "a:S"), "TOKEN_SPENT");
    assert_int_equal((inspect("a"), inspected->n_holders), 1);
    /* Forgotten, its lease over, but still in the name's hash. */
    pass_seconds(1000);
    says(acquire("T1", "a:S"), "ACQUIRED");
    says(inspect("a"), "SHARED T1");
    says(release("T1", ""), "RELEASED");
    says(acquire("T2", "a"), "ACQUIRED");
    harness_redis(h, "DEL %s%s", "ls:{default/g}:lock:t:", token_of("T2"));
    says(acquire("T2", "a"), "TOKEN_SPENT");
}

TEST(foreign_data_is_refused_and_left_alone)
{
    static const char *const commands[] = {
        "SET ls:{default/g}:lock:n:a foreign", "HSET ls:{default/g}:lock:n:a f foreign",
        "SETRANGE ls:{default/g}:lock:n:a 18 x", "SET ls:{default/g}:lock:t:T1.............. foreign",
        "RPUSH ls:{default/g}:lock:t:T1.............. foreign",
        /* as long as ours, and like them but for the first byte */
        "SET ls:{default/g}:lock:n:a xE-foreign-and-longer-than-all-that-is-kept-of-a-name-with-one-holder",
        "EVAL redis.call('SET','ls:{default/g}:lock:t:T1..............','xH-foreign-and-longer'..string.char(32)..'a'.."
        "string.char(32)..'b') 0"};

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        harness_reset(h);
        harness_redis(h, commands[i]);
        remember();
        says(acquire("T1", "b a"), "FAILED_PRECONDITION NO the store holds foreign data under this name");
        expect_unchanged();
    }
}

TEST(every_key_of_a_lock_ends)
{
    acquire("T1", "a b:S c:P1/3");
    acquire("T2", "d");
    acquire("T3", "e f");
    acquire("T6", "g:S");
    acquire("T7", "g:S");
    acquire("T8", "g:S i:S");
    renew("T2", "");
    release("T1", "");
    release("T3", "e");
    release("T4", "");
    pass_seconds(1000);
    acquire("T5", "b");
    assert_int_equal(atoi(harness_redis(h, "DBSIZE")), 8 + 1 + 8 + 1); /* names, holders of g, tokens, the clock */
    says(harness_redis(h, "EVAL %s 0",
                       "for _, key in ipairs(redis.call('KEYS', 'ls:{*')) do\n"
                       "  if redis.call('PTTL', key) <= 0 then return key end\n"
                       "end\n"
                       "return ''"),
         "");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
