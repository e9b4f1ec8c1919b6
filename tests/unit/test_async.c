/* The operations with callbacks: hold, once, limiter and reservation. The cases of the table hold for all of them. */

#include <poll.h>
#include <pthread.h>

#include <lockstock/lockstock.h>

#include "support/process.h"
#include "unit/fake_service.h"
#include "unit/helpers_fixture.h"
#include "test.h"

/* The arguments of a callback, and its thread. */
static uint32_t lease_ms; /* 0: the default */

typedef struct seen {
    pthread_mutex_t lock;
    int times;
    bool good, on_completion_thread;
    lks_error error;
    int outcome;
    char body[16]; /* of a result */
    lks_channel *channel;
    void *object; /* of the operation */
    void *other;
} seen;

static seen all_zero = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A synchronous call fails on the completion thread only. */
static bool completes_here(lks_channel *of)
{
    const lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    lks_error error = {.code = LKS_OK};

    return lks_lock_inspect(of, &request, NULL, NULL, &error) == LKS_FAILED_PRECONDITION;
}

static void note(seen *s, bool good, int outcome, const lks_error *error, bool cancelled_here)
{
    bool completes = cancelled_here ? false : completes_here(s->channel);

    pthread_mutex_lock(&s->lock);
    s->times++;
    s->good = good;
    s->outcome = outcome;
    s->on_completion_thread = completes;
    s->error = *error;
    pthread_mutex_unlock(&s->lock);
}

static int times(seen *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->times;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void await(seen *s, int n)
{
    while (times(s) < n) /* ctest ends it if it never happens */
        process_pause();
}

static bool is_cancel(const lks_error *error)
{
    return error->code == LKS_CANCELLED;
}

#define TAKES_OBJECT(name, function) \
    static void name(seen *s)        \
    {                                \
        function(s->object);         \
    }

/* ---- the operations --------------------------------------------------------------------- */

static void held(void *arg, lks_hold *hold, lks_lock_result result, const lks_error *error)
{
    note(arg, result == LKS_LOCK_ACQUIRED, (int)result, error, is_cancel(error));
}

static lks_code start_hold(seen *s, lks_error *error)
{
    static const char *const names[] = {"door", "gate"};
    const lks_hold_options options = {.names = names, .n_names = 1, .lease_ms = lease_ms};

    return lks_hold_acquire(s->channel, &options, held, s, (lks_hold **)&s->object, error);
}

TAKES_OBJECT(cancel_hold, lks_hold_cancel)
TAKES_OBJECT(free_hold, lks_hold_free)

static void begun(void *arg, lks_once_outcome outcome, lks_once_result *result, const lks_error *error)
{
    seen *s = arg;

    if (result)
        snprintf(s->body, sizeof s->body, "%s", (const char *)result->body);
    note(s, outcome == LKS_ONCE_BEGUN || outcome == LKS_ONCE_EXECUTED, (int)outcome, error, is_cancel(error));
    lks_once_result_free(result);
}

static lks_code start_once(seen *s, lks_error *error)
{
    const lks_once_options options = {.scope = "charge", .key = "order-1", .lease_ms = lease_ms};

    return lks_once_begin(s->channel, &options, 0, begun, s, (lks_once_attempt **)&s->object, error);
}

TAKES_OBJECT(cancel_once, lks_once_cancel)
TAKES_OBJECT(free_once, lks_once_free)

static lks_limiter *limiter;

static void checked(void *arg, bool allowed, const lks_limiter_decision *decision, const lks_error *error)
{
    note(arg, allowed, (int)decision->outcome, error, false);
}

static lks_code start_check(seen *s, lks_error *error)
{
    const lks_limiter_rule rule = {.policy = "login"};
    const lks_limiter_options options = {.rules = &rule, .n_rules = 1, .timeout_ms = 60000};

    assert_int_equal(lks_limiter_new(s->channel, &options, &limiter, NULL), LKS_OK);
    return lks_limiter_check_start(limiter, "ann", 1, checked, s, (lks_call **)&s->object, error);
}

TAKES_OBJECT(cancel_check, lks_call_cancel)

static void free_check(seen *s)
{
    lks_call_free(s->object);
    lks_limiter_free(limiter);
}

static void made(void *arg, lks_reserve_outcome outcome, const lks_error *error)
{
    note(arg, outcome == LKS_RESERVE_OUTCOME_RESERVED, (int)outcome, error, is_cancel(error));
}

static lks_code start_reservation(seen *s, lks_error *error)
{
    const lks_reservation_line line = {.sku = "shoe", .quantity = 1};
    const lks_reservation_order order = {
        .order_id = "order-1", .lines = &line, .n_lines = 1, .hold_ms = lease_ms, .keep_ms = lease_ms};

    return lks_reservation_make_start(s->channel, &order, made, s, (lks_reservation **)&s->object, error);
}

TAKES_OBJECT(cancel_reservation, lks_reservation_make_cancel)
TAKES_OBJECT(free_reservation, lks_reservation_free)

static void entered(void *arg, lks_entry *entry, lks_enter_outcome outcome, const lks_error *error)
{
    note(arg, outcome == LKS_ENTER_OUTCOME_ENTERED, (int)outcome, error, is_cancel(error));
}

static lks_code start_entry(seen *s, lks_error *error)
{
    lks_enter_request request = LKS_ENTER_REQUEST_INIT;
    lks_guard_locks locks = LKS_GUARD_LOCKS_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};

    target.name = "door";
    locks.n_targets = 1;
    locks.targets = targets;
    request.group = "house";
    request.lease_ms = lease_ms;
    request.locks = &locks;
    return lks_enter_start(s->channel, &request, 0, entered, s, (lks_entry **)&s->object, error);
}

