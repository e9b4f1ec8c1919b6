/* Random calls over several keys and a driven clock against a small model: what each
 * answers, who waits, who is told and what becomes of those must be what the model says.
 * The model knows only the contract. A failure prints the seed; LOCKSTOCK_SEED=<seed>
 * runs it again. */
#include "services/idempotency_script.h"
#include "support/counts.h"

#include <stdio.h>
#include <time.h>

enum { KEYS = 3, TOKENS = 8, PARKED_MAX = 12, TICK_S = 1000, LINE = 256, MANY = 8192 };

typedef enum kind { NONE, RUNNING, COMPLETED, RETRYABLE, FINAL } kind;

typedef struct record {
    kind state;
    int attempt, token, fingerprint;
    int64_t lease_end_s;
    uint64_t fence, highest; /* highest: ever given for the key */
    char result[LINE];
} record;

/* A Begin that waits, in the order of its coming. */
typedef struct waiter {
    int server, key, token, fingerprint;
    int64_t lease_s;
    bool parked;
} waiter;

static record records[KEYS];
static uint64_t fences[64]; /* some that were given lately */
static waiter waiters[PARKED_MAX];
static int n_waiters;
static int64_t now_s;
static unsigned seed;

static int pick(int n)
{
    seed = seed * 1103515245u + 12345u;
    return (int)((seed >> 16) % (unsigned)n);
}

static const char *const key_names[KEYS] = {"k0", "k1", "k2"};
static const char *const servers[] = {"S1", "S2"};
static const char *const prints[] = {"one", "two", ""};

static const char *alias(int token)
{
    static char text[4][8];
    static int next;
    char *line = text[next++ % 4];

    snprintf(line, sizeof text[0], "T%d", token);
    return line;
}

static bool leased(const record *r)
{
    return r->state == RUNNING && r->lease_end_s > now_s;
}

/* What a Begin is answered, and what it changes; `expected` gets its line. */
static void model_begin(record *r, int token, int fingerprint, int64_t lease_s, char *expected)
{
    if (r->state != NONE && r->fingerprint != fingerprint) {
        snprintf(expected, LINE, "MISMATCH");
    } else if (r->state == COMPLETED || r->state == FINAL) {
        snprintf(expected, LINE, "REPLAY %d %.200s", r->attempt, r->result);
    } else if (r->state == RUNNING && r->token == token) {
        if (!leased(r))
            r->lease_end_s = now_s + lease_s;
        snprintf(expected, LINE, "EXECUTE %d", r->attempt);
    } else if (leased(r)) {
        snprintf(expected, LINE, "IN_PROGRESS %d", r->attempt);
    } else {
        r->attempt = r->state == NONE ? 1 : r->attempt + 1;
        r->state = RUNNING;
        r->token = token;
        r->fingerprint = fingerprint;
        r->lease_end_s = now_s + lease_s;
        r->fence = 0; /* the one it is answered with */
        snprintf(expected, LINE, "EXECUTE %d", r->attempt);
    }
}

/* The fence of an EXECUTE: the attempt's own, or a new and higher one. */
static void take_fence(record *r, uint64_t given)
{
    if (r->fence == 0) {
        assert_true(given > r->highest);
        r->fence = r->highest = given;
        fences[pick(64)] = given;
    }
    assert_int_equal(given, r->fence);
}

static uint64_t any_fence(const record *r)
{
    uint64_t some = fences[pick(64)];

    return pick(4) > 0 && r->fence > 0 ? r->fence : some > 0 ? some : 7;
}

static int64_t any_lease_s(void)
{
    return TICK_S / 2 + TICK_S * pick(4);
}

/* ---- what waits ---------------------------------------------------------------------- */

/* Tells the parked calls of a key on a server, and expects what each is answered. */
static void model_wake(int server, int key, char *answers)
{
    for (int i = 0; i < n_waiters; i++) {
        waiter *w = &waiters[i];
        char line[LINE];
        if (!w->parked || w->server != server || w->key != key)
            continue;
        model_begin(&records[key], w->token, w->fingerprint, w->lease_s, line);
        if (strncmp(line, "IN_PROGRESS", 11) == 0)
            continue;
        w->parked = false;
        size_t len = strlen(answers);
        snprintf(answers + len, MANY - len, "%s%s %s %s", len ? ", " : "", servers[server], alias(w->token), line);
    }
}

