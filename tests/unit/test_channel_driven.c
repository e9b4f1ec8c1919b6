/* Channels without a thread: the test is the event loop. */
/* promise CH38: a driven channel has no thread; its descriptor is readable, or its timeout over, whenever there is
 * something to do; `done` runs in lks_channel_step alone, and nothing waits for its calls */
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process.h"
#include "test.h"
#include "unit/channel_fixture.h"

static const lks_channel_options driven = {.driven = 1, .timeout_ms = LONG_MS};

/* One round of an event loop. */
static void wait_and_step(void)
{
    struct pollfd fd = {.fd = lks_channel_fd(channel), .events = POLLIN};

    assert_true(poll(&fd, 1, lks_channel_timeout_ms(channel)) >= 0);
    assert_int_equal(lks_channel_step(channel, NULL), LKS_OK);
}

static void drive(const lks_call *call)
{
    while (!lks_call_is_done(call))
        wait_and_step();
}

static void assert_ended_here(struct witness *w, lks_code code, lks_applied applied)
{
    assert_true(pthread_equal(w->thread, pthread_self()));
    assert_ended(w, code, applied);
}

TEST(its_calls_end_in_steps_without_a_thread)
{
    struct witness w;
    size_t before;

    close_channel();
    before = process_thread_count(getpid());
    channel = open_channel(server_url(server), driven);
    assert_int_equal(process_thread_count(getpid()), before);
    start(&server_write, "a", NULL, &w);
    assert_false(lks_call_is_done(w.call));
    drive(w.call);
    assert_ended_here(&w, LKS_OK, LKS_APPLIED_UNSPECIFIED);
}

static void *start_one(void *arg)
{
    start(&server_plain, "b", NULL, arg);
    return NULL;
}

