/* Ids from four lockstockd on one Redis, while servers are killed and come back, Redis is
 * killed and comes back, loses its data once, and its clock is set back and forth: none
 * comes twice, and those of one life of a server increase. */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include <lockstock/lockstock.h>

#include "support/counts.h"
#include "support/moved_clock.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { SERVERS = 4, COUNT = 10000, SEQUENCE_COUNT = 10, SECOND_US = 1000000, HOUR_S = 3600 };

/* One server, and the thread that asks it. */
typedef struct source {
    server_fixture *server;
    atomic_size_t life; /* changes between the end of a server and its next start */
    pthread_t thread;
    lks_channel *channel;
    int64_t *ids, *numbers;
    size_t n_ids, n_numbers, wanted;
    size_t n_failed;
    char fault[400];
} source;

typedef struct scene {
    char *dir;
    moved_clock clock; /* Redis' */
    redis_fixture *redis;
    source sources[SERVERS];
    atomic_size_t done;  /* ids so far */
    atomic_size_t limit; /* of each source's ids at the moment: nobody is through before the last event */
    atomic_int running;
} scene;

static scene s;

/* ---- asking ------------------------------------------------------------------------ */

static bool may_pass(lks_code code)
{
    return code == LKS_UNAVAILABLE || code == LKS_DEADLINE_EXCEEDED || code == LKS_RESOURCE_EXHAUSTED;
}

/* Asks once; false when the call failed as it may while servers come and go. */
static bool ask(source *from, lks_id_kind kind, int32_t count, int64_t *ids)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    lks_next_response *response;
    lks_error error;

    request.kind = kind;
    request.name = kind == LKS_ID_KIND_SEQUENCE ? "orders" : request.name;
    request.count = count;
    lks_code code = lks_id_next(from->channel, &request, NULL, &response, &error);
    if (code != LKS_OK) {
        from->n_failed++;
        if (!may_pass(code))
            snprintf(from->fault, sizeof from->fault, "%s: %s", lks_code_name(code), error.message);
        return false;
    }
    if (response->n_ids == (size_t)count)
        memcpy(ids, response->ids, (size_t)count * sizeof *ids);
    else
        snprintf(from->fault, sizeof from->fault, "%zu ids instead of %d", response->n_ids, count);
    lks_next_response_free(response);
    return from->fault[0] == '\0';
}

/* Notes a fault when ids do not increase; `above`: the last one of the same life. */
static void check_order(source *from, const int64_t *ids, size_t n, int64_t above)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] <= above) {
            snprintf(from->fault, sizeof from->fault, "%lld after %lld", (long long)ids[i], (long long)above);
            return;
        }
        above = ids[i];
    }
}

static void *ask_until_enough(void *arg)
{
    source *from = arg;
    size_t last_life = SIZE_MAX;

    while (from->n_ids < from->wanted && from->fault[0] == '\0') {
        if (from->n_ids >= atomic_load(&s.limit)) {
            process_pause();
            continue;
        }
        int64_t *ids = from->ids + from->n_ids;
        size_t life = atomic_load(&from->life);
        if (ask(from, LKS_ID_KIND_SNOWFLAKE, COUNT, ids)) {
            bool same = life == last_life && life == atomic_load(&from->life);
            check_order(from, ids, COUNT, same && from->n_ids > 0 ? ids[-1] : 0);
            last_life = life == atomic_load(&from->life) ? life : SIZE_MAX;
            from->n_ids += COUNT;
            atomic_fetch_add(&s.done, COUNT);
            if (ask(from, LKS_ID_KIND_SEQUENCE, SEQUENCE_COUNT, from->numbers + from->n_numbers))
                from->n_numbers += SEQUENCE_COUNT;
        }
    }
    atomic_fetch_sub(&s.running, 1);
    return NULL;
}

/* ---- what happens meanwhile ----------------------------------------------------------- */

static void restart_server(size_t i)
{
    server_fixture_kill(s.sources[i].server);
    atomic_fetch_add(&s.sources[i].life, 1);
    assert_true(server_fixture_restart(s.sources[i].server));
}

static void restart_redis(void)
{
    redis_fixture_kill(s.redis);
    assert_true(redis_fixture_restart(s.redis));
}

static void move_clock(int64_t seconds)
{
    atomic_fetch_add(s.clock.shift_us, seconds * SECOND_US);
}

/* Whether Redis goes by the clock that the test moves. */
static bool clock_moves(void)
{
    move_clock(HOUR_S);
    char *reply = redis_fixture_command(s.redis, "TIME"); /* seconds first */
    const char *seconds = reply ? strstr(reply, "$10\r\n") : NULL;
    bool moves = seconds && strtoll(seconds + 5, NULL, 10) > time(NULL) + HOUR_S / 2;

    free(reply);
    move_clock(-HOUR_S);
    return moves;
}

/* Redis forgets who has which worker, and a server notices: a new one has to ask. */
static void lose_workers(void)
{
    source here = {.channel = s.sources[0].channel};
    int64_t id;

    free(redis_fixture_command(s.redis, "DEL ls:{meta}:id:workers"));
    restart_server(0);
    while (!ask(&here, LKS_ID_KIND_SNOWFLAKE, 1, &id))
        if (here.fault[0])
            fail_msg("%s", here.fault);
}