/* After what ended an attempt: each server that parks calls of the key is told. */
static void expect_all_woken(int key)
{
    static char answers[MANY];
    record *r = &records[key];

    answers[0] = '\0';
    for (int server = 0; server < 2; server++)
        model_wake(server, key, answers);
    says(deliver(), answers);
    if (strstr(answers, "EXECUTE"))
        take_fence(r, fence());
}

static bool anyone_parked(int key)
{
    for (int i = 0; i < n_waiters; i++)
        if (waiters[i].parked && waiters[i].key == key)
            return true;
    return false;
}

static void forget_answered(void)
{
    int left = 0;

    for (int i = 0; i < n_waiters; i++)
        if (waiters[i].parked)
            waiters[left++] = waiters[i];
    n_waiters = left;
}

/* ---- calls ---------------------------------------------------------------------------- */

static void do_begin(int key, bool waits)
{
    record *r = &records[key];
    int token = r->state == RUNNING && pick(4) == 0 ? r->token : pick(TOKENS);
    int fingerprint = pick(12) == 0 ? pick(3) : r->state == NONE ? pick(3) : r->fingerprint;
    int64_t lease_s = any_lease_s();
    int server = pick(2);
    char expected[LINE];

    for (int i = 0; i < n_waiters; i++) /* a token waits once on a server */
        waits = waits && !(waiters[i].server == server && waiters[i].token == token);
    waits = waits && n_waiters < PARKED_MAX;
    model_begin(r, token, fingerprint, lease_s, expected);
    const char *said =
        waits ? wait_of(servers[server], key_names[key], alias(token), prints[fingerprint], lease_s * 1000, WAIT_MS)
              : begin_of(key_names[key], alias(token), prints[fingerprint], lease_s * 1000, 0);
    if (waits && strncmp(expected, "IN_PROGRESS", 11) == 0) {
        says(said, "WAITS");
        waiters[n_waiters++] = (waiter){server, key, token, fingerprint, lease_s, true};
        return;
    }
    says(said, expected);
    if (expected[0] == 'E')
        take_fence(r, fence());
    else if (expected[0] == 'I')
        about(begun->retry_after_ms, (r->lease_end_s - now_s) * 1000);
}

static void do_extend(int key)
{
    record *r = &records[key];
    uint64_t of_fence = any_fence(r);
    int64_t lease_s = any_lease_s();
    bool mine = r->state == RUNNING && of_fence == r->fence;

    says(extend(key_names[key], of_fence, lease_s * 1000), mine ? "EXTENDED" : "LOST");
    if (mine && r->lease_end_s < now_s + lease_s)
        r->lease_end_s = now_s + lease_s;
}

static void do_end(int key, kind how)
{
    record *r = &records[key];
    uint64_t of_fence = any_fence(r);
    char text[32];

    snprintf(text, sizeof text, "r%d", pick(1000));
    const char *said = how == COMPLETED   ? complete(key_names[key], of_fence, 200, text)
                       : how == RETRYABLE ? fail_retryable(key_names[key], of_fence, text)
                                          : fail_final(key_names[key], of_fence, text);
    if (r->state == NONE || of_fence != r->fence) {
        says(said, "SUPERSEDED");
    } else if (r->state == RUNNING) {
        says(said, "STORED");
        r->state = how;
        snprintf(r->result, sizeof r->result, how == COMPLETED ? "200 %s" : "-1 lockstock-failure=%s", text);
        expect_all_woken(key);
    } else {
        says(said, r->state == how ? "STORED again" : "SUPERSEDED");
    }
}

static void do_delete(int key)
{
    says(forget(key_names[key]), "OK");
    records[key] = (record){.highest = records[key].highest};
    expect_all_woken(key);
}

