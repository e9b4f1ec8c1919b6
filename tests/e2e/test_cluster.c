/* Two servers on a Redis Cluster of three primaries, each with a replica: groups on all nodes, while slots move and
 * primaries change. Every wait ends by what it waits for, or by ctest's limit. */
/* promise T22 */

#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/lockstock.h>

#include "support/process.h"
#include "support/redis_set_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum {
    SERVERS = 2,
    GROUPS = 24,
    BUYERS_AT_ONCE = 16,
    TIMEOUT_MS = 60000,
    LEASE_MS = 600000,
    PAGE = 7,
    UNITS = 100,
    MANY = 1000000,
    BUYERS_OF_GROUP = 420,
};

static redis_set *set;
static server_fixture *servers[SERVERS];
static lks_channel *channels[SERVERS];
static const lks_call_options patient = {.timeout_ms = TIMEOUT_MS};

static int setup(void **state)
{
    /* What is left serves; a primary without slots stays one. */
    static const char *const lines[] = {"--conf", "cluster-require-full-coverage no", "--conf",
                                        "cluster-allow-replica-migration no", NULL};
    (void)state;

    set = redis_cluster_start(3, 1, lines);
    for (int i = 0; set && i < SERVERS; i++) {
        servers[i] = server_fixture_start(&(server_fixture_options){.store = redis_set_url(set)});
        if (!servers[i] || lks_channel_open(server_fixture_url(servers[i]), NULL, &channels[i], NULL) != LKS_OK)
            return -1;
    }
    return set ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < SERVERS; i++) {
        lks_channel_close(channels[i]);
        server_fixture_free(servers[i]);
    }
    redis_set_free(set);
    return 0;
}

static const char *group_of(char text[32], const char *what, int i)
{
    snprintf(text, 32, "%s-%d", what, i);
    return text;
}

/* ---- calls ------------------------------------------------------------------------- */

static void put(const char *group, int64_t units)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = group;
    request.sku = "a";
    request.on_hand = units;
    if (lks_stock_put_item(channels[0], &request, &patient, NULL, &error) != LKS_OK)
        fail_msg("PutItem: %s", error.message);
}

static lks_code look(const char *group, int64_t *sold, lks_error *error)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *response = NULL;

    request.group = group;
    request.sku = "a";
    lks_code code = lks_stock_get_item(channels[1], &request, &(lks_call_options){.no_retry = true, .timeout_ms = 5000},
                                       &response, error);
    if (code == LKS_OK)
        *sold = response->item->sold;
    lks_get_item_response_free(response);
    return code;
}

static lks_acquire_request acquire_request(lks_target *target, lks_target *targets[1], const char *name,
                                           const char *token, int64_t lease_ms, int64_t wait_ms)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;

    *target = (lks_target)LKS_TARGET_INIT;
    target->name = name;
    target->mode = LKS_LOCK_MODE_EXCLUSIVE;
    targets[0] = target;
    request.group = name;
    request.n_targets = 1;
    request.targets = targets;
    request.token = token;
    request.lease_ms = lease_ms;
    request.wait_ms = wait_ms;
    return request;
}

static void acquire(const char *name, const char *token, int64_t lease_ms)
{
    lks_target target, *targets[1];
    lks_acquire_request request = acquire_request(&target, targets, name, token, lease_ms, 0);
    lks_acquire_response *response = NULL;
    lks_error error;

    if (lks_lock_acquire(channels[0], &request, &patient, &response, &error) != LKS_OK)
        fail_msg("Acquire of %s: %s", name, error.message);
    assert_int_equal(response->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    lks_acquire_response_free(response);
}

static void release(const char *name, const char *token)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    lks_error error;

    request.group = name;
    request.token = token;
    if (lks_lock_release(channels[0], &request, &patient, NULL, &error) != LKS_OK)
        fail_msg("Release of %s: %s", name, error.message);
}

