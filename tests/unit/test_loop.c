/* A channel's loop and its borrowers: threads that do the loop thread's work while that sleeps. */
/* promise CH22: the caller of a single synchronous call reads its answer itself while the loop thread sleeps; the
 * loop thread takes over for a task, another source, a timer or the end of the connection; completions always run on
 * the loop thread */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"
#include "client/loop/loop.h"
#include "support/process.h"
#include "test.h"

static struct loop loop;
static pthread_t thread;
static atomic_int wakes;
static atomic_bool stop;

static void run_nothing(loop_task *self)
{
}

static loop_task task = {.run = run_nothing};

static void *run_loop(void *arg)
{
    while (!atomic_load(&stop)) {
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
    atomic_store(&stop, true);
}

static int teardown(void **state)
{
    loop_task last = {.run = run_stop};

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

/* ---- after a borrower has left ---------------------------------------------------------------- */

static atomic_bool timer_ran;

static void run_due(struct timer *timer)
{
    atomic_store(&timer_ran, true);
}

typedef struct ear {
    loop_source source;
    int ends[2];
    atomic_bool heard;
    atomic_int asked; /* how often `ready` ran */
} ear;

static void run_ready(loop_source *source, short found)
{
    ear *e = container_of(source, ear, source);
    char byte;

    atomic_fetch_add(&e->asked, 1);
    if (read(source->fd, &byte, 1) == 1) /* the loop thread may have found what a borrower read */
        atomic_store(&e->heard, true);
}

static void speak(const ear *e)
{
    assert_int_equal(write(e->ends[1], "x", 1), 1);
}

static void open_ear(ear *e)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, e->ends), 0);
    e->source = (loop_source){.fd = e->ends[0], .events = POLLIN, .ready = run_ready};
    atomic_store(&e->heard, false);
    atomic_store(&e->asked, 0);
}

static void close_ear(const ear *e)
{
    close(e->ends[0]);
    close(e->ends[1]);
}

/* promise CH21 */
TEST(borrower_may_add_change_and_remove_sources)
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
    speak(&first);
    await_flag(&first.heard);

    enter();
    loop_set_events(&loop, &second.source, POLLIN);
    loop_leave(&loop, false);
    speak(&second);
    await_flag(&second.heard);

    /* An event of a source is not reported for another source that replaced it. */
    enter();
    int before = atomic_load(&wakes);
    speak(&first);
    for (int i = 0; i < 20; i++)
        process_pause(); /* the thread wakes for it, and waits for the borrower */
    loop_unwatch(&loop, &first.source);
    close_ear(&first);
    open_ear(&first);
    assert_true(loop_watch(&loop, &first.source));
    loop_leave(&loop, true);
    while (atomic_load(&wakes) == before)
        process_pause();
    enter();
    assert_int_equal(atomic_load(&first.asked), 0);
    loop_leave(&loop, false);
    speak(&first);
    await_flag(&first.heard);

    enter();
    loop_unwatch(&loop, &first.source);
    loop_unwatch(&loop, &second.source);
    loop_leave(&loop, false);
    close_ear(&first);
    close_ear(&second);
}

/* ---- who has the loop --------------------------------------------------------------------------------- */

/* promise CH21: a single call is sent by its own thread as a borrower of the loop, while the loop thread sleeps; the
 * loop thread wakes in time for timers of the borrower and never runs beside it */
TEST(one_borrower_at_a_time_and_none_while_work_waits)
{
    assert_false(loop_enter(&loop)); /* no thread sleeps */
    start();
    enter();
    assert_false(loop_enter(&loop));
    loop_post(&loop, &task);
    loop_leave(&loop, false);
    enter(); /* when the task has run */
    loop_leave(&loop, false);
}

/* ---- borrowers that stay -------------------------------------------------------------------------- */

/* A borrower has stayed for it and left: the loop thread never looked for what comes from it. */
static void take(ear *e)
{
    enter();
    e->source.events = 0;
    assert_true(loop_watch(&loop, &e->source));
    e->source.events = POLLIN;
    speak(e);
    assert_true(loop_wait_for_source(&loop, &e->source));
    loop_leave(&loop, false);
    assert_true(atomic_exchange(&e->heard, false));
}

static void start_taken(ear *e)
{
    open_ear(e);
    start();
    take(e);
}

