/* Waiting for the ledger, one move at a time: who is told of an entry, what a reader
 * that is looked at again gets, and what waiting leaves behind. */
#include "services/servers.h"
#include "stock_script.h"

#define READERS "ls:{default/g}:stock:r"

/* What the servers were told since the last look: "S1:<message> ...". */
static char told[4096];

static void add_message(char server, const char *message)
{
    add(told, sizeof told, "%sS%c:%s", told[0] ? " " : "", server, message);
}

static const char *messages(void)
{
    told[0] = '\0';
    servers_read(add_message);
    return told;
}

static harness_waiting *wait_for_ms(const char *server, const char *after, int32_t limit, int64_t wait_ms)
{
    return start_at(server,
                    &message(read_ledger_request, .group = "g", .after = after, .limit = limit, .wait_ms = wait_ms));
}

static harness_waiting *wait_at(const char *server, const char *after)
{
    harness_waiting *reader = wait_for_ms(server, after, 0, WAIT_MS);

    assert_true(harness_is_parked(reader));
    return reader;
}

static const lks_read_ledger_response *answer_of(harness_waiting *reader)
{
    assert_false(harness_is_parked(reader));
    const lks_read_ledger_response *response = harness_answer(reader, &err);
    if (!response)
        fail_msg("ReadLedger: %s", err.message);
    return response;
}

static void expect_answer(harness_waiting *reader, const char *entries)
{
    const lks_read_ledger_response *response = answer_of(reader);

    assert_int_equal(response->outcome, LKS_READ_LEDGER_OUTCOME_OK);
    assert_string_equal(ledger_text(response), entries);
}

static void expect_woken(harness_waiting *reader, const char *entries)
{
    harness_event(h, reader, SERVICE_WOKEN);
    expect_answer(reader, entries);
}

/* The id of the last entry; "" = none. */
static const char *last_id(void)
{
    const lks_read_ledger_response *all = read_ledger("g", "", 1000);

    return all->n_entries > 0 ? all->entries[all->n_entries - 1]->id : "";
}

static long long ttl(void)
{
    return atoll(harness_redis(h, "PTTL " READERS));
}

/* ---- who is told ---------------------------------------------------------------- */

TEST(an_entry_wakes_whoever_waits)
{
    put_item("g", "a", 10);
    harness_waiting *reader = wait_at("S1", last_id());
    assert_null(harness_alarms(reader));
    assert_string_equal(messages(), "");
    deduct("g", "o1", "", "a:1");
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
    expect_woken(reader, "DEDUCTED a 1 o1\n");
    assert_string_equal(answer_of(reader)->oldest_id, read_ledger("g", "", 0)->entries[0]->id);
    deduct("g", "o2", "", "a:1");
    assert_string_equal(messages(), "");
}

/* In whichever bucket; also who waits since before the group was one. */
TEST(an_entry_of_any_bucket_wakes)
{
    lks_put_item_request request = put_request("g", "a", 10);
    harness_waiting *early = wait_at("S2", "");
    request.buckets = 3;
    assert_non_null(put(&request));
    assert_string_equal(messages(), "S2:W ls:{default/g}:ledger");
    harness_event(h, early, SERVICE_WOKEN);
    assert_int_equal(answer_of(early)->entries[0]->kind, LKS_LEDGER_KIND_PUT);

    for (int i = 0; i < 12; i++) {
        char id[16], entries[64];
        harness_waiting *reader = wait_at("S1", last_id());
        assert_string_equal(messages(), "");
        snprintf(id, sizeof id, "o%d", i);
        snprintf(entries, sizeof entries, "RESERVED a 1 %s\nCANCELLED a 1 %s\n", id, id);
        reserve("g", id, "", "a:1", 60000);
        cancel("g", id, "");
        assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
        expect_woken(reader, entries);
        reader = wait_at("S1", last_id());
        harness_event(h, reader, SERVICE_WOKEN); /* by somebody else's entry */
        assert_true(harness_is_parked(reader));
        harness_event(h, reader, SERVICE_DEADLINE);
        expect_answer(reader, "");
    }
}

TEST(a_reader_of_buckets_that_is_woken_while_it_asks)
{
    lks_put_item_request request = put_request("g", "a", 10);
    request.buckets = 3;
    assert_non_null(put(&request));
    for (int i = 0; i < 12; i++) {
        char id[16], entries[64];
        harness_waiting *reader = wait_at("S1", last_id());
        snprintf(id, sizeof id, "o%d", i);
        snprintf(entries, sizeof entries, "RESERVED a 1 %s\nCANCELLED a 1 %s\n", id, id);
        reserve("g", id, "", "a:1", 60000);
        cancel("g", id, "");
        harness_event_at_once(h, reader, SERVICE_WOKEN);
        expect_answer(reader, entries);
    }
    harness_waiting *reader = wait_at("S1", last_id());
    harness_event_at_once(h, reader, SERVICE_WOKEN); /* by somebody else's entry */
    assert_true(harness_is_parked(reader));
    harness_event_at_once(h, reader, SERVICE_DEADLINE);
    expect_answer(reader, "");
}