/* One that waits, on the other server. The callback records, the main thread asserts. */
typedef struct waiting {
    atomic_bool done;
    lks_code code;
    int outcome;
    char token[32];
} waiting;

static void on_answer(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    waiting *w = arg;
    (void)error;

    w->code = code;
    w->outcome = code == LKS_OK ? (int)response->outcome : -1;
    atomic_store(&w->done, true);
}

static void start_waiting(waiting *w, const char *name, int i)
{
    lks_target target, *targets[1];
    lks_error error;

    *w = (waiting){.code = LKS_OK};
    snprintf(w->token, sizeof w->token, "who-waits-for-it-%d", i);
    lks_acquire_request request = acquire_request(&target, targets, name, w->token, LEASE_MS, LEASE_MS);
    if (lks_lock_acquire_start(channels[1], &request, NULL, on_answer, w, NULL, &error) != LKS_OK)
        fail_msg("Acquire of %s: %s", name, error.message);
}

static void until_waiters(const char *name, int64_t n)
{
    for (int64_t seen = -1; seen != n; process_pause()) {
        lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
        lks_inspect_response *response = NULL;
        request.group = request.name = name;
        assert_int_equal(lks_lock_inspect(channels[0], &request, &patient, &response, NULL), LKS_OK);
        seen = response->waiters;
        lks_inspect_response_free(response);
    }
}

