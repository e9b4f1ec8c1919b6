/* Renew and Release: only the token keeps or gives back, all or nothing, and the
 * same answer to the same call sent again. */
#include "functions/library.h"
#include "services/lock_script.h"

TEST(renewing_moves_the_end)
{
    acquire("T1", "a");
    pass_seconds(900);
    says(renew("T1", ""), "RENEWED");
    assert_int_equal(renewed->results[0]->lease_ms, LEASE_MS);
    assert_string_equal(renewed->results[0]->group, "g");
    pass_seconds(900);
    says(acquire("T2", "a"), "BUSY a held by T1");
    says(renew("T1", "a"), "RENEWED");
    pass_seconds(900);
    says(acquire("T1", "a"), "ACQUIRED again");
    pass_seconds(100);
    says(acquire("T2", "a"), "ACQUIRED");
}

TEST(a_renewal_never_shortens)
{
    acquire("T1", "a b");
    says(renew_for("T1", "a", 3000000), "RENEWED");
    says(renew_for("T1", "a", 10), "RENEWED");
    about(renewed->results[0]->lease_ms, 3000000);
    says(renew_for("T1", "", 10), "RENEWED");
    about(renewed->results[0]->lease_ms, LEASE_MS); /* the shorter of the two */
    inspect("a");
    about(inspected->holders[0]->lease_ms, 3000000);
}

TEST(a_lease_that_is_over_is_lost)
{
    acquire("T1", "a");
    pass_seconds(1000);
    remember();
    says(renew("T1", ""), "LOST");
    assert_int_equal(renewed->results[0]->lease_ms, 0);
    says(renew("T1", "a"), "LOST");
    says(renew("T9", "a"), "LOST");
    says(renew("T9", ""), "LOST");
    expect_unchanged();
    says(acquire("T2", "a"), "ACQUIRED");
    says(renew("T1", "a"), "LOST");
    says(renew("T2", "a"), "RENEWED");
    pass_seconds(1000);
    says(renew_for("T2", "a", 10), "LOST");
    says(renew_for("T2", "", 10), "LOST");
}

TEST(one_lost_name_and_none_is_renewed)
{
    acquire("T1", "a b");
    renew_for("T1", "a", 3000000);
    pass_seconds(1500);
    remember();
    says(renew_for("T1", "", 5000000), "LOST");
    says(renew_for("T1", "a b", 5000000), "LOST");
    says(renew_for("T1", "a c", 5000000), "LOST");
    expect_unchanged();
    says(renew_for("T1", "a", 5000000), "RENEWED");
}

TEST(only_the_token_renews_and_releases)
{
    acquire("T1", "a");
    says(renew("T2", "a"), "LOST");
    says(release("T2", "a"), "NOT_HELD");
    says(inspect("a"), "EXCLUSIVE T1");
    acquire("T3", "b");
    says(release("T3", "a"), "NOT_HELD");
    says(inspect("a"), "EXCLUSIVE T1");
    says(inspect("b"), "EXCLUSIVE T3");
}

TEST(leases_of_many_groups_are_renewed_each_for_itself)
{
    enum { N = 5 };
    static const char *const alias[N] = {"T0", "T1", "T2", "T3", "T4"};
    static const char *names[] = {"n0", "n1", "n2", "n3", "n4"};
    lks_lease lease[N];
    lks_lease *leases[N];
    lks_renew_request request = message(renew_request, );

    for (size_t i = 0; i < N; i++) {
        lks_target target = message(target, .name = names[i]);
        lks_target *targets[] = {&target};
        lks_acquire_request take = message(acquire_request, .n_targets = 1, .targets = targets,
                                           .token = token_of(alias[i]), .lease_ms = LEASE_MS);
        if (i != 2)
            says(call(&take), "OK");
        lease[i] = message(lease, .n_names = 1, .names = &names[i], .token = take.token,
                           .lease_ms = (int64_t)(i + 1) * LEASE_MS);
        leases[i] = &lease[i];
    }
    /* Of the group's name, all names of the token. */
    lease[3].group = names[3];
    lease[3].n_names = 0;
    request.n_leases = N;
    request.leases = leases;
    const lks_renew_response *response = answer_to(&request);
    assert_non_null(response);
    assert_int_equal(response->n_results, N);
    for (size_t i = 0; i < N; i++) {
        const lks_lease_result *result = response->results[i];
        assert_string_equal(result->group, names[i]);
        assert_int_equal(result->outcome, i == 2 ? LKS_RENEW_OUTCOME_LOST : LKS_RENEW_OUTCOME_RENEWED);
        about(result->lease_ms, i == 2 ? 0 : (int64_t)(i + 1) * LEASE_MS);
    }
}

