/* Dispatch: calls that wait, and abandoned calls. */
#include "base/clock.h"
#include "dispatch_scene.h"

static void start_waiting_of(size_t peer, const sink_call *change)
{
    start_acquire(peer, 60000, change);
}

static void start_waiting(void)
{
    start_waiting_of(1, NULL);
}

/* The reply of lock_acquire for a waiting call: no lease ends. */
static void answer_queued(size_t i)
{
    asked_answer_at(&here.store, i, "QUEUED 1 250");
}

/* The call that was sent: "<token> <copy>". */
static const char *sent(void)
{
    const lks_rpc_slice *args = here.store.asked[0].call->args;
    static char text[128];

    snprintf(text, sizeof text, "%.*s %.*s", (int)args[0].len, args[0].data, (int)args[4].len, args[4].data);
    return text;
}

static void tell_grant(uint32_t n, const char *to)
{
    here.waiters.entered->on_event(here.waiters.entered,
                                   (service_event){SERVICE_GRANTED, n, (int64_t[]){7}, .to = lks_rpc_slice_of(to)});
}

/* The copy that is taken out is the one that was sent. */
static void expect_abandoned(void)
{
    char expected[160];

    snprintf(expected, sizeof expected, "ls:{default/n}: lock_abandon %s", sent());
    assert_string_equal(here.alarms.lasting, expected);
    assert_non_null(strstr(here.alarms.lasting, " this."));
}