TEST(every_change_wakes)
{
    harness_waiting *reader = wait_at("S1", ""); /* of a group that is not there */
    put_item("g", "a", 10);
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
    expect_woken(reader, "PUT a 10 \n");
    reader = wait_at("S1", last_id());
    adjust("g", "a", -3, "adj");
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
    expect_woken(reader, "ADJUSTED a -3 adj\n");
    reader = wait_at("S1", last_id());
    delete_item("g", "a");
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
    expect_woken(reader, "DELETED a 7 \n");
    /* An emptied ledger is waited for like one that never was. */
    assert_true(trim_ledger("g", "9007199254740991-0"));
    reader = wait_at("S1", "");
    put_item("g", "b", 1);
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
    expect_woken(reader, "PUT b 1 \n");
}

TEST(a_server_is_told_once)
{
    put_item("g", "a", 10);
    put_item("g", "b", 10);
    put_item("g", "c", 10);
    const char *last = last_id();
    harness_waiting *readers[] = {wait_at("S1", last), wait_at("S1", last), wait_at("S2", last), wait_at("S1", last)};
    deduct("g", "o1", "", "a:1 b:2 c:3");
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger S2:W ls:{default/g}:ledger");
    assert_string_equal(harness_redis(h, "EXISTS " READERS), "0");
    deduct("g", "o2", "", "a:1");
    assert_string_equal(messages(), "");
    for (size_t i = 0; i < 4; i++)
        expect_woken(readers[i], "DEDUCTED a 1 o1\nDEDUCTED b 2 o1\nDEDUCTED c 3 o1\nDEDUCTED a 1 o2\n");
}

TEST(what_changes_nothing_wakes_nobody)
{
    put_item("g", "a", 1);
    put_item("b", "a", 1);
    deduct("g", "o1", "", "a:1");
    const char *last = last_id();
    wait_at("S1", last);
    deduct("g", "o1", "", "a:1"); /* again */
    deduct("g", "o2", "", "a:1"); /* SOLD_OUT */
    deduct("b", "o1", "", "a:1"); /* another group */
    harness_namespace(h, "other");
    put_item("g", "a", 1);
    harness_namespace(h, "default");
    assert_true(trim_ledger("g", last));
    assert_string_equal(messages(), "");
}

/* ---- what a reader gets ---------------------------------------------------------- */

TEST(what_is_there_is_not_waited_for)
{
    put_item("g", "a", 10);
    deduct("g", "o1", "", "a:1");
    const lks_read_ledger_response *all = read_ledger("g", "", 0);
    remember();
    expect_answer(wait_for_ms("S1", "", 0, WAIT_MS), "PUT a 10 \nDEDUCTED a 1 o1\n");
    expect_answer(wait_for_ms("S1", all->entries[0]->id, 0, WAIT_MS), "DEDUCTED a 1 o1\n");
    /* Without wait_ms nothing is written, also where there is nothing. */
    expect_answer(wait_for_ms("S1", all->entries[1]->id, 0, 0), "");
    expect_unchanged();
}

