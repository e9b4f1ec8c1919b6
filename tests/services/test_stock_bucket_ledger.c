/* The ledger of a group in buckets: one to all who read it, and where they go on. */
#include "stock_script.h"

enum { N = SCRIPT_BUCKETS, POSITION_BYTES = 2304 };

/* Bucket 2's, and another place for it. */
#define LEDGER_2 "ls:{default/g/4/102}:stock:ledger"
#define KEPT "ls:{default/g/4/102}:kept"

/* The clock of bucket 2 is behind: what it writes next may stand before what others have written. */
TEST(an_entry_is_told_when_no_other_can_stand_before_it)
{
    put_in("g", "a", 40, N);
    const lks_read_ledger_response *before = read_ledger("g", "", 1000);
    size_t n = before->n_entries;
    char last[64];
    snprintf(last, sizeof last, "%s", before->entries[n - 1]->id);
    deduct("g", order_in(1), "", "a:1");
    harness_alter(h, "{'OK', oldest, time_ms(), after}",
                  "{'OK', oldest, time_ms() - (string.find(base, '/102}') and 60000 or 0), after}");
    assert_int_equal(read_ledger("g", last, 1000)->n_entries, 0);
    harness_alter(h, "{'OK', oldest, time_ms(), after}", "{'OK', oldest, time_ms(), after}");
    assert_int_equal(read_ledger("g", last, 1000)->n_entries, 1);
}

