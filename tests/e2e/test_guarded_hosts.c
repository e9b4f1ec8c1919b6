/* Two hosts with guards, processes of their own, on one lockstockd: clicks that come twice, over every wire; processes
 * that are killed and frozen in a handler. */

#include <pthread.h>
#include <signal.h>

#include "conformance/caller.h"
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

/* One side's clicks: an order each, all at once. */
typedef struct side {
    int host;
    wire wire;
    const lks_rpc_method *method;
    size_t n;
    char (*receipts)[64]; /* what each was answered */
    pthread_t thread;
} side;

static void click_id(size_t i, char id[16])
{
    snprintf(id, 16, "click-%05zu", i);
}

static void note(const side *s, size_t i, const buy_response *response)
{
    if (response)
        snprintf(s->receipts[i], sizeof s->receipts[i], "%.63s", response->receipt);
}

static void click_over_channel(const side *s)
{
    lks_channel *way = connect_to(s->host, s->wire);
    lks_call **calls = calloc(s->n, sizeof *calls);
    lks_error error;
    char id[16];

    for (size_t i = 0; i < s->n; i++) {
        click_id(i, id);
        buy_request request = order(id, NULL, 0);
        const lks_call_options options = {.timeout_ms = LIMIT_MS};
        if (lks_call_start(way, s->method, &request.base, &options, NULL, NULL, NULL, &calls[i], NULL) != LKS_OK)
            abort();
    }
    for (size_t i = 0; i < s->n; i++) {
        if (lks_call_wait(calls[i], &error) == LKS_OK)
            note(s, i, (const buy_response *)lks_call_response(calls[i]));
        else
            fprintf(stderr, "%zu: %s: %s\n", i, lks_code_name(error.code), error.message);
        lks_call_free(calls[i]);
    }
    free(calls);
    lks_channel_close(way);
}

/* As many at once as a host takes of one connection. */
static void click_over_grpc(const side *s)
{
    enum { AT_ONCE = 64, BYTES = 64 };
    void *caller = grpc_driver.open(urls[s->host][GRPC], NULL);
    size_t *order_of = calloc(2 * s->n + 2, sizeof *order_of), sent = 0;

    for (size_t got = 0; caller && got < s->n; got++) {
        outcome out;

        for (; sent < s->n && sent < got + AT_ONCE; sent++) {
            char id[16];
            uint8_t payload[BYTES];

            click_id(sent, id);
            buy_request request = order(id, NULL, 0);
            const call_spec call = {.method = s->method->path,
                                    .payload = payload,
                                    .len = lockstock__test__buy_request__pack(&request, payload),
                                    .timeout_ms = LIMIT_MS};
            unsigned number = grpc_driver.start(caller, &call);
            if (number == 0 || number >= 2 * s->n + 2)
                abort();
            order_of[number] = sent;
        }
        if (!grpc_driver.await(caller, &out))
            break;
        buy_response *response =
            out.code == LKS_OK ? lockstock__test__buy_response__unpack(NULL, out.len, out.payload) : NULL;
        if (!response)
            fprintf(stderr, "%s: %s\n", lks_code_name(out.code), out.message);
        note(s, order_of[out.call], response);
        if (response)
            lockstock__test__buy_response__free_unpacked(response, NULL);
        free(out.payload);
    }
    if (caller)
        grpc_driver.close(caller);
    free(order_of);
}

static void *click(void *arg)
{
    const side *s = arg;

    if (s->wire == GRPC)
        click_over_grpc(s);
    else
        click_over_channel(s);
    return NULL;
}

/* Each order is clicked at both hosts at once; how many lines of effects there are then, and whether both sides of each
 * were told the same. */
static int click_twice(const lks_rpc_method *method, wire w, size_t n, bool *same)
{
    side sides[HOSTS];

    for (int i = 0; i < HOSTS; i++) {
        sides[i] =
            (side){.host = i, .wire = w, .method = method, .n = n, .receipts = calloc(n, sizeof *sides[i].receipts)};
        assert_int_equal(pthread_create(&sides[i].thread, NULL, click, &sides[i]), 0);
    }
    for (int i = 0; i < HOSTS; i++)
        pthread_join(sides[i].thread, NULL);
    *same = true;
    for (size_t i = 0; i < n; i++) {
        assert_true(sides[0].receipts[i][0] != '\0');
        assert_true(sides[1].receipts[i][0] != '\0');
        *same = *same && strcmp(sides[0].receipts[i], sides[1].receipts[i]) == 0;
    }
    for (int i = 0; i < HOSTS; i++)
        free(sides[i].receipts);
    return n_effects(NULL);
}

static void expect_one_each(wire w)
{
    size_t n = counts_of(100, 1000);
    bool same;

    assert_int_equal(click_twice(&guarded_once, w, n, &same), n);
    assert_true(same);
    for (size_t i = 0; i < n; i++) {
        char id[16];

        click_id(i, id);
        assert_int_equal(n_effects(id), 1);
    }
}

/* promise GD20 */
/* promise E14: two clicks of an order at once are one effect and one answer, over SP and libnng */
/* promise E16: ... each order runs once however often it is sent */
TEST(double_clicks_at_two_hosts_have_one_effect_each_over_tcp)
{
    expect_one_each(TCP);
}

/* promise GD20: double clicks at two hosts have one effect each, over tcp, nng and gRPC; without guards two; a killed
 * process blocks nothing beyond its leases */
TEST(double_clicks_at_two_hosts_have_one_effect_each_over_nng)
{
    expect_one_each(NNG);
}

/* promise GD20 */
TEST(double_clicks_at_two_hosts_have_one_effect_each_over_grpc)
{
    expect_one_each(GRPC);
}

/* What the guard is for: the same clicks without it. */
/* promise GD20 */
TEST(without_guards_double_clicks_have_two_effects_each)
{
    bool same;

    assert_int_equal(click_twice(&guarded_free, TCP, 50, &same), 100);
    assert_false(same);
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
    lks_error error;
    lks_call *first = run_in_first(&first_way);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    process_kill(hosts[0]);
    killed = hosts[0];
    lks_call *second = start_on(second_way, &guarded_short, &request, LIMIT_MS);
    open_gate();
    const buy_response *response = ended(second, &error);
    if (!response)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
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
    lks_error error;
    lks_call *first = run_in_first(&first_way);

    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    process_signal(hosts[0], SIGSTOP);
    lks_call *second = start_on(second_way, &guarded_short, &request, LIMIT_MS);
    assert_line(hosts[1], "running o-1 attempt=2");
    open_gate();
    const buy_response *response = ended(second, &error);
    if (!response)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    process_signal(hosts[0], SIGCONT);
    assert_line(hosts[0], "stale o-1 attempt=1 lost=1");
    const buy_response *late = ended(first, &error);
    if (!late)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    assert_true(same_answer(response, late));
    assert_int_equal(n_effects(NULL), 1);
    assert_int_equal(n_effects("o-1 2"), 1);
    lks_call_free(first);
    lks_call_free(second);
    lks_channel_close(first_way);
    lks_channel_close(second_way);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