static void expect_granted(const waiting *w)
{
    while (!atomic_load(&w->done))
        process_pause();
    assert_int_equal(w->code, LKS_OK);
    assert_int_equal(w->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
}

/* ---- the cluster ------------------------------------------------------------------- */

static bool keeps(unsigned short port, const char *group)
{
    char command[96];

    snprintf(command, sizeof command, "EXISTS ls:{default/%s}:stock:skus", group);
    char *answer = redis_set_command(set, port, command);
    bool there = answer && answer[0] == '1';
    free(answer);
    return there;
}

/* Each of the groups is told, whatever moves between two pages. */
static void expect_listed(const char *what, bool moves)
{
    bool seen[GROUPS] = {false};
    char *token = strdup("");
    int pages = 0, n_seen = 0;

    do {
        lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;
        lks_list_items_response *response = NULL;
        lks_error error;
        request.page_size = PAGE;
        request.page_token = token;
        if (lks_stock_list_items(channels[pages % SERVERS], &request, &patient, &response, &error) != LKS_OK)
            fail_msg("ListItems: %s", error.message);
        for (size_t i = 0; i < response->n_items; i++) {
            size_t len = strlen(what);
            if (strncmp(response->items[i]->group, what, len) == 0 && response->items[i]->group[len] == '-')
                seen[strtol(response->items[i]->group + len + 1, NULL, 10)] = true;
        }
        free(token);
        token = strdup(response->next_page_token);
        lks_list_items_response_free(response);
        if (moves && pages == 0) /* what was not listed yet goes where was listed already, and the other way round */
            assert_true(redis_set_move_slots(set, 15000, 16383, redis_set_primary(set, 0)));
        if (moves && pages == 2)
            assert_true(redis_set_move_slots(set, 5000, 5460, redis_set_primary(set, 2)));
        pages++;
    } while (token[0] != '\0');
    free(token);
    for (int i = 0; i < GROUPS; i++)
        n_seen += seen[i];
    assert_int_equal(n_seen, GROUPS);
    assert_true(pages > 1);
}

TEST(over_all_nodes_groups_are_listed)
{
    char group[32];

    for (int i = 0; i < GROUPS; i++)
        put(group_of(group, "listed", i), UNITS);
    for (size_t i = 0; i < 3; i++) { /* each node has some */
        char *keys = redis_set_command(set, redis_set_primary(set, i), "DBSIZE");
        assert_non_null(keys);
        assert_in_range(strtol(keys, NULL, 10), 1, 2 * GROUPS);
        free(keys);
    }
    expect_listed("listed", false);
}

/* Of locks too. Each of the names has a group of its own. */
TEST(over_all_nodes_locks_are_listed)
{
    char name[32], *token = strdup("");
    size_t n = 0;

    for (int i = 0; i < GROUPS; i++)
        acquire(group_of(name, "held", i), "the-holder-of-all-these", LEASE_MS);
    do {
        lks_list_request request = LKS_LIST_REQUEST_INIT;
        lks_list_response *response = NULL;
        request.prefix = "held-";
        request.page_size = PAGE;
        request.page_token = token;
        assert_int_equal(lks_lock_list(channels[0], &request, &patient, &response, NULL), LKS_OK);
        n += response->n_locks;
        free(token);
        token = strdup(response->next_page_token);
        lks_list_response_free(response);
    } while (token[0] != '\0');
    free(token);
    assert_int_equal(n, GROUPS);
}

/* On each node: the release on one server is heard by the other. */
TEST(over_all_nodes_waits_at_another_server_are_woken)
{
    static waiting waits[GROUPS];
    char name[32];

    for (int i = 0; i < GROUPS; i++) {
        acquire(group_of(name, "handed", i), "the-first-of-the-holders", LEASE_MS);
        start_waiting(&waits[i], name, i);
    }
    for (int i = 0; i < GROUPS; i++) {
        until_waiters(group_of(name, "handed", i), 1);
        release(name, "the-first-of-the-holders");
    }
    for (int i = 0; i < GROUPS; i++)
        expect_granted(&waits[i]);
}

/* ---- a sale ------------------------------------------------------------------------ */

typedef struct sale {
    const char *what;
    atomic_size_t taken, done;
    size_t buyers; /* at least; more as long as the trouble lasts */
    atomic_bool calm;
    atomic_int sold[GROUPS];
    atomic_int failed;
    char error[512];
} sale;

/* Of every second group there is enough for all. */
static int64_t units_of(int i)
{
    return i % 2 ? MANY : UNITS;
}

/* Buyers in turn, each of one group, until there are no more; an order that is not answered is sent again by the
 * channel, by its id. */
static void *buy(void *arg)
{
    sale *s = arg;

    for (size_t n; (n = atomic_fetch_add(&s->taken, 1)) < s->buyers || !atomic_load(&s->calm);
         atomic_fetch_add(&s->done, 1)) {
        char group[32], order[32];
        lks_line line = LKS_LINE_INIT, *lines[] = {&line};
        lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
        lks_deduct_response *response = NULL;
        lks_error error;
        int g = (int)(n % GROUPS);
        lks_code code;
        snprintf(order, sizeof order, "order-%zu", n);
        line.sku = "a";
        line.quantity = 1;
        request.group = group_of(group, s->what, g);
        request.order_id = order;
        request.n_lines = 1;
        request.lines = lines;
        do
            code = lks_stock_deduct(channels[n % SERVERS], &request, &patient, &response, &error);
        while (code == LKS_UNAVAILABLE || code == LKS_DEADLINE_EXCEEDED);
        if (code == LKS_OK && response->outcome == LKS_DEDUCT_OUTCOME_DEDUCTED)
            atomic_fetch_add(&s->sold[g], 1);
        else if ((code != LKS_OK || response->outcome != LKS_DEDUCT_OUTCOME_SOLD_OUT) &&
                 atomic_fetch_add(&s->failed, 1) == 0)
            snprintf(s->error, sizeof s->error, "%s: %d %s", order, (int)code,
                     code == LKS_OK ? "an outcome" : error.message);
        lks_deduct_response_free(response);
        for (int i = 0; n >= s->buyers && i < 50; i++)
            process_pause(); /* each order is a key to be moved */
    }
    return NULL;
}

/* While it runs, `trouble` is made, once some buyers are done; others come after it, too. */
static void sell(const char *what, size_t buyers, void (*trouble)(void))
{
    static sale s;
    pthread_t threads[BUYERS_AT_ONCE];
    char group[32];
    lks_error error;
    int64_t sold;

    s = (sale){.what = what, .buyers = buyers};
    for (int i = 0; i < GROUPS; i++)
        put(group_of(group, what, i), units_of(i));
    for (int i = 0; i < BUYERS_AT_ONCE; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, buy, &s), 0);
    while (atomic_load(&s.done) < buyers / 10)
        process_pause();
    trouble();
    size_t amid = atomic_load(&s.done);
    while (atomic_load(&s.done) < amid + buyers / 10)
        process_pause();
    atomic_store(&s.calm, true);
    for (int i = 0; i < BUYERS_AT_ONCE; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load(&s.failed) > 0)
        fail_msg("%s", s.error);
    size_t each = atomic_load(&s.done) / GROUPS;
    for (int i = 0; i < GROUPS; i++) {
        assert_int_equal(look(group_of(group, what, i), &sold, &error), LKS_OK);
        assert_int_equal(atomic_load(&s.sold[i]), sold);
        assert_in_range(sold, (int64_t)each < units_of(i) ? (int64_t)each : units_of(i), units_of(i));
    }
    print_message("    %zu buyers, %zu of them before the trouble was over\n", atomic_load(&s.done), amid);
}

