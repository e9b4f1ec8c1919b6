/* Alarms on a real loop, over a store of the test's own. */
/* promise L33 */

#include <uv.h>

#include "calls/alarms.h"
#include "test.h"

enum { ASKED_MAX = 600, AT_ONCE = 256, MANY = 20000, LASTING_MAX = 262144, NEVER_MS = 600000 };

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
    const store_value elements[] = {{.type = STORE_STRING, .string = {"OK", 2}},
                                    {.type = STORE_INTEGER, .integer = ms}};
    const store_value value = {.type = STORE_ARRAY, .n = 2, .element = elements};
    const store_result result = {.code = LKS_OK, .value = &value};
    s->asked[i].done(s->asked[i].arg, &result);
}

static void fail_with(store *s, size_t i, lks_code code)
{
    const store_result result = {.code = code, .applied = LKS_APPLIED_NO, .message = "it said so"};
    s->asked[i].done(s->asked[i].arg, &result);
}

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

typedef struct fixture {
    uv_loop_t loop;
    store store;
    alarms *all;
} fixture;

static const char group[] = "ls:{ns/g}:";

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    uv_loop_init(&f->loop);
    running_loop = &f->loop;
    f->all = alarms_new(&f->loop, &f->store);
    *state = f;
    return 0;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* Nothing may be left: the sanitizer sees what is. */
static int teardown(void **state)
{
    fixture *f = *state;
    bool closed = false;
    alarms_close(f->all, on_closed, &closed);
    while (!closed)
        uv_run(&f->loop, UV_RUN_DEFAULT);
    int left = uv_loop_close(&f->loop);
    free(f);
    return closed && left == 0 ? 0 : -1;
}

static void run_until_asked(fixture *f, size_t n)
{
    while (f->store.n < n)
        uv_run(&f->loop, UV_RUN_DEFAULT);
}

static service_watch watch_of(const char *argument)
{
    return (service_watch){
        .base = lks_rpc_slice_of(group), .function = "lock_promote", .argument = lks_rpc_slice_of(argument)};
}

static service_alarm alarm_of(const char *argument, int64_t in_ms)
{
    return (service_alarm){.base = lks_rpc_slice_of(group),
                           .function = "lock_promote",
                           .argument = lks_rpc_slice_of(argument),
                           .in_ms = in_ms};
}

static void set(fixture *f, const char *argument, int64_t in_ms)
{
    const service_alarm what = alarm_of(argument, in_ms);

    alarms_set(f->all, &what);
}

static void set_lasting(fixture *f, const char *argument, int64_t in_ms)
{
    service_alarm what = alarm_of(argument, in_ms);

    what.function = "expire";
    what.lasting = true;
    alarms_set(f->all, &what);
}

/* A watch that lasts for the test. */
#define WATCH(name, argument)                \
    service_watch name = watch_of(argument); \
    alarms_watch(f->all, &(name))

/* ---- who is told of their calls ---------------------------------------------------- */

static void on_called(void *arg, const store_call *call)
{
    assert_string_equal(call->function, "expire");
    assert_memory_equal(call->base.data, group, sizeof group - 1);
    ++*(int *)arg;
}

static void on_single_done(void *arg, bool is_done)
{
    *(int *)arg = is_done ? 1 : 0;
}

/* promise K20 */
TEST(a_single_call_says_whether_it_is_done)
{
    fixture *f = *state;
    service_alarm what = alarm_of("x", 0);
    int told = 0;

    what.function = "expire";
    alarms_on_call(f->all, on_called, &told);
    for (size_t i = 0; i < 3; i++) {
        int done = -1;
        alarms_call(f->all, &what, 7, on_single_done, &done);
        assert_int_equal(f->store.n, i + 1);
        assert_int_equal(f->store.asked[i].call->weight, 7);
        if (i < 2)
            reply_again_in(&f->store, i, i == 0 ? -1 : 5);
        else
            fail_with(&f->store, i, LKS_UNAVAILABLE);
        assert_int_equal(done, i == 0);
        assert_int_equal(told, i + 1);
    }
    assert_int_equal(alarms_count(f->all), 0);
}

TEST(an_alarm_in_minus_one_is_none)
{
    fixture *f = *state;

    WATCH(w, "a");
    set(f, "a", -1);
    set_lasting(f, "b", -1);
    assert_int_equal(alarms_count(f->all), 1);
    set(f, "a", 1);
    run_until_asked(f, 1);
    reply_again_in(&f->store, 0, -1);
    assert_int_equal(f->store.n, 1);
    alarms_unwatch(f->all, &w.as);
}

/* promise S55 */
TEST(each_call_that_has_ended_is_told_of_also_when_it_failed)
{
    fixture *f = *state;
    int told = 0;

    alarms_on_call(f->all, on_called, &told);
    set_lasting(f, "", 0);
    run_until_asked(f, 1);
    assert_int_equal(told, 0);
    reply_again_in(&f->store, 0, 1);
    assert_int_equal(told, 1);
    run_until_asked(f, 2);
    fail_with(&f->store, 1, LKS_INTERNAL);
    assert_int_equal(told, 2);
}

