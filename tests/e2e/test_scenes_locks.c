/* Scenes d to g of docs/scenes.md: leases, queues, and locks by hand beside lockstock's. */

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "e2e/scene.h"
#include "support/counts.h"

/* What the lock protects. It compares and writes in one step. */
typedef struct resource {
    uint64_t fence;
    const char *writer;
} resource;

/* CheckFence says the same as the resource. */
static bool write_as(resource *r, const char *name, const char *writer, uint64_t fence)
{
    bool good = fence >= r->fence;

    assert_int_equal(scene_fence_is_good(name, fence), good);
    if (good)
        *r = (resource){fence, writer};
    return good;
}

static lks_mutex *new_mutex(const char *name, const lks_lock_options *options)
{
    lks_mutex *mutex = NULL;
    lks_error error = {0};

    scene_ok(lks_mutex_new(s.channels[0], name, options, &mutex, &error), &error);
    return mutex;
}

/* ---- d: work that outlasts its lease ---------------------------------------------- */

typedef struct second {
    const char *name;
    atomic_bool first_done;
    bool came_after; /* the first was done when the second got the lock */
    lks_lock_result result;
    uint64_t fence;
} second;

static void *lock_second(void *arg)
{
    second *b = arg;
    lks_mutex *mutex = NULL;
    lks_error error;

    b->result = LKS_LOCK_FAILED;
    if (lks_mutex_new(s.channels[1], b->name, NULL, &mutex, &error) == LKS_OK)
        b->result = lks_mutex_lock(mutex, SCENE_LONG_MS, &error);
    b->came_after = atomic_load(&b->first_done);
    if (b->result == LKS_LOCK_ACQUIRED) {
        b->fence = lks_mutex_fence(mutex);
        lks_mutex_unlock(mutex, NULL);
    }
    lks_mutex_free(mutex);
    return NULL;
}

static void print_outlast(const char *lock, bool came_after, bool first_wrote, bool second_wrote, const char *writer)
{
    fprintf(s.table, "  %-20s  %-22s  %-17s  %-18s  %s\n", lock,
            came_after ? "when the first is done" : "while the first works", first_wrote ? "written" : "refused, late",
            second_wrote ? "written" : "refused", writer);
}

/* lks_mutex renews: the first works for two leases, and until the second waits. */
static void outlast_with_mutex(void)
{
    enum { LEASE_MS = 5000, LEASES = 2 };
    second b = {.name = "report:kept"};
    resource r = {0};
    pthread_t thread;
    lks_mutex *mutex = new_mutex(b.name, &(lks_lock_options){.lease_ms = LEASE_MS});

    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    uint64_t fence = lks_mutex_fence(mutex);
    long long end_ms = process_now_ms() + LEASES * LEASE_MS;
    assert_int_equal(pthread_create(&thread, NULL, lock_second, &b), 0);
    while (process_now_ms() < end_ms || scene_inspect(b.name).waiters == 0)
        process_pause();
    bool first = write_as(&r, b.name, "the first", fence);
    atomic_store(&b.first_done, true);
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    pthread_join(thread, NULL);
    assert_int_equal(b.result, LKS_LOCK_ACQUIRED);
    assert_true(b.fence > fence);
    bool wrote = write_as(&r, b.name, "the second", b.fence);
    print_outlast("lks_mutex, kept", b.came_after, first, wrote, r.writer);
    lks_mutex_free(mutex);
}

/* Nobody renews: the first works until the second is done. */
static void outlast_without_renewal(void)
{
    const char *name = "report:not-kept";
    resource r = {0};
    grant first = scene_acquire(name, "first", 200, 0),
          next = scene_acquire(name, "second", SCENE_LONG_MS, SCENE_LONG_MS);

    assert_true(first.fence > 0 && next.fence > first.fence);
    bool wrote = write_as(&r, name, "the second", next.fence);
    print_outlast("Acquire, not renewed", false, write_as(&r, name, "the first", first.fence), wrote, r.writer);
    assert_false(scene_release(name, &first));
    assert_true(scene_release(name, &next));
}

