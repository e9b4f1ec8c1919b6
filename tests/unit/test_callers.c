/* Room for calls to run, to queue and to wait, and what becomes of the calls of a lost connection. */
#include "base/clock.h"
#include "callers_scene.h"

#define SETUP(name, turn_ns, stall_ns, waiting_per_caller, share)        \
    static int name(void **state)                                        \
    {                                                                    \
        (void)state;                                                     \
        return setup_with(turn_ns, stall_ns, waiting_per_caller, share); \
    }
/* A turn is long enough, and nothing stalls. */
SETUP(setup, UINT64_MAX, UINT64_MAX, WAITING_EACH, 0)
SETUP(setup_stalling, UINT64_MAX, 1, WAITING_EACH, 0)
SETUP(setup_shares, UINT64_MAX, UINT64_MAX, WAITING_EACH, SHARE)
SETUP(setup_short_turns, 0, UINT64_MAX, CALLS_MAX, 0)
SETUP(setup_many_wait, UINT64_MAX, UINT64_MAX, CALLS_MAX, 0)

/* ---- running ---------------------------------------------------------------------- */

/* promise W11: overload: queues are bounded, RESOURCE_EXHAUSTED, NO, with a moment to wait; a connection cannot take
 * all */
TEST(a_connection_runs_so_many_and_the_rest_queue_in_order)
{
    caller *c = connect_one();

    take_many(c, 2 * EACH);
    assert_int_equal(here.n_started, TAKES_EACH);
    assert_true(caller_queues(c));
    caller_leave(&here.calls[1]);
    assert_int_equal(here.n_started, TAKES_EACH + 1);
    assert_int_equal(here.started[TAKES_EACH], TAKES_EACH);
    assert_int_equal(here.n_rooms, 0);
    leave_all();
    assert_false(caller_queues(c));
    assert_int_equal(here.n_rooms, 1);
}

/* promise K2: a quarter of the room to run is reserved for calls that settle, another for calls that take; calls that
 * settle start first */
TEST(a_call_that_settles_finds_room_when_others_do_not)
{
    caller *a = connect_one(), *b = connect_one(), *c = connect_one();

    fill_room(a);
    settle(a); /* the connection's own room */
    assert_int_equal(here.n_started, EACH);
    fill_room(b);
    take(c);
    assert_int_equal(here.n_started, TAKES + 1);
    settle(c); /* the server's */
    assert_int_equal(here.n_started, RUNNING);
    assert_int_equal(callers_running(here.all), RUNNING);
}

/* promise K2 */
TEST(settling_calls_start_before_taking_ones)
{
    caller *c = connect_one();

    settle_many(c, TAKES_EACH);
    for (size_t i = TAKES_EACH; i <= EACH; i++)
        take(c);
    caller_call *late = settle(c);
    assert_int_equal(here.n_started, EACH);
    caller_leave(&here.calls[0]);
    assert_int_equal(here.n_started, EACH + 1);
    assert_ptr_equal(&here.calls[here.started[EACH]], late);
}

/* promise K2 */
TEST(calls_that_settle_leave_room_to_those_that_take)
{
    caller *a = connect_one(), *b = connect_one(), *c = connect_one();

    for (size_t i = 0; i < 2 * EACH; i++) {
        settle(a);
        settle(b);
        settle(c);
    }
    assert_int_equal(here.n_started, TAKES);
    assert_int_equal(take(c)->state, CALL_RUNNING);
    assert_int_equal(take(a)->state, CALL_RUNNING);
    caller_call *next = take(b);
    assert_int_equal(next->state, CALL_QUEUED);
    caller_leave(&here.calls[0]); /* one that settles takes its place */
    assert_int_equal(next->state, CALL_QUEUED);
    for (size_t i = 0; i < here.n - 1 && next->state == CALL_QUEUED; i++)
        if (here.calls[i].state == CALL_RUNNING && !here.calls[i].settles)
            caller_leave(&here.calls[i]);
    assert_int_equal(next->state, CALL_RUNNING);
}

