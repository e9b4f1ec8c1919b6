/* Waiting calls on a real loop. Their alarms: test_alarms.c. */
/* promise L34 */
/* promise L36 */
/* promise L37 */
/* promise L38 */
/* promise L40 */

#include <uv.h>

#include "base/clock.h"
#include "base/hash.h"
#include "test.h"
#include "calls/waiters.h"

enum { TOLD_MAX = 16, MANY = 4000 };

/* Something happened: run_until looks whether it was what it waits for. */
static uv_loop_t *running_loop;

/* ---- alarms that are only counted ------------------------------------------------ */

struct alarms {
    size_t watched;
    char set[128];
};

watched *alarms_watch(alarms *all, service_watch *list)
{
    for (service_watch *w = list; w; w = w->next) {
        w->as.next = w->next ? &w->next->as : NULL;
        all->watched++;
    }
    return list ? &list->as : NULL;
}

void alarms_unwatch(alarms *all, watched *list)
{
    for (; list; list = list->next)
        all->watched--;
}

void alarms_set(alarms *all, const service_alarm *what)
{
    snprintf(all->set, sizeof all->set, "%s%.*s %s %.*s in %d", what->lasting ? "lasting " : "", (int)what->base.len,
             what->base.data, what->function, (int)what->argument.len, what->argument.data, (int)what->in_ms);
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

static struct told {
    const waiter *waiter;
    service_event_kind event;
    int64_t first, last;
} told[TOLD_MAX];
static size_t n_told;

static void on_event(waiter *w, service_event event)
{
    assert_true(n_told < TOLD_MAX);
    told[n_told++] = (struct told){.waiter = w,
                                   .event = event.kind,
                                   .first = event.n_numbers ? event.numbers[0] : 0,
                                   .last = event.n_numbers ? event.numbers[event.n_numbers - 1] : 0};
    uv_stop(running_loop);
}

typedef struct fixture {
    uv_loop_t loop;
    alarms alarms;
    waiters *all;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    n_told = 0;
    uv_loop_init(&f->loop);
    running_loop = &f->loop;
    f->all = waiters_new(&f->loop, &f->alarms);
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
    return clock_now_ns() + (uint64_t)ms * 1000000;
}

static waiter new_waiter(const char *key)
{
    return (waiter){.key = {key, strlen(key)}, .on_event = on_event};
}

/* A waiter that stays where it is: registered, with a deadline far away. */
#define ENTER(name, text)           \
    waiter name = new_waiter(text); \
    waiters_enter(f->all, &(name), NULL, ms_from_now(600000))

static void message(fixture *f, const char *text)
{
    waiters_message(f->all, text, strlen(text));
}

/* Runs the loop until n events were told. */
static void run_until(fixture *f, const size_t *count, size_t n)
{
    while (*count < n)
        uv_run(&f->loop, UV_RUN_DEFAULT);
}

/* ---- events --------------------------------------------------------------------- */

TEST(a_wake_message_finds_its_waiter)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:token-a");
    ENTER(b, "ls:{ns/g}:token-b");
    ENTER(other, "ls:{ns/h}:token-b");
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

TEST(all_copies_of_a_call_are_woken)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:token");
    ENTER(b, "ls:{ns/g}:token");
    message(f, "W ls:{ns/g}:token");
    assert_int_equal(n_told, 2);
    assert_true((told[0].waiter == &a && told[1].waiter == &b) || (told[0].waiter == &b && told[1].waiter == &a));
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
}

/* promise L57 */
TEST(a_message_may_contain_the_grant)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:token-a");
    ENTER(b, "ls:{ns/g}:token-b");
    message(f, "R 7,8 ls:{ns/g}:token-a ls:{ns/g}: undo token-a copy");
    assert_int_equal(n_told, 1);
    assert_ptr_equal(told[0].waiter, &a);
    assert_int_equal(told[0].event, SERVICE_GRANTED);
    assert_int_equal(told[0].first, 7);
    assert_int_equal(told[0].last, 8);
    assert_string_equal(f->alarms.set, "");
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
}

