/* Begin and the states of a record: each row of the table in docs/idempotency.md. */
#include "services/idempotency_script.h"

#include <stdio.h>

#include "functions/library.h"

TEST(one_executes_and_the_others_get_its_result)
{
    says(get("k"), "NONE");
    says(begin("k", "T1"), "EXECUTE 1");
    uint64_t first = fence();
    says(begin("k", "T2"), "IN_PROGRESS 1");
    about(begun->retry_after_ms, LEASE_MS);
    says(complete("k", first, 200, "paid"), "STORED");
    says(begin("k", "T2"), "REPLAY 1 200 paid");
    says(begin("k", "T1"), "REPLAY 1 200 paid");
    says(begin("l", "T2"), "EXECUTE 1");
}

TEST(a_lost_execute_is_found_again_by_its_token)
{
    says(begin("k", "T1"), "EXECUTE 1");
    uint64_t first = fence();
    pass_seconds(400);
    says(begin("k", "T1"), "EXECUTE 1");
    assert_int_equal(fence(), first);
    /* The lease is still that of the first: its caller counts from there. */
    says(begin("k", "T2"), "IN_PROGRESS 1");
    about(begun->retry_after_ms, LEASE_MS - 400000);
    pass_seconds(600);
    says(begin("k", "T2"), "EXECUTE 2");
}

TEST(an_attempt_whose_lease_ran_out_goes_on_if_nobody_took_over)
{
    says(begin("k", "T1"), "EXECUTE 1");
    uint64_t first = fence();
    pass_seconds(1000);
    assert_int_equal((get("k"), got->lease_ms), 0);
    says(begin("k", "T1"), "EXECUTE 1");
    assert_int_equal(fence(), first);
    says(begin("k", "T2"), "IN_PROGRESS 1");
    about(begun->retry_after_ms, LEASE_MS);
    pass_seconds(1000);
    says(complete("k", first, 0, ""), "STORED"); /* late, but the only one */
}

TEST(a_lease_that_is_over_is_taken_over)
{
    begin("k", "T1");
    uint64_t first = fence();
    pass_seconds(999 - 99);
    says(begin("k", "T2"), "IN_PROGRESS 1");
    pass_seconds(100);
    says(begin("k", "T2"), "EXECUTE 2");
    uint64_t second = fence();
    assert_true(second > first);
    says(begin("k", "T1"), "IN_PROGRESS 2");
    says(complete("k", first, 200, "late"), "SUPERSEDED");
    says(fail_retryable("k", first, "late"), "SUPERSEDED");
    says(fail_final("k", first, "late"), "SUPERSEDED");
    says(extend("k", first, LEASE_MS), "LOST");
    says(get("k"), "IN_PROGRESS 2");
    says(complete("k", second, 200, "in time"), "STORED");
    says(complete("k", first, 200, "late"), "SUPERSEDED");
    says(begin("k", "T1"), "REPLAY 2 200 in time");
}

/* What a Lua expression makes of the values v of key k's record. */
static const char *of_record(const char *expression)
{
    char script[256];

    snprintf(script, sizeof script,
             "local v = {struct.unpack('<c1ddddBc0Bc0Hc0', redis.call('GET', KEYS[1]))} return %s", expression);
    return harness_redis(h, "EVAL %s 1 ls:{default/s/k}:idem:r", script);
}

TEST(a_lease_ends_at_its_end)
{
    /* The clock is set, not moved: the instant of the end itself is meant. */
    begin("k", "T1");
    int64_t end_us = atoll(of_record("string.format('%.0f', v[4])"));
    const char *now = harness_redis(h, "TIME");
    int64_t now_us = atoll(now) * 1000000 + atoll(strchr(now, '\n'));
    about((end_us - now_us) / 1000, LEASE_MS);
    harness_redis(h, "EVAL %s 1 ls:{default/s/k}:idem:r %lld",
                  "return redis.call('SETRANGE', KEYS[1], 17, struct.pack('<d', ARGV[1]))", (long long)now_us);
    says(begin("k", "T2"), "EXECUTE 2");
}

TEST(what_failed_for_now_is_tried_again)
{
    begin("k", "T1");
    uint64_t first = fence();
    says(fail_retryable("k", first, "timeout"), "STORED");
    says(fail_retryable("k", first, "again"), "STORED again");
    says(get("k"), "FAILED_RETRYABLE 1 (timeout)");
    says(complete("k", first, 200, "after all"), "SUPERSEDED");
    says(fail_final("k", first, "after all"), "SUPERSEDED");
    says(extend("k", first, LEASE_MS), "LOST");
    says(begin("k", "T2"), "EXECUTE 2");
    assert_true(fence() > first);
    says(get("k"), "IN_PROGRESS 2");
    says(fail_retryable("k", fence(), ""), "STORED");
    says(begin("k", "T2"), "EXECUTE 3"); /* an attempt that ended is no more, so this is a new one */
}