/* All slots are on each primary once, and then as they were. */
static void move_slots(void)
{
    for (size_t i = 0; i < 3; i++)
        assert_true(redis_set_move_slots(set, 0, 16383, redis_set_primary(set, i)));
    assert_true(redis_set_move_slots(set, 0, 5460, redis_set_primary(set, 0)));
    assert_true(redis_set_move_slots(set, 5461, 10922, redis_set_primary(set, 1)));
}

TEST(buyers_are_exact_while_slots_move)
{
    sell("moving", GROUPS * BUYERS_OF_GROUP, move_slots);
}

TEST(groups_are_listed_while_slots_move)
{
    char group[32];

    for (int i = 0; i < GROUPS; i++)
        put(group_of(group, "wandering", i), UNITS);
    expect_listed("wandering", true);
}

/* In order: a primary that is asked to hands over all that it answered. */
static void replace_all(void)
{
    unsigned short primaries[3];

    for (size_t i = 0; i < 3; i++)
        primaries[i] = redis_set_primary(set, i);
    for (size_t i = 0; i < 3; i++)
        assert_int_not_equal(redis_set_failover(set, primaries[i]), 0);
}

TEST(buyers_are_exact_while_each_primary_is_replaced)
{
    sell("replaced", GROUPS * BUYERS_OF_GROUP, replace_all);
}

/* ---- what is killed ---------------------------------------------------------------- */

static unsigned short primary_of(const char *group)
{
    for (size_t i = 0; i < 3; i++)
        if (keeps(redis_set_primary(set, i), group))
            return redis_set_primary(set, i);
    fail_msg("no primary has %s", group);
    return 0;
}

/* One after the other, and each becomes its successor's replica. */
static void kill_all(void)
{
    unsigned short primaries[3];

    for (size_t i = 0; i < 3; i++)
        primaries[i] = redis_set_primary(set, i);
    for (size_t i = 0; i < 3; i++) {
        assert_true(redis_set_kill(set, primaries[i]));
        assert_int_not_equal(redis_set_failover(set, primaries[i]), 0);
        assert_true(redis_set_restart(set, primaries[i]) && redis_set_wait(set));
    }
}

/* What a replica had confirmed is not lost with its primary. */
TEST(with_wait_replicas_buyers_are_exact_while_each_primary_is_killed)
{
    static const char *const args[] = {"--wait-replicas", "1", NULL};
    server_fixture *sure[SERVERS];
    lks_channel *before[SERVERS];

    for (int i = 0; i < SERVERS; i++) {
        before[i] = channels[i];
        sure[i] = server_fixture_start(&(server_fixture_options){.store = redis_set_url(set), .args = args});
        assert_non_null(sure[i]);
        assert_int_equal(lks_channel_open(server_fixture_url(sure[i]), NULL, &channels[i], NULL), LKS_OK);
    }
    sell("confirmed", GROUPS * BUYERS_OF_GROUP, kill_all);
    for (int i = 0; i < SERVERS; i++) {
        lks_channel_close(channels[i]);
        server_fixture_free(sure[i]);
        channels[i] = before[i];
    }
}