TAKES_OBJECT(cancel_entry, lks_enter_cancel)
TAKES_OBJECT(free_entry, lks_entry_free)

static const struct op {
    const char *name;
    fake_method method, gives_back; /* FAKE_METHODS: nothing is given back */
    int refusal;                    /* an outcome after which what an earlier try took is given back; 0 = none */
    lks_code (*start)(seen *s, lks_error *error);
    void (*cancel)(seen *s), (*free)(seen *s);
} ops[] = {
    {"hold", FAKE_ACQUIRE, FAKE_RELEASE, LKS_ACQUIRE_OUTCOME_BUSY, start_hold, cancel_hold, free_hold},
    {"once", FAKE_BEGIN, FAKE_FAIL, 0, start_once, cancel_once, free_once},
    {"limiter", FAKE_CHECK, FAKE_METHODS, 0, start_check, cancel_check, free_check},
    {"reservation", FAKE_RESERVE, FAKE_CANCEL, LKS_RESERVE_OUTCOME_SOLD_OUT, start_reservation, cancel_reservation,
     free_reservation},
    {"entry", FAKE_ENTER, FAKE_LEAVE, LKS_ENTER_OUTCOME_BUSY, start_entry, cancel_entry, free_entry},
};
enum { OPS = sizeof ops / sizeof *ops };

static void start(const struct op *op, seen *s, lks_channel *on)
{
    lks_error error;

    *s = all_zero;
    s->channel = on;
    if (op->start(s, &error) != LKS_OK)
        fail_msg("%s: %s", op->name, error.message);
    assert_non_null(s->object);
}

/* ---- what all of them promise ------------------------------------------------------------- */

TEST(a_result_comes_once_on_the_completion_thread)
{
    seen s;

    for (size_t i = 0; i < OPS; i++) {
        start(&ops[i], &s, channel);
        await(&s, 1);
        assert_true(s.good);
        assert_int_equal(s.error.code, LKS_OK);
        assert_true(s.on_completion_thread);
        ops[i].cancel(&s); /* too late */
        ops[i].free(&s);
        assert_int_equal(times(&s), 1);
        if (ops[i].gives_back != FAKE_METHODS) /* freed as it is, it is given back */
            assert_true(fake_await(fake, ops[i].gives_back, NULL, 1));
    }
}

