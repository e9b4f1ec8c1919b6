/* What one FCALL does for those who wait is bounded for all its calls together, and nothing that it
 * meets on the way, under names of others, makes an error of it after it has written. */
#include "services/lock_queue_script.h"

#include "functions/library.h"

enum { NAMES = 8, READERS = 60, OVER_MS = 1000 };

static int holders_of(const char *name)
{
    return atoi(harness_redis(h, "HLEN ls:{default/g}:lock:h:%s", name));
}

/* The name is held by "T<name>", and so many readers wait for it at S1. */
static void a_crowd_waits(const char *name, int n)
{
    char token[32];

    snprintf(token, sizeof token, "T%s", name);
    says(acquire(token, name), "ACQUIRED");
    for (int i = 0; i < n; i++) {
        char readers[16];
        snprintf(token, sizeof token, "%s%d", name, i);
        snprintf(readers, sizeof readers, "%s:S", name);
        says(wait_at("S1", token, readers), "QUEUED");
    }
}

/* ---- one bound for all calls of an FCALL --------------------------------------------- */

TEST(calls_that_travel_together_share_what_they_may_do_for_others)
{
    static char names[NAMES][4], tokens[NAMES][64];
    lks_release_request requests[NAMES];
    const void *list[NAMES], *responses[NAMES];
    lks_error errors[NAMES];
    int offered = 0, calls = 0;

    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        a_crowd_waits(names[i], READERS);
        char holder[8];
        snprintf(holder, sizeof holder, "Tn%d", i);
        snprintf(tokens[i], sizeof tokens[i], "%s", acquire_request(holder, "x", LEASE_MS, 0)->token);
        requests[i] = message(release_request, .group = "g", .token = tokens[i]);
        list[i] = &requests[i];
    }
    messages();
    ask_together(NAMES, list, responses, errors);
    for (int i = 0; i < NAMES; i++) {
        const lks_release_response *response = responses[i];
        assert_non_null(response);
        assert_int_equal(response->outcome, LKS_RELEASE_OUTCOME_RELEASED);
        offered += holders_of(names[i]);
    }
    assert_in_range(offered, READERS, 128);
    const char *told = messages();
    for (int i = 1; i < NAMES; i++)
        if (holders_of(names[i]) == 0 && !strstr(told, "S1:A "))
            fail_msg("nobody is told to look at %s again", names[i]);
    for (int i = 0; i < NAMES; i++) {
        while (promote(names[i]) == 0)
            assert_true(++calls < 4 * NAMES);
        assert_int_equal(holders_of(names[i]), READERS);
    }
}

/* Tries of the names in one FCALL; gives how each ends: "BUSY ACQUIRED". */
static const char *try_together(int n, const char *const *names)
{
    static char tokens[NAMES][32], line[256];
    lks_acquire_request requests[NAMES];
    lks_target targets[NAMES], *one[NAMES];
    const void *list[NAMES], *responses[NAMES];
    lks_error errors[NAMES];
    size_t len = 0;

    for (int i = 0; i < n; i++) {
        snprintf(tokens[i], sizeof tokens[i], "token-of-the-try-%d", i);
        targets[i] = message(target, .name = names[i]);
        one[i] = &targets[i];
        requests[i] = message(acquire_request, .group = "g", .token = tokens[i], .lease_ms = LEASE_MS, .n_targets = 1,
                              .targets = &one[i]);
        list[i] = &requests[i];
    }
    ask_together((size_t)n, list, responses, errors);
    for (int i = 0; i < n; i++) {
        const lks_acquire_response *response = responses[i];
        if (!response)
            fail_msg("%s: %s", names[i], errors[i].message);
        len += (size_t)snprintf(line + len, sizeof line - len, "%s%s", i > 0 ? " " : "",
                                lks_acquire_outcome_name(response->outcome));
    }
    return line;
}

/* The first has done all that an FCALL may do; who comes behind it still takes what is free. */
TEST(a_try_behind_a_crowd_is_granted)
{
    static const char *const names[] = {"crowd", "dead", "free", "empty"};
    char token[16];

    acquire_for("T1", "crowd", OVER_MS);
    for (int i = 0; i < 200; i++) {
        snprintf(token, sizeof token, "R%d", i);
        says(wait_at("S1", token, "crowd:S"), "QUEUED");
    }
    acquire_for("T2", "dead", OVER_MS);
    for (int i = 0; i < 10; i++) {
        snprintf(token, sizeof token, "D%d", i);
        says(wait_at("S2", token, "dead"), "QUEUED");
    }
    acquire_for("T3", "free", OVER_MS);
    server_down("S2");
    pass_seconds(2 * OVER_MS / 1000);
    says(try_together(4, names), "BUSY ACQUIRED ACQUIRED ACQUIRED");
    assert_in_range(holders_of("crowd"), 1, 128);
}