/* promise W11 */
TEST(connections_take_turns)
{
    caller *full[] = {connect_one(), connect_one()}, *greedy = connect_one(), *modest = connect_one();

    for (size_t i = 0; i < TAKES; i++)
        take(full[i % 2]);
    assert_int_equal(here.n_started, TAKES);
    caller_call *first = take(greedy), *second = take(greedy), *one = take(modest);
    caller_leave(&here.calls[0]);
    assert_int_equal(first->state, CALL_RUNNING);
    caller_leave(&here.calls[1]);
    assert_int_equal(one->state, CALL_RUNNING);
    assert_int_equal(second->state, CALL_QUEUED);
}

/* promise W11 */
/* promise K19 */
TEST(too_many_that_queue_are_refused)
{
    enum { OWNERS = 20 };
    caller *c[OWNERS];

    for (size_t i = 0; i < OWNERS; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        c[i] = connect_of(name);
    }
    for (size_t i = 0; i < TAKES + 16 * RUNNING; i++)
        take(c[i % OWNERS]);
    refused(c[0], false);
    settle(c[0]); /* never refused for that */
    assert_int_equal(wait_as(c[0], NULL), LKS_OK);
}

/* promise K19 */
TEST(queued_calls_count_for_the_owner_of_their_connection)
{
    caller *a = connect_of("one"), *b = connect_of("one");

    take_many(a, TAKES_EACH + 64);
    refused(b, false);
    caller_set_owner(a, "another");
    take(b);
    refused(a, false);
}

/* After a restart of the server all its waiting calls come again at once. */
/* promise W11 */
/* promise K19 */
TEST_WITH(calls_that_may_wait_queue_without_a_limit_and_fill_no_queue_for_others, setup_many_wait, teardown)
{
    caller *waiting = connect_of("waiting"), *late = connect_of("late"), *other = connect_of("other");

    for (size_t i = 0; i < TAKES + 16 * RUNNING; i++)
        assert_int_equal(wait_as(waiting, NULL), LKS_OK);
    caller_set_owner(late, "waiting");
    caller_set_owner(waiting, "renamed");
    assert_int_equal(wait_as(waiting, NULL), LKS_OK);
    assert_int_equal(wait_as(late, NULL), LKS_OK);
    take(late);
    take(waiting);
    take(other);
}

/* promise K11 */
TEST(calls_that_settle_are_refused_for_those_of_their_own_connection_only)
{
    caller *c = connect_one(), *other = connect_one();

    settle_many(c, TAKES_EACH + 4 * EACH + WAITING_EACH);
    refused(c, true);
    settle(other);
}

/* ---- overload --------------------------------------------------------------------- */

enum { PACE_MS = 1 }; /* at least, from one start to the next */
#define SOON(ms) (clock_now_ns() + (uint64_t)(ms)*1000000)

/* So many of a caller's calls begin from its queue, each when the one before it is over. */
static void pass(size_t first, size_t n)
{
    here.costs_ns = PACE_MS * 1100000;
    for (size_t i = first; i < first + n; i++) {
        caller_leave(&here.calls[i]);
        turn();
    }
    here.costs_ns = 0;
}

/* promise K15: a connection whose calls queue for long, or do not move, is read further */
/* promise K14: a call that takes and would queue for too long is refused at once, before its request is read, with
 * the time after which to retry; a call that settles is not */