TEST(a_failure_is_reported)
{
    seen s;

    for (size_t i = 0; i < OPS; i++) {
        fake_manner manner = {.body = NULL};

        manner.fails[ops[i].method] = LKS_PERMISSION_DENIED;
        fake_behave(fake, manner);
        start(&ops[i], &s, channel);
        await(&s, 1);
        assert_false(s.good);
        assert_int_equal(s.error.code, LKS_PERMISSION_DENIED);
        assert_true(s.on_completion_thread);
        ops[i].free(&s);
    }
}

/* A grant after the cancel is given back. */
TEST(a_cancel_is_reported_at_once_and_leaves_nothing)
{
    const lks_channel_options patient = {.timeout_ms = 120000}; /* so that a call ends by the cancel alone */
    lks_channel *other = NULL;
    seen s;

    assert_int_equal(lks_channel_open(fake_url(fake), &patient, &other, NULL), LKS_OK);
    for (size_t i = 0; i < OPS; i++) {
        fake_manner manner = {.body = NULL};
        size_t given_back = ops[i].gives_back != FAKE_METHODS ? fake_calls(fake, ops[i].gives_back) : 0;
        size_t asked = fake_calls(fake, ops[i].method);

        manner.holds[ops[i].method] = true;
        fake_behave(fake, manner);
        start(&ops[i], &s, other);
        assert_true(fake_await(fake, ops[i].method, NULL, asked + 1));
        ops[i].cancel(&s);
        if (ops[i].gives_back != FAKE_METHODS)
            assert_int_equal(times(&s), 1);
        await(&s, 1);
        assert_int_equal(s.error.code, LKS_CANCELLED);
        ops[i].cancel(&s);
        ops[i].free(&s);
        if (ops[i].method == FAKE_BEGIN) /* it continues in the server; a cancel ends the calls of the others */
            fake_behave(fake, (fake_manner){.body = NULL});
        if (ops[i].gives_back != FAKE_METHODS)
            assert_true(fake_await(fake, ops[i].gives_back, NULL, given_back + 1));
        fake_behave(fake, (fake_manner){.body = NULL});
        assert_int_equal(times(&s), 1);
    }
    lks_channel_close(other);
}

/* The answer to the first call came so late that the lease must be confirmed. */
TEST(a_cancel_during_the_confirmation_gives_back)
{
    static const fake_method confirms[OPS] = {FAKE_RENEW, FAKE_EXTEND, FAKE_METHODS, FAKE_EXTEND_HOLD,
                                              FAKE_RENEW_ENTRY};
    seen s;

    lease_ms = 90;
    for (size_t i = 0; i < OPS; i++) {
        fake_manner manner = {.body = NULL, .replayed = ops[i].method == FAKE_RESERVE};

        if (confirms[i] == FAKE_METHODS)
            continue;
        size_t given_back = fake_calls(fake, ops[i].gives_back), confirmed = fake_calls(fake, confirms[i]);
        manner.delay_ms[ops[i].method] = lease_ms / 3 + 2;
        manner.holds[confirms[i]] = true;
        fake_behave(fake, manner);
        start(&ops[i], &s, channel);
        assert_true(fake_await(fake, confirms[i], NULL, confirmed + 1));
        ops[i].cancel(&s);
        assert_int_equal(times(&s), 1);
        ops[i].free(&s);
        assert_true(fake_await(fake, ops[i].gives_back, NULL, given_back + 1));
        fake_behave(fake, (fake_manner){.body = NULL});
        assert_int_equal(times(&s), 1);
    }
    lease_ms = 0;
}

