/* A store on two nodes of a Redis Cluster that answer as scripted: which of them a call goes to, what MOVED, ASK, old
 * and new claims and a dead node mean for it. */
/* promise T22 */
#include <stdio.h>
#include <uv.h>

#include "store/slots.h"
#include "store_scene.h"
#include "test.h"

enum { A, B, NODES, PATIENCE_MS = 30000, FAR_MS = 1100 };

/* One in each half of the slots; {meta} is in the upper one. */
static const char low[] = "ls:{b/q}:", high[] = "ls:{foo}:";

typedef struct fake_node {
    fake_redis *fake; /* NULL: stopped */
    unsigned port;
    char id[SLOTS_ID_BYTES];
    char slots[64];
    unsigned epoch;
    bool cut_off; /* it does not receive claims */
} fake_node;

static fake_node node[NODES];

/* Each node knows the claims, unless it is cut off. */
static void tell_claims(void)
{
    for (int k = 0; k < NODES; k++) {
        char text[1024] = "'";
        size_t used = 1;
        for (int i = 0; i < NODES; i++)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "%.40s 127.0.0.1:%u@1 %smaster - 0 0 %u connected %s\n", node[i].id, node[i].port,
                                     i == k ? "myself," : "", node[i].epoch, node[i].slots);
        if (!node[k].cut_off && node[k].fake)
            fake_redis_answer(node[k].fake, "CLUSTER NODES", text);
    }
}

static void claim(int i, unsigned epoch, const char *slots)
{
    node[i].epoch = epoch;
    snprintf(node[i].slots, sizeof node[i].slots, "%s", slots);
    tell_claims();
}

static void answer_all(const char *words, const char *reply)
{
    for (int i = 0; i < NODES; i++)
        fake_redis_answer(node[i].fake, words, reply);
}

/* It says so of its id. */
static void call_itself(int i, char letter)
{
    char reply[1 + SLOTS_ID_BYTES] = "'";

    memset(reply + 1, letter, SLOTS_ID_BYTES - 1);
    fake_redis_answer(node[i].fake, "CLUSTER MYID", reply);
}

static void open_store_with(uint32_t silence_timeout_ms)
{
    char url[64];

    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", node[A].port);
    const store_options options = scene_listens((store_options){.url = url, .silence_timeout_ms = silence_timeout_ms});
    scene_open(&options);
}

static void open_store(void)
{
    open_store_with(0);
}

static int setup(void **state)
{
    scene_begin();
    for (int i = 0; i < NODES; i++) {
        node[i] = (fake_node){.fake = i == A ? here.fake : scene_fake()};
        node[i].port = fake_redis_listen_tcp(node[i].fake);
        memset(node[i].id, 'a' + i, SLOTS_ID_BYTES - 1);
        call_itself(i, (char)('a' + i));
    }
    answer_all("HELLO", SCENE_CLUSTER);
    claim(A, 1, "0-8191");
    claim(B, 2, "8192-16383");
    return 0;
}

static unsigned seen_by(int i, const char *words)
{
    return node[i].fake ? fake_redis_seen(node[i].fake, words) : 0;
}

/* How often anyone was asked for the map. */
static size_t looks(void)
{
    return seen_by(A, "CLUSTER NODES") + seen_by(B, "CLUSTER NODES");
}

static bool has_looked(void *arg)
{
    return looks() >= *(size_t *)arg;
}

static void until_looked_times(size_t times)
{
    size_t n = looks() + times;

    store_driver_until(here.d, has_looked, &n);
}

/* Two looks from now: the first may be under way. */
static void until_looked(void)
{
    until_looked_times(2);
}

static int patience_ms = PATIENCE_MS;

static outcome *call(const char *base)
{
    return store_driver_call(here.d,
                             &(driver_call){.function = "echo", .base = base, .weight = 1, .timeout_ms = patience_ms});
}

static bool is_degraded(void *arg)
{
    const char *reason;

    return store_driver_ready(here.d, &reason) && reason;
}

static bool is_whole(void *arg)
{
    const char *reason;

    return store_driver_ready(here.d, &reason) && !reason;
}

static void stop_node(int i)
{
    scene_stop(node[i].fake);
    node[i].fake = NULL;
}

static void open_ready(void)
{
    open_store();
    store_driver_wait_ready(here.d, true);
}

static void assert_calls(size_t at_a, size_t at_b)
{
    assert_int_equal(seen_by(A, "FCALL"), at_a);
    assert_int_equal(seen_by(B, "FCALL"), at_b);
}

