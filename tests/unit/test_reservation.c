/* lks_reservation against a scripted service: its requests, its renewals,
 * and the end of an unconfirmed reservation. */

#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/lockstock.h>

#include "support/process.h"
#include "unit/fake_service.h"
#include "unit/helpers_fixture.h"
#include "test.h"

/* HOLD_MS is for what must not be lost however busy the machine is. */
enum { HOLD_MS = 6000, SHORT_MS = 1500, LONG_MS = 600000 };

static const lks_reservation_line phone = {.sku = "phone", .quantity = 3};
static const lks_reservation_order plain = {.order_id = "order-1", .lines = &phone, .n_lines = 1, .hold_ms = HOLD_MS};

static lks_reservation *make(const lks_reservation_order *order)
{
    lks_reservation *reservation = NULL;
    lks_error error;

    if (lks_reservation_make(channel, order, &reservation, &error) != LKS_RESERVE_OUTCOME_RESERVED)
        fail_msg("%s", error.message);
    return reservation;
}

/* Earlier background calls have arrived when a later call is answered. */
static void assert_cancels(size_t n)
{
    fake_behave(fake, (fake_manner){.body = NULL});
    lks_reservation_free(make(&plain));
    assert_int_equal(fake_calls(fake, FAKE_CANCEL), n + 1);
}

/* ---- making and selling ------------------------------------------------------------- */

/* promise C20 */
TEST(test_reserved_and_confirmed)
{
    lks_reservation *reservation = NULL;
    lks_error error = {.code = LKS_INTERNAL};

    assert_int_equal(lks_reservation_make(channel, &plain, &reservation, &error), LKS_RESERVE_OUTCOME_RESERVED);
    assert_int_equal(error.code, LKS_OK);
    assert_string_equal(lks_reservation_order_id(reservation), "order-1");
    assert_false(lks_reservation_is_lost(reservation));
    assert_false(lks_reservation_is_replayed(reservation));
    assert_int_equal(lks_reservation_confirm(reservation, false, &error), LKS_CONFIRM_OUTCOME_CONFIRMED);
    assert_int_equal(error.code, LKS_OK);
    lks_reservation_free(reservation);

    fake_event reserved = event_of(FAKE_RESERVE, 0), confirmed = event_of(FAKE_CONFIRM, 0);
    assert_string_equal(reserved.group, "phone");
    assert_string_equal(reserved.id, "order-1");
    assert_string_equal(reserved.token, "");
    assert_int_equal(reserved.lease_ms, HOLD_MS);
    assert_int_equal(reserved.n, 1);
    assert_string_equal(reserved.keys[0], "phone");
    assert_int_equal(reserved.number, 3);
    assert_false(reserved.flag); /* somebody may have sent this id before */
    assert_string_equal(confirmed.group, "phone");
    assert_string_equal(confirmed.id, "order-1");
    assert_false(confirmed.flag);
    assert_cancels(0);
    assert_int_equal(fake_calls(fake, FAKE_EXTEND_HOLD), 0);
}

/* promise C20 */
TEST(test_options_are_sent)
{
    const lks_reservation_line lines[] = {{.sku = "phone", .quantity = 1}, {.sku = "cover", .quantity = 2}};
    const lks_reservation_order order = {.group = "shop", .buyer_id = "bob", .lines = lines, .n_lines = 2};

    fake_behave(fake, (fake_manner){.replayed = true});
    lks_reservation *reservation = make(&order);
    assert_true(lks_reservation_is_replayed(reservation));
    fake_event reserved = event_of(FAKE_RESERVE, 0);
    assert_string_equal(reserved.group, "shop");
    assert_string_equal(reserved.token, "bob");
    assert_int_equal(reserved.lease_ms, 60000);
    assert_string_equal(reserved.keys[1], "cover");
    assert_int_equal(strlen(reserved.id), 32);
    assert_true(reserved.flag); /* generated here: it cannot have been sent before */
    assert_string_equal(lks_reservation_order_id(reservation), reserved.id);
    lks_reservation_free(reservation);
}

