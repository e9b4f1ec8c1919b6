/* Waiting calls on a real loop, over a store of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <lockstock/rpc/exchange.h>
#include <uv.h>

#include "waiters.h"

enum { ASKED_MAX = 16, TOLD_MAX = 16 };

/* Something happened: run_until looks whether it was what it waits for. */
static uv_loop_t *running_loop;

/* ---- a store that keeps what it is asked --------------------------------------- */

struct store {
    struct asked {
        const store_call *call;
        store_done *done;
        void *arg;
    } asked[ASKED_MAX];
    size_t n;
};

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    (void)deadline_ns;
    assert_true(s->n < ASKED_MAX);
    s->asked[s->n++] = (struct asked){call, done, arg};
    uv_stop(running_loop);
}

static void reply_again_in(store *s, size_t i, int64_t ms)
{
    const store_value elements[] = {{.type = STORE_STRING, .string = {"OK", 2}}, {.type = STORE_INTEGER, .integer = ms}};
    const store_value value = {.type = STORE_ARRAY, .n = 2, .element = elements};
    const store_result result = {.code = LKS_OK, .value = &value};
    s->asked[i].done(s->asked[i].arg, &result);
}

/* ---- the fixture ---------------------------------------------------------------- */

static struct told {
    const waiter *waiter;
    service_event event;
} told[TOLD_MAX];
static size_t n_told;

static void on_event(waiter *w, service_event event)
{
    assert_true(n_told < TOLD_MAX);
    told[n_told++] = (struct told){w, event};
    uv_stop(running_loop);
}