TEST(a_call_goes_to_the_node_that_has_its_slot)
{
    open_ready();
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 0);
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 1);
}

/* The reply that names the other node for the slot of `low`. */
static const char *elsewhere(const char *kind, int i)
{
    static char text[64];

    snprintf(text, sizeof text, "-%s 3429 127.0.0.1:%u\r\n", kind, node[i].port);
    return text;
}

TEST(moved_is_followed_at_once)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES); /* B serves */
    fake_redis_next(node[A].fake, "FCALL", elsewhere("MOVED", B));
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 2);
}

TEST(functions_that_two_nodes_lost_are_loaded_at_both)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    for (int i = 0; i < NODES; i++)
        fake_redis_next(node[i].fake, "FCALL", "-ERR Function not found\r\n");
    fake_redis_next(node[A].fake, "FCALL", elsewhere("MOVED", B));
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(2, 3);
}

/* A call to B would find a group of which a part is still at A. */
TEST(a_slot_that_moves_is_waited_for_where_it_was)
{
    open_ready();
    for (int i = 0; i < 2; i++)
        fake_redis_next(node[A].fake, "FCALL", elsewhere("ASK", B));
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(3, 0);
}

static bool move_is_reported(void *arg)
{
    const char *reason;

    call(low);
    return store_driver_ready(here.d, &reason) && reason && strstr(reason, "slot 3429 of 127.0.0.1");
}

/* One that was left half moved: its calls say why, and so does the store. */
TEST(unfinished_slot_move_is_reported)
{
    open_ready();
    fake_redis_answer(node[A].fake, "FCALL", elsewhere("ASK", B));
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .base = low, .timeout_ms = 200});
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_non_null(strstr(o->message, "slot is moving"));
    assert_int_equal(o->reason, LKS_REASON_STORE_SLOT_MOVING);
    assert_false(is_degraded(NULL)); /* it may be an ordinary move */
    patience_ms = 200;
    store_driver_until(here.d, move_is_reported, NULL);
    patience_ms = PATIENCE_MS;
    o = store_driver_call(here.d, &(driver_call){.function = "echo", .base = low}); /* now at once */
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_non_null(strstr(o->message, "slot is moving"));
    assert_true(o->retry_after_ms > 0);
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    fake_redis_answer(node[A].fake, "FCALL", NULL);
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    store_driver_until(here.d, is_whole, NULL);
}

/* An older one is of a node that was cut off. */
TEST(a_newer_claim_counts_and_an_older_one_changes_nothing)
{
    for (unsigned epoch = 4; epoch <= 6; epoch += 2) {
        setup(NULL);
        claim(A, 5, "0-8191");
        open_ready();
        claim(A, 5, "");
        claim(B, epoch, "0-16383");
        until_looked();
        assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
        assert_calls(epoch<5, epoch> 5);
    }
}

/* A is known, but not opened before the data layout is. */
TEST(a_password_is_read_again_while_a_node_is_not_open_yet)
{
    lks_error error;

    call_itself(B, 'c');
    open_store();
    until_looked();
    assert_int_equal(store_reload(store_driver_store(here.d), &error), LKS_OK);
    call_itself(B, 'b');
    store_driver_wait_ready(here.d, true);
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 0);
}

static bool listens_again(void *arg)
{
    return here.listening > *(unsigned *)arg && is_whole(NULL);
}

/* Messages of its groups may have been missed, though the store was ready all the time. */
/* promise T17 */
TEST(returning_node_counts_as_a_missed_subscription)
{
    open_ready();
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    unsigned before = here.listening;
    fake_redis_hang_up(node[B].fake);
    store_driver_until(here.d, is_degraded, NULL);
    assert_true(store_driver_ready(here.d, NULL));
    store_driver_until(here.d, listens_again, &before);
}

/* They were not sent, or may be sent again. */
TEST(calls_go_to_a_dead_nodes_successor)
{
    open_store_with(600000); /* not by silence */
    store_driver_wait_ready(here.d, true);
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    fake_redis_next(node[A].fake, "FCALL", fake_silent);
    outcome *repeated = store_driver_submit(
        here.d, &(driver_call){.function = "echo", .base = low, .weight = 1, .repeatable = true, .timeout_ms = 60000});
    until_looked();
    assert_calls(2, 0);
    claim(A, 1, "");
    claim(B, 3, "0-16383");
    store_driver_wait(here.d, repeated);
    assert_outcome(repeated, LKS_OK, LKS_APPLIED_YES);
    assert_calls(2, 1);
}

