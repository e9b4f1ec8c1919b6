/* A store on two nodes of a Redis Cluster that answer as scripted: which of them a call goes to, what MOVED, ASK, old
 * and new claims and a dead node mean for it. */
/* promise T22 */
#include <stdio.h>
#include <uv.h>

#include "store/slots.h"
#include "support/fake_redis.h"
#include "support/store_driver.h"
#include "test.h"

enum { A, B, NODES, PATIENCE_MS = 30000, FAR_MS = 1100 };

static const char cluster_hello[] = "[version 7.0.15 role master mode cluster]";
/* One in each half of the slots; {meta} is in the upper one. */
static const char low[] = "ls:{b/q}:", high[] = "ls:{foo}:";

typedef struct fake_node {
    fake_redis *fake;
    unsigned port;
    char id[SLOTS_ID_BYTES];
    char slots[64];
    unsigned epoch;
    const char *answer; /* to FCALL, so often; then `next` once, unless it is NULL; then as usual */
    int answers;
    const char *next;
    size_t calls;
    bool cut_off; /* it does not hear of claims */
} fake_node;

static struct {
    store_driver *d;
    fake_node node[NODES];
    unsigned listening;
    uv_timer_t far; /* after each HELLO, whose answer it is; no loop: it is answered at once */
} here;

static void answer_hello(uv_timer_t *timer)
{
    (void)timer;
    for (int i = 0; i < NODES; i++)
        fake_redis_say_to(here.node[i].fake, "HELLO", cluster_hello);
}

static const char *play(void *arg, size_t argc, const char *const *argv)
{
    fake_node *n = arg;
    (void)argc;

    if (strcmp(argv[0], "HELLO") == 0 && here.far.loop) {
        uv_timer_start(&here.far, answer_hello, FAR_MS, 0);
        return fake_silent;
    }
    if (strcmp(argv[0], "FCALL") != 0)
        return strcmp(argv[0], "HELLO") == 0 ? cluster_hello : fake_usual;
    n->calls++;
    if (n->answers > 0 && n->answers-- > 0)
        return n->answer;
    const char *answer = n->next;
    n->next = NULL;
    return answer ? answer : fake_usual;
}

/* Each node knows the claims, unless it is cut off. */
static void tell_claims(void)
{
    for (int k = 0; k < NODES; k++) {
        char text[1024], reply[1200];
        size_t used = 0;
        for (int i = 0; i < NODES; i++)
            used += (size_t)snprintf(
                text + used, sizeof text - used, "%.40s 127.0.0.1:%u@1 %smaster - 0 0 %u connected %s\n",
                here.node[i].id, here.node[i].port, i == k ? "myself," : "", here.node[i].epoch, here.node[i].slots);
        snprintf(reply, sizeof reply, "$%zu\r\n%s\r\n", used, text);
        if (!here.node[k].cut_off && here.node[k].fake)
            fake_redis_answer(here.node[k].fake, "CLUSTER NODES", reply);
    }
}

static void claim(int node, unsigned epoch, const char *slots)
{
    here.node[node].epoch = epoch;
    snprintf(here.node[node].slots, sizeof here.node[node].slots, "%s", slots);
    tell_claims();
}

static void answer_all(const char *words, const char *reply)
{
    for (int i = 0; i < NODES; i++)
        fake_redis_answer(here.node[i].fake, words, reply);
}

/* B says so of its id. */
static void call_itself(char letter)
{
    char reply[64] = "$40\r\n";

    memset(reply + 5, letter, SLOTS_ID_BYTES - 1);
    strcpy(reply + 5 + SLOTS_ID_BYTES - 1, "\r\n");
    fake_redis_answer(here.node[B].fake, "CLUSTER MYID", reply);
}

static void on_wake(void *arg, const char *data, size_t len)
{
    (void)arg;
    (void)data;
    (void)len;
}

static void on_listening(void *arg)
{
    (void)arg;
    here.listening++;
}

static void open_store_with(uint32_t silence_timeout_ms)
{
    char url[64];

    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", here.node[A].port);
    const store_options options = {.url = url,
                                   .silence_timeout_ms = silence_timeout_ms,
                                   .wake_channel = "ls:wake:test",
                                   .on_wake = on_wake,
                                   .on_listening = on_listening};
    assert_int_equal(store_driver_open(here.d, &options, NULL), LKS_OK);
}

static void open_store(void)
{
    open_store_with(0);
}

