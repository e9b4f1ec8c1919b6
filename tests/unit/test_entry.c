/* lks_enter and lks_leave against a scripted service: the lease during the work, and its end. */
/* promise C38: an entry is renewed until it is left; what may have been taken and is not returned is given back */

#include <lockstock/lockstock.h>
#include <lockstock/rpc/method.h>

#include "support/process.h"
#include "unit/fake_service.h"
#include "unit/helpers_fixture.h"
#include "test.h"

/* LEASE_MS is for what must not be lost however busy the machine is. */
enum { LEASE_MS = 6000, SHORT_MS = 1500, HOLD_MS = 60000 };

/* All parts; which of them an entry has is the case's. */
typedef struct parts {
    lks_enter_request request;
    lks_guard_once once;
    lks_guard_limits limits;
    lks_guard_stock stock;
    lks_guard_locks locks;
    lks_rule rule, *rules[1];
    lks_line line, *lines[1];
    lks_target target, *targets[1];
} parts;

static parts all;

static lks_enter_request *whole(int64_t lease_ms)
{
    all = (parts){.request = LKS_ENTER_REQUEST_INIT,
                  .once = LKS_GUARD_ONCE_INIT,
                  .limits = LKS_GUARD_LIMITS_INIT,
                  .stock = LKS_GUARD_STOCK_INIT,
                  .locks = LKS_GUARD_LOCKS_INIT,
                  .rule = LKS_RULE_INIT,
                  .line = LKS_LINE_INIT,
                  .target = LKS_TARGET_INIT};
    all.once.scope = "charge";
    all.once.key = "order-1";
    all.rule.key = "ann";
    lks_rule_set_policy(&all.rule, "orders");
    all.rules[0] = &all.rule;
    all.limits.n_rules = 1;
    all.limits.rules = all.rules;
    all.line.sku = "shoe";
    all.line.quantity = 1;
    all.lines[0] = &all.line;
    all.stock.order_id = "order-1";
    all.stock.hold_ms = HOLD_MS;
    all.stock.n_lines = 1;
    all.stock.lines = all.lines;
    all.target.name = "door";
    all.targets[0] = &all.target;
    all.locks.n_targets = 1;
    all.locks.targets = all.targets;
    all.request.group = "house";
    all.request.lease_ms = lease_ms;
    all.request.once = &all.once;
    all.request.limits = &all.limits;
    all.request.stock = &all.stock;
    all.request.locks = &all.locks;
    return &all.request;
}

static lks_entry *entered(const lks_enter_request *request)
{
    lks_entry *entry = NULL;
    lks_error error;

    if (lks_enter(channel, request, &entry, &error) != LKS_ENTER_OUTCOME_ENTERED)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    return entry;
}

static lks_leave_request ending(lks_leave_kind kind)
{
    static uint8_t body[] = "paid";
    lks_leave_request end = LKS_LEAVE_REQUEST_INIT;

    end.kind = kind;
    end.code = 200;
    end.body = (ProtobufCBinaryData){.len = 4, .data = body};
    if (kind != LKS_LEAVE_KIND_COMPLETE)
        end.detail = "no money";
    return end;
}

/* promise C38 */
TEST(entry_is_renewed_until_leave)
{
    const lks_leave_request end = ending(LKS_LEAVE_KIND_COMPLETE);
    lks_entry *entry = entered(whole(SHORT_MS));
    lks_error error;

    assert_int_equal(lks_entry_answer(entry)->fences[0]->fence, 1);
    assert_int_equal(lks_entry_answer(entry)->attempt, 1);
    assert_true(fake_await(fake, FAKE_RENEW_ENTRY, NULL, 3));
    assert_false(lks_entry_is_lost(entry));
    assert_in_range(lks_entry_left_ms(entry), 1, SHORT_MS);
    fake_event asked = event_of(FAKE_ENTER, 0), renewed = event_of(FAKE_RENEW_ENTRY, 2);
    assert_string_equal(renewed.token, asked.token);
    assert_string_equal(asked.parts, "once limits stock locks");
    assert_string_equal(renewed.parts, "once stock locks");
    assert_string_equal(renewed.group, "house");
    assert_int_equal(renewed.lease_ms, SHORT_MS);
    assert_true(strchr(asked.owner, '/'));
    assert_int_equal(lks_leave(entry, &end, &error), LKS_LEAVE_OUTCOME_LEFT);
    assert_int_equal(error.code, LKS_OK);
    fake_event left = event_of(FAKE_LEAVE, 0);
    assert_string_equal(left.token, asked.token);
    assert_string_equal(left.parts, "once stock locks");
    assert_string_equal(left.group, "house");
    assert_string_equal(left.text, "paid");
    assert_int_equal(left.flag, LKS_LEAVE_KIND_COMPLETE);
    assert_int_equal(fake_calls(fake, FAKE_LEAVE), 1);
}