/* promise C21: refusals are distinct and say what is available; wrong orders are named */
TEST(test_refusals_are_distinguished)
{
    const lks_reserve_outcome outcomes[] = {LKS_RESERVE_OUTCOME_SOLD_OUT,    LKS_RESERVE_OUTCOME_BUYER_LIMIT,
                                            LKS_RESERVE_OUTCOME_NOT_OPEN,    LKS_RESERVE_OUTCOME_CLOSED,
                                            LKS_RESERVE_OUTCOME_UNKNOWN_SKU, LKS_RESERVE_OUTCOME_CANCELLED};
    lks_reservation *reservation = NULL;
    lks_error error;

    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        fake_behave(fake, (fake_manner){.outcome[FAKE_RESERVE] = (int)outcomes[i]});
        assert_int_equal(lks_reservation_make(channel, &plain, &reservation, &error), outcomes[i]);
        assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        assert_non_null(strstr(error.message, "phone, of which 2 are available"));
        assert_null(reservation);
    }
    fake_behave(fake, (fake_manner){.fails[FAKE_RESERVE] = LKS_ALREADY_EXISTS});
    assert_int_equal(lks_reservation_make(channel, &plain, &reservation, &error), 0);
    assert_int_equal(error.code, LKS_ALREADY_EXISTS);
    assert_cancels(0);
}

/* ---- giving back ------------------------------------------------------------------------ */

/* promise C22 */
TEST(test_the_end_of_the_block_cancels)
{
    {
        LKS_RESERVATION lks_reservation *reservation = make(&plain);
        LKS_RESERVATION lks_reservation *none = NULL;
        assert_non_null(reservation);
        assert_null(none);
        assert_int_equal(fake_calls(fake, FAKE_CANCEL), 0);
    }
    assert_int_equal(fake_calls(fake, FAKE_CANCEL), 1);
    assert_string_equal(event_of(FAKE_CANCEL, 0).group, "phone");
    assert_string_equal(event_of(FAKE_CANCEL, 0).id, "order-1");
    lks_reservation *reservation = make(&plain);
    lks_reservation_cleanup(&reservation);
    assert_null(reservation);
    lks_reservation_cleanup(&reservation);
}

/* promise C22: the end of the block cancels, however the block ends, and once */
TEST(test_cancel_returns_what_became_of_it)
{
    static const struct {
        int answered;
        lks_cancel_outcome told;
        lks_code code;
    } rows[] = {{0, LKS_CANCEL_OUTCOME_CANCELLED, LKS_OK},
                {LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED, LKS_CANCEL_OUTCOME_ALREADY_CONFIRMED, LKS_FAILED_PRECONDITION},
                {LKS_CANCEL_OUTCOME_UNKNOWN_ORDER, LKS_CANCEL_OUTCOME_UNKNOWN_ORDER, LKS_OK},
                {99, LKS_CANCEL_OUTCOME_UNSPECIFIED, LKS_INTERNAL}};
    lks_error error;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t cancels = fake_calls(fake, FAKE_CANCEL);
        lks_reservation *reservation = make(&plain);

        fake_behave(fake, (fake_manner){.outcome[FAKE_CANCEL] = rows[i].answered});
        assert_int_equal(lks_reservation_cancel(reservation, "changed his mind", &error), rows[i].told);
        assert_int_equal(error.code, rows[i].code);
        assert_string_equal(event_of(FAKE_CANCEL, cancels).text, "changed his mind");
        fake_behave(fake, (fake_manner){.body = NULL});
        lks_reservation_free(reservation);
        assert_cancels(cancels + (rows[i].told == LKS_CANCEL_OUTCOME_UNSPECIFIED ? 2 : 1));
    }
}

/* It waits for its answer, but not for long, and then continues without it. */
/* promise C22 */
TEST(test_free_cancels_and_repeats_without_waiting)
{
    lks_reservation *reservation = make(&plain);

    lks_reservation_free(reservation);
    size_t cancels = fake_calls(fake, FAKE_CANCEL);
    assert_true(cancels > 0); /* it is over when it returns */

    reservation = make(&plain);
    fake_behave(fake, (fake_manner){.fails[FAKE_CANCEL] = LKS_INTERNAL, .fail_times = 1});
    lks_reservation_free(reservation);
    assert_true(fake_await(fake, FAKE_CANCEL, NULL, cancels + 2));

    reservation = make(&plain);
    fake_behave(fake, (fake_manner){.holds[FAKE_CANCEL] = true});
    cancels = fake_calls(fake, FAKE_CANCEL);
    lks_reservation_free(reservation); /* returns without an answer, and sends it again */
    assert_true(fake_await(fake, FAKE_CANCEL, NULL, cancels + 2));
    assert_string_equal(event_of(FAKE_CANCEL, cancels + 1).id, "order-1");
}

static void free_inside(void *arg, lks_code code, const lks_get_response *response, const lks_error *error)
{
    lks_reservation_free(arg);
}

