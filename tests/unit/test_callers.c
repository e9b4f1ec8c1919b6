/* Room for calls: who runs, who queues, who waits, and whose calls a lost connection
 * takes with it. */

#include <uv.h>

#include "base/clock.h"
#include "calls/callers.h"
#include "test.h"

enum { RUNNING = 8, EACH = 4, WAITING = 8, WAITING_EACH = 6, CALLS_MAX = 400, SHARE = 4 };
#define TAKES_EACH (EACH - EACH / 4) /* and so many that settle */
#define TAKES (RUNNING - RUNNING / 4)

typedef struct fixture {
    uv_loop_t loop;
    callers *all;
    budget *budget;
    caller_call calls[CALLS_MAX];
    size_t n;
    size_t started[CALLS_MAX]; /* numbers of calls, as they started */
    size_t n_started;
    size_t n_abandoned, n_rooms;
    bool leave_at_once; /* a call that starts is over */
    uint64_t now_ns;
    uint64_t costs_ns; /* what starting one takes */
    bool closed;
    uv_async_t alive;
} fixture;

static fixture *here;

uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
    return here->now_ns++;
}

static void on_start(caller_call *call)
{
    here->started[here->n_started++] = (size_t)(call - here->calls);
    here->now_ns += here->costs_ns;
    if (here->leave_at_once)
        caller_leave(call);
}

static void on_abandoned(caller_call *call)
{
    here->n_abandoned++;
    caller_leave(call);
}

static const call_ops ops = {on_start, on_start, on_abandoned};

static void on_room(void *arg)
{
    assert_ptr_equal(arg, here);
    here->n_rooms++;
}

static int setup_with(void **state, uint64_t turn_ns, uint64_t stall_ns, uint32_t waiting_per_caller, uint32_t share)
{
    const callers_options options = {.running_max = RUNNING,
                                     .running_per_caller = EACH,
                                     .running_per_owner = share,
                                     .waiting_max = WAITING,
                                     .waiting_per_caller = waiting_per_caller,
                                     .turn_ns = turn_ns,
                                     .stall_ns = stall_ns};
    lks_error error;

    here = calloc(1, sizeof *here);
    here->now_ns = UINT64_C(1) << 40;
    uv_loop_init(&here->loop);
    callers_options given = options;
    given.loop = &here->loop;
    here->budget = budget_new(1 << 20);
    *state = here;
    return callers_new(&given, &here->all, &error) == LKS_OK ? 0 : -1;
}

/* A turn is long enough, and nothing stalls. */
static int setup(void **state)
{
    return setup_with(state, UINT64_MAX, UINT64_MAX, WAITING_EACH, 0);
}

static int setup_short_turns(void **state)
{
    int failed = setup_with(state, 0, UINT64_MAX, CALLS_MAX, 0);

    uv_async_init(&here->loop, &here->alive, NULL); /* a loop without handles has no turns */
    return failed;
}

static int setup_stalling(void **state)
{
    return setup_with(state, UINT64_MAX, 1, WAITING_EACH, 0);
}

static void on_closed(void *arg)
{
    ((fixture *)arg)->closed = true;
}