TEST(what_failed_for_good_is_replayed)
{
    begin("k", "T1");
    says(fail_final("k", fence(), "card refused"), "STORED");
    says(fail_final("k", fence(), "another"), "STORED again");
    says(begin("k", "T2"), "REPLAY 1 -1 lockstock-failure=card refused");
    says(begin("k", "T1"), "REPLAY 1 -1 lockstock-failure=card refused");
    says(get("k"), "FAILED_FINAL 1 -1 lockstock-failure=card refused (card refused)");
    says(complete("k", fence(), 200, "after all"), "SUPERSEDED");
    says(fail_retryable("k", fence(), "after all"), "SUPERSEDED");
    says(extend("k", fence(), LEASE_MS), "LOST");
    pass_seconds(2000);
    says(begin("k", "T3"), "REPLAY 1 -1 lockstock-failure=card refused");
}

TEST(the_first_result_stays)
{
    begin("k", "T1");
    says(complete_with("k", fence(), 201, "first", "a=1 b=2"), "STORED");
    says(complete_with("k", fence(), 500, "second", "c=3"), "STORED again");
    says(fail_final("k", fence(), "x"), "SUPERSEDED");
    says(fail_retryable("k", fence(), "x"), "SUPERSEDED");
    says(extend("k", fence(), LEASE_MS), "LOST");
    pass_seconds(2000);
    says(begin("k", "T2"), "REPLAY 1 201 first a=1 b=2");
    says(get("k"), "COMPLETED 1 201 first a=1 b=2");
}

TEST(another_request_under_the_same_key_is_a_mismatch)
{
    says(begin_of("k", "T1", "one", LEASE_MS, 0), "EXECUTE 1");
    says(begin_of("k", "T2", "two", LEASE_MS, 0), "MISMATCH");
    says(begin_of("k", "T2", "", LEASE_MS, 0), "MISMATCH");
    says(begin_of("k", "T1", "two", LEASE_MS, 0), "MISMATCH");
    says(begin_of("k", "T2", "one", LEASE_MS, 0), "IN_PROGRESS 1");
    pass_seconds(1001);
    says(begin_of("k", "T2", "two", LEASE_MS, 0), "MISMATCH"); /* also where it could run */
    says(fail_retryable("k", fence(), ""), "STORED");
    says(begin_of("k", "T2", "two", LEASE_MS, 0), "MISMATCH");
    says(begin_of("k", "T2", "one", LEASE_MS, 0), "EXECUTE 2");
    complete("k", fence(), 200, "");
    says(begin_of("k", "T3", "two", LEASE_MS, 0), "MISMATCH");
    says(begin_of("k", "T3", "one", LEASE_MS, 0), "REPLAY 2 200");
    says((get("k"), (const char *)got->fingerprint.data), "one");
    says(begin("l", "T1"), "EXECUTE 1");
    says(begin_of("l", "T2", "x", LEASE_MS, 0), "MISMATCH"); /* empty is one like any other */
}

TEST(extending_keeps_an_attempt)
{
    begin("k", "T1");
    pass_seconds(800);
    says(extend("k", fence(), LEASE_MS), "EXTENDED");
    says(begin("k", "T2"), "IN_PROGRESS 1");
    about(begun->retry_after_ms, LEASE_MS);
    says(extend("k", fence(), 10), "EXTENDED"); /* never shorter */
    about((get("k"), got->lease_ms), LEASE_MS);
    pass_seconds(1001);
    says(extend("k", fence(), LEASE_MS), "EXTENDED"); /* over, but not taken over */
    says(begin("k", "T2"), "IN_PROGRESS 1");
    says(extend("k", fence() + 1, LEASE_MS), "LOST");
    says(extend("none", fence(), LEASE_MS), "LOST");
}

TEST(what_was_deleted_runs_anew)
{
    says(forget("k"), "OK");
    begin("k", "T1");
    uint64_t first = fence();
    says(forget("k"), "OK");
    says(get("k"), "NONE");
    says(complete("k", first, 200, "late"), "SUPERSEDED");
    says(begin_of("k", "T1", "another", LEASE_MS, 0), "EXECUTE 1");
    assert_true(fence() > first);
    says(complete("k", first, 200, "late"), "SUPERSEDED");
    complete("k", fence(), 200, "");
    says(forget("k"), "OK");
    says(begin("k", "T2"), "EXECUTE 1");
}