static int setup(void **state)
{
    (void)state;
    memset(&here, 0, sizeof here);
    here.d = store_driver_new();
    for (int i = 0; i < NODES; i++) {
        here.node[i].fake = fake_redis_start(store_driver_loop(here.d), play, &here.node[i]);
        here.node[i].port = fake_redis_listen_tcp(here.node[i].fake);
        memset(here.node[i].id, 'a' + i, SLOTS_ID_BYTES - 1);
        char reply[64];
        snprintf(reply, sizeof reply, "$40\r\n%s\r\n", here.node[i].id);
        fake_redis_answer(here.node[i].fake, "CLUSTER MYID", reply);
    }
    claim(A, 1, "0-8191");
    claim(B, 2, "8192-16383");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    store_driver_close_store(here.d);
    for (int i = 0; i < NODES; i++)
        fake_redis_stop(here.node[i].fake);
    store_driver_free(here.d);
    return 0;
}

/* How often anyone was asked for the map; or greeted, where greetings are refused. */
static size_t looks(void)
{
    size_t n = 0;

    for (int i = 0; i < NODES; i++)
        n += here.node[i].fake ? fake_redis_seen(here.node[i].fake, "CLUSTER NODES") : 0;
    return n;
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
    (void)arg;

    return store_ready(store_driver_store(here.d), &reason) && reason;
}

static bool is_whole(void *arg)
{
    const char *reason;
    (void)arg;

    return store_ready(store_driver_store(here.d), &reason) && !reason;
}

/* The next FCALLs at that node. */
static void answer_calls(int node, const char *answer, int times)
{
    here.node[node].answer = answer;
    here.node[node].answers = times;
}

static void stop_node(int node)
{
    fake_redis_stop(here.node[node].fake);
    here.node[node].fake = NULL;
}

static void open_ready(void)
{
    open_store();
    store_driver_wait_ready(here.d, true);
}

static void assert_calls(size_t at_a, size_t at_b)
{
    assert_int_equal(here.node[A].calls, at_a);
    assert_int_equal(here.node[B].calls, at_b);
}

TEST(a_call_goes_to_the_node_that_has_its_slot)
{
    open_ready();
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 0);
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 1);
}

TEST(moved_is_followed_at_once)
{
    char moved[64];

    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES); /* B is there */
    snprintf(moved, sizeof moved, "-MOVED 3429 127.0.0.1:%u\r\n", here.node[B].port);
    answer_calls(A, moved, 1);
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 2);
}

TEST(functions_that_two_nodes_lost_are_loaded_at_both)
{
    static const char missing[] = "-ERR Function not found\r\n";
    char moved[64];

    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    snprintf(moved, sizeof moved, "-MOVED 3429 127.0.0.1:%u\r\n", here.node[B].port);
    here.node[A].answer = here.node[B].answer = missing;
    here.node[A].answers = here.node[B].answers = 1;
    here.node[A].next = moved;
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(2, 3);
}

/* Whoever went to B would meet a group of which a part is still at A. */
TEST(a_slot_that_moves_is_waited_for_where_it_was)
{
    char ask[64];

    open_ready();
    snprintf(ask, sizeof ask, "-ASK 3429 127.0.0.1:%u\r\n", here.node[B].port);
    answer_calls(A, ask, 2);
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(3, 0);
}

static bool a_move_is_told_of(void *arg)
{
    const char *reason;
    (void)arg;

    call(low);
    return store_ready(store_driver_store(here.d), &reason) && reason && strstr(reason, "slot 3429 of 127.0.0.1");
}