TEST(test_work_outlasts_the_lease)
{
    scene_begin();
    fprintf(s.table, "scene d: work that lasts longer than its lease\n");
    fprintf(s.table, "  %-20s  %-22s  %-17s  %-18s  %s\n", "the first's lock", "the second gets it",
            "the first's write", "the second's write", "last written by");
    outlast_with_mutex();
    outlast_without_renewal();
    scene_end();
}

/* ---- e: a holder killed, or frozen ------------------------------------------------ */

/* The process that holds: SIGUSR1 makes it write, without a look at lks_mutex_is_lost before. */
static int hold(const char *url, const char *name)
{
    const lks_lock_options options = {.lease_ms = 400};
    lks_channel *channel = NULL;
    lks_mutex *mutex = NULL;
    sigset_t signals;
    int number;

    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before there are threads, which inherit it */
    if (lks_channel_open(url, NULL, &channel, NULL) != LKS_OK ||
        lks_mutex_new(channel, name, &options, &mutex, NULL) != LKS_OK ||
        lks_mutex_lock(mutex, 0, NULL) != LKS_LOCK_ACQUIRED)
        return 1;
    printf("holds %" PRIu64 "\n", lks_mutex_fence(mutex));
    fflush(stdout);
    sigwait(&signals, &number);
    s.channels[0] = channel;
    bool wrote = scene_fence_is_good(name, lks_mutex_fence(mutex));
    printf("late write %d, knows %d\n", wrote, lks_mutex_is_lost(mutex));
    lks_mutex_unlock(mutex, NULL);
    lks_mutex_free(mutex);
    lks_channel_close(channel);
    return 0;
}

static void play_holder(int signal_number, const char *what, const char *when)
{
    const char *argv[] = {"/proc/self/exe", "hold", server_fixture_url(s.servers[0]), what, NULL};
    process *holder = process_spawn(argv, NULL);
    resource r = {0};
    char line[64];
    uint64_t fence = 0;
    int late = 0, knows = 0;

    assert_non_null(holder);
    assert_true(process_wait_line(holder, "holds ", line, sizeof line, SCENE_LIMIT_MS));
    assert_int_equal(sscanf(line, "holds %" SCNu64, &fence), 1);
    process_signal(holder, signal_number);
    grant next = scene_acquire(what, "next", SCENE_LONG_MS, SCENE_LONG_MS); /* waits until the lease has ended */
    assert_true(next.fence > fence);
    bool wrote = write_as(&r, what, "the next", next.fence);
    if (signal_number == SIGSTOP) {
        process_signal(holder, SIGUSR1);
        process_signal(holder, SIGCONT);
        assert_true(process_wait_line(holder, "late write", line, sizeof line, SCENE_LIMIT_MS));
        assert_int_equal(sscanf(line, "late write %d, knows %d", &late, &knows), 2);
        assert_true(process_exited_with(holder, 0, SCENE_LIMIT_MS));
    }
    late |= write_as(&r, what, "the late one", fence);
    fprintf(s.table, "  %-16s  %-18s  %-16s  %-13s  %-15s  %s\n", what, when, wrote ? "written" : "refused",
            late ? "WRITTEN" : "refused, late", r.writer,
            signal_number == SIGKILL ? "-"
            : knows                  ? "yes"
                                     : "no");
    process_free(holder);
}

TEST(test_holder_killed_or_frozen)
{
    scene_begin();
    fprintf(s.table, "scene e: a holder that no watchdog can save\n");
    fprintf(s.table, "  %-16s  %-18s  %-16s  %-13s  %-15s  %s\n", "the holder is", "the next gets it",
            "the next's write", "its own write", "last written by", "it knows");
    play_holder(SIGKILL, "killed (SIGKILL)", "when it is dead");
    play_holder(SIGSTOP, "frozen (SIGSTOP)", "while it is frozen");
    scene_end();
}