TEST(fences_never_go_back)
{
    uint64_t last = 0;
    for (int i = 0; i < 4; i++) {
        says_begin(begin("k", token_of(i % 2 ? "a" : "b")), "EXECUTE");
        assert_true(fence() > last);
        last = fence();
        if (i == 1)
            pass_seconds(1000 + LEASE_MS / 1000);
        else if (i == 2)
            harness_advance_ms(h, -500000); /* the clock steps back */
        fail_retryable("k", fence(), "");
    }
    /* Forgotten: the time goes on. */
    pass_seconds(1000);
    harness_redis(h, "DEL ls:{default/s/k}:idem:r");
    says(begin("k", "T1"), "EXECUTE 1");
    assert_true(fence() > last);
}

TEST(an_empty_token_is_made_up)
{
    char scope[] = "s", key[] = "k";

    lks_begin_request request = message(begin_request, .scope = scope, .key = key, .lease_ms = LEASE_MS);
    says(call(&request), "OK");
    says(begin("k", "T1"), "IN_PROGRESS 1");
    assert_int_equal(atoi(of_record("#v[6]")), 32);
    says(call(&request), "OK");
    says(get("k"), "IN_PROGRESS 1"); /* another one: not recognised, not executed */
}

/* ---- places ----------------------------------------------------------------------- */

TEST(scopes_keys_and_namespaces_are_apart)
{
    static const struct {
        const char *ns, *scope, *key;
    } row[] = {
        {"default", "a", "b/c"}, {"default", "a/b", "c"},   {"default", "a%2Fb", "c"},    {"default/a", "b", "c"},
        {"default", "}", ":"},   {"default", "{x}", "{x}"}, {"default", " ", "\xc3\xa4"}, {"other", "a", "b/c"},
    };
    lks_begin_request request = message(begin_request, );
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char scope[16], key[16];
        snprintf(scope, sizeof scope, "%s", row[i].scope);
        snprintf(key, sizeof key, "%s", row[i].key);
        request.scope = scope;
        request.key = key;
        request.lease_ms = LEASE_MS;
        harness_namespace(h, row[i].ns);
        const lks_begin_response *response = answer_to(&request);
        assert_non_null(response);
        assert_int_equal(response->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    }
    says(harness_redis(h, "KEYS ls:{default/a/b%%2Fc}:*"), "ls:{default/a/b%2Fc}:idem:r\n");
    says(harness_redis(h, "EVAL %s 0", "return #redis.call('KEYS', 'ls:{*')"), "8");
}

/* ---- how long --------------------------------------------------------------------- */

TEST(records_end)
{
    begin("k", "T1");
    about(key_number("PTTL", "idem:r", "k"), LEASE_MS + DAY_MS);
    assert_int_equal((get("k"), got->retain_ms), 0);
    extend("k", fence(), 10);
    about(key_number("PTTL", "idem:r", "k"), LEASE_MS + DAY_MS);
    extend("k", fence(), 2 * LEASE_MS);
    about(key_number("PTTL", "idem:r", "k"), 2 * LEASE_MS + DAY_MS);
    complete("k", fence(), 200, "");
    about(key_number("PTTL", "idem:r", "k"), DAY_MS);
    about((get("k"), got->retain_ms), DAY_MS);

    begin_of("l", "T1", "", LEASE_MS, 5000000);
    fail_retryable("l", fence(), "");
    about(key_number("PTTL", "idem:r", "l"), 5000000);
    begin_of("l", "T1", "", 2 * LEASE_MS, 7000000);
    about(key_number("PTTL", "idem:r", "l"), 2 * LEASE_MS + 7000000);
    pass_seconds(3000);
    begin_of("l", "T1", "", LEASE_MS, 8000000);
    about(key_number("PTTL", "idem:r", "l"), LEASE_MS + 8000000);
    fail_final("l", fence(), "");
    about(key_number("PTTL", "idem:r", "l"), 8000000);
    about((get("l"), got->retain_ms), 8000000);
    forget("l");
    says(harness_redis(h, "KEYS ls:{*"), "ls:{default/s/k}:idem:r\n");
}

TEST(what_was_forgotten_runs_anew)
{
    begin("k", "T1");
    complete("k", fence(), 200, "");
    uint64_t first = fence();
    harness_redis(h, "DEL ls:{default/s/k}:idem:r");
    says(complete("k", first, 200, ""), "SUPERSEDED");
    says(fail_final("k", first, ""), "SUPERSEDED");
    says(begin("k", "T1"), "EXECUTE 1");
}