TEST(the_close_of_the_channel_is_reported)
{
    seen s;

    for (size_t i = 0; i < OPS; i++) {
        fake_manner manner = {.body = NULL};
        lks_channel *other = NULL;
        size_t asked = fake_calls(fake, ops[i].method);

        manner.holds[ops[i].method] = true;
        fake_behave(fake, manner);
        assert_int_equal(lks_channel_open(fake_url(fake), NULL, &other, NULL), LKS_OK);
        start(&ops[i], &s, other);
        assert_true(fake_await(fake, ops[i].method, NULL, asked + 1));
        lks_channel_close(other);
        assert_int_equal(times(&s), 1);
        assert_int_equal(s.error.code, LKS_CANCELLED);
        ops[i].free(&s);
        fake_behave(fake, (fake_manner){.body = NULL});
    }
}

/* The answer names the token or the order of the request. */
static void assert_same(const struct op *op, fake_event asked, fake_event given_back)
{
    assert_string_equal(given_back.group, asked.group);
    if (op->method == FAKE_ACQUIRE || op->method == FAKE_ENTER)
        assert_string_equal(given_back.token, asked.token);
    else
        assert_string_equal(given_back.id, asked.id);
}

/* promise M6: a doubtful grant is given back, and only that */
/* promise C23: a doubtful Reserve is cancelled, and no other */
TEST(doubtful_grant_is_given_back)
{
    static const struct {
        lks_code fails;
        lks_applied applied;
        int outcome;
    } rows[] = {{LKS_INTERNAL, LKS_APPLIED_NO, 0}, {LKS_INTERNAL, LKS_APPLIED_MAYBE, 0}, {LKS_OK, 0, 99}};
    seen s;

    for (size_t i = 0; i < OPS; i++) {
        const struct op *op = &ops[i];

        /* The attempt of a Begin with an unknown answer is not known. */
        for (size_t k = 0; op->gives_back != FAKE_METHODS && k < (op->method == FAKE_BEGIN ? 2 : 3); k++) {
            fake_manner manner = {.applied = rows[k].applied, .fail_times = 1};

            manner.fails[op->method] = rows[k].fails;
            manner.outcome[op->method] = rows[k].outcome;
            fake_behave(fake, manner);
            start(op, &s, channel);
            await(&s, 1);
            assert_false(s.good);
            assert_int_equal(s.error.code, LKS_INTERNAL);
            if (k > 0) {
                assert_int_equal(s.error.applied, LKS_APPLIED_MAYBE);
                assert_true(fake_await(fake, op->gives_back, NULL, k));
                assert_same(op, event_of(op->method, k), event_of(op->gives_back, k - 1));
            }
            op->free(&s);
        }
    }
}

/* promise M6 */
/* promise C23 */
TEST(a_refusal_after_an_unanswered_try_is_reported_when_that_was_given_back)
{
    seen s;

    for (size_t i = 0; i < OPS; i++) {
        fake_manner manner = {.applied = LKS_APPLIED_MAYBE, .fail_times = 1};
        size_t asked = fake_calls(fake, ops[i].method);

        if (ops[i].refusal == 0)
            continue;
        size_t given_back = fake_calls(fake, ops[i].gives_back);
        manner.fails[ops[i].method] = LKS_UNAVAILABLE;
        manner.outcome[ops[i].method] = ops[i].refusal;
        fake_behave(fake, manner);
        start(&ops[i], &s, channel);
        await(&s, 1);
        assert_false(s.good);
        assert_int_equal(s.error.applied, LKS_APPLIED_NO);
        assert_int_equal(fake_calls(fake, ops[i].method), asked + 2);
        assert_int_equal(fake_calls(fake, ops[i].gives_back), given_back + 1);
        assert_same(&ops[i], event_of(ops[i].method, asked), event_of(ops[i].gives_back, given_back));
        ops[i].free(&s);
    }
}

/* ---- each to its end ------------------------------------------------------------------------ */

static void released(void *arg, lks_code code, const lks_error *error)
{
    note(arg, code == LKS_OK, (int)code, error, false);
}