/* ---- f: many wait for one lock, at two servers -------------------------------------- */

typedef struct waiter {
    lks_channel *channel;
    size_t answers, turn;
    uint64_t fence;
    bool released;
} waiter;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t turn, done;
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_released(void *arg, lks_code code, const lks_release_response *response, const lks_error *error)
{
    waiter *w = arg;

    (void)error;
    pthread_mutex_lock(&queue.mutex);
    w->released = code == LKS_OK && response->outcome == LKS_RELEASE_OUTCOME_RELEASED;
    queue.done++;
    pthread_cond_signal(&queue.changed);
    pthread_mutex_unlock(&queue.mutex);
}

/* Each gives the lock back as soon as it has it. */
static void on_granted(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    waiter *w = arg;
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    bool granted = code == LKS_OK && response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;

    pthread_mutex_lock(&queue.mutex);
    w->turn = queue.turn++;
    w->answers++;
    w->fence = granted ? response->fences[0]->fence : 0;
    pthread_mutex_unlock(&queue.mutex);
    request.group = "hot";
    request.token = granted ? response->token : NULL;
    if (!granted || lks_lock_release_start(w->channel, &request, NULL, on_released, w, NULL, NULL) != LKS_OK)
        on_released(w, LKS_ABORTED, NULL, error);
}

static size_t n_done(void)
{
    pthread_mutex_lock(&queue.mutex);
    size_t n = queue.done;
    pthread_mutex_unlock(&queue.mutex);
    return n;
}

/* A waiter comes when the one before it is in the queue: the order of the queue is their numbers. */
TEST(test_many_wait_at_two_servers)
{
    size_t n = counts_of(100, 1000);
    waiter *waiters = calloc(n, sizeof *waiters);
    grant first = scene_acquire("hot", "first", 10 * SCENE_LONG_MS, 0);
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_error error = {0};

    target.name = "hot";
    request.n_targets = 1;
    request.targets = targets;
    request.owner = "waiter";
    request.lease_ms = request.wait_ms = 10 * SCENE_LONG_MS;
    for (size_t i = 0; i < n; i++) {
        waiters[i].channel = s.channels[i % SCENE_SERVERS];
        scene_ok(lks_lock_acquire_start(waiters[i].channel, &request, NULL, on_granted, &waiters[i], NULL, &error),
                 &error);
        while (scene_inspect("hot").waiters <= (int64_t)i)
            assert_int_equal(n_done(), 0);
    }
    assert_true(scene_release("hot", &first));
    pthread_mutex_lock(&queue.mutex);
    while (queue.done < n)
        pthread_cond_wait(&queue.changed, &queue.mutex);
    pthread_mutex_unlock(&queue.mutex);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(waiters[i].answers, 1);
        assert_int_equal(waiters[i].turn, i);
        assert_true(waiters[i].fence > (i > 0 ? waiters[i - 1].fence : first.fence));
        assert_true(waiters[i].released);
    }
    lock_state last = scene_inspect("hot");
    assert_true(last.left_ms == 0 && last.waiters == 0);
    free(waiters);
}

/* ---- g: locks by hand --------------------------------------------------------------- */

/* The steps of each recipe are written in the order in which they do harm: A, B and C are its users. A dead or
 * frozen one is one whose next step does not come, or comes later. Under the lock one item is sold by reading the
 * stock and writing one less; all who believe that they hold the lock read before any of them writes. */
enum { SHORT_MS = 60, MUTEX_MS = 500, LONG_MS = SCENE_LONG_MS };

static void print_row(const char *lock, const char *happens, const char *holders, int sold, const char *next)
{
    fprintf(s.table, "  %-23s  %-27s  %-12s  %4d  %8d  %s\n", lock, happens, holders, sold, sold > 1 ? sold - 1 : 0,
            next);
}