/* promise C22 */
TEST(test_it_may_be_freed_on_a_completion_thread)
{
    lks_reservation_order order = plain;
    lks_get_request request = LKS_GET_REQUEST_INIT;
    lks_call *call = NULL;

    order.keep_ms = LONG_MS;
    lks_reservation *reservation = make(&order);
    assert_int_equal(lks_idempotency_get_start(channel, &request, NULL, free_inside, reservation, &call, NULL), LKS_OK);
    lks_call_wait(call, NULL);
    lks_call_free(call);
    assert_true(fake_await(fake, FAKE_CANCEL, NULL, 1));
}

/* ---- confirming ---------------------------------------------------------------------------- */

/* promise C20: reservation: Reserve and Confirm as ordered; an order is new only with an id of its own */
TEST(test_an_expired_reservation_can_be_confirmed_again)
{
    lks_reservation *reservation = make(&plain);
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_CONFIRM] = LKS_CONFIRM_OUTCOME_EXPIRED});
    assert_int_equal(lks_reservation_confirm(reservation, false, &error), LKS_CONFIRM_OUTCOME_EXPIRED);
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    fake_behave(fake, (fake_manner){.body = NULL});
    assert_int_equal(lks_reservation_confirm(reservation, true, &error), LKS_CONFIRM_OUTCOME_CONFIRMED);
    assert_true(event_of(FAKE_CONFIRM, 1).flag);
    lks_reservation_free(reservation);
    assert_cancels(0);
}

/* A late copy of the Confirm could still take the stock that comes back: so what could
 * not be sold is cancelled, unless it is already. */
/* promise C24 */
TEST(test_an_order_that_could_not_be_sold_is_cancelled)
{
    const struct {
        lks_confirm_outcome outcome;
        bool cancels;
    } ends[] = {
        {LKS_CONFIRM_OUTCOME_EXPIRED, true},
        {LKS_CONFIRM_OUTCOME_SOLD_OUT, true},
        {LKS_CONFIRM_OUTCOME_UNKNOWN_ORDER, true},
        {LKS_CONFIRM_OUTCOME_CANCELLED, false},
    };
    lks_error error;
    size_t cancels = 0;

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        lks_reservation *reservation = make(&plain);
        fake_behave(fake, (fake_manner){.outcome[FAKE_CONFIRM] = (int)ends[i].outcome});
        assert_int_equal(lks_reservation_confirm(reservation, true, &error), ends[i].outcome);
        assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
        lks_reservation_free(reservation);
        cancels += ends[i].cancels;
        assert_int_equal(fake_calls(fake, FAKE_CANCEL), cancels);
    }
}

/* promise C24: an order that may be sold is not cancelled; one that could not be sold is */
TEST(test_an_order_that_may_be_sold_is_not_cancelled)
{
    const fake_manner manners[] = {
        {.fails[FAKE_CONFIRM] = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE},
        {.outcome[FAKE_CONFIRM] = 99},
    };
    lks_error error;

    for (size_t i = 0; i < 2; i++) {
        lks_reservation *reservation = make(&plain);
        fake_behave(fake, manners[i]);
        assert_int_equal(lks_reservation_confirm(reservation, false, &error), 0);
        assert_int_equal(error.code, LKS_INTERNAL);
        assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
        lks_reservation_free(reservation);
        assert_int_equal(fake_calls(fake, FAKE_CANCEL), 0);
    }
    lks_reservation *reservation = make(&plain);
    fake_behave(fake, (fake_manner){.fails[FAKE_CONFIRM] = LKS_INTERNAL});
    assert_int_equal(lks_reservation_confirm(reservation, false, &error), 0);
    lks_reservation_free(reservation); /* nothing happened, and nothing will */
    assert_int_equal(fake_calls(fake, FAKE_CANCEL), 1);
}

/* ---- keeping -------------------------------------------------------------------------------- */

/* promise C6 */
/* promise C25 */
TEST(test_a_reservation_that_is_kept_is_extended)
{
    lks_reservation_order order = plain;

    order.hold_ms = SHORT_MS;
    order.keep_ms = LONG_MS;
    lks_reservation *reservation = make(&order);
    assert_true(fake_await(fake, FAKE_EXTEND_HOLD, NULL, 4));
    assert_false(lks_reservation_is_lost(reservation));
    fake_event extended = event_of(FAKE_EXTEND_HOLD, 0);
    assert_string_equal(extended.group, "phone");
    assert_string_equal(extended.id, "order-1");
    assert_int_equal(extended.lease_ms, SHORT_MS);
    lks_reservation_free(reservation);
    size_t extends = fake_calls(fake, FAKE_EXTEND_HOLD);
    for (long long from_ms = process_now_ms(); process_now_ms() < from_ms + SHORT_MS;)
        process_pause();
    assert_int_equal(fake_calls(fake, FAKE_EXTEND_HOLD), extends);
}