/* promise L58 */
TEST(a_grant_for_a_call_that_does_not_wait_is_undone)
{
    fixture *f = *state;
    message(f, "R 7 ls:{ns/g}:a ls:{ns/g}: undo a copy");
    assert_string_equal(f->alarms.set, "lasting ls:{ns/g}: undo a copy in 0");
    assert_int_equal(n_told, 0);
}

TEST(a_deadline_is_told)
{
    fixture *f = *state;
    waiter late = new_waiter("ls:{ns/g}:late"), soon = new_waiter("ls:{ns/g}:soon");
    waiters_enter(f->all, &late, NULL, ms_from_now(600000));
    waiters_enter(f->all, &soon, NULL, ms_from_now(1));
    run_until(f, &n_told, 1);
    assert_ptr_equal(told[0].waiter, &soon);
    assert_int_equal(told[0].event, SERVICE_WAIT_OVER);
    waiters_leave(f->all, &late);
    waiters_leave(f->all, &soon);
}

TEST(missed_messages_wake_everyone)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    ENTER(b, "ls:{ns/h}:b");
    waiters_missed(f->all);
    assert_int_equal(n_told, 2);
    assert_int_equal(told[1].event, SERVICE_WOKEN);
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
}

/* promise W14: SIGTERM: parked calls end at once with UNAVAILABLE and keep their place; nothing more is asked */
TEST(stopping_is_told_to_who_is_there_and_to_who_comes)
{
    fixture *f = *state;
    ENTER(a, "ls:{ns/g}:a");
    waiters_stop(f->all);
    assert_int_equal(told[0].event, SERVICE_STOPPING);
    ENTER(b, "ls:{ns/g}:b");
    assert_int_equal(n_told, 2);
    assert_ptr_equal(told[1].waiter, &b);
    assert_int_equal(told[1].event, SERVICE_STOPPING);
    waiters_leave(f->all, &a);
    waiters_leave(f->all, &b);
}

/* promise L54 */
TEST(who_waits_watches_its_alarms)
{
    fixture *f = *state;
    service_watch second = {.function = "f"}, first = {.next = &second, .function = "f"};
    waiter a = new_waiter("ls:{ns/g}:a");
    waiters_enter(f->all, &a, &first, ms_from_now(600000));
    assert_int_equal(f->alarms.watched, 2);
    assert_true(waiters_any(f->all));
    message(f, "A 7 ls:{ns/g}: lock_promote the%20name");
    assert_string_equal(f->alarms.set, "ls:{ns/g}: lock_promote the%20name in 7");
    waiters_leave(f->all, &a);
    assert_int_equal(f->alarms.watched, 0);
    assert_false(waiters_any(f->all));
}

/* The comparisons of a hand-over among n that wait in one group. */
static size_t compared_among(fixture *f, size_t n)
{
    waiter *all = calloc(n, sizeof *all);
    char(*keys)[48] = calloc(n, sizeof *keys);

    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "ls:{ns/g}:token-%zu", i);
        all[i] = new_waiter(keys[i]);
        waiters_enter(f->all, &all[i], NULL, ms_from_now(600000));
    }
    n_told = compared = 0;
    message(f, "W ls:{ns/g}:token-5");
    size_t spent = compared;
    assert_int_equal(n_told, 1);
    assert_ptr_equal(told[0].waiter, &all[5]);
    for (size_t i = 0; i < n; i++)
        waiters_leave(f->all, &all[i]);
    free(keys);
    free(all);
    return spent;
}

/* promise L54 */
TEST(a_wake_looks_at_as_few_among_many)
{
    fixture *f = *state;

    assert_int_equal(compared_among(f, 10), 1);
    assert_int_equal(compared_among(f, MANY), 1);
}

/* promise L54 */
TEST(keys_are_hashed_with_a_seed)
{
    (void)state;
    assert_int_not_equal(hashed_of("a", 1), (unsigned)hash_folded(hash_more(HASH_START, "a", 1)));
    assert_int_equal(hashed_of("a", 1), hashed_of("a", 1));
}

TEST_MAIN(.setup = setup, .teardown = teardown)