/* The two rows of a recipe: of both who believe that they hold the lock, and of lockstock. */
static void print_two_holders(const char *lock, const char *happens, const char *holders, int sold, int ours)
{
    char next[32];

    scene_begin();
    snprintf(next, sizeof next, "%c, not at all", holders[0] == 'A' ? 'A' : 'C');
    print_row(lock, happens, holders, sold, next);
    snprintf(next, sizeof next, "%c, until B is done", holders[0] == 'A' ? 'A' : 'C');
    print_row("  lockstock", "", "B", ours, next);
    scene_end();
}

/* Sold by so many who believe that they hold the lock. */
static int sell_by_hand(int holders)
{
    int sold = 0;

    scene_redis("SET stock 1");
    for (long long seen = scene_redis("GET stock"); sold < holders; sold++) {
        assert_int_equal(seen, 1); /* each read before any wrote */
        scene_redis("SET stock %lld", seen - 1);
    }
    return sold;
}

/* With lockstock the fence is checked before each write. */
static int sell(const char *name, const uint64_t fences[], size_t n)
{
    int sold = 0;

    for (size_t i = 0; i < n; i++)
        sold += fences[i] > 0 && scene_fence_is_good(name, fences[i]);
    return sold;
}

static bool set_nx_px(const char *key, const char *who, int lease_ms)
{
    return scene_redis("SET %s %s NX PX %d", key, who, lease_ms) == 1;
}

static void rest_until(long long wall_ms)
{
    while (scene_wall_ms() <= wall_ms)
        process_pause();
}

static void await_free(const char *key)
{
    while (scene_redis("EXISTS %s", key) != 0)
        process_pause();
}

/* Two commands in place of one: a process that dies between them holds the lock for ever. */
TEST(test_setnx_then_expire_blocks_for_ever)
{
    int tries = 0;

    scene_assert_on_page("scene g: one item under a lock; each schedule with a naive lock, and with lockstock\n");
    assert_int_equal(scene_redis("SETNX setnx A"), 1); /* A dies: PEXPIRE does not come */
    while (tries < 20 && scene_redis("SETNX setnx B") == 0)
        tries++;
    assert_int_equal(tries, 20);
    assert_int_equal(scene_redis("PEXPIRETIME setnx"), -1);

    assert_true(scene_acquire("g:setnx", "A", SHORT_MS, 0).fence > 0);
    uint64_t b = scene_acquire("g:setnx", "B", LONG_MS, LONG_MS).fence;
    scene_begin();
    print_row("SETNX, then EXPIRE", "A dies as it takes the lock", "nobody", 0,
              "B, for ever: the lock has no end; 20 tries in vain");
    print_row("  lockstock", "", "B", sell("g:setnx", &b, 1), "B, until A's lease ended");
    scene_end();
}

/* The value is the end of the lease. GETSET writes before it looks: a late A replaces the end of B's lease by its own. */
TEST(test_getset_shortens_a_lease_of_others)
{
    long long now = scene_wall_ms(), a_end = now + SHORT_MS;

    scene_redis("SET getset %lld", now - 1);                                 /* the holder before is dead */
    assert_true(scene_redis("GET getset") <= now);                           /* A looks, and freezes */
    assert_true(scene_redis("GET getset") <= now);                           /* B looks */
    assert_true(scene_redis("GETSET getset %lld", now + LONG_MS) <= now);    /* B has it */
    assert_true(scene_redis("GETSET getset %lld", a_end) > scene_wall_ms()); /* A writes, and sees that it is late */
    rest_until(a_end);
    assert_true(scene_redis("GET getset") <= scene_wall_ms());                /* C looks: A's end is over */
    assert_true(scene_redis("GETSET getset %lld", a_end + LONG_MS) <= a_end); /* C has it too */

    assert_true(scene_acquire("g:getset", "X", SHORT_MS, 0).fence > 0);
    uint64_t fences[] = {scene_acquire("g:getset", "B", LONG_MS, LONG_MS).fence,
                         scene_acquire("g:getset", "A", SHORT_MS, 0).fence,
                         scene_acquire("g:getset", "C", LONG_MS, 0).fence};
    assert_true(fences[0] > 0 && fences[1] == 0 && fences[2] == 0);
    print_two_holders("GETSET with timestamps", "A freezes before it writes", "B, C", sell_by_hand(2),
                      sell("g:getset", fences, 3));
}