typedef struct fixture {
    uv_loop_t loop;
    store store;
    waiters *all;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    lks_error error;
    n_told = 0;
    uv_loop_init(&f->loop);
    running_loop = &f->loop;
    if (waiters_new(&f->loop, &f->store, &f->all, &error) != LKS_OK)
        return -1;
    *state = f;
    return 0;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static int teardown(void **state)
{
    fixture *f = *state;
    bool closed = false;
    waiters_close(f->all, on_closed, &closed);
    while (!closed)
        uv_run(&f->loop, UV_RUN_DEFAULT);
    int left = uv_loop_close(&f->loop);
    free(f);
    return closed && left == 0 ? 0 : -1;
}

static uint64_t ms_from_now(int64_t ms)
{
    return lks_rpc_now_ns() + (uint64_t)ms * 1000000;
}

static waiter new_waiter(const char *key)
{
    return (waiter){.key = {key, strlen(key)}, .on_event = on_event};
}

/* A waiter that stays where it is: registered, with a deadline far away. */
#define ENTER(name, text)                                                                                              \
    waiter name = new_waiter(text);                                                                                    \
    assert_true(waiters_enter(f->all, &(name), ms_from_now(600000)))

static void park(fixture *f, waiter *w)
{
    service_event event;
    assert_false(waiters_park(f->all, w, &event));
}

static void message(fixture *f, const char *text)
{
    waiters_message(f->all, text, strlen(text));
}

/* Runs the loop until the store was asked n times or n events were told. */
static void run_until(fixture *f, const size_t *count, size_t n)
{
    while (*count < n)
        uv_run(&f->loop, UV_RUN_DEFAULT);
}

static const char room[] = "ls:{ns/g}:";

/* ---- events --------------------------------------------------------------------- */

static void a_wake_message_finds_its_waiter(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:token-a");
    ENTER(b, "ls:{ns/g}:token-b");
    ENTER(other, "ls:{ns/h}:token-b");
    park(f, &a);
    park(f, &b);
    park(f, &other);
    message(f, "W ls:{ns/g}:token-b");
    assert_int_equal(n_told, 1);
    assert_ptr_equal(told[0].waiter, &b);
    assert_int_equal(told[0].event, SERVICE_WOKEN);
    message(f, "W ls:{ns/g}:nobody");
    message(f, "W ls:{ns/nowhere}:token-b");
    message(f, "nonsense");
    message(f, "");
    assert_int_equal(n_told, 1);
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
    waiters_leave(f->all, &other);
}

static void all_copies_of_a_call_are_woken(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:token");
    ENTER(b, "ls:{ns/g}:token");
    park(f, &a);
    park(f, &b);
    message(f, "W ls:{ns/g}:token");
    assert_int_equal(n_told, 2);
    assert_ptr_equal(told[1].waiter, &b);
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
}

static void a_wake_that_overtakes_the_reply_is_told_at_parking(void **state)
{
    fixture *f = *state;
    service_event event;
    ENTER(a, "ls:{ns/g}:a");
    message(f, "W ls:{ns/g}:a");
    assert_int_equal(n_told, 0);
    assert_true(waiters_park(f->all, &a, &event));
    assert_int_equal(event, SERVICE_WOKEN);
    park(f, &a);
    waiters_leave(f->all, &a);
}

static void the_gravest_pending_event_is_told_first(void **state)
{
    fixture *f = *state;
    service_event event;
    ENTER(a, "ls:{ns/g}:a");
    message(f, "W ls:{ns/g}:a");
    waiters_abandon(f->all, &a);
    assert_true(waiters_park(f->all, &a, &event));
    assert_int_equal(event, SERVICE_ABANDONED);
    assert_true(waiters_park(f->all, &a, &event));
    assert_int_equal(event, SERVICE_WOKEN);
    waiters_leave(f->all, &a);
}

static void a_deadline_is_told(void **state)
{
    fixture *f = *state;
    waiter late = new_waiter("ls:{ns/g}:late"), soon = new_waiter("ls:{ns/g}:soon");
    assert_true(waiters_enter(f->all, &late, ms_from_now(600000)));
    assert_true(waiters_enter(f->all, &soon, ms_from_now(1)));
    park(f, &late);
    park(f, &soon);
    run_until(f, &n_told, 1);
    assert_ptr_equal(told[0].waiter, &soon);
    assert_int_equal(told[0].event, SERVICE_DEADLINE);
    waiters_leave(f->all, &late);
    waiters_leave(f->all, &soon);
}

static void an_abandoned_waiter_is_told_and_no_other(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    ENTER(b, "ls:{ns/g}:a");
    park(f, &a);
    park(f, &b);
    waiters_abandon(f->all, &a);
    assert_int_equal(n_told, 1);
    assert_ptr_equal(told[0].waiter, &a);
    assert_int_equal(told[0].event, SERVICE_ABANDONED);
    waiters_leave(f->all, &a);
    waiters_abandon(f->all, &a); /* it left */
    assert_int_equal(n_told, 1);
    waiters_leave(f->all, &b);
}

static void missed_messages_wake_everyone(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    ENTER(b, "ls:{ns/h}:b");
    park(f, &a);
    park(f, &b);
    waiters_missed(f->all);
    assert_int_equal(n_told, 2);
    assert_int_equal(told[1].event, SERVICE_WOKEN);
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
}

static void stopping_is_told_to_who_is_there_and_to_who_comes(void **state)
{
    fixture *f = *state;
    service_event event;
    ENTER(a, "ls:{ns/g}:a");
    park(f, &a);
    waiters_stop(f->all);
    assert_int_equal(told[0].event, SERVICE_STOPPING);
    ENTER(b, "ls:{ns/g}:b");
    assert_true(waiters_park(f->all, &b, &event));
    assert_int_equal(event, SERVICE_STOPPING);
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
}

/* ---- alarms --------------------------------------------------------------------- */

static void an_alarm_asks_the_store_until_it_is_told_never(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    message(f, "A 1 ls:{ns/g}: lock_promote the%20name");
    run_until(f, &f->store.n, 1);
    const store_call *call = f->store.asked[0].call;
    assert_string_equal(call->function, "lock_promote");
    assert_int_equal(call->base.len, strlen(room));
    assert_memory_equal(call->base.data, room, call->base.len);
    assert_int_equal(call->args[0].len, strlen("the%20name"));
    reply_again_in(&f->store, 0, 1);
    run_until(f, &f->store.n, 2);
    reply_again_in(&f->store, 1, -1);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 2);
    waiters_leave(f->all, &a);
}

static void of_two_alarms_the_earlier_counts(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 600000);
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 1);
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 600000);
    run_until(f, &f->store.n, 1);
    reply_again_in(&f->store, 0, -1);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 1);
    waiters_leave(f->all, &a);
}

static void an_alarm_that_comes_while_asking_asks_again(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 0);
    run_until(f, &f->store.n, 1);
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 0);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 1);
    reply_again_in(&f->store, 0, -1);
    assert_int_equal(f->store.n, 2);
    reply_again_in(&f->store, 1, -1);
    waiters_leave(f->all, &a);
}

