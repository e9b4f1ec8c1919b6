/* IdempotencyService on two real servers and one Redis: a double click from two
 * processes, lost replies, a frozen attempt, many who wait, a server that dies, and a
 * ticket that many want. Beside it, what a lock without a result does. */

#include <signal.h>

#include <lockstock/v1/idempotency.lks_client.h>

#include "e2e/click.h"
#include "support/counts.h"
#include "support/redis_fixture.h"
#include "support/lossy_proxy.h"
#include "support/server_fixture.h"
#include "test.h"

enum { LIMIT_MS = 60000, LEASE_MS = 600000, CHANNELS = 4, WAITERS = 500, BODY = 3000, CONSUMERS = 50 };

typedef struct fixture {
    redis_fixture *redis;
    server_fixture *servers[2];
    lks_channel *channels[CHANNELS]; /* half of them to each server first */
    click_register *shared;
    char path[256];
} fixture;

/* A channel goes to the first server that it reaches, and stays: the other one is held
 * still meanwhile. */
static bool open_channel(fixture *f, int i)
{
    server_fixture *mine = f->servers[i % 2], *other = f->servers[1 - i % 2];
    lks_get_request request = LKS_GET_REQUEST_INIT;
    lks_error error = {0};
    char urls[160];

    request.scope = request.key = "nothing";
    snprintf(urls, sizeof urls, "%s,%s", server_fixture_url(mine), server_fixture_url(other));
    process_signal(server_fixture_process(other), SIGSTOP);
    if (lks_channel_open(urls, NULL, &f->channels[i], NULL) == LKS_OK)
        lks_idempotency_get(f->channels[i], &request, NULL, NULL, &error);
    process_signal(server_fixture_process(other), SIGCONT);
    return error.code == LKS_NOT_FOUND;
}

static int setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};
    fixture *f = calloc(1, sizeof *f);

    *state = f;
    f->redis = redis_fixture_start(NULL);
    if (!f->redis)
        return -1;
    for (int i = 0; i < 2; i++) {
        f->servers[i] =
            server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(f->redis), .args = unsafe});
        if (!f->servers[i])
            return -1;
    }
    for (int i = 0; i < CHANNELS; i++)
        if (!open_channel(f, i))
            return -1;
    snprintf(f->path, sizeof f->path, "%s/register", redis_fixture_dir(f->redis));
    f->shared = click_register_map(f->path);
    return f->shared ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < CHANNELS; i++)
        lks_channel_close(f->channels[i]);
    for (int i = 0; i < 2; i++)
        server_fixture_free(f->servers[i]);
    redis_fixture_free(f->redis);
    if (f->shared)
        munmap(f->shared, sizeof *f->shared);
    free(f);
    return 0;
}

/* ---- calls ------------------------------------------------------------------------------ */

static lks_begin_response *begin(lks_channel *channel, const char *key, const char *token, int64_t wait_ms)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = LIMIT_MS};
    lks_begin_response *response = NULL;
    lks_error error;

    request.scope = "pay";
    request.key = key;
    request.attempt_token = token;
    request.lease_ms = LEASE_MS;
    request.wait_ms = wait_ms;
    if (lks_idempotency_begin(channel, &request, &options, &response, &error) != LKS_OK)
        fail_msg("Begin: %s: %s", lks_code_name(error.code), error.message);
    return response;
}

