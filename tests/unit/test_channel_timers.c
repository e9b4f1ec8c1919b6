/* The timers against a plain array that is searched through each time. */

#include "client/clock.h"
#include "client/timers.h"
#include "test.h"

enum { TIMERS = 50, STEPS = 20000 };

static struct timers timers;
static struct timer all[TIMERS];
static size_t ran;
static uint64_t last_ns;

static uint64_t earliest(void)
{
    uint64_t first = CLOCK_NEVER;

    for (size_t i = 0; i < TIMERS; i++)
        if (all[i].place != 0 && all[i].at_ns < first)
            first = all[i].at_ns;
    return first;
}

TEST(the_earliest_is_always_first)
{
    unsigned seed = 1;
    assert_true(timers_init(&timers, TIMERS));
    assert_true(timers_next_ns(&timers) == CLOCK_NEVER);
    for (int step = 0; step < STEPS; step++) {
        struct timer *timer = &all[rand_r(&seed) % TIMERS];

        if (rand_r(&seed) % 3 == 0)
            timers_clear(&timers, timer);
        else
            timers_set(&timers, timer, (uint64_t)rand_r(&seed) % 1000);
        if (timers_next_ns(&timers) != earliest())
            fail_msg("step %d: %llu is first, not %llu", step, (unsigned long long)timers_next_ns(&timers),
                     (unsigned long long)earliest());
    }
    for (size_t i = 0; i < TIMERS; i++)
        timers_clear(&timers, &all[i]);
    assert_true(timers_next_ns(&timers) == CLOCK_NEVER);
    timers_fini(&timers);
}

static void count(struct timer *timer)
{
    ran++;
    if (timer->at_ns < last_ns || timer->place != 0)
        ran = SIZE_MAX / 2; /* seen by the assertion below */
    last_ns = timer->at_ns;
    if (timer == &all[0])
        timers_clear(&timers, &all[1]);
}

TEST(what_is_due_runs_once_in_order)
{
    assert_true(timers_init(&timers, TIMERS));
    for (size_t i = 0; i < TIMERS; i++) {
        all[i].due = count;
        timers_set(&timers, &all[i], i + 1);
    }
    timers_set(&timers, &all[TIMERS - 1], CLOCK_NEVER);
    timers_run(&timers);
    assert_int_equal(ran, TIMERS - 2); /* the first clears the second; the last is never due */
    timers_run(&timers);
    assert_int_equal(ran, TIMERS - 2);
    timers_fini(&timers);
}

TEST_MAIN()