/* DEL without a look ends the lock of whoever holds it by then. */
TEST(test_blind_del_frees_a_lock_of_others)
{
    assert_true(set_nx_px("del", "A", SHORT_MS));
    await_free("del");
    assert_true(set_nx_px("del", "B", LONG_MS));
    assert_int_equal(scene_redis("DEL del"), 1); /* A unlocks */
    assert_true(set_nx_px("del", "C", LONG_MS));

    grant a = scene_acquire("g:del", "A", SHORT_MS, 0);
    uint64_t fences[2] = {scene_acquire("g:del", "B", LONG_MS, LONG_MS).fence};
    assert_false(scene_release("g:del", &a));
    fences[1] = scene_acquire("g:del", "C", LONG_MS, 0).fence;
    assert_true(fences[0] > 0 && fences[1] == 0);
    print_two_holders("DEL without a look", "A unlocks after its lease", "B, C", sell_by_hand(2),
                      sell("g:del", fences, 2));
}

/* A waiter that sets EXPIRE, so that a lock without an end gets one, puts the end off with each try. */
TEST(test_refreshing_waiter_keeps_the_dead_alive)
{
    int moved = 0;
    bool none_moved = true;

    assert_int_equal(scene_redis("SETNX refresh A"), 1);
    scene_redis("PEXPIRE refresh %d", LONG_MS); /* A dies */
    for (int i = 0; i < 5; i++) {
        long long before = scene_redis("PEXPIRETIME refresh");
        rest_until(scene_wall_ms() + 1); /* the end is counted in milliseconds */
        assert_int_equal(scene_redis("SETNX refresh B"), 0);
        scene_redis("PEXPIRE refresh %d", LONG_MS);
        moved += scene_redis("PEXPIRETIME refresh") > before;
    }
    assert_int_equal(moved, 5);

    assert_true(scene_acquire("g:refresh", "A", LONG_MS, 0).fence > 0);
    for (int i = 0; i < 5; i++) {
        int64_t before = scene_inspect("g:refresh").left_ms;
        assert_int_equal(scene_acquire("g:refresh", "B", LONG_MS, 0).fence, 0);
        none_moved = none_moved && scene_inspect("g:refresh").left_ms <= before;
    }
    assert_true(none_moved);
    scene_begin();
    print_row("a waiter sets EXPIRE", "A died; B tries and tries", "nobody", 0,
              "B, as long as it tries: 5 of 5 tries put the end off");
    print_row("  lockstock", "", "nobody", 0, "B, until A's lease ends: none of 5 tries put it off");
    scene_end();
}

/* A count of locks kept by the thread knows nothing of leases that ended. */
TEST(test_count_of_a_thread_outlives_the_lease)
{
    int depth = 0;

    assert_true(set_nx_px("thread", "A", SHORT_MS));
    depth++;
    await_free("thread");
    assert_true(set_nx_px("thread", "B", LONG_MS));
    depth += depth > 0; /* A locks once more: it believes that it holds the lock */
    assert_int_equal(depth, 2);

    lks_mutex *mutex = new_mutex("g:thread", &(lks_lock_options){.lease_ms = MUTEX_MS, .max_hold_ms = 1});
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    uint64_t b = scene_acquire("g:thread", "B", LONG_MS, LONG_MS).fence;
    assert_int_not_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    print_two_holders("reentrant by thread", "A relocks after its lease", "A, B", sell_by_hand(depth),
                      sell("g:thread", &b, 1));
    lks_mutex_unlock(mutex, NULL);
    lks_mutex_free(mutex);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "hold") == 0)
        return hold(argv[2], argv[3]);
    return TEST_RUN(.setup_all = scene_start, .teardown_all = scene_stop);
}
