/* A thread whose synchronous call is the only one of its channel sends it and reads its answer, while the loop thread
 * sleeps. The loop thread does everything else. */
/* promise CH22 */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/process.h"
#include "unit/channel_fixture.h"
#include "test.h"

enum { IN_A_ROW = 100, WAKES_MAX = 2, ROUNDS_MAX = 500 };

static long loop_thread;

/* ---- the loop thread ------------------------------------------------------------ */

static void note_thread(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                        const lks_error *error)
{
    loop_thread = syscall(SYS_gettid);
}

/* How often the loop thread has fallen asleep. */
static long sleeps(void)
{
    char path[64], line[128];
    long n = -1;

    snprintf(path, sizeof path, "/proc/self/task/%ld/status", loop_thread);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
            n = strtol(line + 24, NULL, 10);
    if (status)
        fclose(status);
    assert_true(n >= 0);
    return n;
}

static void call_once(void)
{
    run_ok(&server_write, "x");
}

/* Makes calls until the loop thread sleeps through them. It wakes once a second. */
static void settle_down(void)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        long before = sleeps();
        for (int i = 0; i < IN_A_ROW; i++)
            call_once();
        if (sleeps() - before <= WAKES_MAX)
            return;
    }
    fail_msg("the loop thread is woken by calls that are alone");
}

static int set_up_alone(void **state)
{
    ping_request request = ping("first");
    lks_call *call;

    set_up(state);
    assert_int_equal(lks_call_start(channel, &server_write, &request.base, NULL, note_thread, NULL, NULL, &call, NULL),
                     LKS_OK);
    assert_int_equal(lks_call_wait(call, NULL), LKS_OK);
    lks_call_free(call);
    return 0;
}

/* ---- a thread that waits ---------------------------------------------------------- */

struct waiter {
    pthread_t thread;
    const lks_rpc_method *method;
    lks_call_options options;
    lks_error error;
};

static void *call_and_wait(void *arg)
{
    struct waiter *w = arg;

    run(w->method, "held", &w->options, NULL, &w->error);
    return NULL;
}

/* Starts a thread whose call the server holds. */
static void wait_alone(struct waiter *w, const lks_rpc_method *method, uint32_t timeout_ms)
{
    settle_down();
    hold(1);
    size_t seen = server_seen(server);
    *w = (struct waiter){.method = method, .options.timeout_ms = timeout_ms};
    assert_int_equal(pthread_create(&w->thread, NULL, call_and_wait, w), 0);
    assert_true(server_await(server, seen + 1));
}

static void assert_result(struct waiter *w, lks_code code, lks_applied applied)
{
    pthread_join(w->thread, NULL);
    assert_error(&w->error, code, applied);
}

/* ---- alone -------------------------------------------------------------------------- */

TEST(calls_one_at_a_time_let_the_loop_thread_sleep)
{
    settle_down();
}

TEST(the_end_of_a_connection_is_noticed_between_calls)
{
    lks_call_options once = {.no_retry = true};

    settle_down();
    server_drop_connections(server);
    assert_true(server_await_accepted(server, 2));
    assert_int_equal(run(&server_plain, "a", &once, NULL, NULL), LKS_OK);
}

/* promise CH21 */
TEST(a_connection_that_ends_under_the_only_call_ends_its_try)
{
    struct waiter w;

    wait_alone(&w, &server_write, LONG_MS);
    server_drop_connections(server);
    assert_result(&w, LKS_OK, LKS_APPLIED_MAYBE);
    wait_alone(&w, &server_plain, LONG_MS);
    server_drop_connections(server);
    assert_result(&w, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE);
}

TEST(the_deadline_of_the_only_call_is_kept)
{
    struct waiter w;

    wait_alone(&w, &server_plain, 100);
    assert_result(&w, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_MAYBE);
    server_release(server);
    call_once();
}

TEST(the_loop_thread_reads_an_answer_that_takes_long)
{
    struct waiter w;

    wait_alone(&w, &server_plain, LONG_MS);
    long before = sleeps();
    while (sleeps() == before) /* then the waiting thread has given the loop back */
        process_pause();
    server_release(server);
    assert_result(&w, LKS_OK, LKS_APPLIED_UNSPECIFIED);
}

static void on_signal(int number)
{
}

