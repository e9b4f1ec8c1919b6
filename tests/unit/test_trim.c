/* When freed memory is given back to the system. malloc_trim is the test's own. */
/* promise CN8 */

#include <uv.h>

#include "net/stream/trim.h"
#include "test.h"

enum { MIB = 1 << 20 };

static struct {
    uv_loop_t loop;
    uv_timer_t beat; /* as often as trim looks, and after it */
    budget *all;
    budget_share *share;
    trim *trim;
    unsigned trims, beats_left;
    bool closed;
} here;

int __wrap_malloc_trim(size_t pad);
int __wrap_malloc_trim(size_t pad)
{
    assert_int_equal(pad, 0);
    here.trims++;
    return 1;
}

static void on_beat(uv_timer_t *timer)
{
    if (--here.beats_left == 0)
        uv_timer_stop(timer);
}

static void run_beats(unsigned n)
{
    here.beats_left = n;
    uv_timer_start(&here.beat, on_beat, 1, 1);
    while (here.beats_left > 0)
        uv_run(&here.loop, UV_RUN_ONCE);
}

static int start(void **state)
{
    here.trims = 0;
    here.closed = false;
    here.all = budget_new(64 * MIB);
    here.share = budget_open(here.all);
    uv_loop_init(&here.loop);
    uv_timer_init(&here.loop, &here.beat);
    here.trim = trim_new(&here.loop, here.all, 1);
    return here.trim ? 0 : -1;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static int stop(void **state)
{
    trim_close(here.trim, on_closed, &here.closed);
    uv_close((uv_handle_t *)&here.beat, NULL);
    uv_run(&here.loop, UV_RUN_DEFAULT);
    budget_close(here.share);
    budget_free(here.all);
    return here.closed && uv_loop_close(&here.loop) == 0 ? 0 : -1;
}

TEST(memory_is_given_back_once_after_a_peak)
{
    for (unsigned peak = 1; peak <= 3; peak++) {
        budget_force(here.share, 16 * MIB);
        run_beats(5);
        assert_int_equal(here.trims, peak - 1); /* it is used */
        budget_give(here.share, 16 * MIB);
        run_beats(10);
        assert_int_equal(here.trims, peak);
    }
}

TEST(memory_that_is_soon_used_again_is_kept)
{
    for (int i = 0; i < 30; i++) {
        budget_force(here.share, 16 * MIB);
        run_beats(1);
        budget_give(here.share, 16 * MIB);
    }
    assert_in_range(here.trims, 0, 0);
}

TEST(after_a_small_peak_nothing_is_given_back)
{
    budget_force(here.share, 4 * MIB);
    run_beats(3);
    budget_give(here.share, 4 * MIB);
    run_beats(10);
    assert_int_equal(here.trims, 0);
}

TEST_MAIN(.setup = start, .teardown = stop)