/* The lease is over when its primary is gone, or soon after; the server asks the next one. */
TEST(who_waits_is_granted_by_the_next_primary)
{
    static waiting w;
    long long serves;

    put("orphaned", UNITS);
    unsigned short port = primary_of("orphaned");
    acquire("orphaned", "the-holder-that-is-gone", 1000);
    start_waiting(&w, "orphaned", 0);
    until_waiters("orphaned", 1);
    assert_true(redis_set_kill(set, port));
    assert_int_not_equal(redis_set_failover(set, port), 0);
    serves = process_now_ms();
    expect_granted(&w);
    print_message("    granted %lld ms after the others knew the next primary\n", process_now_ms() - serves);
    assert_true(redis_set_restart(set, port) && redis_set_wait(set));
}

/* A group's primary and its replica. */
TEST(a_dead_part_leaves_the_others_serving)
{
    char group[32];
    lks_error error;
    int64_t sold;
    int dead = 0;

    for (int i = 0; i < GROUPS; i++)
        put(group_of(group, "parted", i), UNITS);
    unsigned short gone[2] = {primary_of(group_of(group, "parted", 0))};
    bool was_kept[GROUPS];
    for (int i = 0; i < GROUPS; i++)
        was_kept[i] = keeps(gone[0], group_of(group, "parted", i));
    assert_true(redis_set_kill(set, gone[0]));
    assert_int_not_equal(gone[1] = redis_set_failover(set, gone[0]), 0);
    assert_true(redis_set_kill(set, gone[1]));
    for (int i = 0; i < GROUPS; i++) {
        lks_code code = look(group_of(group, "parted", i), &sold, &error);
        dead += code != LKS_OK;
        assert_int_equal(code, was_kept[i] ? LKS_UNAVAILABLE : LKS_OK);
        if (code != LKS_OK)
            assert_int_equal(error.applied, LKS_APPLIED_NO);
    }
    assert_in_range(dead, 1, GROUPS - 1);
    assert_true(process_wait_line(server_fixture_process(servers[1]),
                                  "event=store-degraded reason=\"2 of 3 primaries serve", NULL, 0, TIMEOUT_MS));
    assert_true(redis_set_restart(set, gone[1]) && redis_set_restart(set, gone[0]) && redis_set_wait(set));
    for (int i = 0; i < GROUPS; i++)
        while (look(group_of(group, "parted", i), &sold, &error) != LKS_OK)
            process_pause();
}

/* ---- ids --------------------------------------------------------------------------- */

/* So many SNOWFLAKEs, asked for once by that server. */
static lks_code next_ids(int server, int count, int64_t *ids, lks_error *error)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    lks_next_response *response = NULL;

    request.kind = LKS_ID_KIND_SNOWFLAKE;
    request.count = count;
    lks_code code = lks_id_next(channels[server], &request, &(lks_call_options){.no_retry = true, .timeout_ms = 5000},
                                &response, error);
    if (code == LKS_OK)
        memcpy(ids, response->ids, (size_t)count * sizeof *ids);
    lks_next_response_free(response);
    return code;
}

static lks_code next_id(int server, int64_t *id, lks_error *error)
{
    return next_ids(server, 1, id, error);
}

/* The primary that says who makes which ids. */
static unsigned short primary_of_ids(void)
{
    for (size_t i = 0; i < 3; i++) {
        char *answer = redis_set_command(set, redis_set_primary(set, i), "HEXISTS ls:{meta}:id:workers floor");
        bool there = answer && answer[0] == '1';
        free(answer);
        if (there)
            return redis_set_primary(set, i);
    }
    fail_msg("no primary knows who makes ids");
    return 0;
}