/* ---- watched alarms --------------------------------------------------------------- */

TEST(an_alarm_asks_the_store_until_it_is_told_never)
{
    fixture *f = *state;
    WATCH(w, "the%20name");
    set(f, "the%20name", 1);
    run_until_asked(f, 1);
    const store_call *call = f->store.asked[0].call;
    assert_string_equal(call->function, "lock_promote");
    assert_int_equal(call->base.len, strlen(group));
    assert_memory_equal(call->base.data, group, call->base.len);
    assert_int_equal(call->args[0].len, strlen("the%20name"));
    assert_memory_equal(call->args[0].data, "the%20name", call->args[0].len);
    reply_again_in(&f->store, 0, 1);
    run_until_asked(f, 2);
    reply_again_in(&f->store, 1, -1);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 2);
    set(f, "the%20name", 0); /* it is still watched */
    run_until_asked(f, 3);
    reply_again_in(&f->store, 2, -1);
    alarms_unwatch(f->all, &w.as);
}

TEST(of_two_moments_the_earlier_counts)
{
    fixture *f = *state;
    WATCH(w, "x");
    set(f, "x", NEVER_MS);
    set(f, "x", 1);
    set(f, "x", NEVER_MS);
    set(f, "x", -1);
    run_until_asked(f, 1);
    reply_again_in(&f->store, 0, -1);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 1);
    alarms_unwatch(f->all, &w.as);
}

TEST(a_moment_that_comes_while_asking_asks_again)
{
    fixture *f = *state;
    WATCH(w, "x");
    set(f, "x", 0);
    run_until_asked(f, 1);
    set(f, "x", 0);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 1);
    reply_again_in(&f->store, 0, -1);
    assert_int_equal(f->store.n, 2);
    reply_again_in(&f->store, 1, -1);
    alarms_unwatch(f->all, &w.as);
}

TEST(what_nobody_watches_is_not_asked)
{
    fixture *f = *state;
    WATCH(w, "x");
    WATCH(other, "y");
    set(f, "x", 1);
    alarms_unwatch(f->all, &w.as);
    set(f, "x", 0);
    set(f, "nobody", 0);
    set(f, "y", 2);
    run_until_asked(f, 1);
    assert_memory_equal(f->store.asked[0].call->args[0].data, "y", 1);
    /* It goes while the store is asked: what is asked is still there, and the reply finds nobody. */
    alarms_unwatch(f->all, &other.as);
    assert_memory_equal(f->store.asked[0].call->base.data, group, strlen(group));
    set(f, "y", 0);
    reply_again_in(&f->store, 0, 0);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 1);
    assert_int_equal(alarms_count(f->all), 0);
}

/* promise L54 */
TEST(an_alarm_goes_with_its_last_watcher)
{
    fixture *f = *state;
    WATCH(a, "x");
    WATCH(b, "x");
    assert_int_equal(alarms_count(f->all), 1);
    alarms_unwatch(f->all, &a.as);
    assert_int_equal(alarms_count(f->all), 1);
    set(f, "x", 0);
    run_until_asked(f, 1);
    reply_again_in(&f->store, 0, NEVER_MS);
    alarms_unwatch(f->all, &b.as);
    assert_int_equal(alarms_count(f->all), 0);
}

TEST(a_call_watches_all_that_it_waits_for)
{
    fixture *f = *state;
    service_watch b = watch_of("b"), a = watch_of("a");
    a.next = &b;
    alarms_watch(f->all, &a);
    assert_int_equal(alarms_count(f->all), 2);
    set(f, "b", 0);
    run_until_asked(f, 1);
    reply_again_in(&f->store, 0, -1);
    alarms_unwatch(f->all, &a.as);
    assert_int_equal(alarms_count(f->all), 0);
}

/* One call waits on while thousands of names were waited for, each until a day later. */
/* promise L54: alarms and waiters are found in as few steps among many; an alarm goes with the last who watches it;
 * of many that ring at once 256 are asked at a time; at the limit of lasting alarms those that there are still move */
TEST(names_once_waited_for_are_forgotten)
{
    fixture *f = *state;
    char name[32];
    WATCH(stays, "stays");
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        service_watch w = watch_of(name);
        alarms_watch(f->all, &w);
        set(f, name, 86400000);
        alarms_unwatch(f->all, &w.as);
    }
    assert_int_equal(alarms_count(f->all), 1);
    alarms_unwatch(f->all, &stays.as);
}

/* At their limit there is no new one, but each that there is may still move. */
/* promise L54 */
TEST(a_lasting_alarm_moves_earlier_also_at_the_limit)
{
    fixture *f = *state;
    char name[32];

    for (size_t i = 0; i < LASTING_MAX; i++) {
        snprintf(name, sizeof name, "n%zu", i);
        set_lasting(f, name, NEVER_MS);
    }
    assert_int_equal(alarms_count(f->all), LASTING_MAX);
    set_lasting(f, "one more", 0);
    assert_int_equal(alarms_count(f->all), LASTING_MAX);
    set_lasting(f, "n7", 0);
    run_until_asked(f, 1);
    const lks_rpc_slice *argument = &f->store.asked[0].call->args[0];
    assert_int_equal(argument->len, 2);
    assert_memory_equal(argument->data, "n7", 2);
    reply_again_in(&f->store, 0, -1);
    assert_int_equal(alarms_count(f->all), LASTING_MAX - 1);
}