/* A semaphore of which one lease is over, and more leases run than are looked at in any case. */
static void a_large_semaphore(const char *name, const char *first)
{
    char target[16], second[8];

    snprintf(target, sizeof target, "%s:P1/9000", name);
    says(acquire_for(first, target, OVER_MS), "ACQUIRED");
    snprintf(second, sizeof second, "%sb", first);
    says(acquire(second, target), "ACQUIRED");
    harness_redis(h, "EVAL %s 2 ls:{default/g}:lock:n:%s ls:{default/g}:lock:h:%s %s",
                  "local name = redis.call('GET', KEYS[1]) "
                  "local entry = struct.pack('<ddd', struct.unpack('<d', name, 20) + 1e9, 1, 1) "
                  "for i = 1, 3000 do redis.call('HSET', KEYS[2], ARGV[1] .. i, entry) end "
                  "redis.call('SETRANGE', KEYS[1], 35, struct.pack('<d', 3002))",
                  name, name, "token-of-one-of-many-");
}

static void large_semaphores(void)
{
    a_large_semaphore("s0", "L0");
    a_large_semaphore("s1", "L1");
}

static long reads_of_holders(void)
{
    return harness_commands(h, "hgetall");
}

/* The second semaphore is read by a later call. */
TEST(a_call_behind_a_large_semaphore_reads_no_more)
{
    static const char *const names[] = {"s0", "s1"};

    large_semaphores();
    pass_seconds(2 * OVER_MS / 1000);
    long before = reads_of_holders();
    says(try_together(2, names), "BUSY BUSY");
    assert_int_equal(reads_of_holders() - before, 1);
}

TEST(a_promotion_behind_a_large_semaphore_looks_no_more)
{
    large_semaphores();
    says(wait_at("S1", "T1", "s0"), "QUEUED");
    says(wait_at("S1", "T2", "s1"), "QUEUED");
    pass_seconds(2 * OVER_MS / 1000);
    long before = reads_of_holders();
    const char *reply = harness_redis(h, "FCALL lock_promote_%s 1 ls:{default/g}: 1 s0 1 s1", functions_digest);
    assert_non_null(strstr(reply, "\nOK\n0\n"));      /* at once again */
    assert_int_equal(reads_of_holders() - before, 2); /* of one name: holders, servers of who waits */
    assert_true(promote("s1") > 0);
}

/* ---- refusals -------------------------------------------------------------------------- */

/* All holders are read once after a lease has ended, however many are refused. */
TEST(a_refusal_is_not_paid_for_twice)
{
    says(acquire_for("T1", "a:P1/5", OVER_MS), "ACQUIRED");
    says(acquire("T2", "a:P1/5"), "ACQUIRED");
    pass_seconds(2 * OVER_MS / 1000);
    long before = reads_of_holders();
    says(acquire("T3", "a:P1/6"), "FAILED_PRECONDITION NO targets[0].capacity: another one is in use");
    assert_true(reads_of_holders() > before);
    before = reads_of_holders();
    says(acquire("T4", "a:P1/6"), "FAILED_PRECONDITION NO targets[0].capacity: another one is in use");
    assert_int_equal(reads_of_holders(), before);
    says(inspect("a"), "PERMIT/5 T2=1");
}

/* What a refused call removes lets those have their turn who waited for it. */
TEST(a_refusal_that_finds_a_lease_over_hands_over)
{
    says(acquire_for("T1", "a:P3/5", OVER_MS), "ACQUIRED");
    says(acquire("T2", "a:P1/5"), "ACQUIRED");
    says(wait_at("S1", "T3", "a:P4/5"), "QUEUED");
    pass_seconds(2 * OVER_MS / 1000);
    messages();
    says(acquire("T4", "a:P1/6"), "FAILED_PRECONDITION NO targets[0].capacity: another one is in use");
    says(deliver(), "T3");
    says(inspect("a"), "PERMIT/5 T2=1 T3=4");
}

/* ---- foreign data under the names of others ---------------------------------------------- */