TEST(a_hold_is_acquired_and_released)
{
    static const char *const names[] = {"a"};
    const lks_hold_options options = {.names = names, .n_names = 1, .wait_ms = 7, .owner = "me"};
    seen s = all_zero;

    s.channel = channel;
    assert_int_equal(lks_hold_acquire(channel, &options, held, &s, (lks_hold **)&s.object, NULL), LKS_OK);
    await(&s, 1);
    assert_true(s.good);
    fake_event asked = event_of(FAKE_ACQUIRE, 0);
    assert_string_equal(asked.group, "a");
    assert_string_equal(asked.owner, "me");
    assert_int_equal(asked.wait_ms, 7);
    assert_int_equal(asked.mode, LKS_LOCK_MODE_EXCLUSIVE);
    assert_false(lks_hold_is_lost(s.object));
    assert_true(lks_hold_fence(s.object, 0) > 0);
    assert_int_equal(lks_hold_fence(s.object, 1), 0);
    assert_int_equal(lks_hold_release(s.object, 0, released, &s, NULL), LKS_OK);
    await(&s, 2);
    assert_true(s.good);
    assert_true(s.on_completion_thread);
    assert_string_equal(event_of(FAKE_RELEASE, 0).token, asked.token);
}

TEST(release_of_a_lost_hold_reports_the_loss)
{
    static const char *const names[] = {"door"};
    const lks_hold_options options = {.names = names, .n_names = 1, .lease_ms = 60};
    seen s = all_zero;

    s.channel = channel;
    fake_behave(fake, (fake_manner){.lost = "door"});
    assert_int_equal(lks_hold_acquire(channel, &options, held, &s, (lks_hold **)&s.object, NULL), LKS_OK);
    await(&s, 1);
    while (!lks_hold_is_lost(s.object))
        process_pause();
    assert_int_equal(lks_hold_release(s.object, 0, released, &s, NULL), LKS_OK);
    await(&s, 2);
    assert_int_equal(s.outcome, LKS_ABORTED);
    assert_int_equal(s.error.reason, LKS_REASON_LEASE_LOST);
}

static void cancel_other(void *arg, lks_hold *hold, lks_lock_result result, const lks_error *error)
{
    seen *s = arg;

    held(s, hold, result, error);
    lks_hold_cancel(((seen *)s->other)->object);
}

/* The cancel comes when the grant has arrived, but before its callback: both answers are in one message. */
TEST(a_grant_that_arrived_before_the_cancel_is_given_back)
{
    static const char *const names[] = {"door"};
    const lks_hold_options options = {.names = names, .n_names = 1, .lease_ms = lease_ms};
    seen first = all_zero, second;

    fake_behave(fake, (fake_manner){.holds[FAKE_ACQUIRE] = true});
    first.channel = channel;
    first.other = &second;
    assert_int_equal(lks_hold_acquire(channel, &options, cancel_other, &first, (lks_hold **)&first.object, NULL),
                     LKS_OK);
    start(&ops[0], &second, channel);
    assert_true(fake_await(fake, FAKE_ACQUIRE, NULL, 2));
    fake_behave(fake, (fake_manner){.body = NULL});
    await(&first, 1);
    await(&second, 1);
    assert_true(first.good);
    if (second.good) /* it was first */
        free_hold(&second);
    assert_true(fake_await(fake, FAKE_RELEASE, NULL, 1));
    if (!second.good)
        free_hold(&second);
    free_hold(&first);
}

TEST(an_attempt_is_ended_with_its_result)
{
    seen s;

    start(&ops[1], &s, channel);
    await(&s, 1);
    assert_int_equal(s.outcome, LKS_ONCE_BEGUN);
    assert_int_equal(lks_once_fence(s.object), 7);
    assert_false(lks_once_is_lost(s.object));
    assert_int_equal(lks_once_return(s.object, 200, "paid", 4), LKS_OK);
    lks_once_end(s.object, LKS_ONCE_STORE, 0, begun, &s);
    await(&s, 2);
    assert_int_equal(s.outcome, LKS_ONCE_EXECUTED);
    assert_string_equal(s.body, "paid");
    assert_string_equal(event_of(FAKE_COMPLETE, 0).text, "paid");

    fake_behave(fake, (fake_manner){.outcome[FAKE_BEGIN] = LKS_BEGIN_OUTCOME_REPLAY, .body = "paid before"});
    start(&ops[1], &s, channel);
    await(&s, 1);
    assert_int_equal(s.outcome, LKS_ONCE_REPLAYED);
    assert_string_equal(s.body, "paid before");
    free_once(&s);
}

