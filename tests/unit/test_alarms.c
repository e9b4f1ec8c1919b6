/* Alarms on a real loop, over a store of the test's own. */
/* promise L33 */

#include <uv.h>

#include "asked_store.h"
#include "calls/alarms.h"

enum { AT_ONCE = 256, MANY = 20000, LASTING_MAX = 262144, NEVER_MS = 600000 };

/* ---- how much is compared --------------------------------------------------------- */

static size_t compared;

extern int __real_memcmp(const void *a, const void *b, size_t n) __attribute__((visibility("default")));
int __wrap_memcmp(const void *a, const void *b, size_t n) __attribute__((visibility("default")));
int __wrap_memcmp(const void *a, const void *b, size_t n)
{
    compared++;
    return __real_memcmp(a, b, n);
}

/* ---- the fixture ---------------------------------------------------------------- */

static uv_loop_t loop;
static store asked;
static alarms *all;

#define GROUP "ls:{ns/g}:"

static int setup(void **state)
{
    uv_loop_init(&loop);
    asked = (store){.loop = &loop};
    all = alarms_new(&loop, &asked);
    return 0;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* Nothing may leak: the sanitizer reports it. */
static int teardown(void **state)
{
    bool closed = false;

    alarms_close(all, on_closed, &closed);
    while (!closed)
        uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static service_alarm alarm_of(const char *argument, int64_t in_ms, bool lasting)
{
    return (service_alarm){.base = lks_rpc_slice_of(GROUP),
                           .function = lasting ? "expire" : "promote",
                           .argument = lks_rpc_slice_of(argument),
                           .in_ms = in_ms,
                           .lasting = lasting};
}

static void set(const char *argument, int64_t in_ms)
{
    const service_alarm what = alarm_of(argument, in_ms, false);

    alarms_set(all, &what);
}

static void set_lasting(const char *argument, int64_t in_ms)
{
    const service_alarm what = alarm_of(argument, in_ms, true);

    alarms_set(all, &what);
}

static service_watch watch_of(const char *argument)
{
    return (service_watch){
        .base = lks_rpc_slice_of(GROUP), .function = "promote", .argument = lks_rpc_slice_of(argument)};
}

/* A watch that lasts for the test. */
#define WATCH(name, argument)                \
    service_watch name = watch_of(argument); \
    alarms_watch(all, &(name))

/* The store is asked for promote(argument), or expire(argument), and says when to ask again. */
static void rings(const char *argument, const char *reply)
{
    char text[ASKED_TEXT_BYTES];

    snprintf(text, sizeof text, "promote " GROUP " %s", argument);
    asked_expect(&asked, text);
    asked_answer(&asked, reply);
}

static void rings_lasting(const char *argument, const char *reply)
{
    char text[ASKED_TEXT_BYTES];

    snprintf(text, sizeof text, "expire " GROUP " %s", argument);
    asked_expect(&asked, text);
    asked_answer(&asked, reply);
}

/* ---- store calls that have ended ------------------------------------------------- */

static void on_called(void *arg, const store_call *call)
{
    assert_string_equal(call->function, "expire");
    ++*(int *)arg;
}

/* promise S55 */
TEST(callback_runs_after_each_call_even_a_failed_one)
{
    int told = 0;

    alarms_on_call(all, on_called, &told);
    set_lasting("", 0);
    asked_next(&asked);
    assert_int_equal(told, 0);
    rings_lasting("", "OK 1");
    assert_int_equal(told, 1);
    asked_fail(&asked, LKS_INTERNAL);
    assert_int_equal(told, 2);
}

static void on_single_done(void *arg, bool is_done)
{
    *(int *)arg = is_done;
}

/* promise K20 */
TEST(a_single_call_says_whether_it_is_done)
{
    const service_alarm what = alarm_of("x", 0, true);
    static const char *const replies[] = {"OK -1", "OK 5", "=1", NULL};
    int told = 0;

    alarms_on_call(all, on_called, &told);
    for (int i = 0; i < 4; i++) {
        int done = -1;
        alarms_call(all, &what, 7, on_single_done, &done);
        asked_expect(&asked, "expire " GROUP " x");
        assert_int_equal(asked.asked[i].call->weight, 7);
        if (replies[i])
            asked_answer(&asked, replies[i]);
        else
            asked_fail(&asked, LKS_UNAVAILABLE);
        assert_int_equal(done, i == 0);
        assert_int_equal(told, i + 1);
    }
}

/* ---- watched alarms --------------------------------------------------------------- */

TEST(alarm_asks_the_store_until_the_answer_is_never)
{
    WATCH(w, "the%20name");
    set("the%20name", 1);
    rings("the%20name", "OK 1");
    rings("the%20name", "OK -1");
    asked_expect_none(&asked);
    set("the%20name", 0); /* it is still watched */
    rings("the%20name", "OK -1");
    alarms_unwatch(all, &w.as);
}

TEST(earliest_time_counts_and_minus_one_means_none)
{
    static const int64_t times[] = {-1, NEVER_MS, 1, NEVER_MS, -1};
    WATCH(w, "x");

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        set("x", times[i]);
    set_lasting("x", -1);
    rings("x", "OK -1");
    asked_expect_none(&asked);
    alarms_unwatch(all, &w.as);
}

TEST(time_set_during_a_call_asks_again)
{
    WATCH(w, "x");
    set("x", 0);
    asked_next(&asked);
    set("x", 0);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(asked.n, 1);
    rings("x", "OK -1");
    assert_int_equal(asked.n, 2);
    rings("x", "OK -1");
    alarms_unwatch(all, &w.as);
}

TEST(unwatched_alarm_is_not_asked)
{
    WATCH(w, "x");
    WATCH(other, "y");
    set("x", 1);
    alarms_unwatch(all, &w.as);
    set("x", 0);
    set("nobody", 0);
    set("y", 2);
    asked_expect(&asked, "promote " GROUP " y");
    alarms_unwatch(all, &other.as);
    set("y", 0);
    rings("y", "OK 0"); /* the call is still open, and its reply has no watcher */
    asked_expect_none(&asked);
}

/* promise L54: alarms and waiters are found in constant time; an alarm ends with its last watcher; of many due alarms
 * 256 are asked at a time; at the limit of lasting alarms existing ones still move */
TEST(alarm_ends_with_its_last_watcher)
{
    WATCH(a, "x");
    WATCH(b, "x");
    alarms_unwatch(all, &a.as);
    set("x", 0);
    rings("x", "OK 600000");
    alarms_unwatch(all, &b.as);
}

TEST(a_call_watches_all_that_it_waits_for)
{
    service_watch b = watch_of("b"), a = watch_of("a");

    a.next = &b;
    alarms_watch(all, &a);
    set("b", 0);
    rings("b", "OK -1");
    set("a", 0);
    rings("a", "OK -1");
    alarms_unwatch(all, &a.as);
}

/* The comparisons that setting one of n alarms takes. */
static size_t compared_among(size_t n)
{
    service_watch *watches = calloc(n, sizeof *watches);
    char(*names)[32] = calloc(n, sizeof *names);

    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        watches[i] = watch_of(names[i]);
        alarms_watch(all, &watches[i]);
    }
    compared = 0;
    set("n5", NEVER_MS);
    size_t spent = compared;
    for (size_t i = 0; i < n; i++)
        alarms_unwatch(all, &watches[i].as);
    free(names);
    free(watches);
    return spent;
}

/* promise L54 */
TEST(an_alarm_is_found_among_many_as_among_few)
{
    assert_int_equal(compared_among(10), 1);
    assert_int_equal(compared_among(MANY), 1);
}

/* ---- lasting alarms ----------------------------------------------------------------- */

TEST(lasting_alarm_runs_without_watchers)
{
    set_lasting("", 1);
    rings_lasting("", "OK 1");
    rings_lasting("", "OK -1");
    asked_expect_none(&asked);
}

/* At their limit there is no new one, but each that there is may still move. */
/* promise L54 */
TEST(a_lasting_alarm_moves_earlier_also_at_the_limit)
{
    char name[32];

    for (size_t i = 0; i < LASTING_MAX; i++) {
        snprintf(name, sizeof name, "n%zu", i);
        set_lasting(name, NEVER_MS);
    }
    set_lasting("one more", 0);
    set_lasting("n7", 0);
    rings_lasting("n7", "OK -1");
    set_lasting("one more", 0); /* there is room for it now; teardown frees the others */
    rings_lasting("one more", "OK -1");
}

/* Callers' calls find the store free between them. */
/* promise L54 */
TEST(of_many_that_ring_at_once_some_are_asked_at_a_time)
{
    char text[24];

    for (int i = 0; i < AT_ONCE + 3; i++) {
        snprintf(text, sizeof text, "%d", i);
        set_lasting(text, 0);
    }
    WATCH(gone, "watched");
    set("watched", 0);
    while (asked.n < AT_ONCE)
        uv_run(&loop, UV_RUN_DEFAULT);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(asked.n, AT_ONCE);
    alarms_unwatch(all, &gone.as); /* it has no watcher any more */
    for (int i = 0; i < AT_ONCE + 3; i++) {
        snprintf(text, sizeof text, "%d", i);
        rings_lasting(text, "OK -1"); /* in order */
    }
}

/* promise L52 */
TEST(lasting_alarm_is_retried_until_an_answer_or_a_final_refusal)
{
    static const lks_code transient[] = {LKS_UNAVAILABLE, LKS_DEADLINE_EXCEEDED};

    for (size_t refused = 0; refused < 2; refused++) {
        set_lasting("token", 0);
        for (size_t i = 0; i < 2; i++) {
            asked_expect(&asked, "expire " GROUP " token");
            asked_fail(&asked, transient[i]);
        }
        if (refused)
            asked_fail(&asked, LKS_FAILED_PRECONDITION);
        else
            asked_answer(&asked, "OK -1");
        uv_run(&loop, UV_RUN_DEFAULT); /* returns when no timer runs */
        asked_expect_none(&asked);
    }
}

TEST(lasting_alarm_outlives_its_watchers)
{
    service_watch w = watch_of("x");

    w.function = "expire";
    alarms_watch(all, &w);
    set_lasting("x", 1);
    alarms_unwatch(all, &w.as);
    rings_lasting("x", "OK -1");
}

/* The reply was made before what set the lasting alarm again. */
TEST(a_lasting_alarm_set_while_asking_is_kept)
{
    set_lasting("", 0);
    asked_next(&asked);
    set_lasting("", 1);
    rings_lasting("", "OK -1");
    rings_lasting("", "OK -1");
}

TEST(a_stopping_server_has_no_lasting_alarms)
{
    set_lasting("", 0);
    alarms_stop(all);
    set_lasting("", 0);
    asked_expect_none(&asked);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