/* It may lack grants: what it grants begins behind all that can have been granted before. */
/* promise T23 */
TEST(another_primary_grants_no_snowflakes_for_a_lease)
{
    int64_t before, after;
    lks_error error;

    while (next_id(0, &before, &error) != LKS_OK)
        process_pause();
    assert_int_not_equal(redis_set_failover(set, primary_of_ids()), 0);
    lks_code code;
    while ((code = next_id(1, &after, &error)) == LKS_UNAVAILABLE && strncmp(error.message, "kind: ", 6) != 0)
        process_pause();
    assert_int_equal(code, LKS_UNAVAILABLE);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    while ((code = next_id(1, &after, &error)) == LKS_UNAVAILABLE)
        process_pause();
    assert_int_equal(code, LKS_OK);
    assert_true(after > before + (INT64_C(2000) << 22)); /* a range is at most 2 s ahead of its grant */
}

/* Gives the port of its replica, which from now on gets nothing of what is written. */
static unsigned short cut_off_replica(unsigned short primary)
{
    char is_its[32];

    snprintf(is_its, sizeof is_its, "master_port:%u\r", primary);
    for (size_t i = 0; redis_set_port(set, i); i++) {
        unsigned short port = redis_set_port(set, i);
        char *info = redis_set_command(set, port, "INFO replication");
        bool found = info && strstr(info, is_its);
        free(info);
        if (found) {
            free(redis_set_command(set, port, "CONFIG SET masterauth not-the-password"));
            free(redis_set_command(set, primary, "CLIENT KILL TYPE replica"));
            return port;
        }
    }
    fail_msg("no replica of %u", primary);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* One server is granted more for longer than the lease of a worker, of which the replica hears nothing. Then that takes
 * over, and the other server asks while the first one still has a range. */
/* promise T23 */
TEST(no_snowflake_comes_twice_when_a_failover_loses_grants)
{
    enum { AT_ONCE = 100, CALLS = 3000, LEASE_OF_WORKER_MS = 3000 };
    static int64_t ids[AT_ONCE * CALLS];
    int64_t first, last;
    lks_error error;
    size_t n = 0;

    while (next_id(0, &first, &error) != LKS_OK)
        process_pause();
    unsigned short replica = cut_off_replica(primary_of_ids());
    do
        last = next_id(0, &last, &error) == LKS_OK ? last : first;
    while ((last - first) >> 22 < LEASE_OF_WORKER_MS + 500);
    free(redis_set_command(set, replica, "CLUSTER FAILOVER TAKEOVER"));
    for (int of_other = 0; of_other < CALLS / 4 && n + 2 * AT_ONCE <= sizeof ids / sizeof *ids;) {
        n += next_ids(0, AT_ONCE, ids + n, &error) == LKS_OK ? AT_ONCE : 0;
        bool told = next_ids(1, AT_ONCE, ids + n, &error) == LKS_OK;
        n += told ? AT_ONCE : 0;
        of_other += told;
    }
    qsort(ids, n, sizeof *ids, by_value);
    for (size_t i = 1; i < n; i++)
        assert_int_not_equal(ids[i], ids[i - 1]);
    free(redis_set_command(set, replica, "CONFIG SET masterauth \"\""));
    assert_true(redis_set_wait(set));
}

/* What one node kept is gone, and nobody tells who waits there but the look for its mark. */
TEST(who_waits_where_a_node_lost_its_data_is_granted)
{
    static waiting w;

    put("flushed", UNITS);
    acquire("flushed", "the-holder-before-the-loss", LEASE_MS);
    start_waiting(&w, "flushed", 0);
    until_waiters("flushed", 1);
    free(redis_set_command(set, primary_of("flushed"), "FLUSHALL"));
    expect_granted(&w);
}

TEST_MAIN(.setup_all = setup, .teardown_all = teardown)