/* Without calls, its timeout is no reason to wake. */
/* promise CH21 */
TEST(a_call_that_another_thread_starts_wakes_it)
{
    struct witness first, second;
    struct pollfd fd;
    pthread_t other;

    reopen(driven);
    start(&server_write, "a", NULL, &first);
    drive(first.call);
    hold(1);
    fd = (struct pollfd){.fd = lks_channel_fd(channel), .events = POLLIN};
    while (poll(&fd, 1, 0) > 0)
        lks_channel_step(channel, NULL);
    assert_int_equal(pthread_create(&other, NULL, start_one, &second), 0);
    assert_int_equal(poll(&fd, 1, LONG_MS), 1);
    pthread_join(other, NULL);
    server_release(server);
    drive(second.call);
    assert_ended_here(&first, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_ended_here(&second, LKS_OK, LKS_APPLIED_UNSPECIFIED);
}

enum { CALLS = 400 };

static atomic_int n_ended;

static void count(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                  const lks_error *error)
{
    atomic_fetch_add(&n_ended, 1);
}

/* Each call is alone, so this thread sends it. */
static void *start_in_turn(void *arg)
{
    ping_request request = ping("alone");

    for (int i = 0; i < CALLS; i++) {
        lks_call_start(channel, &server_write, &request.base, NULL, count, NULL, NULL, NULL, NULL);
        while (atomic_load(&n_ended) <= i)
            sched_yield();
    }
    return NULL;
}

/* Half of the steps come when nothing has waked the loop, as another thread is sending. A wake that is lost leaves the
 * loop waiting for a deadline. */
TEST(a_thread_may_send_while_another_steps)
{
    pthread_t starter;

    reopen(driven);
    atomic_store(&n_ended, 0);
    assert_int_equal(pthread_create(&starter, NULL, start_in_turn, NULL), 0);
    while (atomic_load(&n_ended) < CALLS / 2)
        assert_int_equal(lks_channel_step(channel, NULL), LKS_OK);
    while (atomic_load(&n_ended) < CALLS)
        wait_and_step();
    pthread_join(starter, NULL);
}

static struct witness next;

static void start_next(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                       const lks_error *error)
{
    see(function, arg, code, response, error);
    start(&server_write, "next", NULL, &next);
}

TEST(a_call_that_a_done_starts_is_made)
{
    ping_request request = ping("a");
    struct pollfd fd;
    struct witness w = {0};

    reopen(driven);
    assert_int_equal(lks_call_start(channel, &server_write, &request.base, NULL, start_next, NULL, &w, &w.call, NULL),
                     LKS_OK);
    drive(w.call);
    fd = (struct pollfd){.fd = lks_channel_fd(channel), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 1);
    drive(next.call);
    lks_call_free(w.call);
    assert_ended_here(&next, LKS_OK, LKS_APPLIED_UNSPECIFIED);
}

/* Nothing comes: only the timeout ends the wait. */
TEST(its_timeout_is_that_of_its_first_timer)
{
    const lks_call_options brief = {.timeout_ms = 200, .no_retry = true};
    struct witness w;

    reopen(driven);
    hold(1);
    start(&server_plain, "a", &brief, &w);
    wait_and_step();
    assert_in_range(lks_channel_timeout_ms(channel), 0, 200);
    drive(w.call);
    assert_ended_here(&w, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    server_release(server);
}

TEST(its_close_ends_calls_on_the_closing_thread)
{
    struct witness w;
    lks_call *call;

    reopen(driven);
    start(&server_write, "a", NULL, &w);
    call = w.call;
    close_channel();
    assert_true(lks_call_is_done(call));
    assert_ended_here(&w, LKS_CANCELLED, w.error.applied);
    reopen((lks_channel_options){0}); /* the thread may wait again */
    run_ok(&server_write, "b");
}

static lks_code give_token(void *arg, char token[LKS_TOKEN_BYTES_MAX + 1], uint32_t *lasts_ms, lks_error *error)
{
    *(pthread_t *)arg = pthread_self();
    strcpy(token, "abc");
    *lasts_ms = LONG_MS;
    return LKS_OK;
}

TEST(a_token_that_is_fetched_elsewhere_wakes_it)
{
    lks_channel_options options = driven;
    pthread_t fetched_by = pthread_self();
    struct witness w;

    options.get_token = give_token;
    options.get_token_arg = &fetched_by;
    reopen(options);
    start(&server_write, "a", NULL, &w);
    drive(w.call);
    assert_false(pthread_equal(fetched_by, pthread_self()));
    assert_ended_here(&w, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_string_equal(server_request_at(server, 0).authorization, "Bearer abc");
}

TEST(a_forked_child_does_not_step)
{
    int status = -1;

    reopen(driven);
    pid_t child = fork();
    if (child == 0)
        _exit(lks_channel_step(channel, NULL) == LKS_FAILED_PRECONDITION ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static lks_code code_of_step;

static void step_inside(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                        const lks_error *error)
{
    code_of_step = lks_channel_step(arg, NULL);
}

TEST(call_that_would_block_its_own_loop_is_refused)
{
    ping_request request = ping("a");
    lks_call *call = NULL;
    lks_error error;

    assert_int_equal(lks_channel_step(channel, &error), LKS_FAILED_PRECONDITION);
    assert_non_null(strstr(error.message, "driven"));
    assert_int_equal(lks_channel_fd(channel), -1);
    assert_int_equal(lks_channel_timeout_ms(channel), -1);
    reopen(driven);
    assert_int_equal(run(&server_write, "refused", NULL, NULL, &error), LKS_FAILED_PRECONDITION);
    assert_int_equal(
        lks_call_start(channel, &server_write, &request.base, NULL, step_inside, NULL, channel, &call, NULL), LKS_OK);
    assert_int_equal(lks_call_wait(call, &error), LKS_FAILED_PRECONDITION);
    assert_false(lks_call_wait_for(call, LONG_MS));
    drive(call);
    assert_int_equal(lks_call_wait(call, NULL), LKS_OK);
    assert_int_equal(server_count(server, "refused"), 0);
    assert_int_equal(code_of_step, LKS_FAILED_PRECONDITION);
    lks_call_free(call);
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)