TEST(the_request_has_its_defaults)
{
    lks_enter_request *request = whole(0);
    lks_entry *entry = entered(request);

    assert_int_equal(event_of(FAKE_ENTER, 0).lease_ms, 30000);
    assert_int_equal(strlen(event_of(FAKE_ENTER, 0).token), LKS_RPC_RANDOM_ID_LEN);
    lks_entry_free(entry);
    assert_true(fake_await(fake, FAKE_LEAVE, NULL, 1));
    assert_int_equal(event_of(FAKE_LEAVE, 0).flag, LKS_LEAVE_KIND_RETRYABLE);
    assert_string_equal(event_of(FAKE_LEAVE, 0).parts, "once stock locks");
    assert_string_equal(event_of(FAKE_LEAVE, 0).group, "house");
    request->lease_ms = 9;
    assert_int_equal(lks_enter(channel, request, &entry, NULL), LKS_ENTER_OUTCOME_UNSPECIFIED);
    assert_null(entry);
    assert_int_equal(fake_calls(fake, FAKE_ENTER), 1);
}

/* promise C38 */
TEST(entry_that_the_server_reports_lost_is_lost)
{
    lks_entry *entry = entered(whole(SHORT_MS));
    const lks_leave_request end = ending(LKS_LEAVE_KIND_COMPLETE);
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_RENEW_ENTRY] = LKS_RENEW_GUARD_OUTCOME_LOCK_LOST,
                                    .outcome[FAKE_LEAVE] = LKS_LEAVE_OUTCOME_SUPERSEDED});
    while (!lks_entry_is_lost(entry))
        process_pause();
    assert_int_equal(lks_leave(entry, &end, &error), LKS_LEAVE_OUTCOME_SUPERSEDED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(error.reason, LKS_REASON_LEASE_LOST);
}

/* The answer to an Enter that waited says nothing certain about a lease counted from its sending. */
/* promise C38 */
TEST(a_late_answer_is_confirmed)
{
    lks_enter_request *request = whole(LEASE_MS);
    lks_entry *entry = NULL;
    lks_error error;

    request->wait_ms = 10000;
    fake_behave(fake, (fake_manner){.delay_ms[FAKE_ENTER] = LEASE_MS / 3 + 100});
    entry = entered(request);
    assert_int_equal(fake_calls(fake, FAKE_RENEW_ENTRY), 1);
    lks_entry_free(entry);
    assert_true(fake_await(fake, FAKE_LEAVE, NULL, 1));

    fake_behave(fake, (fake_manner){.delay_ms[FAKE_ENTER] = LEASE_MS / 3 + 100,
                                    .outcome[FAKE_RENEW_ENTRY] = LKS_RENEW_GUARD_OUTCOME_ATTEMPT_LOST});
    assert_int_equal(lks_enter(channel, request, &entry, &error), LKS_ENTER_OUTCOME_UNSPECIFIED);
    assert_null(entry);
    assert_int_equal(error.reason, LKS_REASON_LEASE_LOST);
    assert_true(fake_await(fake, FAKE_LEAVE, NULL, 2));
}