/* promise W13 */
TEST(a_call_that_waits_is_there_before_its_store_call)
{
    start_waiting();
    assert_non_null(here.waiters.entered);
    assert_int_equal(here.waiters.key.len, strlen("ls:{default/n}:0123456789abcdef"));
    assert_int_equal(callers_parked(here.callers), 0);
    answer_queued(0);
    assert_int_equal(callers_parked(here.callers), 1);
    assert_int_equal(budget_held(here.budget), 1024); /* so that its memory is given back to the system later */
    assert_int_equal(here.n_done, 0);
    tell_event(SERVICE_WOKEN);
    assert_int_equal(here.store.n, 2);
    assert_string_equal(here.store.asked[1].call->function, "lock_claim");
    answer_with(1, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    assert_int_equal(budget_held(here.budget), 0);
    expect(LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
    assert_null(here.waiters.entered);
    expect_abandoned();
}

/* ---- its arena -------------------------------------------------------------------- */

/* An engine's. */
static struct lent {
    lks_rpc_arena *arena;
    size_t given, taken;
} lent;

/* Whatever was in it is overwritten. */
static void give(void *arg)
{
    lent.given++;
    lks_rpc_arena_reset(lent.arena);
    memset(lks_rpc_arena_alloc(lent.arena, 3800), 0xa5, 3800);
    lks_rpc_arena_reset(lent.arena);
}

static lks_rpc_arena *take(void *arg)
{
    lent.taken++;
    return lent.arena;
}

static const sink_lender lender = {.give = give, .take = take};

/* The store's call as text. */
static void words_of(const store_call *call, char *text, size_t size)
{
    size_t len = (size_t)snprintf(text, size, "%.*s", (int)call->base.len, call->base.data);

    for (size_t i = 0; i < call->n_args; i++)
        len += (size_t)snprintf(text + len, size - len, " %.*s", (int)call->args[i].len, call->args[i].data);
}

/* Without a token: the one that was made up is the call's for as long as it waits. */
/* promise K17: a waiting call frees its arena, keeps its request, and is restored from it; bytes beyond those of an
 * ordinary call count as held */
TEST(waiting_call_frees_its_arena_and_is_restored)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    char first[512], again[512];

    target.name = "n";
    request.targets = targets;
    request.n_targets = 1;
    request.owner = "me";
    request.lease_ms = 1000;
    request.wait_ms = 60000;
    lent = (struct lent){.arena = here.arena};
    start("/lockstock.v1.LockService/Acquire", &request.base, 1,
          &(sink_call){.lender = &lender, .who.ns = lks_rpc_slice_of("shop")});
    words_of(here.store.asked[0].call, first, sizeof first);
    for (size_t i = 0; i < 2; i++) {
        answer_queued(i);
        assert_int_equal(lent.given, i + 1);
        assert_int_equal(lent.taken, i);
        const lks_rpc_slice *key = &here.waiters.key; /* not what was in the arena */
        assert_int_equal(key->len, strlen("ls:{shop/n}:") + 32);
        assert_memory_equal(key->data, "ls:{shop/n}:", strlen("ls:{shop/n}:"));
        tell_event(SERVICE_WOKEN);
        assert_string_equal(here.store.asked[i + 1].call->function, "lock_claim");
        words_of(here.store.asked[i + 1].call, again, sizeof again);
        assert_string_equal(again, first);
    }
    assert_non_null(strstr(first, "ls:{shop/n}: "));
    answer_with(2, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect(LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
    assert_null(here.waiters.entered);
}

/* A long request is held while it waits, and counts. */
/* promise K17 */
TEST(long_request_of_a_waiting_call_counts_as_bytes_held)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;
    ProtobufCMessageUnknownField unknown = {
        .tag = 1000, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = 2003, .data = calloc(1, 2003)};

    memcpy(unknown.data, "\xd0\x0f", 2); /* its length, 2000, then 2000 bytes */
    unknown.len = 2002;
    request.scope = "s";
    request.key = "k";
    request.lease_ms = 1000;
    request.wait_ms = 60000;
    request.base.n_unknown_fields = 1;
    request.base.unknown_fields = &unknown;
    lent = (struct lent){.arena = here.arena};
    start("/lockstock.v1.IdempotencyService/Begin", &request.base, 1, &(sink_call){.lender = &lender});
    assert_int_equal(budget_held(here.budget), 0);
    asked_answer_at(&here.store, 0, "WAIT 1 250");
    assert_in_range(budget_held(here.budget), 1000, 2500);
    tell_event(SERVICE_WAIT_OVER);
    answer_with(1, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    assert_int_equal(budget_held(here.budget), 0);
    free(unknown.data);
}

/* TrimLedger goes by steps: when one of them is refused, those before have had their effect. */
/* promise B11: a refusal after a round with an effect is MAYBE */
TEST(a_refusal_after_an_effect_says_maybe)
{
    lks_trim_ledger_request request = LKS_TRIM_LEDGER_REQUEST_INIT;

    request.group = "g";
    request.up_to = "1-0";
    start("/lockstock.v1.StockService/TrimLedger", &request.base, 1, NULL);
    asked_answer_at(&here.store, 0, "MORE");
    assert_int_equal(here.store.n, 2);
    assert_string_equal(here.store.asked[1].call->function, "stock_trim_ledger");
    answer_with(1, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    expect(LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the store said so");
}

/* promise W13: a waiting call is alone in its frame; it is parked before its store call */
/* promise K20 */
/* promise L34 */
TEST(events_that_are_pending_start_the_next_rounds_by_priority)
{
    start_waiting();
    tell_event(SERVICE_WOKEN);
    tell_event(SERVICE_WAIT_OVER);
    answer_queued(0);
    assert_int_equal(here.store.n, 2);
    assert_string_equal(here.store.asked[1].call->function, "lock_withdraw");
    answer_queued(1); /* still */
    assert_string_equal(here.store.asked[2].call->function, "lock_claim");
    answer_queued(2);
    assert_int_equal(callers_parked(here.callers), 1);
    tell_event(SERVICE_ABANDONED);
    assert_int_equal(here.store.n, 4);
    assert_string_equal(here.store.asked[3].call->function, "lock_abandon");
    assert_int_equal(here.n_done, 0);
    answer_with(3, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(here.n_done, 1);
    expect_abandoned();
}

/* While it is taken out of the queue in the store it has its room to wait and to run: who abandons many calls waits
 * until that is done. */
/* promise K20: the store state of an abandoned call is undone in its owner's turn, and until then the call counts as
 * waiting */
TEST(an_abandoned_call_lasts_until_it_is_taken_out_of_the_queue)
{
    start_waiting();
    answer_queued(0);
    tell_event(SERVICE_ABANDONED);
    assert_int_equal(here.store.n, 2);
    assert_string_equal(here.store.asked[1].call->function, "lock_abandon");
    assert_int_not_equal(callers_running(here.callers), 0);
    assert_int_equal(here.n_done, 0);
    asked_answer_at(&here.store, 1, "OK -1");
    expect(LKS_CANCELLED, LKS_APPLIED_NO, "gone");
    assert_int_equal(here.alarms.n_lasting, 0);
    assert_false(callers_any(here.callers));
}

/* promise L57 */
TEST(a_grant_in_a_message_is_the_answer)
{
    start_waiting();
    answer_queued(0);
    tell_grant(1, sent());
    assert_int_equal(here.store.n, 1);
    assert_int_equal(here.n_done, 1);
    assert_int_equal(here.error.code, LKS_OK);
    const lks_acquire_response *response = (const void *)here.response;
    assert_int_equal(response->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    assert_int_equal(response->fences[0]->fence, 7);
    assert_int_equal(response->lease_ms, 1000);
    assert_false(response->replayed);
    assert_int_equal(here.alarms.n_lasting, 0);
}

/* Two calls with one token may wait on one server. A grant to the first may have been taken back when its message comes. */
/* promise L58 */
TEST(a_grant_to_another_call_with_the_token_makes_it_ask)
{
    start_waiting();
    answer_queued(0);
    tell_grant(1, "0123456789abcdef this.another.1000");
    assert_int_equal(here.n_done, 0);
    assert_string_equal(here.store.asked[1].call->function, "lock_claim");
}

/* The reply on its way may be older, and say that the call waits. */
TEST(grant_during_a_question_makes_the_call_ask_again)
{
    start_waiting();
    tell_grant(1, sent());
    assert_int_equal(here.n_done, 0);
    answer_queued(0);
    assert_string_equal(here.store.asked[1].call->function, "lock_claim");
}

TEST(a_grant_with_too_few_fences_fails_and_is_undone)
{
    start_waiting();
    answer_queued(0);
    tell_grant(0, sent());
    expect(LKS_INTERNAL, LKS_APPLIED_MAYBE, "unexpected form");
    expect_abandoned();
}

/* Redis is down when its wait ends: the answer does not wait, and the entry in Redis is removed later. */
/* promise L52 */
TEST(failed_withdrawal_sets_a_lasting_alarm)
{
    start_waiting();
    answer_queued(0);
    tell_event(SERVICE_WAIT_OVER);
    answer_with(1, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(here.n_done, 1);
    expect_abandoned();
}

/* promise L52: queue entries that a call left without an answer are removed as soon as Redis answers */
TEST(unanswered_acquire_sets_a_lasting_alarm)
{
    start_waiting();
    answer_with(0, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
    expect_abandoned();
}

/* promise L52 */
TEST(acquire_that_left_no_entry_sets_no_lasting_alarm)
{
    start_waiting();
    answer_with(0, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(here.n_done, 1);
    assert_string_equal(here.alarms.lasting, "");
}

/* Its place in the queue is kept: the same call continues at another server. */
/* promise W14 */
TEST(a_stopping_server_asks_nothing_more)
{
    start_waiting();
    answer_queued(0);
    tell_event(SERVICE_STOPPING);
    expect(LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "shutting down");
    assert_int_equal(here.error.reason, LKS_REASON_SHUTTING_DOWN);
    assert_int_equal(here.store.n, 1);
    assert_string_equal(here.alarms.lasting, "");
}

/* The wait ends before the deadline by as much as its last round takes; that one has no
 * more than the deadline. */
/* promise W13 */
TEST(the_last_round_ends_by_the_deadline)
{
    start_waiting_of(1, &(sink_call){.timeout_ms = 2000});
    uint64_t deadline_ns = here.store.asked[0].deadline_ns;
    assert_int_equal(here.waiters.deadline_ns, deadline_ns - 250000000);
    answer_queued(0);
    tell_event(SERVICE_WAIT_OVER);
    assert_int_equal(here.store.asked[1].deadline_ns, deadline_ns);
}

/* Without a deadline of its own a call gets the default one after what it asks to wait. */
TEST(a_wait_does_not_shorten_the_time_to_answer)
{
    uint64_t now = clock_now_ns();
    start_waiting();
    assert_true(here.store.asked[0].deadline_ns >= now + UINT64_C(70000) * 1000000);
    assert_true(here.waiters.deadline_ns < now + UINT64_C(61000) * 1000000);
}

/* promise K1: a waiting call uses no room to run, only room to wait */
/* promise K5 */
TEST(parked_calls_leave_their_room_to_others)
{
    for (size_t peer = 2; peer < 4; peer++) {
        start_waiting_of(peer, NULL);
        start_waiting_of(peer, NULL);
    }
    for (size_t i = 0; i < 4; i++)
        answer_queued(i);
    assert_int_equal(callers_parked(here.callers), 4);
    start_get_item(2, NULL);
    assert_int_equal(here.store.n, 5);
    answer_with(4, LKS_NOT_FOUND, LKS_APPLIED_NO);
    start_waiting_of(5, NULL); /* one too many that waits */
    assert_int_equal(here.n_done, 2);
    assert_int_equal(here.error.code, LKS_RESOURCE_EXHAUSTED);
    lose(2);
    lose(3);
    for (size_t i = 5; i < here.store.n; i++)
        answer_with(i, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_int_equal(here.store.n, 9);
    assert_int_equal(here.alarms.n_lasting, 4);
    assert_int_equal(callers_parked(here.callers), 0);
}

/* It was never asked of the store: nothing is to be withdrawn. */
/* promise K5 */
TEST(a_queued_call_of_a_lost_connection_is_not_run)
{
    for (size_t i = 0; i < 4; i++)
        start_get_item(1, NULL);
    lose(1);
    expect(LKS_CANCELLED, LKS_APPLIED_NO, "gone");
    for (size_t i = 0; i < 3; i++)
        answer_with(i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.store.n, 3);
    assert_int_equal(here.n_done, 4);
}

/* promise K5: a lost connection ends its calls and no others; none of its calls starts any more */
TEST(an_abandoned_call_is_withdrawn_alone)
{
    running *handle = NULL;
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    request.sku = "tea";
    for (size_t i = 0; i < 3; i++)
        start_get_item(1, NULL);
    start(get_item, &request.base, 1, &(sink_call){.handle = &handle});
    assert_non_null(handle);
    here.sink.abandon(handle);
    expect(LKS_CANCELLED, LKS_APPLIED_NO, "gone");
    assert_null(handle);
    for (size_t i = 0; i < 3; i++)
        answer_with(i, LKS_NOT_FOUND, LKS_APPLIED_NO);
    assert_int_equal(here.n_done, 4);
}
