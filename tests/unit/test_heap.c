/* The heap of timers against a plain search through all of them. */

#include "base/clock.h"
#include "base/heap.h"
#include "test.h"

enum { TIMERS = 300, STEPS = 20000, MOMENTS = 1000 };

static struct heap heap;
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
    unsigned seed = 20211121;

    assert_null(heap_first(&heap));
    assert_true(heap_next_ns(&heap) == CLOCK_NEVER);
    for (int step = 0; step < STEPS; step++) {
        struct timer *timer = &all[(size_t)rand_r(&seed) % TIMERS];

        assert_true(heap_reserve(&heap, heap.n + 1));
        if (rand_r(&seed) % 3 == 0)
            heap_clear(&heap, timer);
        else
            heap_set(&heap, timer, (uint64_t)rand_r(&seed) % MOMENTS);
        const struct timer *first = heap_first(&heap);
        assert_int_equal(heap_next_ns(&heap), earliest());
        assert_int_equal(first ? first->at_ns : CLOCK_NEVER, earliest());
    }
    while (heap_first(&heap))
        heap_clear(&heap, heap_first(&heap));
    assert_int_equal(heap.n, 0);
    for (size_t i = 0; i < TIMERS; i++)
        assert_int_equal(all[i].place, 0);
    heap_free(&heap);
}

static void count(struct timer *timer)
{
    ran++;
    if (timer->at_ns < last_ns || timer->place != 0)
        ran = SIZE_MAX / 2; /* seen by the assertion below */
    last_ns = timer->at_ns;
    if (timer == &all[0])
        heap_clear(&heap, &all[1]);
}

TEST(due_timers_run_once_in_order)
{
    assert_true(heap_reserve(&heap, TIMERS));
    for (size_t i = 0; i < TIMERS; i++) {
        all[i].due = count;
        heap_set(&heap, &all[i], i + 1);
    }
    heap_set(&heap, &all[TIMERS - 1], CLOCK_NEVER);
    heap_run(&heap);
    assert_int_equal(ran, TIMERS - 2); /* the first clears the second; the last is never due */
    heap_run(&heap);
    assert_int_equal(ran, TIMERS - 2);
    heap_free(&heap);
}

TEST_MAIN()