TEST(calls_that_wait_go_with_their_slot)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    stop_node(A);
    store_driver_until(here.d, is_degraded, NULL);
    outcome *waits = store_driver_submit(here.d, &(driver_call){.function = "echo", .base = low, .weight = 1});
    claim(A, 1, "");
    claim(B, 3, "0-16383");
    store_driver_wait(here.d, waits);
    assert_outcome(waits, LKS_OK, LKS_APPLIED_YES);
    assert_calls(0, 2);
}

/* The node that answers at B's address is not the one in the map: it has none of B's groups. */
TEST(another_node_at_an_address_is_not_used)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    call_itself(B, 'c');
    fake_redis_hang_up(node[B].fake);
    store_driver_until(here.d, is_degraded, NULL);
    until_looked();
    assert_outcome(call(high), LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_calls(0, 1);
}

static uv_timer_t far;

static void answer_hello(uv_timer_t *timer)
{
    for (int i = 0; i < NODES; i++)
        fake_redis_say_to(node[i].fake, "HELLO", SCENE_CLUSTER);
}

/* Each HELLO puts off the answers. */
static bool is_ready_from_afar(void *arg)
{
    unsigned *hellos = arg, now = seen_by(A, "HELLO") + seen_by(B, "HELLO");

    if (now > *hellos)
        uv_timer_start(&far, answer_hello, FAR_MS, 0);
    *hellos = now;
    return store_driver_ready(here.d, NULL);
}

/* Its network is slow: connecting takes longer than the interval of checks. */
TEST(a_cluster_that_is_far_away_is_reached)
{
    unsigned hellos = 0;

    uv_timer_init(store_driver_loop(here.d), &far);
    answer_all("HELLO", fake_silent);
    open_store();
    store_driver_until(here.d, is_ready_from_afar, &hellos);
    uv_close((uv_handle_t *)&far, NULL);
}

/* A sweep, a list: no key, and at the node of the slot that is named. */
TEST(a_call_of_a_part_goes_to_its_node)
{
    store_part part;

    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    assert_true(store_part_from(store_driver_store(here.d), 0, &part));
    assert_int_equal(part.slot, 0);
    assert_int_equal(slots_of(lks_rpc_slice_of(part.base)), 0);
    assert_true(store_part_from(store_driver_store(here.d), 1, &part));
    assert_int_equal(part.slot, 8192);
    assert_false(store_part_from(store_driver_store(here.d), 8193, &part));
}

static bool goes_well(void *arg)
{
    return call(arg)->code == LKS_OK;
}

/* A is cut off from the others, but not from here, and A is asked for the map of slots. */
TEST(a_node_that_is_cut_off_is_not_the_only_one_that_is_asked)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    node[A].cut_off = true;
    fake_redis_answer(node[A].fake, "FCALL", "-CLUSTERDOWN The cluster is down\r\n");
    claim(A, 1, "");
    claim(B, 3, "0-16383");
    store_driver_until(here.d, goes_well, (void *)(uintptr_t)low);
}

/* B is lost; later an operator makes the others forget it, and gives its slots to A, whose epoch is lower. */
TEST(slots_of_a_forgotten_node_are_used_at_their_new_owner)
{
    claim(B, 5, "8192-16383");
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    stop_node(B);
    until_looked_times(52); /* more than it takes until old claims are forgotten */
    claim(A, 1, "0-16383");
    claim(B, 5, "");
    store_driver_until(here.d, goes_well, (void *)(uintptr_t)high);
}

/* store_driver wants a change each time. */
TEST(unchanged_fault_is_reported_once)
{
    answer_all("HELLO", "-NOAUTH Authentication required.\r\n");
    open_store();
    scene_until_seen("HELLO", 5);
    assert_string_equal(store_driver_reason(here.d), "the store wants credentials");
}

/* The owner of {meta} is asked before the others are opened: these are not the fault. */
TEST(failing_primary_is_reported_before_an_untried_one)
{
    call_itself(B, 'c');
    open_store();
    until_looked();
    assert_non_null(strstr(store_driver_reason(here.d), "0 of 2 primaries serve"));
    assert_null(strstr(store_driver_reason(here.d), "connecting"));
}

/* The state of the slot of {meta} does not affect the node's other slots. */
TEST(a_node_whose_slot_of_meta_moves_is_used)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    answer_all("GET", "-ASK 13 127.0.0.1:1\r\n");
    answer_all("SET", "-ASK 13 127.0.0.1:1\r\n");
    fake_redis_hang_up(node[B].fake);
    store_driver_until(here.d, is_degraded, NULL);
    until_looked();
    until_looked();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
}

TEST_MAIN(.setup = setup, .teardown = scene_end)