/* The comparisons that setting one of n alarms takes. */
static size_t compared_among(fixture *f, size_t n)
{
    service_watch *all = calloc(n, sizeof *all);
    char(*names)[32] = calloc(n, sizeof *names);

    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        all[i] = watch_of(names[i]);
        alarms_watch(f->all, &all[i]);
    }
    compared = 0;
    set(f, "n5", NEVER_MS);
    size_t spent = compared;
    for (size_t i = 0; i < n; i++)
        alarms_unwatch(f->all, &all[i].as);
    free(names);
    free(all);
    return spent;
}

/* promise L54 */
TEST(an_alarm_is_found_among_many_as_among_few)
{
    fixture *f = *state;

    assert_int_equal(compared_among(f, 10), 1);
    assert_int_equal(compared_among(f, MANY), 1);
}

/* ---- lasting alarms --- */

TEST(a_lasting_alarm_is_done_though_nobody_waits)
{
    fixture *f = *state;
    set_lasting(f, "", 1);
    run_until_asked(f, 1);
    assert_string_equal(f->store.asked[0].call->function, "expire");
    assert_memory_equal(f->store.asked[0].call->base.data, group, strlen(group));
    assert_int_equal(f->store.asked[0].call->args[0].len, 0);
    reply_again_in(&f->store, 0, 1);
    run_until_asked(f, 2);
    reply_again_in(&f->store, 1, -1);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 2);
    assert_int_equal(alarms_count(f->all), 0);
}

/* Callers' calls find the store free between them. */
/* promise L54 */
TEST(of_many_that_ring_at_once_some_are_asked_at_a_time)
{
    fixture *f = *state;
    char text[24];

    for (int i = 0; i < AT_ONCE + 3; i++) {
        snprintf(text, sizeof text, "%d", i);
        set_lasting(f, text, 0);
    }
    WATCH(gone, "watched");
    set(f, "watched", 0);
    run_until_asked(f, AT_ONCE);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, AT_ONCE);
    alarms_unwatch(f->all, &gone.as); /* nobody wants it any more */
    for (size_t i = 0; i < f->store.n; i++) {
        snprintf(text, sizeof text, "%zu", i);
        assert_memory_equal(f->store.asked[i].call->args[0].data, text, strlen(text)); /* in order */
        reply_again_in(&f->store, i, -1);
    }
    assert_int_equal(f->store.n, AT_ONCE + 3);
    assert_int_equal(alarms_count(f->all), 0);
}

/* promise L52 */
TEST(a_lasting_alarm_is_tried_until_the_store_answers)
{
    fixture *f = *state;
    set_lasting(f, "token", 0);
    run_until_asked(f, 1);
    fail_with(&f->store, 0, LKS_UNAVAILABLE);
    run_until_asked(f, 2);
    fail_with(&f->store, 1, LKS_DEADLINE_EXCEEDED);
    run_until_asked(f, 3);
    assert_memory_equal(f->store.asked[2].call->args[0].data, "token", 5);
    reply_again_in(&f->store, 2, -1);
    assert_int_equal(alarms_count(f->all), 0);
}

/* promise L52 */
TEST(a_lasting_alarm_that_is_refused_for_good_ends)
{
    fixture *f = *state;
    set_lasting(f, "token", 0);
    run_until_asked(f, 1);
    fail_with(&f->store, 0, LKS_FAILED_PRECONDITION);
    assert_int_equal(alarms_count(f->all), 0);
}

TEST(a_lasting_alarm_outlives_those_who_watch)
{
    fixture *f = *state;
    service_watch w = {.base = lks_rpc_slice_of(group), .function = "expire", .argument = lks_rpc_slice_of("x")};
    alarms_watch(f->all, &w);
    set_lasting(f, "x", 1);
    alarms_unwatch(f->all, &w.as);
    run_until_asked(f, 1);
    reply_again_in(&f->store, 0, -1);
    assert_int_equal(alarms_count(f->all), 0);
}

/* The reply was made before what set the lasting alarm again. */
TEST(a_lasting_alarm_set_while_asking_is_kept)
{
    fixture *f = *state;
    set_lasting(f, "", 0);
    run_until_asked(f, 1);
    set_lasting(f, "", 1);
    reply_again_in(&f->store, 0, -1);
    run_until_asked(f, 2);
    reply_again_in(&f->store, 1, -1);
}

TEST(a_stopping_server_has_no_lasting_alarms)
{
    fixture *f = *state;
    set_lasting(f, "", 0);
    alarms_stop(f->all);
    set_lasting(f, "", 0);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->store.n, 0);
}

/* teardown: what is left on the list is freed. */
TEST(a_lasting_alarm_that_never_comes_due_is_freed)
{
    fixture *f = *state;
    set_lasting(f, "", NEVER_MS);
    set_lasting(f, "another", NEVER_MS);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