/* Less is left of the hold than a third of its length, after which it would be extended. */
/* promise C25 */
TEST(test_the_rest_of_a_hold_is_extended_in_time)
{
    lks_reservation_order order = plain;

    order.hold_ms = LONG_MS;
    order.keep_ms = LONG_MS;
    fake_behave(fake, (fake_manner){.hold_ms = SHORT_MS});
    lks_reservation *reservation = make(&order);
    assert_int_equal(fake_calls(fake, FAKE_EXTEND_HOLD), 0);
    assert_true(fake_await(fake, FAKE_EXTEND_HOLD, NULL, 4));
    assert_false(lks_reservation_is_lost(reservation));
    lks_reservation_free(reservation);
}

/* promise C25 */
TEST(test_a_replayed_reservation_is_extended_at_once)
{
    lks_reservation_order order = plain;

    order.hold_ms = LONG_MS;
    order.keep_ms = LONG_MS;
    fake_behave(fake, (fake_manner){.hold_ms = 20, .replayed = true});
    lks_reservation *reservation = make(&order);
    assert_int_equal(fake_calls(fake, FAKE_EXTEND_HOLD), 1);
    assert_int_equal(event_of(FAKE_EXTEND_HOLD, 0).lease_ms, LONG_MS);
    lks_reservation_free(reservation);

    /* One that is over is lost from the beginning. */
    fake_behave(fake, (fake_manner){.replayed = true, .outcome[FAKE_EXTEND_HOLD] = LKS_EXTEND_HOLD_OUTCOME_EXPIRED});
    reservation = make(&order);
    assert_true(lks_reservation_is_lost(reservation));
    lks_reservation_free(reservation);

    /* If the server cannot answer, the time of the Reserve's answer stays. */
    fake_behave(fake, (fake_manner){.replayed = true, .fails[FAKE_EXTEND_HOLD] = LKS_FAILED_PRECONDITION});
    reservation = make(&order);
    assert_false(lks_reservation_is_lost(reservation));
    lks_reservation_free(reservation);

    /* It was not requested to be kept. */
    size_t extends = fake_calls(fake, FAKE_EXTEND_HOLD);
    order.keep_ms = 0;
    lks_reservation_free(make(&order));
    assert_int_equal(fake_calls(fake, FAKE_EXTEND_HOLD), extends);
}

/* Counted from the first try the hold is over before the answer to the second comes. */
/* promise C25: a reservation is kept for keep_ms at most; it is lost when its time is over or a server says so */
TEST(test_a_hold_whose_first_answer_was_lost_is_kept)
{
    enum { PAUSE_MS = SHORT_MS + 100 };
    lks_reservation_order order = plain;

    order.hold_ms = SHORT_MS;
    order.keep_ms = LONG_MS;
    fake_behave(fake, (fake_manner){.fails[FAKE_RESERVE] = LKS_UNAVAILABLE,
                                    .applied = LKS_APPLIED_MAYBE,
                                    .fail_times = 1,
                                    .fail_retry_ms = PAUSE_MS,
                                    .replayed = true});
    lks_reservation *reservation = make(&order);
    assert_int_equal(fake_calls(fake, FAKE_RESERVE), 2);
    assert_true(fake_await(fake, FAKE_EXTEND_HOLD, NULL, 4));
    assert_false(lks_reservation_is_lost(reservation));
    lks_reservation_free(reservation);
}

/* ---- processes and many ------------------------------------------------------------------------ */

/* promise C26: a child of fork owns no reservation and no attempt */
TEST(test_not_in_a_forked_child)
{
    lks_reservation_order order = plain;
    int status = 0;

    order.keep_ms = LONG_MS;
    lks_reservation *reservation = make(&order);
    pid_t child = fork();
    if (child == 0) {
        lks_reservation *own = NULL;
        lks_error errors[3];
        bool refused = lks_reservation_make(channel, &plain, &own, &errors[0]) == 0 &&
                       lks_reservation_confirm(reservation, false, &errors[1]) == 0 &&
                       lks_reservation_cancel(reservation, NULL, &errors[2]) == 0 &&
                       lks_reservation_is_lost(reservation);
        for (size_t i = 0; i < 3; i++)
            refused = refused && errors[i].code == LKS_FAILED_PRECONDITION;
        lks_reservation_free(reservation);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(fake_calls(fake, FAKE_CANCEL), 0);
    assert_int_equal(lks_reservation_confirm(reservation, false, NULL), LKS_CONFIRM_OUTCOME_CONFIRMED);
    lks_reservation_free(reservation);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
