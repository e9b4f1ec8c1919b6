/* Waiting calls on a real loop. Their alarms: test_alarms.c. */
/* promise L34 */
/* promise L36 */
/* promise L37 */
/* promise L38 */
#include <uv.h>

#include "base/clock.h"
#include "base/hash.h"
#include "calls/waiters.h"
#include "test.h"

enum { MANY = 4000, FAR_MS = 600000 };

static uv_loop_t loop;
static waiters *waiting;

/* ---- alarms that are only counted ------------------------------------------------ */

struct alarms {
    size_t watched;
    char set[128];
};

static alarms watched_alarms;

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

static waiter those[MANY]; /* the first n_those have entered */
static char keys[MANY][48];
static size_t n_those;
static char told[256]; /* "<waiter> <event>[ <number>...]; " of each event */

static void on_event(waiter *w, service_event event)
{
    static const char *const names[] = {"", "stopping", "abandoned", "over", "granted", "woken"};
    size_t at = strlen(told);

    at += (size_t)snprintf(told + at, sizeof told - at, "%zu %s", (size_t)(w - those), names[event.kind]);
    for (size_t i = 0; i < event.n_numbers; i++)
        at += (size_t)snprintf(told + at, sizeof told - at, " %d", (int)event.numbers[i]);
    snprintf(told + at, sizeof told - at, "; ");
    uv_stop(&loop);
}

static void enter(const char *key, int64_t in_ms, service_watch *watches)
{
    waiter *w = &those[n_those];

    *w = (waiter){.on_event = on_event};
    strcpy(keys[n_those++], key);
    waiters_enter(waiting, w, lks_rpc_slice_of(keys[w - those]), watches, clock_now_ns() + (uint64_t)in_ms * 1000000);
}

static int setup(void **state)
{
    uv_loop_init(&loop);
    n_those = 0;
    told[0] = '\0';
    watched_alarms = (alarms){0};
    waiting = waiters_new(&loop, &watched_alarms);
    return 0;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* All leave. */
static int teardown(void **state)
{
    bool closed = false;

    while (n_those > 0)
        waiters_leave(waiting, &those[--n_those]);
    waiters_close(waiting, on_closed, &closed);
    while (!closed)
        uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

/* Delivers a message, and expects these events. */
static void message(const char *text, const char *expected)
{
    told[0] = '\0';
    waiters_message(waiting, text, strlen(text));
    assert_string_equal(told, expected);
}

/* ---- events --------------------------------------------------------------------- */

TEST(a_message_finds_its_waiter)
{
    enter("ls:{ns/g}:token-a", FAR_MS, NULL);
    enter("ls:{ns/g}:token-b", FAR_MS, NULL);
    enter("ls:{ns/h}:token-b", FAR_MS, NULL);
    message("W ls:{ns/g}:token-b", "1 woken; ");
    message("W ls:{ns/g}:nobody", "");
    message("W ls:{ns/nowhere}:token-b", "");
    message("nonsense", "");
    message("", "");
    waiters_leave(waiting, &those[1]);
    message("W ls:{ns/g}:token-b", "");
}

/* promise L40 */
TEST(all_copies_of_a_call_are_woken)
{
    enter("ls:{ns/g}:token", FAR_MS, NULL);
    enter("ls:{ns/g}:other", FAR_MS, NULL);
    enter("ls:{ns/g}:token", FAR_MS, NULL);
    message("W ls:{ns/g}:token", "2 woken; 0 woken; ");
}

/* promise L57 */
/* promise L58 */
TEST(a_grant_goes_to_its_waiter_or_is_undone)
{
    enter("ls:{ns/g}:token-a", FAR_MS, NULL);
    message("R 7,8 ls:{ns/g}:token-a ls:{ns/g}: undo token-a copy", "0 granted 7 8; ");
    message("R 9 ls:{ns/g}:token-a ls:{ns/g}: undo token-a copy", "0 granted 9; ");
    assert_string_equal(watched_alarms.set, "");
    message("R 7 ls:{ns/g}:b ls:{ns/g}: undo b copy", "");
    assert_string_equal(watched_alarms.set, "lasting ls:{ns/g}: undo b copy in 0");
}

TEST(waiter_is_informed_of_the_end_of_its_wait)
{
    enter("ls:{ns/g}:late", FAR_MS, NULL);
    enter("ls:{ns/g}:soon", 1, NULL);
    while (!told[0])
        uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(told, "1 over; ");
}

TEST(missed_messages_wake_everyone)
{
    enter("ls:{ns/g}:a", FAR_MS, NULL);
    enter("ls:{ns/h}:b", FAR_MS, NULL);
    waiters_missed(waiting);
    assert_string_equal(told, "0 woken; 1 woken; ");
}

/* promise W14: SIGTERM: parked calls end at once with UNAVAILABLE and keep their place; the store is not asked any
 * more */
TEST(stop_ends_present_and_later_waits)
{
    enter("ls:{ns/g}:a", FAR_MS, NULL);
    waiters_stop(waiting);
    enter("ls:{ns/g}:b", FAR_MS, NULL);
    assert_string_equal(told, "0 stopping; 1 stopping; ");
}

/* promise L54 */
TEST(waiter_watches_its_alarms)
{
    service_watch second = {.function = "f"}, first = {.next = &second, .function = "f"};

    enter("ls:{ns/g}:a", FAR_MS, &first);
    assert_int_equal(watched_alarms.watched, 2);
    message("A 7 ls:{ns/g}: lock_promote the%20name", "");
    assert_string_equal(watched_alarms.set, "ls:{ns/g}: lock_promote the%20name in 7");
    waiters_leave(waiting, &those[0]);
    assert_int_equal(watched_alarms.watched, 0);
}

/* Among 10 and among MANY. */
/* promise L54 */
TEST(a_wake_looks_at_as_few_among_many)
{
    char key[48];

    for (size_t n = 1; n <= MANY; n++) {
        snprintf(key, sizeof key, "ls:{ns/g}:token-%zu", n - 1);
        enter(key, FAR_MS, NULL);
        if (n != 10 && n != MANY)
            continue;
        compared = 0;
        message("W ls:{ns/g}:token-5", "5 woken; ");
        assert_int_equal(compared, 1);
    }
}

/* promise L54 */
TEST(keys_are_hashed_with_a_seed)
{
    assert_int_not_equal(hashed_of("a", 1), (unsigned)hash_folded(hash_more(HASH_START, "a", 1)));
    assert_int_equal(hashed_of("a", 1), hashed_of("a", 1));
}

TEST_MAIN(.setup = setup, .teardown = teardown)