TEST(trimmed_is_told_at_once)
{
    put_item("g", "a", 10);
    const char *first = last_id();
    harness_waiting *reader = wait_at("S1", first);
    deduct("g", "o1", "", "a:1");
    assert_true(trim_ledger("g", last_id()));
    /* Woken, it finds that what it waited for is gone. */
    harness_event(h, reader, SERVICE_WOKEN);
    assert_int_equal(answer_of(reader)->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    remember();
    assert_int_equal(answer_of(wait_for_ms("S1", first, 0, WAIT_MS))->outcome, LKS_READ_LEDGER_OUTCOME_TRIMMED);
    expect_unchanged();
}

TEST(a_woken_reader_keeps_its_limit)
{
    put_item("g", "a", 10);
    harness_waiting *reader = wait_for_ms("S1", last_id(), 2, WAIT_MS);
    deduct("g", "o1", "", "a:1");
    deduct("g", "o2", "", "a:2");
    deduct("g", "o3", "", "a:3");
    expect_woken(reader, "DEDUCTED a 1 o1\nDEDUCTED a 2 o2\n");
}

TEST(woken_for_nothing_it_waits_on)
{
    put_item("g", "a", 10);
    harness_waiting *reader = wait_at("S1", last_id());
    for (int i = 1; i <= 3; i++) {
        harness_redis(h, "DEL ls:{default/g}:stock:r"); /* as the entry that woke it did */
        harness_event(h, reader, SERVICE_WOKEN);
        assert_true(harness_is_parked(reader));
    }
    deduct("g", "o", "", "a:1");
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
    harness_event(h, reader, SERVICE_WOKEN);
    expect_answer(reader, "DEDUCTED a 1 o\n");
}

TEST(at_its_deadline_it_is_answered)
{
    put_item("g", "a", 10);
    const char *last = last_id();
    harness_waiting *reader = wait_at("S1", last), *late = wait_at("S1", last);
    remember();
    harness_event(h, reader, SERVICE_DEADLINE);
    expect_answer(reader, "");
    assert_string_equal(answer_of(reader)->oldest_id, last);
    expect_unchanged();
    /* An entry whose message is still on its way. */
    deduct("g", "o1", "", "a:1");
    harness_event(h, late, SERVICE_DEADLINE);
    expect_answer(late, "DEDUCTED a 1 o1\n");
}

/* ---- what waiting leaves behind ---------------------------------------------------- */

TEST(a_registration_ends_with_the_longest_wait)
{
    wait_at("S1", "");
    assert_in_range(ttl(), WAIT_MS - 20000, WAIT_MS);
    assert_true(harness_is_parked(wait_for_ms("S1", "", 0, 86400000)));
    assert_in_range(ttl(), 86400000 - 60000, 86400000);
    assert_true(harness_is_parked(wait_for_ms("S2", "", 0, 1)));
    assert_in_range(ttl(), 86400000 - 60000, 86400000);
}

TEST(an_abandoned_call_costs_one_message)
{
    put_item("g", "a", 10);
    harness_waiting *reader = wait_at("S1", last_id());
    remember();
    harness_event(h, reader, SERVICE_ABANDONED);
    assert_false(harness_is_parked(reader));
    assert_null(harness_answer(reader, &err));
    assert_int_equal(err.code, LKS_CANCELLED);
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    expect_unchanged();
    deduct("g", "o1", "", "a:1");
    assert_string_equal(messages(), "S1:W ls:{default/g}:ledger");
    deduct("g", "o2", "", "a:1");
    assert_string_equal(messages(), "");
}

TEST(a_server_that_is_gone_is_forgotten)
{
    put_item("g", "a", 10);
    const char *last = last_id();
    wait_at("S1", last);
    harness_waiting *reader = wait_at("S2", last);
    server_down("S1");
    answers(deduct("g", "o1", "", "a:1"), "DEDUCTED a:9");
    assert_string_equal(messages(), "S2:W ls:{default/g}:ledger");
    assert_string_equal(harness_redis(h, "EXISTS " READERS), "0");
    expect_woken(reader, "DEDUCTED a 1 o1\n");
}

static int calls_of(const char *command)
{
    char field[64];

    snprintf(field, sizeof field, "cmdstat_%s:calls=", command);
    const char *found = strstr(harness_redis(h, "INFO commandstats"), field);
    return found ? atoi(found + strlen(field)) : 0;
}

/* And its entries are one of the stream. */
TEST(with_nobody_waiting_a_sale_is_one_look_dearer)
{
    put_item("g", "a", 10);
    put_item("g", "b", 10);
    put_item("g", "c", 10);
    harness_redis(h, "CONFIG RESETSTAT");
    deduct("g", "o1", "", "a:1 b:1 c:1");
    assert_int_equal(calls_of("xadd"), 1);
    assert_int_equal(calls_of("exists"), 1);
    assert_int_equal(calls_of("smembers") + calls_of("publish") + calls_of("del"), 0);
    deduct("g", "o2", "", "a:1");
    assert_int_equal(calls_of("exists"), 2);
}

TEST(without_memory_it_waits_and_trims)
{
    put_item("g", "a", 10);
    deduct("g", "o1", "", "a:1");
    const char *last = last_id();
    harness_redis(h, "CONFIG SET maxmemory 1"); /* a Deduct is refused */
    harness_waiting *reader = wait_at("S1", last);
    assert_true(trim_ledger("g", last));
    assert_int_equal(read_ledger("g", "", 0)->n_entries, 0);
    harness_redis(h, "CONFIG SET maxmemory 0");
    deduct("g", "o2", "", "a:1");
    expect_woken(reader, "DEDUCTED a 1 o2\n");
}

TEST(foreign_readers_stop_what_needs_them)
{
    put_item("g", "a", 10);
    harness_redis(h, "SET " READERS " foreign");
    remember();
    assert_null(deduct("g", "o1", "", "a:1"));
    assert_int_equal(err.code, LKS_FAILED_PRECONDITION);
    assert_int_equal(err.applied, LKS_APPLIED_NO);
    harness_waiting *reader = wait_for_ms("S1", last_id(), 0, WAIT_MS);
    assert_false(harness_is_parked(reader));
    assert_null(harness_answer(reader, &err));
    assert_int_equal(err.code, LKS_FAILED_PRECONDITION);
    expect_unchanged();
}

TEST_MAIN(.setup_all = script_open, .teardown_all = servers_close, .setup = servers_reset)
