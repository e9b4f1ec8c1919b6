/* The heap of wakes against a plain search, under a long random mix. */

#include "store/wakes.h"
#include "test.h"

enum { MEMBERS = 300, STEPS = 20000, MOMENTS = 1000 };

static uint64_t earliest(const wake *all)
{
    uint64_t found = UINT64_MAX;

    for (size_t i = 0; i < MEMBERS; i++) {
        if (all[i].place != 0 && all[i].at_ns < found)
            found = all[i].at_ns;
    }
    return found;
}

TEST(the_first_is_always_the_earliest)
{
    static wake all[MEMBERS];
    wakes heap = {0};
    unsigned seed = 20211121;

    for (int step = 0; step < STEPS; step++) {
        wake *w = &all[(size_t)rand_r(&seed) % MEMBERS];
        if (rand_r(&seed) % 3 == 0)
            wakes_remove(&heap, w);
        else
            wakes_set(&heap, w, (uint64_t)rand_r(&seed) % MOMENTS);
        const wake *first = wakes_first(&heap);
        assert_int_equal(first ? first->at_ns : UINT64_MAX, earliest(all));
    }
    while (wakes_first(&heap))
        wakes_remove(&heap, wakes_first(&heap));
    assert_int_equal(heap.n, 0);
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(all[i].place, 0);
    wakes_clear(&heap);
}

TEST_MAIN()