static const char *const foreign_commands[] = {
    "SET ls:{default/g}:lock:w:b foreign",
    "SET ls:{default/g}:lock:s:b foreign",
    "SET ls:{default/g}:lock:n:b foreign",
    "SETRANGE ls:{default/g}:lock:n:b 0 x",
    "SETRANGE ls:{default/g}:lock:n:b 1 x",
    "SET ls:{default/g}:lock:h:b foreign",
    "HSET ls:{default/g}:lock:h:b foreign-token-of-16 foreign",
};
enum { N_FOREIGN = sizeof foreign_commands / sizeof foreign_commands[0] };

/* Its value, as far as Redis tells it of any type. */
static const char *dump(const char *key)
{
    return harness_redis(h, "DEBUG DIGEST-VALUE ls:{default/g}:%s", key);
}

/* A writer of a and b waits for the reader of b. */
static void b_is_foreign(void **state, size_t i)
{
    queue_reset(state);
    says(acquire("T1", "a"), "ACQUIRED");
    says(acquire("T3", "b:S"), "ACQUIRED");
    says(acquire("T8", "b:S"), "ACQUIRED");
    says(wait_at("S2", "T2", "a b"), "QUEUED");
    harness_redis(h, foreign_commands[i]);
}

TEST(a_waiter_with_a_foreign_name_is_barred_and_bars)
{
    for (size_t i = 0; i < N_FOREIGN; i++) {
        b_is_foreign(state, i);
        says(wait_at("S1", "T4", "a"), "QUEUED");
        const char *before = dump("lock:n:b");
        says(release("T1", ""), "RELEASED");
        says(deliver(), "");
        assert_true(promote("a") >= -1);
        assert_int_equal(strncmp(acquire("T5", "a"), "BUSY a", 6), 0);
        says(dump("lock:n:b"), before);
    }
}

/* Its server gone, it is in nobody's way, wherever else it stands. */
TEST(a_dead_waiter_with_a_foreign_name_is_passed_over)
{
    for (size_t i = 0; i < N_FOREIGN; i++) {
        b_is_foreign(state, i);
        says(wait_at("S1", "T4", "a"), "QUEUED");
        server_down("S2");
        says(release("T1", ""), "RELEASED");
        says(deliver(), "T4");
    }
}

/* The same where a lease ends by itself, and where a refused call finds it over. */
TEST(no_look_at_the_names_of_others_is_an_error)
{
    for (size_t i = 0; i < N_FOREIGN; i++) {
        queue_reset(state);
        says(acquire_for("T1", "a:P3/5", OVER_MS), "ACQUIRED");
        says(acquire("T6", "a:P1/5"), "ACQUIRED");
        says(acquire("T3", "b:S"), "ACQUIRED");
        says(acquire("T8", "b:S"), "ACQUIRED");
        says(wait_at("S2", "T2", "a:P4/5 b"), "QUEUED");
        harness_redis(h, foreign_commands[i]);
        pass_seconds(2 * OVER_MS / 1000);
        says(acquire("T4", "a:P1/6"), "FAILED_PRECONDITION NO targets[0].capacity: another one is in use");
        assert_int_equal(strncmp(acquire("T5", "a:P1/5"), "BUSY a", 6), 0);
        assert_true(promote("a") >= -1);
        says(release("T6", ""), "RELEASED");
    }
}

/* Several names of a call are read before the first is written, also where they bar nobody. */
TEST(all_names_of_a_call_are_read_before_one_is_written)
{
    says(acquire_for("T1", "a:S", OVER_MS), "ACQUIRED");
    says(acquire_for("T2", "b:S", OVER_MS), "ACQUIRED");
    says(acquire("T3", "c"), "ACQUIRED");
    says(wait_at("S1", "T4", "a:S c"), "QUEUED");
    says(wait_at("S1", "T5", "b:S c"), "QUEUED");
    harness_redis(h, "SET ls:{default/g}:lock:h:b foreign");
    pass_seconds(2 * OVER_MS / 1000);
    remember();
    says(acquire("T6", "a:S b:S"), "FAILED_PRECONDITION NO the store holds foreign data under this name");
    says(wait_at("S1", "T7", "a:S b:S"), "FAILED_PRECONDITION NO the store holds foreign data under this name");
    expect_unchanged();
}

/* The same where a second holder makes a hash of what its one holder was. */
TEST(where_holders_are_kept_is_looked_at_before_one_is_written)
{
    says(acquire("T1", "a:S b:S"), "ACQUIRED");
    harness_redis(h, "SET ls:{default/g}:lock:h:b foreign");
    remember();
    says(acquire("T2", "a:S b:S"), "FAILED_PRECONDITION NO the store holds foreign data under this name");
    expect_unchanged();
}

