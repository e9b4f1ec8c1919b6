/* A channel's loop and its guests: threads that do the loop thread's work while that sleeps. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "client/loop/loop.h"
#include "net/clock.h"
#include "support/process.h"
#include "test.h"

static struct loop loop;
static pthread_t thread;
static atomic_int waits, wakes; /* begun, and ended */
static atomic_bool stop;

static void run_nothing(loop_task *self)
{
    (void)self;
}

static loop_task task = {.run = run_nothing};

static void *run_loop(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        atomic_fetch_add(&waits, 1);
        loop_task *first = loop_wait(&loop, heap_next_ns(&loop.timers));
        atomic_fetch_add(&wakes, 1);
        for (loop_task *next; first; first = next) {
            next = first->next;
            first->run(first);
        }
        loop_run_ready(&loop);
        heap_run(&loop.timers);
    }
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    atomic_store(&waits, 0);
    atomic_store(&wakes, 0);
    atomic_store(&stop, false);
    return loop_init(&loop) && heap_reserve(&loop.timers, 4) ? 0 : -1;
}

static void start(void)
{
    assert_int_equal(pthread_create(&thread, NULL, run_loop, NULL), 0);
}

static void run_stop(loop_task *self)
{
    (void)self;
    atomic_store(&stop, true);
}

static int teardown(void **state)
{
    loop_task last = {.run = run_stop};

    (void)state;
    loop_post(&loop, &last);
    pthread_join(thread, NULL);
    loop_fini(&loop);
    return 0;
}

static void enter(void)
{
    while (!loop_enter(&loop))
        process_pause();
}

static void await_flag(const atomic_bool *flag)
{
    while (!atomic_load(flag))
        process_pause();
}

/* ---- what a guest leaves behind ---------------------------------------------------------------- */

static atomic_bool timer_ran;

static void run_due(struct timer *timer)
{
    (void)timer;
    atomic_store(&timer_ran, true);
}

TEST(a_timer_that_a_guest_sets_runs_in_time)
{
    struct timer soon = {.due = run_due};

    start();
    for (int i = 0; i < 3; i++) { /* asleep for ever, then for a while */
        atomic_store(&timer_ran, false);
        enter();
        heap_set(&loop.timers, &soon, clock_in_ms(5));
        loop_leave(&loop, false);
        await_flag(&timer_ran);
    }
}

TEST(a_timer_far_away_wakes_nobody)
{
    struct timer far = {.due = run_due};
    enum { VISITS = 50 };

    start();
    enter();
    heap_set(&loop.timers, &far, clock_in_ms(3600 * 1000));
    loop_leave(&loop, false); /* it slept for ever, and is woken this once */
    while (atomic_load(&waits) < 2)
        process_pause();
    int before = atomic_load(&wakes);
    long long began_ms = process_now_ms();
    for (int i = 0; i < VISITS; i++) {
        enter();
        heap_set(&loop.timers, &far, clock_in_ms((1800 - (uint64_t)i) * 1000)); /* always earlier than before */
        loop_leave(&loop, false);
    }
    assert_true(atomic_load(&wakes) - before <= 1 + (process_now_ms() - began_ms) / 1000); /* once a second by itself */
}

TEST(a_guest_may_leave_work_behind)
{
    start();
    enter();
    int before = atomic_load(&wakes);
    loop_leave(&loop, true);
    while (atomic_load(&wakes) == before)
        process_pause();
}

typedef struct ear {
    loop_source source;
    int ends[2];
    atomic_bool heard;
} ear;

static void run_ready(loop_source *source, short found)
{
    ear *e = (ear *)((char *)source - offsetof(ear, source));
    char byte;

    assert_true(found & POLLIN);
    assert_int_equal(read(source->fd, &byte, 1), 1);
    atomic_store(&e->heard, true);
}

static void open_ear(ear *e)
{
    assert_int_equal(pipe(e->ends), 0);
    e->source = (loop_source){.fd = e->ends[0], .events = POLLIN, .ready = run_ready};
    atomic_store(&e->heard, false);
}

static void close_ear(const ear *e)
{
    close(e->ends[0]);
    close(e->ends[1]);
}

TEST(sources_that_a_guest_adds_changes_and_takes_away)
{
    ear first, second;

    open_ear(&first);
    open_ear(&second);
    start();

    enter();
    assert_true(loop_watch(&loop, &first.source));
    second.source.events = 0;
    assert_true(loop_watch(&loop, &second.source));
    loop_leave(&loop, false);
    assert_int_equal(write(first.ends[1], "x", 1), 1);
    await_flag(&first.heard);

    enter();
    second.source.events = POLLIN;
    loop_leave(&loop, false);
    assert_int_equal(write(second.ends[1], "x", 1), 1);
    await_flag(&second.heard);

    /* What was found of the first is not told of the second, which has taken its place. */
    atomic_store(&second.heard, false);
    enter();
    loop_unwatch(&loop, &first.source);
    assert_int_equal(write(first.ends[1], "x", 1), 1); /* the thread wakes for it, and waits for the guest */
    loop_leave(&loop, false);
    enter();
    loop_leave(&loop, false);
    assert_false(atomic_load(&second.heard));
    assert_int_equal(write(second.ends[1], "x", 1), 1);
    await_flag(&second.heard);

    enter();
    loop_unwatch(&loop, &second.source);
    loop_leave(&loop, false);
    close_ear(&first);
    close_ear(&second);
}

/* ---- who is in --------------------------------------------------------------------------------- */

TEST(one_guest_at_a_time_and_none_where_work_waits)
{
    assert_false(loop_enter(&loop)); /* nobody sleeps */
    start();
    enter();
    assert_false(loop_enter(&loop));
    loop_post(&loop, &task);
    loop_leave(&loop, false);
    enter(); /* when the task has run */
    loop_leave(&loop, false);
}

TEST(the_thread_does_not_wake_before_its_guest_has_left)
{
    start();
    enter();
    int before = atomic_load(&wakes);
    loop_post(&loop, &task);
    for (int i = 0; i < 20; i++) {
        process_pause();
        assert_int_equal(atomic_load(&wakes), before);
    }
    loop_leave(&loop, false);
    while (atomic_load(&wakes) == before)
        process_pause();
}

TEST_MAIN(.setup = setup, .teardown = teardown)
