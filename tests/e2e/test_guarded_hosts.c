/* Two hosts with guards, processes of their own, on one lockstockd: clicks that come twice, over every wire; processes
 * that are killed and frozen in a handler. */

#include <signal.h>

#include "e2e/guards_scene.h"
#include "support/counts.h"
#include "test.h"

enum { HOSTS = 2, WIRES = 3 };

typedef enum wire { TCP, GRPC, NNG } wire;

static process *hosts[HOSTS], *killed;
static char urls[HOSTS][WIRES][64];

static int setup(void **state)
{
    if (scene_setup(state) != 0)
        return -1;
    for (int i = 0; i < HOSTS; i++) {
        const char *const argv[] = {GUARDED_HOST_PATH, server_fixture_url(server), effects, gate, NULL};
        char line[256];

        hosts[i] = process_spawn(argv, NULL);
        if (!hosts[i] || !process_wait_line(hosts[i], "tcp://", line, sizeof line, LIMIT_MS) ||
            sscanf(line, "%63s %63s %63s", urls[i][TCP], urls[i][GRPC], urls[i][NNG]) != WIRES)
            return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    bool ended_well = true;

    for (int i = 0; i < HOSTS; i++) {
        process_signal(hosts[i], SIGTERM);
        ended_well = (hosts[i] == killed || process_exited_with(hosts[i], 0, LIMIT_MS)) && ended_well;
        process_free(hosts[i]);
    }
    killed = NULL;
    return scene_teardown(state) == 0 && ended_well ? 0 : -1;
}

static lks_channel *connect_to(int host_at, wire w)
{
    const lks_channel_options options = {.timeout_ms = LIMIT_MS};
    lks_channel *way = NULL;

    assert_int_equal(lks_channel_open(urls[host_at][w], &options, &way, NULL), LKS_OK);
    return way;
}

static void assert_line(process *p, const char *text)
{
    if (!process_wait_line(p, text, NULL, 0, LIMIT_MS))
        fail_msg("no \"%s\" in: %s", text, process_output(p));
}

/* ---- clicks that come twice -------------------------------------------------------------------------------- */

/* Each of n orders is clicked at both hosts at once. Whether both were told the same of each. */
static bool click_twice(const lks_rpc_method *method, wire w, size_t n)
{
    lks_channel *ways[HOSTS] = {connect_to(0, w), connect_to(1, w)};
    lks_call *(*calls)[HOSTS] = calloc(n, sizeof *calls);
    bool same = true;

    for (size_t i = 0; i < n; i++) {
        char id[32];
        snprintf(id, sizeof id, "click-%d-%zu", w, i);
        buy_request request = order(id, NULL, 0);
        for (int h = 0; h < HOSTS; h++)
            calls[i][h] = start_on(ways[h], method, &request, LIMIT_MS);
    }
    for (size_t i = 0; i < n; i++) {
        same = same_answer(ended(calls[i][0]), ended(calls[i][1])) && same;
        for (int h = 0; h < HOSTS; h++)
            lks_call_free(calls[i][h]);
    }
    for (int h = 0; h < HOSTS; h++)
        lks_channel_close(ways[h]);
    free(calls);
    return same;
}

/* promise GD20: double clicks at two hosts have one effect each, over tcp, nng and gRPC; without guards two; a killed
 * process blocks nothing beyond its leases */
/* promise E14: two clicks of an order at once are one effect and one answer, over SP and libnng */
/* promise E16: ... each order runs once however often it is sent */
TEST(double_clicks_at_two_hosts_have_one_effect_each)
{
    int n = (int)counts_of(100, 1000);

    for (int w = 0; w < WIRES; w++) {
        assert_true(click_twice(&guarded_once, (wire)w, (size_t)n)); /* each answer names its order, so each ran */
        assert_int_equal(n_effects(NULL), n * (w + 1));
    }
}

/* What the guard is for: the same clicks without it. */
/* promise GD20 */
TEST(without_guards_double_clicks_have_two_effects_each)
{
    assert_false(click_twice(&guarded_free, TCP, 50));
    assert_int_equal(n_effects(NULL), 100);
}

/* ---- processes that are killed and frozen ------------------------------------------------------------------- */

/* A call of Short whose handler runs in the process of the first host and waits for the gate. */
static lks_call *run_in_first(lks_channel **way)
{
    buy_request request = order(o1, x_alone, 1);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    *way = connect_to(0, TCP);
    lks_call *call = start_on(*way, &guarded_short, &request, LIMIT_MS);
    assert_line(hosts[0], "running o-1 attempt=1");
    return call;
}

/* promise GD20 */
/* promise E17: ... killed in the handler: no lock outlives its lease, and the repeat runs as attempt 2 */
TEST(a_process_killed_in_a_handler_bars_nothing_beyond_its_leases)
{
    buy_request request = order(o1, x_alone, 1);
    lks_channel *first_way, *second_way = connect_to(1, TCP);
    lks_call *first = run_in_first(&first_way);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    process_kill(hosts[0]);
    killed = hosts[0];
    lks_call *second = start_on(second_way, &guarded_short, &request, LIMIT_MS);
    open_gate();
    const buy_response *response = ended(second);
    assert_int_equal(response->attempt, 2);
    assert_int_equal(n_effects(NULL), 1);
    lks_call_free(second);
    lks_channel_close(first_way);
    lks_channel_close(second_way);
    lks_call_free(first);
}

/* Past its leases another host runs the call. What the frozen handler writes afterwards is refused by its fence, its
 * result is not stored, and its caller is told what the other one stored. */
/* promise GD9: a handler frozen beyond its leases: the fence refuses its write, its result is not stored, and its
 * caller gets the other result */
/* promise E18: ... frozen in the handler: the fence refuses its late write, and its caller gets the result of the
 * next attempt */
TEST(a_handler_frozen_beyond_its_leases_writes_nothing_and_tells_what_the_other_did)
{
    buy_request request = order(o1, x_alone, 1);
    lks_channel *first_way, *second_way = connect_to(1, TCP);
    lks_call *first = run_in_first(&first_way);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    process_signal(hosts[0], SIGSTOP);
    lks_call *second = start_on(second_way, &guarded_short, &request, LIMIT_MS);
    assert_line(hosts[1], "running o-1 attempt=2");
    open_gate();
    const buy_response *response = ended(second);
    process_signal(hosts[0], SIGCONT);
    assert_line(hosts[0], "stale o-1 attempt=1 lost=1");
    assert_true(same_answer(response, ended(first)));
    assert_int_equal(n_effects(NULL), 1);
    assert_int_equal(n_effects("o-1 2"), 1);
    lks_call_free(first);
    lks_call_free(second);
    lks_channel_close(first_way);
    lks_channel_close(second_way);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