TEST(a_call_that_would_queue_for_too_long_is_refused_at_once)
{
    enum { QUEUED = 60, PASSED = 40 };
    caller *c = connect_one(), *other = connect_one();
    lks_error error = {0};

    take_many(c, TAKES_EACH + QUEUED);
    assert_int_equal(caller_refuse_if_late(c, SOON(0), &error), LKS_OK); /* how long is not known */
    assert_true(caller_queues(c));
    pass(0, PASSED);
    assert_false(caller_queues(c)); /* unread calls age where the server cannot refuse them */
    assert_true(here.n_rooms > 0);
    assert_int_equal(caller_refuse_if_late(c, SOON((QUEUED - PASSED) * PACE_MS * 4 - 1), &error),
                     LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_in_range(error.retry_after_ms, 100, 1000 * QUEUED);
    assert_int_equal(caller_refuse_if_late(c, SOON(3600 * 1000), &error), LKS_OK);
    assert_int_equal(caller_refuse_if_late(other, SOON(1), &error), LKS_OK); /* nothing of it queues */
    leave_all();
    assert_int_equal(caller_refuse_if_late(c, SOON(0), &error), LKS_OK);
}

/* promise K14 */
TEST(a_queue_takes_longer_with_more_callers)
{
    enum { CALLERS = 8, QUEUED = 3, MANY = 60, PASSED = 40 };
    caller *c = connect_one(), *others[CALLERS];
    lks_error error = {0};

    take_many(c, TAKES_EACH + PASSED + QUEUED);
    pass(0, PASSED);
    uint64_t deadline_ns = SOON(QUEUED * CALLERS * PACE_MS * 4 - 1);
    for (size_t i = 0; i < CALLERS; i++) {
        others[i] = connect_one();
        for (size_t k = 0; k < MANY / CALLERS; k++)
            take(others[i]);
    }
    assert_int_equal(caller_refuse_if_late(c, deadline_ns, &error), LKS_RESOURCE_EXHAUSTED);
}

/* promise K15 */
TEST_WITH(a_connection_whose_queue_stalls_is_read_again, setup_stalling, teardown)
{
    caller *c = connect_one();

    take_many(c, TAKES_EACH + 2);
    while (here.n_rooms == 0)
        uv_run(&here.loop, UV_RUN_ONCE);
    assert_false(caller_queues(c));
    caller_hold(c, true); /* untaken answers are another reason to wait */
    assert_true(caller_queues(c));
}

/* promise K13 */
TEST_WITH(costly_connections_share_a_turn, setup_short_turns, teardown)
{
    enum { COSTLY = 20 };
    caller *costly[COSTLY];

    here.leave_at_once = true;
    here.costs_ns = 400 * 1000;
    turn();
    for (size_t i = 0; i < COSTLY; i++)
        settle(costly[i] = connect_one());
    assert_int_equal(here.n_started, COSTLY); /* nothing was known of them */
    turn();
    for (size_t i = 0; i < COSTLY; i++)
        settle(costly[i]);
    assert_true(here.n_started < COSTLY + 5);
    caller *other = connect_one();
    size_t started = here.n_started;
    settle(other);
    assert_true(here.n_started > started);
    assert_int_equal(here.started[started], 2 * COSTLY);
    assert_true(here.n_started < started + 5); /* what queues has a turn's time, too */
    while (here.n_started < 2 * COSTLY + 1)
        turn();
}

/* promise K13: connections whose calls are costly to start share one turn of the loop, a short one while others have
 * calls; other connections start theirs at once */
TEST_WITH(costly_connections_give_way, setup_short_turns, teardown)
{
    caller *costly = connect_one(), *light = connect_one();
    const uint64_t costs_ns = 100 * 1000;
    size_t in_a_turn[2];

    here.leave_at_once = true;
    for (size_t alone = 0; alone < 2; alone++) {
        here.costs_ns = 0;
        turn();
        settle(light);
        here.now_ns += alone * 100 * 1000 * 1000;
        here.costs_ns = costs_ns;
        for (size_t i = 0; i < 50; i++)
            settle(costly);
        size_t before = here.n_started;
        turn();
        in_a_turn[alone] = here.n_started - before;
        while (caller_queues(costly))
            turn();
    }
    assert_int_equal(in_a_turn[0], 2);
    assert_int_equal(in_a_turn[1], 10);
}

/* promise W11 */
TEST_WITH(a_turn_of_the_loop_is_shared, setup_short_turns, teardown)
{
    caller *c = connect_one();

    here.leave_at_once = true;
    here.costs_ns = 100 * 1000;
    turn();
    settle_many(c, 100);
    assert_true(here.n_started < 10);
    assert_true(caller_queues(c));
    while (here.n_started < 100)
        turn();
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(here.started[i], i);
}

/* ---- owners ------------------------------------------------------------------------ */

/* promise K19 */
TEST(owners_take_turns_before_their_connections)
{
    caller *full[] = {connect_one(), connect_one()};
    caller *many[] = {connect_of("many"), connect_of("many"), connect_of("many")}, *one = connect_of("one");
    static const size_t starts[] = {0, 6, 1, 7}; /* of those that queue: six of many, two of one */

    for (size_t i = 0; i < TAKES; i++)
        take(full[i % 2]);
    for (size_t i = 0; i < 6; i++)
        take(many[i % 3]);
    take_many(one, 2);
    for (size_t i = 0; i < 4; i++) {
        caller_leave(&here.calls[i]);
        assert_int_equal(here.started[TAKES + i], TAKES + starts[i]);
    }
}

/* promise K19: an owner (a principal, or the address of an unknown caller) has a share of the running calls and of a
 * turn while another calls, and a share of the queue, however many connections it has */
TEST_WITH(an_owner_has_a_share_while_another_calls, setup_shares, teardown)
{
    caller *many[] = {connect_of("many"), connect_of("many")}, *other = connect_of("other");

    for (size_t i = 0; i < TAKES; i++)
        assert_int_equal(take(many[i % 2])->state, CALL_RUNNING); /* there is no other caller */
    leave_all();
    here.n = here.n_started = 0;
    caller_leave(take(other));
    for (size_t i = 0; i < TAKES; i++)
        take(many[i % 2]);
    assert_int_equal(callers_running(here.all), SHARE - SHARE / 4);
    caller_call *settles = settle(many[0]);
    assert_int_equal(settles->state, CALL_RUNNING); /* what settles has its part of the share */
    caller_call *of_other = take(other);
    assert_int_equal(of_other->state, CALL_RUNNING);
    caller_leave(of_other);
    assert_int_equal(callers_running(here.all), SHARE);
    here.now_ns += UINT64_C(100) * 1000 * 1000; /* the other is quiet */
    caller_leave(settles);
    assert_int_equal(callers_running(here.all), TAKES);
}

/* promise K19 */
TEST_WITH(a_principal_is_the_owner_wherever_it_calls_from, setup_shares, teardown)
{
    caller *c[] = {connect_of("192.0.2.1"), connect_of("192.0.2.2")}, *other = connect_of("192.0.2.1");
    lks_error error;

    caller_leave(take(other));
    for (size_t i = 0; i < TAKES; i++)
        assert_int_equal(caller_admit(make(c[i % 2]), "somebody", &error), LKS_OK);
    assert_int_equal(callers_running(here.all), SHARE - SHARE / 4);
}

/* promise K19 */
TEST_WITH(connections_of_one_owner_share_a_turn_while_another_calls, setup_short_turns, teardown)
{
    enum { MANY = 20 };
    caller *many[MANY], *other = connect_of("other");
    size_t started[2];

    here.leave_at_once = true;
    for (size_t i = 0; i < MANY; i++)
        many[i] = connect_of("many");
    for (size_t contended = 0; contended < 2; contended++) {
        here.now_ns += UINT64_C(100) * 1000 * 1000;
        here.costs_ns = 0;
        turn();
        if (contended)
            settle(other);
        here.costs_ns = 50 * 1000;
        size_t before = here.n_started;
        for (size_t i = 0; i < MANY; i++)
            settle(many[i]);
        started[contended] = here.n_started - before;
        while (here.n_started < before + MANY)
            turn();
    }
    assert_int_equal(started[0], MANY);
    assert_int_equal(started[1], 4); /* 0.2 ms */
}

/* ---- waiting ---------------------------------------------------------------------- */

/* promise K1 */
TEST(a_parked_call_leaves_its_room_to_others)
{
    caller *c = connect_one();

    for (size_t i = 0; i < WAITING_EACH; i++)
        park_one(c, NULL);
    assert_int_equal(callers_running(here.all), 0);
    assert_int_equal(callers_parked(here.all), WAITING_EACH);
    assert_int_equal(take(c)->state, CALL_RUNNING);
    leave_all();
    assert_int_equal(callers_parked(here.all), 0);
    here.n = 0;
    for (size_t i = 0; i <= TAKES_EACH; i++)
        assert_int_equal(wait_as(c, NULL), LKS_OK);
    assert_int_equal(here.calls[TAKES_EACH].state, CALL_QUEUED);
    caller_park(&here.calls[0]);
    assert_int_equal(here.calls[TAKES_EACH].state, CALL_RUNNING);
}

/* promise K3: waiting has limits of a connection, a principal and the server */
TEST(waiting_has_limits_of_a_connection_a_principal_and_the_server)
{
    caller *a = connect_one(), *b = connect_one(), *c = connect_one();

    for (size_t i = 0; i < WAITING / 2; i++)
        park_one(i % 2 ? a : b, "billing");
    assert_int_equal(wait_as(c, "billing"), LKS_RESOURCE_EXHAUSTED);
    for (size_t i = WAITING / 2; i < WAITING; i++)
        park_one(c, "shop");
    assert_int_equal(wait_as(a, NULL), LKS_RESOURCE_EXHAUSTED);
    leave_all();
    for (size_t i = 0; i < WAITING_EACH; i++)
        park_one(a, NULL);
    assert_int_equal(wait_as(a, NULL), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(wait_as(b, "billing"), LKS_OK);
}

/* promise K4: a woken call runs before calls that take */
TEST(a_woken_call_runs_before_calls_that_take)
{
    caller *c = connect_one();
    caller_call *waiting = park_one(c, NULL);
    fill_room(c);
    size_t started = here.n_started;
    caller_resume(waiting);
    assert_int_equal(waiting->state, CALL_RUNNING);
    assert_int_equal(here.n_started, started + 1);
}

/* ---- loss ------------------------------------------------------------------------- */

/* promise K5 */
TEST(a_lost_connection_takes_its_calls_and_no_others)
{
    caller *gone = connect_one(), *stays = connect_one();

    park_one(gone, NULL);
    fill_room(gone);
    size_t n = here.n;
    take(stays);
    lose(gone);
    assert_int_equal(here.n_abandoned, n);
    assert_int_equal(callers_running(here.all), 1);
    lose(stays);
    assert_int_equal(here.n_abandoned, n + 1);
}

/* The call continues, and the caller stays with it. */
static void on_abandoned_and_continues(caller_call *call)
{
    here.n_abandoned++;
}

/* promise K5 */
TEST(a_lost_connection_starts_nothing_more)
{
    caller *c = connect_one();
    caller_call *running = take(c);
    lks_error error;

    running->ops = &(call_ops){.abandoned = on_abandoned_and_continues};
    lose(c);
    caller_call *late = make(c);
    assert_int_equal(caller_admit(late, NULL, &error), LKS_CANCELLED);
    late->caller = NULL;
    caller_leave(running);
}

/* promise CN6 */
TEST(held_connection_starts_its_calls_when_it_is_freed)
{
    caller *c = connect_one(), *other = connect_one();

    here.leave_at_once = true;
    caller_hold(c, true);
    take(c);
    settle(c);
    take(other);
    turn();
    assert_int_equal(here.n_started, 1);
    assert_int_equal(here.started[0], 2);
    assert_true(caller_queues(c));
    caller_hold(c, false);
    turn();
    assert_int_equal(here.n_started, 3);
    assert_false(caller_queues(c));
    caller_hold(c, true); /* the loss ends its calls */
    take(c);
    lose(c);
    assert_int_equal(here.n_abandoned, 1);
}

/* promise W15 */
TEST(lost_connection_is_not_held)
{
    caller *c = connect_one();
    caller_call *waiting = park_one(c, NULL);
    waiting->ops = &(call_ops){.resume = on_start, .abandoned = caller_resume};
    caller_hold(c, true);
    here.leave_at_once = true;
    lose(c);
    turn();
    assert_int_equal(here.n_started, 2);
    assert_false(callers_any(here.all));
}

TEST_MAIN(.setup = setup, .teardown = teardown)