static void event(size_t n)
{
    switch (n) {
    case 0:
        lose_workers();
        break;
    case 1:
        restart_server(0);
        move_clock(-3600);
        break;
    case 2:
        restart_server(1);
        restart_server(2);
        break;
    case 3:
        restart_redis();
        break;
    case 4:
        move_clock(3600);
        restart_server(3);
        break;
    case 5:
        move_clock(-5);
        restart_server(0);
        restart_server(3);
        restart_redis();
        break;
    default:
        restart_server(n % SERVERS);
        move_clock(n % 2 ? -2 : 2);
    }
}

/* Events at equal distances, counted in ids; meanwhile they go on. */
static void disturb(size_t n_events, size_t wanted)
{
    for (size_t n = 0; n < n_events; n++) {
        atomic_store(&s.limit, wanted / SERVERS * (n + 2) / (n_events + 2));
        while (atomic_load(&s.done) < wanted * (n + 1) / (n_events + 2) && atomic_load(&s.running) > 0)
            process_pause();
        event(n);
    }
    atomic_store(&s.limit, SIZE_MAX);
}

/* ---- the test --------------------------------------------------------------------------- */

static int setup(void **state)
{
    static const char *const args[] = {"--id-sequence-block", "100", NULL};
    s.dir = tempdir_make();
    if (!moved_clock_open(&s.clock, SHIFTED_CLOCK_PATH, s.dir) ||
        !(s.redis = redis_fixture_start(&(redis_fixture_options){.append_only = true, .env = s.clock.env})) ||
        !clock_moves())
        return -1;
    for (size_t i = 0; i < SERVERS; i++) {
        const server_fixture_options options = {.store = redis_fixture_url(s.redis), .args = args};
        source *from = &s.sources[i];
        if (!(from->server = server_fixture_start(&options)) ||
            lks_channel_open(server_fixture_url(from->server), NULL, &from->channel, NULL) != LKS_OK)
            return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    moved_clock_close(&s.clock);
    for (size_t i = 0; i < SERVERS; i++) {
        lks_channel_close(s.sources[i].channel);
        server_fixture_free(s.sources[i].server);
        free(s.sources[i].ids);
        free(s.sources[i].numbers);
    }
    redis_fixture_free(s.redis);
    tempdir_remove(s.dir);
    s = (scene){0};
    return 0;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void expect_unique(const char *what, int64_t *all, size_t n)
{
    qsort(all, n, sizeof *all, by_value);
    for (size_t i = 1; i < n; i++)
        if (all[i] == all[i - 1])
            fail_msg("%s: %lld came twice", what, (long long)all[i]);
    free(all);
}

/* promise D21: unique over 4 servers, kills of servers and of Redis, lost data, a clock set back */
TEST(no_id_comes_twice)
{
    size_t wanted = counts_of(400000, 10000000);
    size_t n_events = counts_of(7, 40);
    size_t n_ids = 0, n_numbers = 0, n_failed = 0;
    atomic_store(&s.running, SERVERS);
    for (size_t i = 0; i < SERVERS; i++) {
        source *from = &s.sources[i];
        from->wanted = wanted / SERVERS;
        from->ids = calloc(from->wanted + COUNT, sizeof *from->ids);
        from->numbers = calloc(from->wanted, sizeof *from->numbers);
        assert_non_null(from->ids);
        assert_non_null(from->numbers);
        assert_int_equal(pthread_create(&from->thread, NULL, ask_until_enough, from), 0);
    }
    disturb(n_events, wanted);
    for (size_t i = 0; i < SERVERS; i++)
        pthread_join(s.sources[i].thread, NULL);
    int64_t *ids = calloc(wanted + SERVERS * COUNT, sizeof *ids);
    int64_t *numbers = calloc(wanted, sizeof *numbers);
    for (size_t i = 0; i < SERVERS; i++) {
        source *from = &s.sources[i];
        if (from->fault[0])
            fail_msg("server %zu: %s", i, from->fault);
        memcpy(ids + n_ids, from->ids, from->n_ids * sizeof *ids);
        memcpy(numbers + n_numbers, from->numbers, from->n_numbers * sizeof *numbers);
        n_ids += from->n_ids;
        n_numbers += from->n_numbers;
        n_failed += from->n_failed;
    }
    print_message("%zu ids, %zu numbers of a sequence, %zu calls failed\n", n_ids, n_numbers, n_failed);
    assert_true(n_ids >= wanted);
    expect_unique("SNOWFLAKE", ids, n_ids);
    expect_unique("SEQUENCE", numbers, n_numbers);
}

/* What was granted is used up to its end, a second; then there is nothing until Redis is back. */
TEST(without_a_store_ids_end)
{
    source here = {.channel = s.sources[0].channel};
    const lks_call_options once = {.no_retry = true};
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    int64_t id, last = 0;
    lks_code code;
    lks_error error;
    while (!ask(&here, LKS_ID_KIND_SNOWFLAKE, 1, &last)) /* the store is new */
        assert_string_equal(here.fault, "");
    redis_fixture_kill(s.redis);
    request.kind = LKS_ID_KIND_SNOWFLAKE;
    do
        code = lks_id_next(here.channel, &request, &once, NULL, &error);
    while (code == LKS_OK);
    assert_int_equal(code, LKS_UNAVAILABLE);
    request.kind = LKS_ID_KIND_UUID_V7;
    assert_int_equal(lks_id_next(here.channel, &request, &once, NULL, &error), LKS_OK);
    assert_true(redis_fixture_restart(s.redis));
    while (!ask(&here, LKS_ID_KIND_SNOWFLAKE, 1, &id))
        assert_string_equal(here.fault, "");
    assert_true(id > last);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