TEST(a_trimmed_ledger_says_so)
{
    put_in("g", "a", 40, N);
    for (unsigned i = 0; i < 12; i++)
        deduct("g", order_in(1 + i % N), "", "a:1");
    /* Ids that no bucket has given, and that are of no bucket. */
    assert_int_equal(read_ledger("g", "5-640", 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_int_equal(read_ledger("g", "5-700", 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    const lks_read_ledger_response *all = read_ledger("g", "", 1000);
    char first[64], middle[64], last[64];
    snprintf(first, sizeof first, "%s", all->entries[2]->id);
    snprintf(middle, sizeof middle, "%s", all->entries[9]->id);
    snprintf(last, sizeof last, "%s", all->entries[all->n_entries - 1]->id);
    size_t n = all->n_entries;
    assert_true(trim_ledger("g", middle));
    const lks_read_ledger_response *rest = read_ledger("g", middle, 1000);
    assert_int_equal(rest->outcome, LKS_READ_LEDGER_OUTCOME_OK);
    assert_int_equal(rest->n_entries, n - 10);
    assert_string_equal(rest->oldest_id, rest->entries[0]->id);
    assert_int_equal(read_ledger("g", first, 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_int_equal(read_ledger("g", "0-0", 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_int_equal(read_ledger("g", last, 10)->n_entries, 0);
    assert_true(trim_ledger("g", last));
    assert_int_equal(read_ledger("g", last, 10)->outcome, LKS_READ_LEDGER_OUTCOME_OK);
}

/* What is read after a position; *position is the next one then. */
static const lks_read_ledger_response *read_on(char position[POSITION_BYTES], int32_t limit)
{
    const lks_read_ledger_response *got = read_ledger("g", position, limit);

    assert_non_null(got);
    snprintf(position, POSITION_BYTES, "%s", got->next_after);
    return got;
}

static size_t count_rest(char position[POSITION_BYTES], int32_t limit)
{
    size_t n = 0, more;

    for (; (more = read_on(position, limit)->n_entries) > 0; n += more)
        ;
    return n;
}

TEST(next_after_goes_on_behind_what_was_told)
{
    put_in("g", "a", 40, N);
    for (unsigned i = 0; i < 30; i++)
        deduct("g", order_in(1 + i % N), "", "a:1");
    const lks_read_ledger_response *all = read_ledger("g", "", 1000);
    const int32_t limits[] = {1, 7, 1000};
    for (size_t i = 0; i < 3; i++) {
        char position[POSITION_BYTES] = "";
        size_t at = 0;
        for (const lks_read_ledger_response *page; (page = read_on(position, limits[i]))->n_entries > 0;)
            for (size_t k = 0; k < page->n_entries; k++)
                assert_string_equal(page->entries[k]->id, all->entries[at++]->id);
        assert_int_equal(at, all->n_entries);
    }
    for (size_t i = 0; i < all->n_entries; i++) { /* an entry's id is one, too */
        char position[POSITION_BYTES];
        snprintf(position, sizeof position, "%s", all->entries[i]->id);
        assert_int_equal(count_rest(position, 3), all->n_entries - i - 1);
    }
}

/* The buckets that have nothing would wait. */
TEST(next_after_is_of_all_buckets_when_one_answers_a_reader_that_would_wait)
{
    char position[POSITION_BYTES] = "";

    put_in("g", "a", 40, N);
    count_rest(position, 1000);
    deduct("g", order_in(3), "", "a:1");
    const lks_read_ledger_response *got = ask(read_ledger, .group = "g", .after = position, .wait_ms = 1000);
    assert_int_equal(got->n_entries, 1);
    snprintf(position, sizeof position, "%s", got->next_after);
    assert_int_equal(read_on(position, 10)->n_entries, 0);
    deduct("g", order_in(4), "", "a:1");
    assert_int_equal(read_on(position, 10)->n_entries, 1);
}

TEST(next_after_is_a_place_to_trim_up_to)
{
    char position[POSITION_BYTES] = "";

    put_in("g", "a", 40, N);
    for (unsigned i = 0; i < 12; i++)
        deduct("g", order_in(1 + i % N), "", "a:1");
    const lks_read_ledger_response *all = read_ledger("g", "", 1000);
    size_t n = all->n_entries;
    assert_int_equal(read_on(position, 9)->n_entries, 9);
    assert_true(trim_ledger("g", position));
    const lks_read_ledger_response *rest = read_ledger("g", "", 1000);
    assert_int_equal(rest->n_entries, n - 9);
    assert_int_equal(read_ledger("g", all->entries[3]->id, 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    char start[POSITION_BYTES] = ""; /* from what is left on nothing is missed */
    assert_int_equal(read_on(start, 1)->n_entries, 1);
    assert_int_equal(count_rest(start, 2) + 1, n - 9);
    assert_int_equal(count_rest(position, 2), n - 9);
    assert_true(trim_ledger("g", position));
    assert_int_equal(count_rest(position, 2), 0);
    snprintf(start, sizeof start, "%s", "");
    assert_int_equal(count_rest(start, 2), 0);
    says_begin(answer_line(deduct("g", order_in(1), "", "a:1")), "DEDUCTED");
    assert_int_equal(count_rest(start, 2), 1);
}

/* As after a failover: bucket 2 has lost what the reader has had, and the last that it had is of another bucket. */
TEST(a_reader_of_a_lost_history_is_told_whichever_bucket_lost_it)
{
    char position[POSITION_BYTES] = "";

    put_in("g", "a", 40, N);
    harness_redis(h, "COPY " LEDGER_2 " " KEPT);
    deduct("g", order_in(2), "", "a:1");
    deduct("g", order_in(1), "", "a:1");
    count_rest(position, 100);
    assert_int_equal(read_ledger("g", position, 10)->outcome, LKS_READ_LEDGER_OUTCOME_OK);
    harness_redis(h, "RENAME " KEPT " " LEDGER_2);
    const lks_read_ledger_response *told = read_ledger("g", position, 10);
    assert_int_equal(told->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_string_equal(told->next_after, "");
    deduct("g", order_in(2), "", "a:1"); /* what comes then does not hide it */
    assert_int_equal(read_ledger("g", position, 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
}

/* Bucket 2 writes, after the reader has had an entry of bucket 1, one whose id is lower. */
TEST(what_is_written_after_the_clock_was_set_back_is_not_missed)
{
    char position[POSITION_BYTES] = "";

    put_in("g", "a", 40, N);
    harness_redis(h, "COPY " LEDGER_2 " " KEPT);
    deduct("g", order_in(2), "", "a:1");
    says(harness_redis(h, "EVAL %s 2 " LEDGER_2 " " KEPT,
                       "local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]\n"
                       "redis.call('SET', 'late', cjson.encode(last))\n"
                       "return redis.call('RENAME', KEYS[2], KEYS[1])"),
         "OK");
    deduct("g", order_in(1), "", "a:1");
    count_rest(position, 100);
    says(harness_redis(h, "EVAL %s 1 " LEDGER_2,
                       "local late = cjson.decode(redis.call('GET', 'late'))\n"
                       "return redis.call('XADD', KEYS[1], late[1], late[2][1], late[2][2]) == late[1] and 'there'"),
         "there");
    const lks_read_ledger_response *late = read_on(position, 10);
    assert_int_equal(late->n_entries, 1);
    assert_int_equal(late->entries[0]->kind, LKS_LEDGER_KIND_DEDUCTED);
    assert_int_equal(read_on(position, 10)->n_entries, 0);
}

TEST(a_position_of_another_group_is_trimmed)
{
    put_in("g", "a", 40, N);
    put_item("h", "a", 1);
    assert_int_equal(read_ledger("g", "1-1,2-2", 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_int_equal(read_ledger("g", "0-0,0-0,0-0,0-0,0-0,0-0", 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_int_equal(read_ledger("h", "0-0,0-0", 10)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_true(trim_ledger("h", "9-9,9999999999999-9"));
    assert_int_equal(read_ledger("h", "0-0", 10)->n_entries, 1);
    assert_null(read_ledger("g", "1-1,", 10));
    expect_error(LKS_INVALID_ARGUMENT, "after");
    assert_null(read_ledger("g", ",1-1", 10));
    assert_null(read_ledger("g", "1-1,,1-1", 10));
}

TEST_MAIN(.setup_all = script_open, .setup = script_reset, .teardown_all = script_close)