static int teardown(void **state)
{
    fixture *f = *state;
    size_t running = callers_running(f->all) + callers_parked(f->all);

    callers_close(f->all, on_closed, f);
    if (f->alive.loop)
        uv_close((uv_handle_t *)&f->alive, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    budget_free(f->budget);
    int failed = !f->closed || running > 0 || uv_loop_close(&f->loop) != 0;
    free(f);
    return failed;
}

static caller *connect_one(fixture *f)
{
    return caller_new(f->all, budget_open(f->budget), on_room, f);
}

static caller *connect_of(fixture *f, const char *owner)
{
    caller *c = connect_one(f);

    caller_set_owner(c, owner);
    return c;
}

static void lose(caller *c)
{
    budget_share *bytes = caller_bytes(c);

    caller_lost(c);
    budget_close(bytes);
}

static caller_call *make(fixture *f, caller *c)
{
    caller_call *call = &f->calls[f->n++];

    *call = (caller_call){.caller = c, .ops = &ops};
    return call;
}

static caller_call *take(fixture *f, caller *c)
{
    caller_call *call = make(f, c);
    lks_error error;

    assert_int_equal(caller_admit(call, NULL, &error), LKS_OK);
    return call;
}

static caller_call *settle(fixture *f, caller *c)
{
    caller_call *call = make(f, c);
    lks_error error;

    call->settles = true;
    assert_int_equal(caller_admit(call, NULL, &error), LKS_OK);
    return call;
}

static lks_code wait_as(fixture *f, caller *c, const char *principal, caller_call **ret)
{
    caller_call *call = make(f, c);
    lks_error error = {0};

    call->waits = true;
    lks_code code = caller_admit(call, principal, &error);
    if (code != LKS_OK) {
        f->n--;
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        assert_true(error.retry_after_ms > 0);
        assert_non_null(strstr(error.message, "wait"));
    }
    if (ret)
        *ret = call;
    return code;
}

static void turn(fixture *f)
{
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void leave_all(fixture *f)
{
    for (size_t i = 0; i < f->n; i++)
        caller_leave(&f->calls[i]);
}

/* ---- running ---------------------------------------------------------------------- */

/* promise W11 */
TEST(a_connection_runs_so_many_and_the_rest_queue_in_order)
{
    fixture *f = *state;
    caller *c = connect_one(f);

    for (size_t i = 0; i < 2 * EACH; i++)
        take(f, c);
    assert_int_equal(f->n_started, TAKES_EACH);
    assert_true(caller_queues(c));
    caller_leave(&f->calls[1]);
    assert_int_equal(f->n_started, TAKES_EACH + 1);
    assert_int_equal(f->started[TAKES_EACH], TAKES_EACH);
    leave_all(f);
    assert_false(caller_queues(c));
    lose(c);
}

/* promise K2 */
TEST(a_call_that_settles_finds_room_when_others_do_not)
{
    fixture *f = *state;
    caller *a = connect_one(f), *b = connect_one(f), *c = connect_one(f);

    while (!caller_queues(a))
        take(f, a);
    settle(f, a); /* the connection's own room */
    assert_int_equal(f->n_started, EACH);
    while (!caller_queues(b))
        take(f, b);
    take(f, c);
    assert_int_equal(f->n_started, TAKES + 1);
    settle(f, c); /* the server's */
    assert_int_equal(f->n_started, RUNNING);
    assert_int_equal(callers_running(f->all), RUNNING);
    leave_all(f);
    lose(a);
    lose(b);
    lose(c);
}

/* promise K2 */
TEST(what_settles_starts_before_what_takes)
{
    fixture *f = *state;
    caller *c = connect_one(f);

    for (size_t i = 0; i < TAKES_EACH; i++)
        settle(f, c);
    for (size_t i = TAKES_EACH; i <= EACH; i++)
        take(f, c);
    caller_call *late = settle(f, c);
    assert_int_equal(f->n_started, EACH);
    caller_leave(&f->calls[0]);
    assert_int_equal(f->n_started, EACH + 1);
    assert_ptr_equal(&f->calls[f->started[EACH]], late);
    leave_all(f);
    lose(c);
}

/* However many settle, what takes goes on. */
/* promise K2 */
TEST(calls_that_settle_leave_room_to_those_that_take)
{
    fixture *f = *state;
    caller *a = connect_one(f), *b = connect_one(f), *c = connect_one(f);

    for (size_t i = 0; i < 2 * EACH; i++) {
        settle(f, a);
        settle(f, b);
        settle(f, c);
    }
    assert_int_equal(f->n_started, TAKES);
    assert_int_equal(take(f, c)->state, CALL_RUNNING);
    assert_int_equal(take(f, a)->state, CALL_RUNNING);
    caller_call *next = take(f, b);
    assert_int_equal(next->state, CALL_QUEUED);
    caller_leave(&f->calls[0]); /* one that settles takes its place */
    assert_int_equal(next->state, CALL_QUEUED);
    for (size_t i = 0; i < f->n - 1 && next->state == CALL_QUEUED; i++)
        if (f->calls[i].state == CALL_RUNNING && !f->calls[i].settles)
            caller_leave(&f->calls[i]);
    assert_int_equal(next->state, CALL_RUNNING);
    leave_all(f);
    lose(a);
    lose(b);
    lose(c);
}

/* promise W11 */
TEST(connections_take_turns)
{
    fixture *f = *state;
    caller *full[] = {connect_one(f), connect_one(f)}, *greedy = connect_one(f), *modest = connect_one(f);

    for (size_t i = 0; i < TAKES; i++)
        take(f, full[i % 2]);
    assert_int_equal(f->n_started, TAKES);
    caller_call *first = take(f, greedy), *second = take(f, greedy), *one = take(f, modest);
    caller_leave(&f->calls[0]);
    assert_int_equal(first->state, CALL_RUNNING);
    caller_leave(&f->calls[1]);
    assert_int_equal(one->state, CALL_RUNNING);
    assert_int_equal(second->state, CALL_QUEUED);
    leave_all(f);
    lose(full[0]);
    lose(full[1]);
    lose(greedy);
    lose(modest);
}

/* promise W11 */
/* promise K19 */
TEST(too_many_that_queue_are_refused)
{
    fixture *f = *state;
    caller *c[20];
    lks_error error = {0};
    size_t refused = 0;

    for (size_t i = 0; i < 20; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        c[i] = connect_of(f, name);
    }
    for (size_t i = 0; i < CALLS_MAX / 2 && refused == 0; i++) {
        caller_call *call = make(f, c[i % 20]);
        if (caller_admit(call, NULL, &error) != LKS_OK) {
            call->caller = NULL;
            refused++;
        }
    }
    assert_int_equal(refused, 1);
    assert_int_equal(f->n - 1, TAKES + 16 * RUNNING);
    assert_int_equal(error.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_true(error.retry_after_ms > 0);
    settle(f, c[0]); /* never refused for that */
    leave_all(f);
    for (size_t i = 0; i < 20; i++)
        lose(c[i]);
}

/* promise K11 */
TEST(calls_that_settle_are_refused_for_those_of_their_own_connection_only)
{
    fixture *f = *state;
    caller *c = connect_one(f), *other = connect_one(f);
    lks_error error = {0};

    for (size_t i = 0; i < TAKES_EACH + 4 * EACH + WAITING_EACH; i++)
        settle(f, c);
    caller_call *call = make(f, c);
    call->settles = true;
    assert_int_equal(caller_admit(call, NULL, &error), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_true(error.retry_after_ms > 0);
    call->caller = NULL;
    settle(f, other);
    leave_all(f);
    lose(c);
    lose(other);
}

TEST(whoever_queued_is_told_when_there_is_room_again)
{
    fixture *f = *state;
    caller *c = connect_one(f);

    for (size_t i = 0; i <= TAKES_EACH; i++)
        take(f, c);
    assert_true(caller_queues(c));
    assert_int_equal(f->n_rooms, 0);
    caller_leave(&f->calls[0]);
    assert_int_equal(f->n_rooms, 1);
    leave_all(f);
    lose(c);
}

/* ---- overload --------------------------------------------------------------------- */

enum { PACE_MS = 1 }; /* at least, from one start to the next */
#define SOON(ms) (clock_now_ns() + (uint64_t)(ms)*1000000)

/* So many of a caller's calls begin from its queue, each when the one before it is over. */
static void pass(fixture *f, size_t first, size_t n)
{
    f->costs_ns = PACE_MS * 1100000;
    for (size_t i = first; i < first + n; i++) {
        caller_leave(&f->calls[i]);
        turn(f);
    }
    f->costs_ns = 0;
}

/* promise K14: a call that takes and would queue for too long is refused at once, before its request is read, with
 * the time after which to come again; one that settles is not */
TEST(a_call_that_would_queue_for_too_long_is_refused_at_once)
{
    enum { QUEUED = 60, PASSED = 40 };
    fixture *f = *state;
    caller *c = connect_one(f), *other = connect_one(f);
    lks_error error = {0};

    for (size_t i = 0; i < TAKES_EACH + QUEUED; i++)
        take(f, c);
    assert_int_equal(caller_foresee(c, SOON(0), &error), LKS_OK); /* how long is not known */
    pass(f, 0, PASSED);
    assert_int_equal(caller_foresee(c, SOON((QUEUED - PASSED) * PACE_MS * 4 - 1), &error), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_in_range(error.retry_after_ms, 100, 1000 * QUEUED);
    assert_int_equal(caller_foresee(c, SOON(3600 * 1000), &error), LKS_OK);
    /* Nothing of the other's queues, so it is next. */
    assert_int_equal(caller_foresee(other, SOON(1), &error), LKS_OK);
    leave_all(f);
    assert_int_equal(caller_foresee(c, SOON(0), &error), LKS_OK);
    lose(c);
    lose(other);
}

/* Callers take turns: of many, each begins one call in a round of all. */
/* promise K14 */
TEST(a_queue_takes_longer_with_more_callers)
{
    enum { CALLERS = 8, QUEUED = 3, MANY = 60, PASSED = 40 };
    fixture *f = *state;
    caller *c = connect_one(f), *others[CALLERS];
    lks_error error = {0};

    for (size_t i = 0; i < TAKES_EACH + PASSED + QUEUED; i++)
        take(f, c);
    pass(f, 0, PASSED);
    uint64_t deadline_ns = SOON(QUEUED * CALLERS * PACE_MS * 4 - 1);
    for (size_t i = 0; i < CALLERS; i++) {
        others[i] = connect_one(f);
        for (size_t k = 0; k < MANY / CALLERS; k++)
            take(f, others[i]);
    }
    assert_int_equal(caller_foresee(c, deadline_ns, &error), LKS_RESOURCE_EXHAUSTED);
    leave_all(f);
    lose(c);
    for (size_t i = 0; i < CALLERS; i++)
        lose(others[i]);
}

/* What is not read ages where nobody can refuse it. */
/* promise K15: a connection whose calls queue for long, or stand still, is read on */
TEST(a_connection_whose_calls_queue_for_long_is_read_on)
{
    enum { QUEUED = 60, PASSED = 40 };
    fixture *f = *state;
    caller *c = connect_one(f);

    for (size_t i = 0; i < TAKES_EACH + QUEUED; i++)
        take(f, c);
    assert_true(caller_queues(c));
    pass(f, 0, PASSED);
    assert_false(caller_queues(c));
    assert_true(f->n_rooms > 0);
    leave_all(f);
    lose(c);
}

/* The store does not answer: nobody knows how long that will last. */
/* promise K15 */
TEST_WITH(a_connection_whose_queue_stands_still_is_read_on, setup_stalling, teardown)
{
    fixture *f = *state;
    caller *c = connect_one(f);

    for (size_t i = 0; i < TAKES_EACH + 2; i++)
        take(f, c);
    while (f->n_rooms == 0)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_false(caller_queues(c));
    caller_hold(c, true); /* what it does not take of its answers is another reason to wait */
    assert_true(caller_queues(c));
    leave_all(f);
    lose(c);
}

/* What one connection starts in a turn of the loop has a limit in time; then it is the
 * others' turn, and it goes on in the next. */
/* Each of them alone would have time for one in each turn. */
/* promise K13 */
TEST_WITH(costly_connections_share_a_turn, setup_short_turns, teardown)
{
    enum { COSTLY = 20 };
    fixture *f = *state;
    caller *costly[COSTLY];

    f->leave_at_once = true;
    f->costs_ns = 400 * 1000;
    turn(f);
    for (size_t i = 0; i < COSTLY; i++)
        settle(f, costly[i] = connect_one(f));
    assert_int_equal(f->n_started, COSTLY); /* nothing was known of them */
    turn(f);
    for (size_t i = 0; i < COSTLY; i++)
        settle(f, costly[i]);
    assert_true(f->n_started < COSTLY + 5);
    caller *other = connect_one(f);
    size_t started = f->n_started;
    settle(f, other);
    assert_true(f->n_started > started);
    assert_int_equal(f->started[started], 2 * COSTLY);
    assert_true(f->n_started < started + 5); /* what queues has a turn's time, too */
    for (size_t turns = 0; turns < 200 && f->n_started < 2 * COSTLY + 1; turns++)
        turn(f);
    assert_int_equal(f->n_started, 2 * COSTLY + 1);
    for (size_t i = 0; i < COSTLY; i++)
        lose(costly[i]);
    lose(other);
}

/* While somebody else has calls they have less of a turn than among themselves. */
/* promise K13: connections whose calls are costly to start share one turn of the loop, a short one while others have
 * calls; others start theirs at once */
TEST_WITH(costly_connections_give_way, setup_short_turns, teardown)
{
    fixture *f = *state;
    caller *costly = connect_one(f), *light = connect_one(f);
    const uint64_t costs_ns = 100 * 1000;
    size_t in_a_turn[2];

    f->leave_at_once = true;
    for (size_t alone = 0; alone < 2; alone++) {
        f->costs_ns = 0;
        turn(f);
        settle(f, light);
        f->now_ns += alone * 100 * 1000 * 1000;
        f->costs_ns = costs_ns;
        for (size_t i = 0; i < 50; i++)
            settle(f, costly);
        size_t before = f->n_started;
        turn(f);
        in_a_turn[alone] = f->n_started - before;
        while (caller_queues(costly))
            turn(f);
    }
    assert_int_equal(in_a_turn[0], 2);
    assert_int_equal(in_a_turn[1], 10);
    lose(costly);
    lose(light);
}

/* promise W11 */
TEST_WITH(a_turn_of_the_loop_is_shared, setup_short_turns, teardown)
{
    fixture *f = *state;
    caller *c = connect_one(f);

    f->leave_at_once = true;
    f->costs_ns = 100 * 1000;
    turn(f);
    for (size_t i = 0; i < 100; i++)
        settle(f, c);
    assert_true(f->n_started < 10);
    assert_true(caller_queues(c));
    for (size_t turns = 0; turns < 200 && f->n_started < 100; turns++)
        turn(f);
    assert_int_equal(f->n_started, 100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(f->started[i], i);
    lose(c);
}

/* ---- owners ------------------------------------------------------------------------ */

/* promise K19 */
TEST(owners_take_turns_before_their_connections)
{
    fixture *f = *state;
    caller *full[] = {connect_one(f), connect_one(f)};
    caller *many[] = {connect_of(f, "many"), connect_of(f, "many"), connect_of(f, "many")}, *one = connect_of(f, "one");
    caller_call *of_many[6], *of_one[2];

    for (size_t i = 0; i < TAKES; i++)
        take(f, full[i % 2]);
    for (size_t i = 0; i < 6; i++)
        of_many[i] = take(f, many[i % 3]);
    for (size_t i = 0; i < 2; i++)
        of_one[i] = take(f, one);
    for (size_t i = 0; i < 4; i++)
        caller_leave(&f->calls[i]);
    assert_int_equal(of_many[0]->state, CALL_RUNNING);
    assert_int_equal(of_one[0]->state, CALL_RUNNING);
    assert_int_equal(of_many[1]->state, CALL_RUNNING);
    assert_int_equal(of_one[1]->state, CALL_RUNNING);
    assert_int_equal(of_many[2]->state, CALL_QUEUED);
    leave_all(f);
    lose(full[0]);
    lose(full[1]);
    lose(one);
    for (size_t i = 0; i < 3; i++)
        lose(many[i]);
}

static int setup_shares(void **state)
{
    return setup_with(state, UINT64_MAX, UINT64_MAX, WAITING_EACH, SHARE);
}

/* promise K19: an owner, which is a principal or an unknown caller's address, has a share of what runs and of a turn
 * while another calls, and a share of the queue, however many connections it has */
TEST_WITH(an_owner_has_a_share_while_another_calls, setup_shares, teardown)
{
    fixture *f = *state;
    caller *many[] = {connect_of(f, "many"), connect_of(f, "many")}, *other = connect_of(f, "other");

    for (size_t i = 0; i < TAKES; i++)
        assert_int_equal(take(f, many[i % 2])->state, CALL_RUNNING); /* nobody else calls */
    leave_all(f);
    f->n = f->n_started = 0;
    caller_leave(take(f, other));
    for (size_t i = 0; i < TAKES; i++)
        take(f, many[i % 2]);
    assert_int_equal(callers_running(f->all), SHARE - SHARE / 4);
    caller_call *settles = settle(f, many[0]);
    assert_int_equal(settles->state, CALL_RUNNING); /* what settles has its part of the share */
    caller_call *of_other = take(f, other);
    assert_int_equal(of_other->state, CALL_RUNNING);
    caller_leave(of_other);
    assert_int_equal(callers_running(f->all), SHARE);
    f->now_ns += UINT64_C(100) * 1000 * 1000; /* the other is quiet */
    caller_leave(settles);
    assert_int_equal(callers_running(f->all), TAKES);
    leave_all(f);
    lose(many[0]);
    lose(many[1]);
    lose(other);
}

/* Before a call of it was admitted a connection is its address'. */
/* promise K19 */
TEST_WITH(a_principal_is_the_owner_wherever_it_calls_from, setup_shares, teardown)
{
    fixture *f = *state;
    caller *c[] = {connect_of(f, "192.0.2.1"), connect_of(f, "192.0.2.2")}, *other = connect_of(f, "192.0.2.1");
    lks_error error;

    caller_leave(take(f, other));
    for (size_t i = 0; i < TAKES; i++)
        assert_int_equal(caller_admit(make(f, c[i % 2]), "somebody", &error), LKS_OK);
    assert_int_equal(callers_running(f->all), SHARE - SHARE / 4);
    leave_all(f);
    lose(c[0]);
    lose(c[1]);
    lose(other);
}

/* promise K19 */
TEST_WITH(connections_of_one_owner_share_a_turn_while_another_calls, setup_short_turns, teardown)
{
    enum { MANY = 20 };
    fixture *f = *state;
    caller *many[MANY], *other = connect_of(f, "other");
    size_t started[2];

    f->leave_at_once = true;
    for (size_t i = 0; i < MANY; i++)
        many[i] = connect_of(f, "many");
    for (size_t contended = 0; contended < 2; contended++) {
        f->now_ns += UINT64_C(100) * 1000 * 1000;
        f->costs_ns = 0;
        turn(f);
        if (contended)
            settle(f, other);
        f->costs_ns = 50 * 1000;
        size_t before = f->n_started;
        for (size_t i = 0; i < MANY; i++)
            settle(f, many[i]);
        started[contended] = f->n_started - before;
        while (f->n_started < before + MANY)
            turn(f);
    }
    assert_int_equal(started[0], MANY);
    assert_int_equal(started[1], 4); /* 0.2 ms */
    for (size_t i = 0; i < MANY; i++)
        lose(many[i]);
    lose(other);
}

/* ---- waiting ---------------------------------------------------------------------- */

/* promise K1 */
TEST(a_parked_call_takes_no_room_to_run)
{
    fixture *f = *state;
    caller *c = connect_one(f);
    caller_call *waiting;

    for (size_t i = 0; i < WAITING_EACH; i++) {
        assert_int_equal(wait_as(f, c, NULL, &waiting), LKS_OK);
        assert_int_equal(waiting->state, CALL_RUNNING);
        caller_park(waiting);
    }
    assert_int_equal(callers_running(f->all), 0);
    assert_int_equal(callers_parked(f->all), WAITING_EACH);
    assert_int_equal(take(f, c)->state, CALL_RUNNING);
    leave_all(f);
    assert_int_equal(callers_parked(f->all), 0);
    lose(c);
}

/* promise K1 */
TEST(parking_makes_room)
{
    fixture *f = *state;
    caller *c = connect_one(f);
    caller_call *waiting[TAKES_EACH + 1];

    for (size_t i = 0; i <= TAKES_EACH; i++)
        assert_int_equal(wait_as(f, c, NULL, &waiting[i]), LKS_OK);
    assert_int_equal(waiting[TAKES_EACH]->state, CALL_QUEUED);
    caller_park(waiting[0]);
    assert_int_equal(waiting[TAKES_EACH]->state, CALL_RUNNING);
    leave_all(f);
    lose(c);
}

/* promise K3: waiting has limits of a connection, a principal and the server */
TEST(waiting_has_limits_of_a_connection_a_principal_and_the_server)
{
    fixture *f = *state;
    caller *a = connect_one(f), *b = connect_one(f), *c = connect_one(f);

    for (size_t i = 0; i < WAITING / 2; i++) {
        caller_call *call;
        assert_int_equal(wait_as(f, i % 2 ? a : b, "billing", &call), LKS_OK);
        caller_park(call);
    }
    assert_int_equal(wait_as(f, c, "billing", NULL), LKS_RESOURCE_EXHAUSTED);
    for (size_t i = WAITING / 2; i < WAITING; i++) {
        caller_call *call;
        assert_int_equal(wait_as(f, c, "shop", &call), LKS_OK);
        caller_park(call);
    }
    assert_int_equal(wait_as(f, a, NULL, NULL), LKS_RESOURCE_EXHAUSTED);
    leave_all(f);
    for (size_t i = 0; i < WAITING_EACH; i++) {
        caller_call *call;
        assert_int_equal(wait_as(f, a, NULL, &call), LKS_OK);
        caller_park(call);
    }
    assert_int_equal(wait_as(f, a, NULL, NULL), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(wait_as(f, b, "billing", NULL), LKS_OK);
    leave_all(f);
    lose(a);
    lose(b);
    lose(c);
}

/* promise K4: a call that was woken runs before calls that take */
TEST(a_woken_call_runs_before_calls_that_take)
{
    fixture *f = *state;
    caller *c = connect_one(f);
    caller_call *waiting;

    assert_int_equal(wait_as(f, c, NULL, &waiting), LKS_OK);
    caller_park(waiting);
    while (!caller_queues(c))
        take(f, c);
    size_t started = f->n_started;
    caller_resume(waiting);
    assert_int_equal(waiting->state, CALL_RUNNING);
    assert_int_equal(f->n_started, started + 1);
    leave_all(f);
    lose(c);
}

/* ---- loss ------------------------------------------------------------------------- */

/* promise K5 */
TEST(a_lost_connection_takes_its_calls_and_no_others)
{
    fixture *f = *state;
    caller *gone = connect_one(f), *stays = connect_one(f);
    caller_call *waiting;
    lks_error error;

    assert_int_equal(wait_as(f, gone, NULL, &waiting), LKS_OK);
    caller_park(waiting);
    while (!caller_queues(gone))
        take(f, gone);
    size_t n = f->n;
    take(f, stays);
    lose(gone);
    assert_int_equal(f->n_abandoned, n);
    assert_int_equal(callers_running(f->all), 1);
    lose(stays);
    assert_int_equal(f->n_abandoned, n + 1);
    (void)error;
}

/* The call goes on, and the caller with it. */
static void on_abandoned_and_goes_on(caller_call *call)
{
    (void)call;
    here->n_abandoned++;
}

/* promise K5 */
TEST(a_lost_connection_starts_nothing_more)
{
    fixture *f = *state;
    caller *c = connect_one(f);
    caller_call *running = take(f, c);
    lks_error error;

    running->ops = &(call_ops){.abandoned = on_abandoned_and_goes_on};
    lose(c);
    assert_true(caller_is_lost(c));
    caller_call *late = make(f, c);
    assert_int_equal(caller_admit(late, NULL, &error), LKS_CANCELLED);
    late->caller = NULL;
    caller_leave(running);
}

/* promise CN6 */
TEST(who_is_held_starts_nothing_and_then_all)
{
    fixture *f = *state;
    caller *c = connect_one(f), *other = connect_one(f);

    f->leave_at_once = true;
    caller_hold(c, true);
    take(f, c);
    make(f, c)->settles = true;
    lks_error error;
    assert_int_equal(caller_admit(&f->calls[1], NULL, &error), LKS_OK);
    take(f, other);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->n_started, 1);
    assert_int_equal(f->started[0], 2);
    assert_true(caller_queues(c));
    caller_hold(c, false);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->n_started, 3);
    assert_false(caller_queues(c));
    /* Who is lost meanwhile takes its calls along. */
    caller_hold(c, true);
    take(f, c);
    lose(c);
    assert_int_equal(f->n_abandoned, 1);
    lose(other);
}

/* A call that waited is woken by the loss, and has to end: there is no output any more that could be taken. */
/* promise W15 */
TEST(who_is_lost_is_held_no_more)
{
    fixture *f = *state;
    caller *c = connect_one(f);
    caller_call *waiting;

    f->leave_at_once = false;
    assert_int_equal(wait_as(f, c, NULL, &waiting), LKS_OK);
    caller_park(waiting);
    waiting->ops = &(call_ops){.resume = on_start, .abandoned = caller_resume};
    caller_hold(c, true);
    f->leave_at_once = true;
    lose(c);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->n_started, 2);
    assert_false(callers_any(f->all));
}

TEST_MAIN(.setup = setup, .teardown = teardown)
