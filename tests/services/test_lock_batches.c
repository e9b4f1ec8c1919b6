/* Calls that share an FCALL answer what the same calls answer one after the other, and leave the same
 * behind: random calls of few tokens and names are made twice. The clock stands still within a batch. */
#include "services/lock_script.h"

#include "support/counts.h"

#include <stdlib.h>
#include <time.h>

enum { NAMES = 4, TOKENS = 12, BATCH_MAX = 8, STEPS = 60, LOG_BYTES = 256 * 1024 };

static unsigned seed;
static char log_text[2][LOG_BYTES];

static int pick(int n)
{
    seed = seed * 1103515245 + 12345;
    return (int)((seed >> 16) % (unsigned)n);
}

/* ---- what is asked: up to BATCH_MAX requests of one method ------------------------------- */

static struct {
    char token[24];
    char name[3][4];
    const char *names[3];
    lks_target target[3];
    lks_target *targets[3];
    lks_lease lease;
    lks_lease *leases[1];
    union {
        lks_acquire_request acquire;
        lks_release_request release;
        lks_renew_request renew;
    } request;
} asked[BATCH_MAX];

static void some_names(int i, int n)
{
    int first = pick(NAMES);

    for (int k = 0; k < n; k++) {
        snprintf(asked[i].name[k], sizeof asked[i].name[k], "n%d", (first + k) % NAMES);
        asked[i].names[k] = asked[i].name[k];
    }
}

static const void *an_acquire(int i)
{
    int n = 1 + (pick(3) == 0 ? pick(3) : 0);

    some_names(i, n);
    for (int k = 0; k < n; k++) {
        lks_target *target = &asked[i].target[k];
        *target = message(target, .name = asked[i].name[k]);
        int mode = pick(6);
        if (mode == 4)
            target->mode = LKS_LOCK_MODE_SHARED;
        if (mode == 5)
            target->mode = LKS_LOCK_MODE_PERMIT, target->capacity = 3, target->permits = 1 + pick(2);
        asked[i].targets[k] = target;
    }
    asked[i].request.acquire = message(acquire_request, .group = "g", .token = asked[i].token, .owner = asked[i].token,
                                       .lease_ms = LEASE_MS, .n_targets = (size_t)n, .targets = asked[i].targets);
    return &asked[i].request;
}

static const void *a_release(int i)
{
    int n = pick(3);

    some_names(i, n);
    asked[i].request.release =
        message(release_request, .group = "g", .token = asked[i].token, .n_names = (size_t)n, .names = asked[i].names);
    return &asked[i].request;
}

static const void *a_renewal(int i)
{
    int n = pick(3);

    some_names(i, n);
    asked[i].lease = message(lease, .group = "g", .n_names = (size_t)n, .names = asked[i].names,
                             .token = asked[i].token, .lease_ms = LEASE_MS * (1 + pick(3)));
    asked[i].leases[0] = &asked[i].lease;
    asked[i].request.renew = message(renew_request, .n_leases = 1, .leases = asked[i].leases);
    return &asked[i].request;
}

/* ---- what is answered --------------------------------------------------------------------- */

static void note_acquire(char *log, const lks_acquire_response *response)
{
    add(log, LOG_BYTES, " %ld", response->lease_ms);
    for (size_t i = 0; i < response->n_fences; i++)
        add(log, LOG_BYTES, " %s=%lu", response->fences[i]->name, response->fences[i]->fence);
    if (response->holder)
        add(log, LOG_BYTES, " %s", response->holder->name);
}

static void note(char *log, int method, const void *response, const lks_error *error)
{
    err = *error;
    add(log, LOG_BYTES, "%s", line_of(response));
    if (response && method == 0)
        note_acquire(log, response);
    if (response && method == 1)
        for (size_t i = 0; i < ((const lks_release_response *)response)->n_names; i++)
            add(log, LOG_BYTES, " %d", (int)((const lks_release_response *)response)->names[i]->outcome);
    if (response && method == 2) {
        const lks_lease_result *result = ((const lks_renew_response *)response)->results[0];
        add(log, LOG_BYTES, " %d %ld", (int)result->outcome, result->lease_ms);
    }
    add(log, LOG_BYTES, "\n");
}

static void note_names(char *log)
{
    for (int n = 0; n < NAMES; n++) {
        const char name[] = {'n', (char)('0' + n), '\0'};
        const char *seen = inspect(name);
        add(log, LOG_BYTES, "%s: %s, %lu\n", name, seen, inspected->last_fence);
    }
}