static void nothing_is_asked_when_nobody_waits(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    ENTER(b, "ls:{ns/h}:b");
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 1);
    waiters_leave(f->all, &a);
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 0);
    waiters_alarm(f->all, lks_rpc_slice_of("ls:{ns/h}:"), "f", lks_rpc_slice_of("y"), 2);
    run_until(f, &f->store.n, 1);
    assert_memory_equal(f->store.asked[0].call->args[0].data, "y", 1);
    /* The room goes while the store is asked: the reply finds nobody. */
    waiters_leave(f->all, &b);
    reply_again_in(&f->store, 0, 0);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 1);
}

/* Read after the room went: by a store that sends it once more. */
static void what_the_store_is_asked_outlives_the_room(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 0);
    run_until(f, &f->store.n, 1);
    waiters_leave(f->all, &a);
    assert_memory_equal(f->store.asked[0].call->base.data, room, strlen(room));
    reply_again_in(&f->store, 0, -1);
}

/* ---- chores --------------------------------------------------------------------- */

static void a_chore_is_done_though_nobody_waits(void **state)
{
    fixture *f = *state;
    waiters_chore(f->all, lks_rpc_slice_of(room), "expire", 1);
    run_until(f, &f->store.n, 1);
    assert_string_equal(f->store.asked[0].call->function, "expire");
    assert_memory_equal(f->store.asked[0].call->base.data, room, strlen(room));
    assert_int_equal(f->store.asked[0].call->args[0].len, 0);
    reply_again_in(&f->store, 0, 1);
    run_until(f, &f->store.n, 2);
    reply_again_in(&f->store, 1, -1);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 2);
}

static void a_chore_outlives_the_waiters_and_their_alarms_do_not(void **state)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    waiters_alarm(f->all, lks_rpc_slice_of(room), "f", lks_rpc_slice_of("x"), 1);
    waiters_chore(f->all, lks_rpc_slice_of(room), "expire", 2);
    waiters_leave(f->all, &a);
    run_until(f, &f->store.n, 1);
    assert_string_equal(f->store.asked[0].call->function, "expire");
    reply_again_in(&f->store, 0, -1);
}

/* The reply was made before what set the chore again. */
static void a_chore_set_while_asking_is_kept(void **state)
{
    fixture *f = *state;
    waiters_chore(f->all, lks_rpc_slice_of(room), "expire", 0);
    run_until(f, &f->store.n, 1);
    waiters_chore(f->all, lks_rpc_slice_of(room), "expire", 1);
    reply_again_in(&f->store, 0, -1);
    run_until(f, &f->store.n, 2);
    reply_again_in(&f->store, 1, -1);
}

static void a_stopping_server_has_no_chores(void **state)
{
    fixture *f = *state;
    waiters_chore(f->all, lks_rpc_slice_of(room), "expire", 0);
    waiters_stop(f->all);
    waiters_chore(f->all, lks_rpc_slice_of(room), "expire", 0);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 0);
}

/* teardown: what is left on the list is freed. */
static void a_chore_that_never_comes_due_is_freed(void **state)
{
    fixture *f = *state;
    waiters_chore(f->all, lks_rpc_slice_of(room), "expire", 600000);
    waiters_chore(f->all, lks_rpc_slice_of("ls:{ns/h}:"), "expire", 600000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wake_message_finds_its_waiter),
        TEST(all_copies_of_a_call_are_woken),
        TEST(a_wake_that_overtakes_the_reply_is_told_at_parking),
        TEST(the_gravest_pending_event_is_told_first),
        TEST(a_deadline_is_told),
        TEST(an_abandoned_waiter_is_told_and_no_other),
        TEST(missed_messages_wake_everyone),
        TEST(stopping_is_told_to_who_is_there_and_to_who_comes),
        TEST(an_alarm_asks_the_store_until_it_is_told_never),
        TEST(of_two_alarms_the_earlier_counts),
        TEST(an_alarm_that_comes_while_asking_asks_again),
        TEST(nothing_is_asked_when_nobody_waits),
        TEST(what_the_store_is_asked_outlives_the_room),
        TEST(a_chore_is_done_though_nobody_waits),
        TEST(a_chore_outlives_the_waiters_and_their_alarms_do_not),
        TEST(a_chore_set_while_asking_is_kept),
        TEST(a_stopping_server_has_no_chores),
        TEST(a_chore_that_never_comes_due_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