static lks_complete_outcome complete(lks_channel *channel, const char *key, uint64_t fence, const void *body,
                                     size_t len)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;
    lks_complete_response *response = NULL;
    lks_result_header first = LKS_RESULT_HEADER_INIT, second = LKS_RESULT_HEADER_INIT;
    lks_result_header *headers[] = {&first, &second};
    lks_error error;

    first.key = second.key = "Set-Cookie";
    first.value = "b=2";
    second.value = "a=1";
    request.scope = "pay";
    request.key = key;
    request.fence = fence;
    request.code = 201;
    request.body.data = (uint8_t *)(uintptr_t)body;
    request.body.len = len;
    request.n_headers = 2;
    request.headers = headers;
    if (lks_idempotency_complete(channel, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("Complete: %s: %s", lks_code_name(error.code), error.message);
    lks_complete_outcome outcome = response->outcome;
    lks_complete_response_free(response);
    return outcome;
}

static bool is_replay(const lks_begin_response *response, const void *body, size_t len)
{
    const lks_stored_result *r = response->result;

    return response->outcome == LKS_BEGIN_OUTCOME_REPLAY && r->code == 201 && r->body.len == len &&
           memcmp(r->body.data, body, len) == 0 && r->n_headers == 2 && strcmp(r->headers[0]->key, "Set-Cookie") == 0 &&
           strcmp(r->headers[0]->value, "b=2") == 0 && strcmp(r->headers[1]->value, "a=1") == 0;
}

/* How often Redis has run that command, from functions too. */
static long long ran(fixture *f, const char *command)
{
    char *info = redis_fixture_command(f->redis, "INFO commandstats"), name[64];
    assert_non_null(info);
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *at = strstr(info, name);
    long long n = at ? strtoll(at + strlen(name), NULL, 10) : 0;
    free(info);
    return n;
}

/* Each Begin that begins to wait is one SCARD. */
static void until_waiting(fixture *f, long long n)
{
    long long end = process_now_ms() + LIMIT_MS;

    while (ran(f, "scard") < n && process_now_ms() < end)
        process_pause();
    assert_true(ran(f, "scard") >= n);
}

/* ---- a double click ---------------------------------------------------------------------- */

static process *start_click(fixture *f, const char *way, const char *where, const char *order, const char *schedule)
{
    const char *const argv[] = {CLICK_PATH, way, where, f->path, order, schedule, NULL};
    process *p = process_spawn(argv, NULL);

    assert_non_null(p);
    return p;
}

/* Two clicks on one order; what each answers. */
static void double_click(fixture *f, const char *way, const char *const where[2], const char *order,
                         const char *schedule, char answers[2][128])
{
    process *clicks[2];

    memset(f->shared, 0, sizeof *f->shared);
    for (int i = 0; i < 2; i++)
        clicks[i] = start_click(f, way, where[i], order, schedule);
    for (int i = 0; i < 2; i++) {
        assert_true(process_exited_with(clicks[i], 0, LIMIT_MS));
        assert_true(process_wait_line(clicks[i], "answer: ", answers[i], 128, LIMIT_MS));
        process_free(clicks[i]);
    }
}

/* promise I32 */
TEST(a_double_click_runs_once)
{
    fixture *f = *state;
    const char *const where[] = {server_fixture_url(f->servers[0]), server_fixture_url(f->servers[1])};
    char answers[2][128], order[32];

    for (size_t i = 0; i < counts_of(10, 200); i++) {
        snprintf(order, sizeof order, "order-%zu", i);
        double_click(f, "lockstock", where, order, NULL, answers);
        assert_int_equal(atomic_load(&f->shared->paid), 1);
        assert_string_equal(answers[0], answers[1]);
        assert_non_null(strstr(answers[0], "receipt 1 of process"));
    }
}

/* The same two clicks with SET NX EX, at two moments. */
/* promise I32: a double click from two processes runs once */
TEST(a_lock_without_a_result_pays_twice_or_answers_nothing)
{
    fixture *f = *state;
    const char *const where[] = {redis_fixture_socket(f->redis), redis_fixture_socket(f->redis)};
    char answers[2][128];

    double_click(f, "naive", where, "order-1", "late", answers);
    assert_int_equal(atomic_load(&f->shared->paid), 2);
    double_click(f, "naive", where, "order-2", "early", answers);
    assert_int_equal(atomic_load(&f->shared->paid), 1);
    assert_int_equal(!!strstr(answers[0], "in progress") + !!strstr(answers[1], "in progress"), 1);
}

/* ---- what goes astray --------------------------------------------------------------------- */

/* promise I33: a lost EXECUTE is found again, over connections and servers that die */
TEST(a_lost_execute_is_found_again)
{
    fixture *f = *state;
    lossy_proxy *proxy = lossy_proxy_start(server_fixture_port(f->servers[0]), CUT_FIRST_REPLY);
    lks_channel *channel = NULL;

    assert_non_null(proxy);
    assert_int_equal(lks_channel_open(lossy_proxy_url(proxy), NULL, &channel, NULL), LKS_OK);
    lks_begin_response *found = begin(channel, "k", "the-lost-attempt", 0); /* the client sends it again */
    assert_int_equal(lossy_proxy_hits(proxy), 1);
    assert_int_equal(found->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    assert_int_equal(found->attempt, 1);
    /* Also by a caller that starts anew, through another server. */
    lks_begin_response *again = begin(f->channels[1], "k", "the-lost-attempt", 0);
    assert_int_equal(again->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    assert_int_equal(again->fence, found->fence);
    /* Without its token it would be locked out until the lease ends. */
    lks_begin_response *other = begin(f->channels[1], "k", "a-forgetful-caller", 0);
    assert_int_equal(other->outcome, LKS_BEGIN_OUTCOME_IN_PROGRESS);
    assert_int_equal(complete(f->channels[0], "k", found->fence, "x", 1), LKS_COMPLETE_OUTCOME_STORED);
    lks_begin_response_free(found);
    lks_begin_response_free(again);
    lks_begin_response_free(other);
    lks_channel_close(channel);
    lossy_proxy_stop(proxy);
}

/* promise I33 */
TEST(an_execute_outlives_its_server)
{
    fixture *f = *state;
    lks_begin_response *first = begin(f->channels[0], "k", "an-attempt's-token", 0);

    server_fixture_kill(f->servers[0]);
    lks_begin_response *again = begin(f->channels[0], "k", "an-attempt's-token", 0);
    assert_int_equal(again->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    assert_int_equal(again->fence, first->fence);
    assert_int_equal(complete(f->channels[0], "k", first->fence, "x", 1), LKS_COMPLETE_OUTCOME_STORED);
    lks_begin_response_free(first);
    lks_begin_response_free(again);
}

/* promise I34: a frozen attempt that wakes late overwrites nothing */
TEST(a_frozen_attempt_that_wakes_late_overwrites_nothing)
{
    fixture *f = *state;
    process *frozen = start_click(f, "frozen", server_fixture_url(f->servers[0]), "k", NULL);

    assert_true(process_wait_line(frozen, "executing", NULL, 0, LIMIT_MS));
    process_signal(frozen, SIGSTOP);
    lks_begin_response *next = begin(f->channels[1], "k", "the-next-attempt", LIMIT_MS - 5000);
    assert_int_equal(next->outcome, LKS_BEGIN_OUTCOME_EXECUTE); /* when the lease of 300 ms was over */
    assert_int_equal(next->attempt, 2);
    atomic_store(&f->shared->go, 1);
    process_signal(frozen, SIGCONT);
    assert_true(process_wait_line(frozen, "answer: superseded", NULL, 0, LIMIT_MS));
    assert_true(process_exited_with(frozen, 0, LIMIT_MS));
    assert_int_equal(complete(f->channels[1], "k", next->fence, "second", 6), LKS_COMPLETE_OUTCOME_STORED);
    lks_begin_response *replay = begin(f->channels[0], "k", "", 0);
    assert_true(is_replay(replay, "second", 6));
    process_free(frozen);
    lks_begin_response_free(next);
    lks_begin_response_free(replay);
}

/* A store of its own, all of it killed between two calls. */
/* promise I35: what was answered outlives the store's and the server's kill */
TEST(what_was_stored_outlives_its_store)
{
    server_fixture *server = server_fixture_start(NULL);
    lks_channel *channel = NULL;

    assert_non_null(server);
    assert_int_equal(lks_channel_open(server_fixture_url(server), NULL, &channel, NULL), LKS_OK);
    lks_begin_response *stored = begin(channel, "stored", "the-first-attempt", 0);
    lks_begin_response *running = begin(channel, "running", "the-first-attempt", 0);
    assert_int_equal(complete(channel, "stored", stored->fence, "paid", 4), LKS_COMPLETE_OUTCOME_STORED);
    pid_t redis = server_fixture_redis_pid(server);
    kill(redis, SIGKILL);
    server_fixture_kill(server);
    assert_true(server_fixture_restart(server));
    lks_begin_response *replay = begin(channel, "stored", "another's-attempt", 0);
    lks_begin_response *barred = begin(channel, "running", "another's-attempt", 0);
    lks_begin_response *again = begin(channel, "running", "the-first-attempt", 0);
    assert_true(is_replay(replay, "paid", 4));
    assert_int_equal(barred->outcome, LKS_BEGIN_OUTCOME_IN_PROGRESS);
    assert_int_equal(again->outcome, LKS_BEGIN_OUTCOME_EXECUTE);
    assert_int_equal(again->fence, running->fence);
    lks_begin_response *all[] = {stored, running, replay, barred, again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lks_begin_response_free(all[i]);
    lks_channel_close(channel);
    server_fixture_free(server);
}

/* ---- many who wait ------------------------------------------------------------------------- */

static lks_call *waiting[WAITERS];

static void wait_all(fixture *f, const char *key)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = 4 * LIMIT_MS};

    request.scope = "pay";
    request.key = key;
    request.lease_ms = LEASE_MS;
    request.wait_ms = 3 * LIMIT_MS;
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(
            lks_idempotency_begin_start(f->channels[i % CHANNELS], &request, &options, NULL, NULL, &waiting[i], NULL),
            LKS_OK);
}

static void expect_replays(const void *body, size_t len)
{
    for (int i = 0; i < WAITERS; i++) {
        lks_error error;
        if (lks_call_wait(waiting[i], &error) != LKS_OK)
            fail_msg("waiter %d: %s: %s", i, lks_code_name(error.code), error.message);
        assert_true(is_replay((const lks_begin_response *)(const void *)lks_call_response(waiting[i]), body, len));
        lks_call_free(waiting[i]);
    }
}

/* promise I36 */
TEST(five_hundred_get_the_same_bytes)
{
    fixture *f = *state;
    static uint8_t body[BODY];
    lks_begin_response *first = begin(f->channels[0], "k", "", 0);

    for (size_t i = 0; i < BODY; i++)
        body[i] = (uint8_t)(i * 2654435761u >> 11);
    wait_all(f, "k");
    until_waiting(f, WAITERS);
    long long before = ran(f, "publish");
    assert_int_equal(complete(f->channels[0], "k", first->fence, body, BODY), LKS_COMPLETE_OUTCOME_STORED);
    expect_replays(body, BODY);
    assert_int_equal(ran(f, "publish") - before, 2); /* one message a server */
    lks_begin_response_free(first);
}

/* promise I36: 500 who wait over two servers get the same bytes; those of a dead server wait at another */
TEST(the_waiters_of_a_dead_server_wait_at_another)
{
    fixture *f = *state;
    lks_begin_response *first = begin(f->channels[0], "k", "", 0);

    wait_all(f, "k");
    until_waiting(f, WAITERS);
    server_fixture_kill(f->servers[1]);
    until_waiting(f, WAITERS + WAITERS / 2);
    assert_int_equal(complete(f->channels[0], "k", first->fence, "x", 1), LKS_COMPLETE_OUTCOME_STORED);
    expect_replays("x", 1);
    lks_begin_response_free(first);
}

/* ---- tickets -------------------------------------------------------------------------------- */

TEST(one_of_many_consumers_wins)
{
    fixture *f = *state;
    lks_issue_ticket_request issue = LKS_ISSUE_TICKET_REQUEST_INIT;
    lks_issue_ticket_response *issued = NULL;
    lks_consume_ticket_request request = LKS_CONSUME_TICKET_REQUEST_INIT;
    lks_call *calls[2 * CONSUMERS];
    int consumed[CONSUMERS] = {0}, consumers = 0, replays = 0;

    issue.scope = request.scope = "form";
    issue.subject = request.subject = "user-1";
    issue.ttl_ms = 600000;
    assert_int_equal(lks_idempotency_issue_ticket(f->channels[0], &issue, NULL, &issued, NULL), LKS_OK);
    request.ticket = issued->ticket;
    for (int i = 0; i < 2 * CONSUMERS; i++) { /* each sends twice */
        char id[32];
        snprintf(id, sizeof id, "consumer-number-%d", i / 2);
        request.consumer_id = id;
        assert_int_equal(lks_idempotency_consume_ticket_start(f->channels[i % CHANNELS], &request, NULL, NULL, NULL,
                                                              &calls[i], NULL),
                         LKS_OK);
    }
    for (int i = 0; i < 2 * CONSUMERS; i++) {
        assert_int_equal(lks_call_wait(calls[i], NULL), LKS_OK);
        const lks_consume_ticket_response *r =
            (const lks_consume_ticket_response *)(const void *)lks_call_response(calls[i]);
        if (r->outcome == LKS_CONSUME_TICKET_OUTCOME_CONSUMED)
            consumed[i / 2]++;
        else
            assert_int_equal(r->outcome, LKS_CONSUME_TICKET_OUTCOME_ALREADY_CONSUMED);
        replays += r->replayed;
        lks_call_free(calls[i]);
    }
    for (int i = 0; i < CONSUMERS; i++) {
        consumers += consumed[i] > 0;
        assert_true(consumed[i] == 0 || consumed[i] == 2);
    }
    assert_int_equal(consumers, 1);
    assert_int_equal(replays, 1);
    lks_issue_ticket_response_free(issued);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