/* Not answered in time, it continues in the background. */
TEST(the_end_of_an_attempt_outlasts_its_timeout)
{
    static const struct {
        lks_once_verdict verdict;
        fake_method method;
        lks_once_outcome outcome;
    } ends[] = {{LKS_ONCE_STORE, FAKE_COMPLETE, LKS_ONCE_DOUBTFUL}, {LKS_ONCE_RETRY, FAKE_FAIL, LKS_ONCE_RETRYABLE}};
    seen s;

    for (size_t i = 0; i < 2; i++) {
        fake_manner manner = {.body = NULL};

        start(&ops[1], &s, channel);
        await(&s, 1);
        manner.fails[ends[i].method] = LKS_UNAVAILABLE;
        fake_behave(fake, manner);
        lks_once_end(s.object, ends[i].verdict, 50, begun, &s);
        await(&s, 2);
        assert_int_equal(s.outcome, ends[i].outcome);
        size_t calls = fake_calls(fake, ends[i].method);
        fake_behave(fake, (fake_manner){.body = NULL});
        assert_true(fake_await(fake, ends[i].method, NULL, calls + 1));
    }
}

static void confirmed(void *arg, lks_confirm_outcome outcome, const lks_error *error)
{
    note(arg, outcome == LKS_CONFIRM_OUTCOME_CONFIRMED, (int)outcome, error, false);
}

static void cancelled(void *arg, lks_cancel_outcome outcome, const lks_error *error)
{
    note(arg, outcome == LKS_CANCEL_OUTCOME_CANCELLED, (int)outcome, error, false);
}

TEST(a_reservation_is_confirmed_or_cancelled)
{
    seen s;

    for (int sells = 0; sells < 2; sells++) {
        start(&ops[3], &s, channel);
        await(&s, 1);
        assert_int_equal(sells ? lks_reservation_confirm_start(s.object, false, confirmed, &s, NULL)
                               : lks_reservation_cancel_start(s.object, "changed", cancelled, &s, NULL),
                         LKS_OK);
        await(&s, 2);
        assert_true(s.good);
        assert_true(s.on_completion_thread);
        free_reservation(&s); /* settled: it sends nothing */
    }
    assert_int_equal(fake_calls(fake, FAKE_CONFIRM), 1);
    assert_int_equal(fake_calls(fake, FAKE_CANCEL), 1);
    assert_string_equal(event_of(FAKE_CANCEL, 0).text, "changed");
}

/* promise CH38 */
TEST(on_a_driven_channel_they_end_in_steps_and_none_waits)
{
    const lks_channel_options options = {.driven = 1};
    lks_channel *driven = NULL;
    lks_mutex *mutex = NULL;
    lks_error error;
    seen s;

    assert_int_equal(lks_channel_open(fake_url(fake), &options, &driven, NULL), LKS_OK);
    for (size_t i = 0; i < OPS; i++) {
        start(&ops[i], &s, driven);
        while (times(&s) < 1) {
            struct pollfd fd = {.fd = lks_channel_fd(driven), .events = POLLIN};
            poll(&fd, 1, lks_channel_timeout_ms(driven));
            lks_channel_step(driven, NULL);
        }
        assert_true(s.good);
        ops[i].free(&s);
    }
    assert_int_equal(lks_mutex_new(driven, "m", NULL, &mutex, NULL), LKS_OK);
    assert_int_equal(lks_mutex_lock(mutex, 0, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    lks_mutex_free(mutex);
    assert_int_equal(lks_channel_close(driven), LKS_OK);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