TEST(a_release_frees_and_says_so_again)
{
    acquire("T1", "a b:S");
    says(release("T1", ""), "RELEASED");
    remember();
    says(release("T1", ""), "RELEASED again");
    says(release("T1", "a"), "RELEASED again");
    says(release("T1", "b a"), "RELEASED again");
    expect_unchanged();
    says(acquire("T2", "a b"), "ACQUIRED");
    says(release("T1", ""), "RELEASED again");
    says(inspect("a"), "EXCLUSIVE T2");
}

TEST(a_release_in_part_keeps_the_rest)
{
    acquire("T1", "a b c");
    says(release("T1", "b"), "RELEASED");
    says(inspect("b"), "FREE");
    says(inspect("a"), "EXCLUSIVE T1");
    pass_seconds(900);
    says(renew("T1", ""), "RENEWED");
    pass_seconds(900);
    says(inspect("c"), "EXCLUSIVE T1");
    says(renew("T1", "b"), "LOST");
    says(release("T1", "b"), "RELEASED again");
    says(release("T1", "a b"), "RELEASED");
    says(release("T1", "a b"), "RELEASED again");
    says(inspect("c"), "EXCLUSIVE T1");
    says(release("T1", ""), "RELEASED");
    says(inspect("c"), "FREE");
    says(release("T1", ""), "RELEASED again");
}

TEST(names_that_were_not_held_are_told_apart)
{
    acquire("T1", "a b");
    says(release("T1", "x"), "NOT_HELD");
    says(release("T1", "x b"), "NOT_HELD x=NOT_HELD b=RELEASED");
    says(release("T1", "x b"), "NOT_HELD x=NOT_HELD b=RELEASED again");
    says(inspect("a"), "EXCLUSIVE T1");
    acquire("T2", "c");
    says(renew("T2", "c"), "RENEWED");
    says(release("T2", "x"), "NOT_HELD");
    says(renew("T2", "c x"), "LOST");
    says(release("T2", "c x"), "NOT_HELD c=RELEASED x=NOT_HELD");
}

TEST(a_lost_name_cannot_be_released)
{
    acquire("T1", "a b");
    renew_for("T1", "a", 3000000);
    pass_seconds(1500);
    acquire("T2", "b");
    says(release("T1", ""), "NOT_HELD a=RELEASED b=NOT_HELD");
    says(release("T1", ""), "NOT_HELD a=RELEASED b=NOT_HELD again");
    says(inspect("b"), "EXCLUSIVE T2");

    acquire("T3", "c");
    pass_seconds(1000);
    says(release("T3", ""), "NOT_HELD");
    says(release("T3", "c"), "NOT_HELD");
    says(acquire("T3", "c"), "TOKEN_SPENT");
}

TEST(an_unseen_token_is_spent_by_its_release)
{
    says(release("T1", "a"), "NOT_HELD");
    says(release("T1", "a"), "NOT_HELD");
    says(release("T1", ""), "NOT_HELD");
    says(acquire("T1", "a"), "TOKEN_SPENT");
    says(renew("T1", "a"), "LOST");
}

static int64_t ttl_ms(const char *kind, const char *name)
{
    return atoll(harness_redis(h, "PTTL ls:{default/g}:lock:%s:%s", kind, name));
}

TEST(records_are_kept_as_long_as_stated)
{
    enum { TEN_MINUTES = 600000, DAY = 86400000, HOUR = 3600000 };

    acquire("T1", "a b");
    about(ttl_ms("t", token_of("T1")), LEASE_MS + TEN_MINUTES);
    about(ttl_ms("n", "a"), LEASE_MS + DAY + HOUR);
    renew_for("T1", "", LEASE_MS + HOUR / 2); /* the key's end is far enough */
    about(ttl_ms("n", "a"), LEASE_MS + DAY + HOUR);
    renew_for("T1", "", 5000000);
    about(ttl_ms("t", token_of("T1")), 5000000 + 2 * TEN_MINUTES);
    about(ttl_ms("n", "a"), 5000000 + DAY + HOUR);
    renew_for("T1", "a", 10);
    renew_for("T1", "a b", 10);
    about(ttl_ms("t", token_of("T1")), 5000000 + 2 * TEN_MINUTES);
    release("T1", "a");
    about(ttl_ms("t", token_of("T1")), 5000000 + 2 * TEN_MINUTES);
    release("T1", "");
    about(ttl_ms("t", token_of("T1")), TEN_MINUTES);
    assert_true(ttl_ms("n", "a") > DAY - 90000);
    release("T2", "");
    about(ttl_ms("t", token_of("T2")), TEN_MINUTES);
}