TEST(a_signal_does_not_end_the_wait)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    struct waiter w;

    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    wait_alone(&w, &server_plain, LONG_MS);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pthread_kill(w.thread, SIGUSR1), 0);
        process_pause();
    }
    server_release(server);
    assert_result(&w, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    sigaction(SIGUSR1, &before, NULL);
}

/* ---- with company --------------------------------------------------------------------- */

TEST(calls_that_come_are_not_held_up_and_complete_on_the_loop_thread)
{
    struct witness first, second;
    struct waiter w;

    wait_alone(&w, &server_plain, LONG_MS);
    start(&server_write, "a", NULL, &first);
    call_once();
    assert_ok(&first, 1);
    server_release(server);
    assert_result(&w, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    settle_down();
    start(&server_write, "b", NULL, &second);
    assert_ok(&second, 1);
    assert_true(pthread_equal(first.thread, second.thread));
    assert_false(pthread_equal(first.thread, pthread_self()));
}

/* The loop thread reads the answer to the second at once, not when it wakes on its own timer. */
TEST(asynchronous_calls_are_alone_too)
{
    struct witness witness;

    settle_down();
    for (int i = 0; i < 200; i++) {
        call_once();
        start(&server_write, "a", NULL, &witness);
        assert_ok(&witness, 1);
    }
}

TEST(closing_ends_the_only_call)
{
    struct waiter w;

    wait_alone(&w, &server_plain, LONG_MS);
    close_channel();
    assert_result(&w, LKS_CANCELLED, LKS_APPLIED_MAYBE);
}

static int gate[2];

static void wait_at_gate(int number)
{
    char byte;

    while (read(gate[0], &byte, 1) != 1)
        ;
}

static void *open_gate(void *arg)
{
    for (int i = 0; i < 50; i++)
        process_pause();
    return write(gate[1], "x", 1) == 1 ? NULL : arg;
}

/* As if it got no processor. */
TEST(a_channel_that_is_closed_outlives_its_waiting_thread)
{
    struct sigaction action = {.sa_handler = wait_at_gate}, before;
    pthread_t opener;
    struct waiter w;

    assert_int_equal(pipe(gate), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    wait_alone(&w, &server_plain, LONG_MS);
    assert_int_equal(pthread_kill(w.thread, SIGUSR1), 0);
    assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
    close_channel();
    assert_result(&w, LKS_CANCELLED, LKS_APPLIED_MAYBE);
    pthread_join(opener, NULL);
    sigaction(SIGUSR1, &before, NULL);
    close(gate[0]);
    close(gate[1]);
}

/* ---- in any order ----------------------------------------------------------------------- */

enum { CALLERS = 3, CALLS = 400 };

struct caller {
    pthread_t thread;
    unsigned number, right;
};

static void *call_now_and_then(void *arg)
{
    struct caller *c = arg;
    unsigned dice = c->number;

    for (int i = 0; i < CALLS; i++) {
        ping_response *response = NULL;
        char id[32];

        snprintf(id, sizeof id, "%u-%d", c->number, i);
        if (run(&server_write, id, NULL, &response, NULL) == LKS_OK)
            c->right += strcmp(response->id, id) == 0;
        if (response)
            lks_message_free(&response->base);
        dice = dice * 1103515245 + 12345;
        if ((dice >> 16) % 4 == 0)
            process_pause();
    }
    return NULL;
}

TEST(synchronous_and_asynchronous_calls_take_turns)
{
    static struct witness seen[CALLS];
    struct caller callers[CALLERS];

    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.number = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_now_and_then, &callers[i]), 0);
    }
    for (int i = 0; i < CALLS; i++) {
        char id[32];
        snprintf(id, sizeof id, "s-%d", i);
        start(&server_write, id, NULL, &seen[i]);
        if (i % 4 == 0)
            process_pause();
    }
    for (unsigned i = 0; i < CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
    for (unsigned i = 0; i < CALLERS; i++)
        assert_int_equal(callers[i].right, CALLS);
    for (int i = 0; i < CALLS; i++) {
        assert_ok(&seen[i], 1);
        assert_true(pthread_equal(seen[i].thread, seen[0].thread));
    }
    assert_int_equal(server_seen(server), 1 + (CALLERS + 1) * CALLS); /* each once */
}

TEST_MAIN(.setup = set_up_alone, .teardown = tear_down)