/* Who is in the way is told after all is done. */
TEST(a_foreign_record_of_the_holder_is_nobodys_error)
{
    says(acquire("T1", "a"), "ACQUIRED");
    harness_redis(h, "SET ls:{default/g}:lock:t:%s foreign", acquire_request("T1", "a", LEASE_MS, 0)->token);
    says(acquire("T2", "a"), "BUSY a held by ");
}

/* ---- each key foreign, each method ------------------------------------------------------- */

/* a: T1 and T2 hold it, T4 and T6 wait. b: T1 holds it, T5 and T6 wait. c: T3 was offered it. d: T7 holds it. e: free. */
static void all_kinds_of_keys(void)
{
    acquire("T1", "a:S b");
    acquire("T2", "a:S");
    wait_at("S1", "T4", "a");
    wait_at("S1", "T5", "b");
    wait_at("S2", "T6", "a b:P1/3 c:S");
    acquire("T8", "c");
    wait_at("S2", "T3", "c:P1/3");
    release("T8", "");
    acquire("T7", "d");
    acquire("T9", "e");
    release("T9", "");
}

static void force_a(void)
{
    force_release("a");
}

static void force_b(void)
{
    force_release("b");
}

static void force_c(void)
{
    force_release("c");
}

static void release_t1(void)
{
    release_at("S1", "T1", "");
}

static void release_t1_of_b(void)
{
    release_at("S2", "T1", "b");
}

static void release_t2(void)
{
    release("T2", "a");
}

static void release_t6(void)
{
    release("T6", "");
}

static void renew_t1(void)
{
    renew("T1", "");
}

static void take_d(void)
{
    pass_seconds(LEASE_MS / 1000 + 1);
    acquire("T10", "d:P1/3 e:S");
}

static void take_all(void)
{
    pass_seconds(LEASE_MS / 1000 + 1);
    acquire("T10", "a b c d e");
}

static void wait_for_all(void)
{
    wait_at("S1", "T11", "a b:S c d e:P1/2");
}

static void wait_again(void)
{
    wait_at("S1", "T6", "a b:P1/3 c:S");
}

static void claim_c(void)
{
    acquire("T3", "c:P1/3");
}

static void look_at_a(void)
{
    inspect("a");
}

static const struct {
    const char *name;
    void (*call)(void);
} methods_tried[] = {{"force_a", force_a},
                     {"force_b", force_b},
                     {"force_c", force_c},
                     {"release_t1", release_t1},
                     {"release_t1_of_b", release_t1_of_b},
                     {"release_t2", release_t2},
                     {"release_t6", release_t6},
                     {"renew_t1", renew_t1},
                     {"take_d", take_d},
                     {"take_all", take_all},
                     {"wait_for_all", wait_for_all},
                     {"wait_again", wait_again},
                     {"claim_c", claim_c},
                     {"inspect", look_at_a}};

/* Whatever key is foreign: a call acts, or is refused and has not acted. */
TEST(no_call_acts_and_is_refused_for_foreign_data)
{
    char keys[LINE_BYTES], copy[LINE_BYTES], *key[WORDS_MAX];
    int wrong = 0;

    all_kinds_of_keys();
    snprintf(keys, sizeof keys, "%s", harness_redis(h, "KEYS ls:{default/g}:*"));
    for (char *end = keys; (end = strchr(end, '\n'));)
        *end = ' ';
    size_t n = words(keys, copy, key);
    for (size_t m = 0; m < sizeof methods_tried / sizeof *methods_tried; m++) {
        for (size_t i = 0; i < 2 * n; i++) {
            queue_reset(NULL);
            all_kinds_of_keys();
            harness_redis(h, "DEL %s", key[i / 2]);
            harness_redis(h, i % 2 ? "SET %s foreign" : "RPUSH %s foreign", key[i / 2]);
            err = (lks_error){0};
            remember();
            methods_tried[m].call();
            if (err.code != LKS_OK && strstr(err.message, "foreign"))
                expect_unchanged();
            if (err.code == LKS_OK || err.applied == LKS_APPLIED_NO)
                continue;
            print_error("%s, %s %s: %s %s\n", methods_tried[m].name, i % 2 ? "text" : "list", key[i / 2],
                        lks_code_name(err.code), err.message);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
    assert_true(n > 15);
}

int main(void)
{
    return TEST_RUN(.setup_all = script_open, .teardown_all = servers_close, .setup = queue_reset);
}