static void do_get(int key)
{
    static const char *const names[] = {"NONE", "IN_PROGRESS", "COMPLETED", "FAILED_RETRYABLE", "FAILED_FINAL"};
    const record *r = &records[key];
    char expected[LINE];

    if (r->state == NONE)
        snprintf(expected, sizeof expected, "NONE");
    else
        snprintf(expected, sizeof expected, "%s %d", names[r->state], r->attempt);
    const char *said = get(key_names[key]);
    says_begin(said, expected);
    if (r->state == COMPLETED || r->state == FINAL)
        assert_non_null(strstr(said, r->result));
    if (r->state == RUNNING)
        about(got->lease_ms, leased(r) ? (r->lease_end_s - now_s) * 1000 : 0);
}

/* ---- events --------------------------------------------------------------------------- */

/* The alarm of one who waits. */
static void do_ring(void)
{
    static char answers[MANY];
    if (n_waiters == 0)
        return;
    const waiter w = waiters[pick(n_waiters)];
    record *r = &records[w.key];

    int64_t again_ms = ring_at(servers[w.server], key_names[w.key]);
    answers[0] = '\0';
    if (leased(r)) {
        about(again_ms, (r->lease_end_s - now_s) * 1000);
    } else {
        assert_int_equal(again_ms, 1000);
        model_wake(w.server, w.key, answers);
    }
    says(deliver(), answers);
    if (strstr(answers, "EXECUTE"))
        take_fence(r, fence());
}

static void do_event(service_event what)
{
    if (n_waiters == 0)
        return;
    waiter *w = &waiters[pick(n_waiters)];
    record *r = &records[w->key];
    char expected[LINE];

    w->parked = false;
    if (what == SERVICE_ABANDONED) {
        says(abandoned(servers[w->server], alias(w->token)), "CANCELLED NO the caller's connection is gone");
        return;
    }
    const char *said = timed_out(servers[w->server], alias(w->token));
    if (r->state == NONE) {
        says(said, "IN_PROGRESS 0");
    } else if (r->fingerprint == w->fingerprint && (r->state == RETRYABLE || (r->state == RUNNING && !leased(r)))) {
        snprintf(expected, sizeof expected, "IN_PROGRESS %d", r->attempt);
        says(said, expected);
        assert_int_equal(begun->retry_after_ms, 0);
    } else {
        model_begin(r, w->token, w->fingerprint, w->lease_s, expected); /* changes nothing here */
        says(said, expected);
    }
}

static void step(void)
{
    int key = pick(KEYS);

    switch (pick(24)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        do_begin(key, false);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        do_begin(key, true);
        break;
    case 11:
    case 12:
        do_extend(key);
        break;
    case 13:
    case 14:
        do_end(key, COMPLETED);
        break;
    case 15:
    case 16:
        do_end(key, RETRYABLE);
        break;
    case 17:
        do_end(key, FINAL);
        break;
    case 18:
    case 19:
        if (records[key].state == COMPLETED || records[key].state == FINAL || pick(6) == 0)
            do_delete(key);
        break;
    case 20:
        do_get(key);
        break;
    case 21:
        do_ring();
        break;
    case 22:
        do_event(pick(2) ? SERVICE_DEADLINE : SERVICE_ABANDONED);
        break;
    default:
        now_s += TICK_S;
        pass_seconds(TICK_S);
    }
    forget_answered();
}

TEST(every_answer_is_the_models)
{
    const char *given = getenv("LOCKSTOCK_SEED");
    size_t steps = counts_of(20000, 1000000);

    seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    print_message("LOCKSTOCK_SEED=%u\n", seed);
    for (size_t i = 0; i < steps; i++) {
        if (i % 1000 == 0) {
            servers_reset(NULL);
            memset(records, 0, sizeof records);
            n_waiters = 0;
            now_s = 0;
        }
        step();
    }
    for (int key = 0; key < KEYS; key++) {
        do_delete(key);
        while (anyone_parked(key)) {
            do_delete(key);
            forget_answered();
        }
    }
    assert_int_equal(waiting_keys(), 0);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = servers_reset)