/* The same of a token that has one name. */
TEST(records_of_one_name_are_kept_as_long_as_stated)
{
    enum { TEN_MINUTES = 600000, DAY = 86400000, HOUR = 3600000, MINUTE = 60000 };

    acquire("T1", "a");
    about(ttl_ms("t", token_of("T1")), LEASE_MS + TEN_MINUTES);
    about(ttl_ms("n", "a"), LEASE_MS + DAY + HOUR);
    renew_for("T1", "", LEASE_MS + MINUTE);
    about(ttl_ms("t", token_of("T1")), LEASE_MS + MINUTE + 2 * TEN_MINUTES);
    renew_for("T1", "a", LEASE_MS + 2 * MINUTE); /* the keys' ends are far enough */
    about(ttl_ms("t", token_of("T1")), LEASE_MS + MINUTE + 2 * TEN_MINUTES);
    about(ttl_ms("n", "a"), LEASE_MS + DAY + HOUR);
    renew_for("T1", "a", LEASE_MS + MINUTE + TEN_MINUTES + HOUR / 2);
    about(ttl_ms("t", token_of("T1")), LEASE_MS + MINUTE + 3 * TEN_MINUTES + HOUR / 2);
    about(ttl_ms("n", "a"), LEASE_MS + DAY + HOUR);
    renew_for("T1", "a", 10);
    about(renewed->results[0]->lease_ms, LEASE_MS + MINUTE + TEN_MINUTES + HOUR / 2);
    renew_for("T1", "a", 2 * LEASE_MS + 2 * HOUR);
    about(ttl_ms("n", "a"), 2 * LEASE_MS + 2 * HOUR + DAY + HOUR);
    release("T1", "");
    about(ttl_ms("t", token_of("T1")), TEN_MINUTES);
    /* The token's end is far enough, the name's is not. */
    acquire("T3", "c");
    renew_for("T3", "c", LEASE_MS + HOUR - MINUTE);
    renew_for("T3", "c", LEASE_MS + HOUR + 4 * MINUTE);
    about(ttl_ms("n", "c"), LEASE_MS + HOUR + 4 * MINUTE + DAY + HOUR);
    acquire_for("T2", "b", MINUTE);
    release("T2", "");
    about(ttl_ms("t", token_of("T2")), MINUTE + TEN_MINUTES);
}

/* Redis refuses what takes memory; what gives it back goes on. */
TEST(locks_are_kept_and_given_back_when_memory_is_short)
{
    acquire("T1", "a");
    acquire("T2", "b:S");
    harness_redis(h, "CONFIG SET maxmemory 1");
    assert_non_null(strstr(harness_redis(h, "SET any thing"), "OOM"));
    const char *said_acquire = harness_redis(
        h, "FCALL lock_acquire_%s 1 ls:{default/g}: 6 T5.............. owner 1000 0 . c", functions_digest);
    const char *said_renew = renew("T1", "");
    const char *said_release = release("T1", "");
    const char *said_unseen =
        harness_redis(h, "FCALL lock_release_unseen_%s 1 ls:{default/g}: 3 T3.............. S1 a", functions_digest);
    const char *said_first =
        harness_redis(h, "FCALL lock_release_%s 1 ls:{default/g}: 3 T3.............. S1 a", functions_digest);
    const char *said_inspect = inspect("b");
    const char *said_force = force_release("b");
    harness_redis(h, "CONFIG SET maxmemory 0");
    says_begin(said_acquire, "OOM "); /* the store answers RESOURCE_EXHAUSTED, applied NO */
    says(said_renew, "RENEWED");
    says(said_release, "RELEASED");
    /* A mark for each token that anybody makes up would be memory without end. */
    says_begin(said_unseen, "OOM ");
    says_begin(said_first, "UNSEEN");
    says(said_inspect, "SHARED T2");
    says(said_force, "T2");
    says(acquire("T1", "a"), "TOKEN_SPENT");
    says(release("T3", "a"), "NOT_HELD");
    says(acquire("T3", "a"), "TOKEN_SPENT");
    says(acquire("T4", "a b"), "ACQUIRED");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