/* ---- twice ---------------------------------------------------------------------------------- */

static void one_step(char *log, bool together)
{
    static const void *(*const makes[])(int) = {an_acquire, a_release, a_renewal};
    const void *requests[BATCH_MAX], *responses[BATCH_MAX];
    lks_error errors[BATCH_MAX];
    static const int of_six[] = {0, 0, 0, 1, 1, 2};
    int n = 1 + pick(BATCH_MAX), method = of_six[pick(6)];

    for (int i = 0; i < n; i++) {
        snprintf(asked[i].token, sizeof asked[i].token, "T%02d-of-sixteen-bytes", pick(TOKENS));
        requests[i] = makes[method](i);
    }
    if (together)
        ask_together((size_t)n, requests, responses, errors);
    for (int i = 0; i < n; i++) {
        /* The release of a token that nobody has seen has a second round, which is never shared. */
        if (!together || (!responses[i] && errors[i].code == LKS_OK)) {
            responses[i] = answer_to(requests[i]);
            errors[i] = err;
        }
        note(log, method, responses[i], &errors[i]);
    }
    if (pick(4) == 0)
        pass_seconds(LEASE_MS / 1000 / 3);
}

static const char *run(bool together, unsigned start)
{
    char *log = log_text[together];

    script_reset(NULL);
    harness_redis(h, "SET ls:test:clock_still_us 1700000000000000");
    seed = start;
    log[0] = '\0';
    for (int i = 0; i < STEPS; i++)
        one_step(log, together);
    note_names(log);
    return log;
}

TEST(a_batch_is_its_calls_one_by_one)
{
    size_t rounds = counts_of(100, 3000);
    const char *given = getenv("LOCKSTOCK_SEED");
    unsigned start = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

    for (size_t round = 0; round < rounds; round++, start++) {
        print_message("LOCKSTOCK_SEED=%u\n", start);
        says(run(true, start), run(false, start));
    }
}

/* ---- tries of one name ----------------------------------------------------------------------- */

static const void *a_try(int i, int token)
{
    snprintf(asked[i].token, sizeof asked[i].token, "T%02d-of-sixteen-bytes", token);
    asked[i].target[0] = message(target, .name = "n0");
    asked[i].targets[0] = &asked[i].target[0];
    asked[i].request.acquire = message(acquire_request, .group = "g", .token = asked[i].token, .owner = asked[i].token,
                                       .lease_ms = LEASE_MS, .n_targets = 1, .targets = asked[i].targets);
    return &asked[i].request;
}

/* What all of them are told, a line each; they share an FCALL. */
static const char *try_all(const int *tokens, size_t n)
{
    const void *requests[BATCH_MAX], *responses[BATCH_MAX];
    lks_error errors[BATCH_MAX];
    char *log = log_text[0];

    log[0] = '\0';
    for (size_t i = 0; i < n; i++)
        requests[i] = a_try((int)i, tokens[i]);
    harness_redis(h, "CONFIG RESETSTAT");
    ask_together(n, requests, responses, errors);
    for (size_t i = 0; i < n; i++) {
        const lks_acquire_response *response = responses[i];
        assert_non_null(response);
        add(log, LOG_BYTES, "%s %s\n", line_of(response), response->holder ? response->holder->owner : "");
    }
    return log;
}

/* The name and who has it are read for the first of them; of the others, whether their tokens are known. */
TEST(tries_of_a_taken_name_read_it_once)
{
    static const int tokens[] = {1, 2, 3, 4, 5, 6, 7};

    says(line_of(answer_to(a_try(0, 0))), "ACQUIRED");
    says(try_all(tokens, 7),
         "BUSY T00-of-sixteen-bytes\nBUSY T00-of-sixteen-bytes\nBUSY T00-of-sixteen-bytes\nBUSY T00-of-sixteen-bytes\n"
         "BUSY T00-of-sixteen-bytes\nBUSY T00-of-sixteen-bytes\nBUSY T00-of-sixteen-bytes\n");
    assert_int_equal(harness_commands(h, "get"), 2 + 7);
}

TEST(its_holder_among_them_is_told_so)
{
    static const int tokens[] = {1, 0, 2};

    answer_to(a_try(0, 0));
    says(try_all(tokens, 3), "BUSY T00-of-sixteen-bytes\nACQUIRED again \nBUSY T00-of-sixteen-bytes\n");
    harness_redis(h, "DEL ls:{default/g}:lock:t:T00-of-sixteen-bytes");
    says(try_all(tokens, 3), "BUSY \nTOKEN_SPENT \nBUSY \n");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