static void lose(ear *e)
{
    enter();
    loop_unwatch(&loop, &e->source);
    loop_leave(&loop, false);
    close_ear(e);
}

TEST(borrower_waits_until_a_timer_is_due_despite_an_earlier_wake)
{
    struct timer soon = {.due = run_due};
    ear e;

    open_ear(&e);
    start();
    enter();
    assert_true(loop_watch(&loop, &e.source));
    loop_leave(&loop, true);
    while (atomic_load(&wakes) == 0)
        process_pause();
    enter();
    heap_set(&loop.timers, &soon, clock_in_ms(20));
    uint64_t due_ns = soon.at_ns;
    atomic_store(&timer_ran, false);
    assert_false(loop_wait_for_source(&loop, &e.source));
    assert_true(clock_now_ns() >= due_ns);
    await_flag(&timer_ran);
    lose(&e);
}

TEST(borrowed_source_may_be_removed_or_left_to_another)
{
    ear first, second;

    open_ear(&first);
    open_ear(&second);
    start();
    take(&first);
    take(&second);
    speak(&first);
    await_flag(&first.heard);
    lose(&second);
    lose(&first);
}

typedef struct borrower {
    pthread_t thread;
    ear *at;
    atomic_bool in, left;
} borrower;

/* Until it is to leave. */
static void *stay(void *arg)
{
    borrower *g = arg;

    enter();
    atomic_store(&g->in, true);
    while (loop_wait_for_source(&loop, &g->at->source))
        ;
    atomic_store(&g->left, true);
    return NULL;
}

static void visit(borrower *g, ear *at)
{
    *g = (borrower){.at = at};
    assert_int_equal(pthread_create(&g->thread, NULL, stay, g), 0);
    await_flag(&g->in);
}

static bool somebody_stays(void)
{
    pthread_mutex_lock(&loop.lock);
    bool waiting = loop.waiting;
    pthread_mutex_unlock(&loop.lock);
    return waiting;
}

static void await_left(borrower *g)
{
    await_flag(&g->left);
    pthread_join(g->thread, NULL);
}

static atomic_bool task_ran;

static void run_noted(loop_task *self)
{
    atomic_store(&task_ran, true);
}

static int gate[2];
static atomic_bool at_gate, opened;

static void wait_at_gate(int number)
{
    char byte;

    atomic_store(&at_gate, true);
    while (read(gate[0], &byte, 1) != 1)
        ;
}

static void open_gate(void)
{
    atomic_store(&opened, true);
    assert_int_equal(write(gate[1], "x", 1), 1);
}

/* A borrower that stays as if it got no processor. */
static void visit_and_stick(borrower *g, ear *at)
{
    struct sigaction action = {.sa_handler = wait_at_gate};

    assert_int_equal(pipe(gate), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    for (;;) {
        atomic_store(&at_gate, false);
        atomic_store(&opened, false);
        visit(g, at);
        while (!somebody_stays() && !atomic_load(&g->left))
            process_pause();
        assert_int_equal(pthread_kill(g->thread, SIGUSR1), 0);
        await_flag(&at_gate);
        if (somebody_stays())
            return;
        open_gate(); /* it had left already */
        await_left(g);
    }
}

static void await_unstuck(borrower *g)
{
    await_left(g);
    signal(SIGUSR1, SIG_DFL);
    close(gate[0]);
    close(gate[1]);
}

TEST(thread_does_not_wait_for_a_waiting_borrower)
{
    loop_task noted = {.run = run_noted};
    ear e;
    borrower g;

    start_taken(&e);
    visit_and_stick(&g, &e);
    atomic_store(&task_ran, false);
    loop_post(&loop, &noted);
    await_flag(&task_ran);
    enter(); /* another borrower may come, but not stay */
    assert_false(loop_wait_for_source(&loop, &e.source));
    assert_true(somebody_stays());
    open_gate();
    await_unstuck(&g);
    lose(&e);
}

TEST(borrower_that_is_cancelled_leaves_first)
{
    ear e;
    borrower g;

    start_taken(&e);
    visit(&g, &e);
    assert_int_equal(pthread_cancel(g.thread), 0);
    loop_post(&loop, &task);
    pthread_join(g.thread, NULL);
    assert_false(somebody_stays());
    lose(&e);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