TEST(results_are_stored_when_memory_is_short)
{
    const char *lines[16];
    uint64_t k, l, m;
    char ticket[64];
    int n = 0;

    k = (begin("k", "T1"), fence());
    l = (begin("l", "T1"), fence());
    m = (begin("m", "T1"), fence());
    issue("s", "me", 600000, ticket);
    says(wait_at("S1", "k", "T2"), "WAITS");
    harness_redis(h, "CONFIG SET maxmemory 1");
    /* The store answers RESOURCE_EXHAUSTED, applied NO. */
    lines[n++] =
        harness_redis(h, "FCALL idempotency_begin_%s 1 ls:{default/s/n}: 6 T1 p 1000 1000 0 S1", functions_digest);
    lines[n++] = harness_redis(h, "FCALL idempotency_issue_ticket_%s 1 ls:{default/s/t}: 2 me 5000", functions_digest);
    lines[n++] = extend("k", k, LEASE_MS);
    lines[n++] = complete("k", k, 200, "kept all the same");
    lines[n++] = fail_final("l", l, "x");
    lines[n++] = fail_retryable("m", m, "x");
    lines[n++] = get("k");
    lines[n++] = forget("m");
    lines[n++] = consume("s", "me", ticket, "C1");
    lines[n++] = woken("S1", "T2");
    harness_redis(h, "CONFIG SET maxmemory 0");
    n = 0;
    says_begin(lines[n++], "OOM ");
    says_begin(lines[n++], "OOM ");
    says(lines[n++], "EXTENDED");
    says(lines[n++], "STORED");
    says(lines[n++], "STORED");
    says(lines[n++], "STORED");
    says(lines[n++], "COMPLETED 1 200 kept all the same");
    says(lines[n++], "OK");
    says(lines[n++], "CONSUMED");
    says(lines[n++], "REPLAY 1 200 kept all the same");
    says(begin("k", "T3"), "REPLAY 1 200 kept all the same");
    says(get("m"), "NONE");
}

/* ---- foreign data ----------------------------------------------------------------- */

TEST(foreign_data_is_left_alone)
{
    static const char *const spoil[] = {
        "HSET ls:{default/s/k}:idem:r x y", "SET ls:{default/s/k}:idem:r x", "SETRANGE ls:{default/s/k}:idem:r 0 X",
        "SETRANGE ls:{default/s/k}:idem:r 33 xx", /* the length of the token */
    };
    static const char expected[] = "FAILED_PRECONDITION NO the store holds foreign data under this name";

    for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++) {
        servers_reset(state);
        begin("k", "T1");
        if (i == 0)
            harness_redis(h, "DEL ls:{default/s/k}:idem:r");
        harness_redis(h, spoil[i]);
        remember();
        says(begin("k", "T2"), expected);
        says(extend("k", fence(), LEASE_MS), expected);
        says(complete("k", fence(), 200, ""), expected);
        says(fail_final("k", fence(), ""), expected);
        says(get("k"), expected);
        says(wait_at("S1", "k", "T3"), expected);
        expect_unchanged();
    }
    /* The result itself. */
    servers_reset(state);
    begin("k", "T1");
    complete("k", fence(), 200, "paid");
    harness_redis(h, "APPEND ls:{default/s/k}:idem:r foreign");
    says(begin("k", "T2"), expected);
    says(get("k"), expected);
    /* Who waits. */
    begin("l", "T1");
    harness_redis(h, "SET ls:{default/s/l}:idem:w x");
    remember();
    says(wait_at("S1", "l", "T2"), expected);
    says(complete("l", fence(), 200, ""), expected);
    says(fail_retryable("l", fence(), ""), expected);
    says(forget("l"), expected);
    expect_unchanged();
}

/* ---- together --------------------------------------------------------------------- */

TEST(calls_sent_together_are_as_separate_ones)
{
    enum { CALLS = 50 };
    lks_begin_request request[CALLS];
    const void *requests[CALLS], *responses[CALLS];
    lks_error errors[CALLS];
    char scope[] = "s", key[] = "k", token[CALLS][SERVICE_TOKEN_BYTES_MIN + 1];
    int executed = 0;

    for (int i = 0; i < CALLS; i++) {
        request[i] = message(begin_request, );
        snprintf(token[i], sizeof token[i], "attempt-%08d", i / 2); /* each is sent twice */
        request[i].scope = scope;
        request[i].key = key;
        request[i].attempt_token = token[i];
        request[i].lease_ms = LEASE_MS;
        requests[i] = &request[i];
    }
    ask_together(CALLS, requests, responses, errors);
    for (int i = 0; i < CALLS; i++) {
        const lks_begin_response *response = responses[i];
        assert_non_null(response);
        executed += response->outcome == LKS_BEGIN_OUTCOME_EXECUTE;
        assert_int_equal(response->outcome, i < 2 ? LKS_BEGIN_OUTCOME_EXECUTE : LKS_BEGIN_OUTCOME_IN_PROGRESS);
    }
    assert_int_equal(executed, 2);
    assert_int_equal(((const lks_begin_response *)responses[0])->fence,
                     ((const lks_begin_response *)responses[1])->fence);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = servers_reset)