/* One that was left half moved: its calls say why, and so does the store. */
TEST(a_slot_that_does_not_end_its_move_is_told_of)
{
    char ask[64];

    open_ready();
    snprintf(ask, sizeof ask, "-ASK 3429 127.0.0.1:%u\r\n", here.node[B].port);
    answer_calls(A, ask, 1 << 30);
    outcome *o = store_driver_call(here.d, &(driver_call){.function = "echo", .base = low, .timeout_ms = 200});
    assert_outcome(o, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    assert_non_null(strstr(o->message, "slot is moving"));
    assert_int_equal(o->reason, LKS_REASON_STORE_SLOT_MOVING);
    assert_false(is_degraded(NULL)); /* it may be an ordinary move */
    patience_ms = 200;
    store_driver_until(here.d, a_move_is_told_of, NULL);
    patience_ms = PATIENCE_MS;
    o = store_driver_call(here.d, &(driver_call){.function = "echo", .base = low}); /* now at once */
    assert_outcome(o, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_non_null(strstr(o->message, "slot is moving"));
    assert_true(o->retry_after_ms > 0);
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    here.node[A].answers = 0;
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    store_driver_until(here.d, is_whole, NULL);
}

/* Of a node that was cut off. */
TEST(an_older_claim_changes_nothing)
{
    claim(A, 5, "0-8191");
    open_ready();
    claim(A, 5, "");
    claim(B, 4, "0-16383");
    until_looked();
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(1, 0);
}

TEST(a_newer_claim_counts)
{
    claim(A, 5, "0-8191");
    open_ready();
    claim(A, 5, "");
    claim(B, 6, "0-16383");
    until_looked();
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_calls(0, 1);
}

/* A is known, but not opened before the data layout is. */
TEST(a_password_is_read_again_while_a_node_is_not_open_yet)
{
    lks_error error;

    call_itself('c');
    open_store();
    until_looked();
    assert_int_equal(store_reload(store_driver_store(here.d), &error), LKS_OK);
    call_itself('b');
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
TEST(a_node_that_comes_back_is_told_like_a_store)
{
    open_ready();
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    unsigned before = here.listening;
    fake_redis_hang_up(here.node[B].fake);
    store_driver_until(here.d, is_degraded, NULL);
    assert_true(store_ready(store_driver_store(here.d), NULL));
    store_driver_until(here.d, listens_again, &before);
}

/* They were not sent, or may be sent again. */
TEST(calls_go_to_a_dead_nodes_successor)
{
    open_store_with(600000); /* not by silence */
    store_driver_wait_ready(here.d, true);
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    answer_calls(A, fake_silent, 1);
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

TEST(a_dead_node_leaves_the_others_serving)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    stop_node(B);
    store_driver_until(here.d, is_degraded, NULL);
    assert_outcome(call(high), LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_outcome(call(low), LKS_OK, LKS_APPLIED_YES);
    const char *reason;
    assert_true(store_ready(store_driver_store(here.d), &reason));
    assert_non_null(strstr(reason, "1 of 2 primaries serve"));
}

/* What answers at B's address is another node than the map says: it has none of B's groups. */
TEST(another_node_at_an_address_is_not_used)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    call_itself('c');
    fake_redis_hang_up(here.node[B].fake);
    store_driver_until(here.d, is_degraded, NULL);
    until_looked();
    assert_outcome(call(high), LKS_UNAVAILABLE, LKS_APPLIED_NO);
    assert_calls(0, 1);
}

/* Its network is slow: a connection takes longer than looks are apart. */
TEST(a_cluster_that_is_far_away_is_reached)
{
    uv_timer_init(store_driver_loop(here.d), &here.far);
    open_ready();
    uv_close((uv_handle_t *)&here.far, NULL);
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
    (void)arg;
    return call(low)->code == LKS_OK;
}

/* A is cut off from the others, but not from here, and it is A that is asked who has which slots. */
TEST(a_node_that_is_cut_off_is_not_the_only_one_that_is_asked)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    here.node[A].cut_off = true;
    answer_calls(A, "-CLUSTERDOWN The cluster is down\r\n", 1 << 30);
    claim(A, 1, "");
    claim(B, 3, "0-16383");
    store_driver_until(here.d, goes_well, NULL);
}

static bool is_up_at_a(void *arg)
{
    (void)arg;
    return call(high)->code == LKS_OK;
}

/* B died for good; after a while somebody has the others forget it, and gives its slots to A, whose epoch is lower. */
TEST(slots_of_a_node_that_was_given_up_are_used_where_they_are)
{
    claim(B, 5, "8192-16383");
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    stop_node(B);
    until_looked_times(52); /* more than it takes until old claims are forgotten */
    claim(A, 1, "0-16383");
    claim(B, 5, "");
    store_driver_until(here.d, is_up_at_a, NULL);
}

static bool was_greeted_often(void *arg)
{
    (void)arg;
    return fake_redis_seen(here.node[A].fake, "HELLO") >= 5;
}

/* store_driver wants a change each time. */
TEST(what_is_wrong_is_told_once)
{
    answer_all("HELLO", "-NOAUTH Authentication required.\r\n");
    open_store();
    store_driver_until(here.d, was_greeted_often, NULL);
    assert_string_equal(store_driver_reason(here.d), "the store wants credentials");
}

/* Who has {meta} is asked before others are opened: they are not what is wrong. */
TEST(who_does_not_serve_is_named_before_who_was_not_tried)
{
    call_itself('c');
    open_store();
    until_looked();
    assert_non_null(strstr(store_driver_reason(here.d), "0 of 2 primaries serve"));
    assert_null(strstr(store_driver_reason(here.d), "connecting"));
}

/* What befalls the slot of {meta} is no matter of the node's other slots. */
TEST(a_node_whose_slot_of_meta_moves_is_used)
{
    open_ready();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
    answer_all("GET", "-ASK 13 127.0.0.1:1\r\n");
    answer_all("SET", "-ASK 13 127.0.0.1:1\r\n");
    fake_redis_hang_up(here.node[B].fake);
    store_driver_until(here.d, is_degraded, NULL);
    until_looked();
    until_looked();
    assert_outcome(call(high), LKS_OK, LKS_APPLIED_YES);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
