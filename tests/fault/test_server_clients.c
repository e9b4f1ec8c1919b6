/* Clients that die: processes killed with SIGKILL while each has 8 calls in flight. The
 * server goes on answering, and keeps nothing of them. */

#include <signal.h>

#include <lockstock/v1/stock.lks_client.h>

#include "support/counts.h"
#include "support/server_fixture.h"
#include "test.h"

enum { BATCH = 10, LIMIT_MS = 120000, GROWTH_MAX_KIB = 16 * 1024 };

typedef struct wire {
    const char *scheme, *program; /* that holds calls */
    size_t fast, soak;            /* clients */
} wire;

static lks_code get_pear(const char *url)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = 20000};
    lks_channel *channel = NULL;

    request.sku = "pear";
    lks_code code = lks_channel_open(url, NULL, &channel, NULL);
    if (code == LKS_OK)
        code = lks_stock_get_item(channel, &request, &options, NULL, NULL);
    lks_channel_close(channel);
    return code;
}

/* Starts a batch of clients, waits until all hold their calls, kills them all. */
static void kill_a_batch(const char *program, const char *url)
{
    const char *const argv[] = {program, url, NULL};
    process *clients[BATCH];
    size_t holding = 0;

    for (size_t i = 0; i < BATCH; i++) {
        clients[i] = process_spawn(argv, NULL);
        assert_non_null(clients[i]);
    }
    for (size_t i = 0; i < BATCH; i++)
        holding += process_wait_line(clients[i], "holding", NULL, 0, LIMIT_MS);
    if (holding < BATCH)
        fail_msg("%zu of %d clients hold calls; the first says:\n%s", holding, BATCH, process_output(clients[0]));
    for (size_t i = 0; i < BATCH; i++)
        process_signal(clients[i], SIGKILL);
    for (size_t i = 0; i < BATCH; i++)
        process_free(clients[i]);
}

/* The server notices a lost peer a moment later: waits until the number of its
 * descriptors stands at `expected` or below; returns what it is in the end. */
static size_t settled_fds(pid_t pid, size_t expected)
{
    long long end = process_now_ms() + 5000;
    size_t n;

    while ((n = process_fd_count(pid)) > expected && process_now_ms() < end)
        process_pause();
    return n;
}

static void test_killed_clients(void **state)
{
    const wire *w = *state;
    size_t batches = counts_of(w->fast, w->soak) / BATCH;
    char beside[64];

    /* Asked over tcp:// also where others are killed elsewhere. */
    snprintf(beside, sizeof beside, "tcp://127.0.0.1:%u", server_fixture_free_port());
    const char *const args[] = {"--listen", beside, NULL};
    server_fixture *server = server_fixture_start(&(server_fixture_options){.scheme = w->scheme, .args = args});
    assert_non_null(server);
    const char *url = beside;
    pid_t pid = server_fixture_pid(server);
    assert_int_equal(get_pear(url), LKS_NOT_FOUND);
    size_t fds = process_fd_count(pid), rss = process_rss_kib(pid), threads = process_thread_count(pid);
    for (size_t i = 0; i < batches; i++) {
        kill_a_batch(w->program, server_fixture_url(server));
        assert_int_equal(get_pear(url), LKS_NOT_FOUND);
    }
    size_t fds_after = settled_fds(pid, fds);
    print_message("    %s: %zu clients killed: descriptors %zu -> %zu, memory %zu -> %zu KiB, threads %zu -> %zu\n",
                  w->scheme, batches * BATCH, fds, fds_after, rss, process_rss_kib(pid), threads,
                  process_thread_count(pid));
    assert_true(fds_after <= fds);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    assert_true(process_rss_kib(pid) <= rss + GROWTH_MAX_KIB);
#endif
    assert_int_equal(process_thread_count(pid), threads);
    assert_true(server_fixture_stop(server, LIMIT_MS));
    server_fixture_free(server);
}

int main(void)
{
    static wire wires[] = {
        {.scheme = "tcp", .program = HOLD_CALLS_PATH, .fast = 40, .soak = 1000},
        {.scheme = "grpc", .program = HOLD_CALLS_GRPC_PATH, .fast = 40, .soak = 1000},
        {.scheme = "nng+tcp", .program = HOLD_CALLS_PATH, .fast = 20, .soak = 200},
    };

    for (size_t i = 0; i < sizeof wires / sizeof *wires; i++)
        test_add_with(wires[i].scheme, test_killed_clients, NULL, NULL, &wires[i]);
    return TEST_RUN();
}
