/* The ledger: every change in order, and told when a part of it is gone. */
#include "functions/library.h"
#include "stock_script.h"

/* A ledger of five entries; their ids. */
static const char *ids[5];

static void five_entries(void)
{
    put_item("g", "a", 10);
    deduct("g", "o1", "", "a:1");
    adjust("g", "a", -2, "adj");
    deduct("g", "o2", "", "a:3");
    deduct("g", "o3", "", "a:4");
    const lks_read_ledger_response *all = read_ledger("g", "", 0);
    assert_int_equal(all->n_entries, 5);
    for (size_t i = 0; i < 5; i++)
        ids[i] = all->entries[i]->id;
}

static void expect_read(const char *after, const char *entries, const char *oldest_id)
{
    const lks_read_ledger_response *response = read_ledger("g", after, 0);

    assert_string_equal(ledger_text(response), entries);
    assert_int_equal(response->outcome, LKS_READ_LEDGER_OUTCOME_OK);
    assert_string_equal(response->oldest_id, oldest_id);
}

static void expect_trimmed(const char *after, const char *oldest_id)
{
    const lks_read_ledger_response *response = read_ledger("g", after, 0);

    assert_non_null(response);
    assert_int_equal(response->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    assert_int_equal(response->n_entries, 0);
    assert_string_equal(response->oldest_id, oldest_id);
}

TEST(reads_on_from_where_it_was)
{
    expect_read("", "", "");
    five_entries();
    expect_read("", "PUT a 10 \nDEDUCTED a 1 o1\nADJUSTED a -2 adj\nDEDUCTED a 3 o2\nDEDUCTED a 4 o3\n", ids[0]);
    expect_read(ids[2], "DEDUCTED a 3 o2\nDEDUCTED a 4 o3\n", ids[0]);
    expect_read(ids[4], "", ids[0]);
    expect_read("0-0", ledger_text(read_ledger("g", "", 0)), ids[0]);

    const lks_read_ledger_response *two = read_ledger("g", ids[0], 2);
    assert_int_equal(two->n_entries, 2);
    assert_string_equal(two->entries[0]->id, ids[1]);
    assert_string_equal(two->entries[1]->id, ids[2]);
    put_item("g", "b", 1);
    expect_read(ids[4], "PUT b 1 \n", ids[0]);
    /* Another group's ledger is another one. */
    assert_int_equal(read_ledger("b", "", 0)->n_entries, 0);
}

TEST(entries_tell_the_time)
{
    long long seconds;

    five_entries();
    const lks_read_ledger_response *all = read_ledger("g", "", 0);
    seconds = atoll(harness_redis(h, "TIME"));
    for (size_t i = 0; i < all->n_entries; i++)
        assert_in_range(all->entries[i]->at_ms, (seconds - 600) * 1000, (seconds + 1) * 1000);
}

TEST(a_limit_is_a_hundred_unless_said)
{
    put_item("g", "a", 0);
    for (int i = 0; i < 120; i++) {
        char id[16];
        snprintf(id, sizeof id, "adj%d", i);
        adjust("g", "a", 1, id);
    }
    assert_int_equal(read_ledger("g", "", 0)->n_entries, 100);
    assert_int_equal(read_ledger("g", "", 1000)->n_entries, 121);
}

TEST(tells_what_was_trimmed_unread)
{
    five_entries();
    assert_true(trim_ledger("g", ids[1]));
    expect_trimmed("0-0", ids[2]);
    expect_trimmed(ids[0], ids[2]);
    /* Its reader has missed nothing. */
    expect_read(ids[1], "ADJUSTED a -2 adj\nDEDUCTED a 3 o2\nDEDUCTED a 4 o3\n", ids[2]);
    expect_read(ids[2], "DEDUCTED a 3 o2\nDEDUCTED a 4 o3\n", ids[2]);
    /* Nothing was read yet: from what there is. */
    expect_read("", "ADJUSTED a -2 adj\nDEDUCTED a 3 o2\nDEDUCTED a 4 o3\n", ids[2]);
    /* Again, and further back: nothing changes. */
    remember();
    assert_true(trim_ledger("g", ids[1]));
    assert_true(trim_ledger("g", ids[0]));
    assert_true(trim_ledger("g", "1-0"));
    expect_unchanged();
}

/* In steps of 4,000 entries, and the readers of what is left are told from the first on. */
TEST(a_long_ledger_is_trimmed_in_steps)
{
    put_item("g", "a", 1);
    harness_redis(
        h, "EVAL %s 0",
        "for i = 1, 50000 do redis.call('XADD', 'ls:{default/g}:stock:ledger', '9000000000000-' .. i - 1, '1',\n"
        "  'PUT\\0a\\0' .. i .. '\\0\\0') end");
    harness_redis(h, "CONFIG RESETSTAT");
    harness_redis(h, "FCALL stock_trim_ledger_%s 1 ls:{default/g}: 1 9000000000000-49990000", functions_digest);
    assert_int_equal(atoll(harness_redis(h, "XLEN ls:{default/g}:stock:ledger")), 50001 - 4000 - 1);
    expect_trimmed("9000000000000-49989000", "9000000000000-4000000");
    expect_read("9000000000000-49999000", "PUT a 50000 \n", "9000000000000-4000000");
    assert_string_equal(read_ledger("g", "", 1)->entries[0]->id, "9000000000000-49991000"); /* what goes is not told */
    harness_redis(h, "CONFIG RESETSTAT");
    assert_true(trim_ledger("g", "9000000000000-49990000"));
    assert_in_range(harness_commands(h, "fcall"), 12, 13);
    assert_int_equal(read_ledger("g", "", 0)->n_entries, 10);
    /* Emptied in steps, and no item left: it ends as any emptied one. */
    assert_true(delete_item("g", "a"));
    assert_true(trim_ledger("g", "9007199254740991-0"));
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:ledger")), 1, 30LL * 86400000);
}

TEST(trims_up_to_an_id_that_no_entry_has)
{
    for (int ms = 10; ms <= 30; ms += 10)
        harness_redis(h, "EVAL %s 0 %d",
                      "redis.call('XADD', 'ls:{default/g}:stock:ledger', ARGV[1] .. '-0', '1',\n"
                      "  'PUT\\0a\\0' .. ARGV[1] .. '\\0\\0')",
                      ms);
    assert_true(trim_ledger("g", "25-0"));
    expect_trimmed("19-7", "30-1000");
    expect_read("20-1000", "PUT a 30 \n", "30-1000");
}

/* ---- entries that stand packed in one of the stream ---- */

/* An order of four lines between two of one; the ids of all entries. */
static const char *packed[6];

static void packed_entries(void)
{
    put_item("g", "a", 100);
    deduct("g", "o1", "", "a:1");
    put_item("g", "b", 100);
    put_item("g", "c", 100);
    put_item("g", "d", 100);
    assert_true(trim_ledger("g", read_ledger("g", "", 0)->entries[4]->id));
    deduct("g", "o2", "", "a:1");
    deduct("g", "o3", "", "a:1 b:2 c:3 d:4");
    deduct("g", "o4", "", "a:1");
    const lks_read_ledger_response *all = read_ledger("g", "", 0);
    assert_int_equal(all->n_entries, 6);
    for (size_t i = 0; i < 6; i++)
        packed[i] = all->entries[i]->id;
}

static int64_t seq_of(const char *id)
{
    return atoll(strchr(id, '-') + 1);
}

TEST(entries_of_one_order_follow_one_another)
{
    packed_entries();
    assert_int_equal(atoll(harness_redis(h, "XLEN ls:{default/g}:stock:ledger")), 3);
    for (int i = 2; i <= 4; i++)
        assert_int_equal(seq_of(packed[i]), seq_of(packed[i - 1]) + 1);
}

TEST(reads_on_from_the_middle_of_an_order)
{
    static const char *const rest[] = {"DEDUCTED a 1 o3\n", "DEDUCTED b 2 o3\n", "DEDUCTED c 3 o3\n",
                                       "DEDUCTED d 4 o3\n", "DEDUCTED a 1 o4\n"};
    packed_entries();
    for (int from = 0; from <= 5; from++) {
        for (int limit = 1; limit <= 6; limit++) {
            char expected[256] = "";
            for (int i = from; i < 5 && i < from + limit; i++)
                add(expected, sizeof expected, "%s", rest[i]);
            const lks_read_ledger_response *got = read_ledger("g", packed[from], limit);
            assert_int_equal(got->outcome, LKS_READ_LEDGER_OUTCOME_OK);
            assert_string_equal(ledger_text(got), expected);
            for (size_t i = 0; i < got->n_entries; i++)
                assert_string_equal(got->entries[i]->id, packed[(size_t)from + 1 + i]);
        }
    }
}

/* What is to be forgotten in part stays until all of it is. */
TEST(an_order_is_forgotten_whole)
{
    packed_entries();
    assert_true(trim_ledger("g", packed[3]));
    expect_trimmed("0-0", packed[1]);
    expect_read(packed[0], "DEDUCTED a 1 o3\nDEDUCTED b 2 o3\nDEDUCTED c 3 o3\nDEDUCTED d 4 o3\nDEDUCTED a 1 o4\n",
                packed[1]);
    expect_read(packed[2], "DEDUCTED c 3 o3\nDEDUCTED d 4 o3\nDEDUCTED a 1 o4\n", packed[1]);
    assert_true(trim_ledger("g", packed[4]));
    /* Who has read a part of it has missed the rest, and who has read all of it nothing. */
    expect_trimmed(packed[0], packed[5]);
    expect_trimmed(packed[1], packed[5]);
    expect_trimmed(packed[3], packed[5]);
    expect_read(packed[4], "DEDUCTED a 1 o4\n", packed[5]);
}

/* Between two ids of the stream there are ids that no entry has. */
TEST(an_id_beside_those_of_an_order_was_never_given)
{
    char id[64];

    packed_entries();
    snprintf(id, sizeof id, "%lld-%lld", atoll(packed[1]), (long long)seq_of(packed[1]) - 1);
    expect_trimmed(id, packed[0]);
    snprintf(id, sizeof id, "%lld-%lld", atoll(packed[5]), (long long)seq_of(packed[5]) + 1);
    expect_trimmed(id, packed[0]);
}

/* More entries than one of the stream holds: 20 orders of 64 lines in one FCALL. */
TEST(an_entry_of_the_stream_holds_a_thousand)
{
    char command[20 * 64 * 16], lines[64 * 8] = "";
    size_t len;
    char at[64] = "0-0";
    int n = 0;

    for (int i = 0; i < 64; i++) {
        harness_redis(h, "FCALL stock_put_item_%s 1 ls:{default/g}: 8 s%d 100 0 0 0 60000 0 0", functions_digest, i);
        add(lines, sizeof lines, " s%d 1", i);
    }
    harness_redis(h, "DEL ls:{default/g}:stock:ledger");
    len = (size_t)snprintf(command, sizeof command, "FCALL stock_deduct_%s 1 ls:{default/g}:", functions_digest);
    for (int i = 0; i < 20; i++)
        len += (size_t)snprintf(command + len, sizeof command - len, " 130 o%d bob%s", i, lines);
    harness_redis(h, command);
    assert_string_equal(harness_redis(h, "XLEN ls:{default/g}:stock:ledger"), "2");
    for (;;) {
        const lks_read_ledger_response *got = read_ledger("g", at, 7);
        assert_int_equal(got->outcome, LKS_READ_LEDGER_OUTCOME_OK);
        if (got->n_entries == 0)
            break;
        for (size_t i = 0; i < got->n_entries; i++, n++) {
            char expected[32];
            snprintf(expected, sizeof expected, "o%d s%d", n / 64, n % 64);
            char *told = new_line();
            add_line(told, "%s %s", got->entries[i]->order_id, got->entries[i]->sku);
            says(told, expected);
        }
        snprintf(at, sizeof at, "%s", got->entries[got->n_entries - 1]->id);
    }
    assert_int_equal(n, 20 * 64);
}

/* What a reader has read of a ledger that was lost, or of another one, is not the place where
 * it can go on: it would miss what was lost, and wait for what is there. */
TEST(an_id_that_was_never_given_is_told)
{
    five_entries();
    expect_trimmed("9007199254740991-0", ids[0]);
    expect_trimmed("1-0", ids[0]);
    expect_read("0-0", ledger_text(read_ledger("g", "", 0)), ids[0]);
    assert_true(trim_ledger("g", ids[3]));
    expect_trimmed("9007199254740991-0", ids[4]);
    expect_read(ids[3], "DEDUCTED a 4 o3\n", ids[4]);
    expect_read(ids[4], "", ids[4]);
    assert_true(trim_ledger("g", ids[4]));
    expect_trimmed("9007199254740991-0", "");
    expect_read(ids[4], "", "");
    /* The store is as it was a while ago: the reader is ahead of it. */
    harness_redis(h, "DEL ls:{default/g}:stock:ledger");
    put_item("g", "a", 30);
    expect_trimmed(ids[4], read_ledger("g", "", 0)->oldest_id);
}

TEST(an_emptied_ledger_still_knows)
{
    five_entries();
    assert_true(trim_ledger("g", "9007199254740991-0"));
    expect_read("", "", "");
    expect_read(ids[4], "", "");
    expect_trimmed(ids[3], "");
    expect_trimmed("0-0", "");
    deduct("g", "o1", "", "a:1"); /* a repeat is no change */
    expect_read(ids[4], "", "");
    put_item("g", "a", 20);
    const lks_read_ledger_response *response = read_ledger("g", "", 0);
    assert_string_equal(ledger_text(response), "PUT a 12 \n");
    const char *oldest = response->oldest_id;
    assert_string_equal(response->entries[0]->id, oldest);
    expect_trimmed(ids[3], oldest);
    expect_read(ids[4], "PUT a 12 \n", oldest);
}

TEST(trimming_nothing_makes_no_ledger)
{
    assert_true(trim_ledger("g", "1-0"));
    assert_string_equal(harness_snapshot(h), "");
}

TEST(an_emptied_ledger_ends_where_no_items_are)
{
    static const char pttl[] = "PTTL ls:{default/g}:stock:ledger";

    five_entries();
    assert_true(trim_ledger("g", ids[4]));
    assert_string_equal(harness_redis(h, pttl), "-1");
    assert_true(delete_item("g", "a"));
    assert_string_equal(harness_redis(h, pttl), "-1");
    assert_true(trim_ledger("g", "9007199254740991-0"));
    assert_in_range(atoll(harness_redis(h, pttl)), 30LL * 86400000 - 60000, 30LL * 86400000);
    expect_trimmed(ids[4], "");
    /* Then whoever had read something has missed something. */
    harness_redis(h, "PEXPIRE ls:{default/g}:stock:ledger 0");
    expect_trimmed(ids[4], "");
    expect_read("", "", "");
    /* An item keeps it. */
    put_item("g", "a", 1);
    assert_true(delete_item("g", "a"));
    assert_true(trim_ledger("g", "9007199254740991-0"));
    put_item("g", "b", 1);
    assert_string_equal(harness_redis(h, pttl), "-1");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