TEST(each_refusal_says_why)
{
    static const struct {
        lks_enter_outcome outcome;
        lks_code code;
        lks_reason reason;
    } rows[] = {{LKS_ENTER_OUTCOME_IN_PROGRESS, LKS_ABORTED, LKS_REASON_BUSY},
                {LKS_ENTER_OUTCOME_MISMATCH, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED},
                {LKS_ENTER_OUTCOME_LIMITED, LKS_RESOURCE_EXHAUSTED, LKS_REASON_RATE_LIMITED},
                {LKS_ENTER_OUTCOME_OUT_OF_STOCK, LKS_FAILED_PRECONDITION, LKS_REASON_WRONG_STATE},
                {LKS_ENTER_OUTCOME_BUSY, LKS_ABORTED, LKS_REASON_BUSY},
                {LKS_ENTER_OUTCOME_TIMED_OUT, LKS_DEADLINE_EXCEEDED, LKS_REASON_BUSY}};
    lks_entry *entry;
    lks_error error;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake_behave(fake, (fake_manner){.outcome[FAKE_ENTER] = rows[i].outcome, .retry_after_ms = 4321});
        assert_int_equal(lks_enter(channel, whole(LEASE_MS), &entry, &error), rows[i].outcome);
        assert_int_equal(error.code, rows[i].code);
        assert_int_equal(error.reason, rows[i].reason);
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        assert_int_equal(error.retry_after_ms, 4321);
        assert_true(lks_entry_is_lost(entry));
        assert_int_equal(lks_entry_left_ms(entry), 0);
        lks_entry_free(entry);
    }
    fake_behave(fake, (fake_manner){.outcome[FAKE_ENTER] = LKS_ENTER_OUTCOME_REPLAY, .body = "before"});
    assert_int_equal(lks_enter(channel, whole(LEASE_MS), &entry, &error), LKS_ENTER_OUTCOME_REPLAY);
    assert_memory_equal(lks_entry_answer(entry)->result->body.data, "before", 6);
    lks_entry_free(entry);
    assert_int_equal(fake_calls(fake, FAKE_LEAVE), 0);
}

TEST(leave_can_be_repeated_after_the_hold_ended)
{
    const lks_leave_request done = ending(LKS_LEAVE_KIND_COMPLETE), failed = ending(LKS_LEAVE_KIND_RETRYABLE);
    lks_entry *entry = entered(whole(LEASE_MS));
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_LEAVE] = LKS_LEAVE_OUTCOME_HOLD_ENDED});
    assert_int_equal(lks_leave(entry, &done, &error), LKS_LEAVE_OUTCOME_HOLD_ENDED);
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    fake_behave(fake, (fake_manner){.body = NULL});
    assert_int_equal(lks_leave(entry, &failed, &error), LKS_LEAVE_OUTCOME_LEFT);
    assert_int_equal(event_of(FAKE_LEAVE, 1).flag, LKS_LEAVE_KIND_RETRYABLE);
}

/* A limit cannot be given back, nor what was sold at once. */
TEST(entry_with_nothing_to_give_back_leaves_without_a_call)
{
    const lks_leave_request end = ending(LKS_LEAVE_KIND_COMPLETE);
    lks_enter_request *request = whole(0);

    request->once = NULL;
    request->locks = NULL;
    all.stock.hold_ms = 0;
    assert_int_equal(lks_leave(entered(request), &end, NULL), LKS_LEAVE_OUTCOME_LEFT);
    lks_entry_free(entered(request));
    all.stock.hold_ms = HOLD_MS;
    assert_int_equal(lks_leave(entered(request), &end, NULL), LKS_LEAVE_OUTCOME_LEFT);
    assert_int_equal(fake_calls(fake, FAKE_LEAVE), 1);
}

TEST(a_result_that_is_too_long_is_refused_and_the_entry_given_back)
{
    static uint8_t body[LKS_ONCE_BODY_MAX + 1];
    lks_leave_request end = ending(LKS_LEAVE_KIND_COMPLETE);
    lks_error error;

    end.body = (ProtobufCBinaryData){.len = sizeof body, .data = body};
    assert_int_equal(lks_leave(entered(whole(LEASE_MS)), &end, &error), LKS_LEAVE_OUTCOME_UNSPECIFIED);
    assert_int_equal(error.reason, LKS_REASON_TOO_LARGE);
    assert_true(fake_await(fake, FAKE_LEAVE, NULL, 1));
    assert_int_equal(event_of(FAKE_LEAVE, 0).flag, LKS_LEAVE_KIND_RETRYABLE);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
