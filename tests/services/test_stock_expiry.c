/* A hold that is over is seen by nobody, and is given back by whoever writes, by a
 * server's lasting alarm, or after the search for orphans. */
#include "functions/library.h"
#include "stock_script.h"

/* One item of which `n` orders hold a unit each, all of them over; some is left. */
static void many_holds(int n)
{
    char id[16];

    put_item("g", "a", n + 10);
    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof id, "o%d", i);
        assert_non_null(reserve("g", id, "", "a:1", 600000));
    }
    harness_forget(h);
    harness_advance_ms(h, 600000);
}

static int64_t held_orders(void)
{
    return atoll(harness_redis(h, "ZCARD ls:{default/g}:stock:x"));
}

TEST(stock_is_back_the_moment_its_hold_ends)
{
    put_item("g", "a", 10);
    reserve("g", "o1", "bob", "a:4", 600000);
    harness_advance_ms(h, 590000);
    expect_stock("g", "a", 6, 4, 0);
    answers(reserve("g", "o2", "", "a:7", 60000), "SOLD_OUT a:6");
    harness_advance_ms(h, 10000);
    remember();
    expect_stock("g", "a", 10, 0, 0);
    expect_order("g", "o1", "EXPIRED bob a:4:0");
    expect_unchanged();
    answers(reserve("g", "o2", "", "a:10", 60000), "RESERVED a:0");
    expect_stock("g", "a", 0, 10, 0);
    expect_order("g", "o1", "EXPIRED bob a:4:0");
    assert_string_equal(ledger_text(read_ledger("g", "", 0)),
                        "PUT a 10 \nRESERVED a 4 o1\nEXPIRED a 4 o1\nRESERVED a 10 o2\n");
}

/* ---- readers ---- */

static const char *item_text(size_t n, lks_item *const *items)
{
    static char got[1024];
    int len = 0;

    got[0] = '\0';
    for (size_t i = 0; i < n; i++)
        len += snprintf(got + len, sizeof got - (size_t)len, "%s/%s %lld %lld %lld v%lld\n", items[i]->group,
                        items[i]->sku, (long long)items[i]->available, (long long)items[i]->reserved,
                        (long long)items[i]->sold, (long long)items[i]->version);
    return got;
}

static const char *batch_text(const char *group)
{
    static const char *skus[] = {"a", "b"};
    lks_batch_get_items_request request = message(batch_get_items_request, .group = group, .n_skus = 2, .skus = skus);

    const lks_batch_get_items_response *got = answer_to(&request);
    assert_non_null(got);
    return item_text(got->n_items, got->items);
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A namespace's items come in no order. */
static const char *sorted_lines(const char *text)
{
    static char sorted[1024];
    char copy[1024], *lines[32];
    size_t n = 0;
    int len = 0;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
        lines[n++] = line;
    qsort(lines, n, sizeof lines[0], by_line);
    sorted[0] = '\0';
    for (size_t i = 0; i < n; i++)
        len += snprintf(sorted + len, sizeof sorted - (size_t)len, "%s\n", lines[i]);
    return sorted;
}

static const char *list_text(const char *group)
{
    static char got[1024];
    lks_list_items_request request = message(list_items_request, .group = group);

    got[0] = '\0';
    do {
        const lks_list_items_response *page = answer_to(&request);
        assert_non_null(page);
        strncat(got, item_text(page->n_items, page->items), sizeof got - strlen(got) - 1);
        request.page_token = page->next_page_token;
    } while (request.page_token[0] != '\0');
    return sorted_lines(got);
}

/* What every reader says, one text. */
static const char *all_readers(void)
{
    static char got[4096];
    static const lks_item *one[2];
    int len = 0;

    one[0] = get_item("g", "a");
    one[1] = get_item("a", "a");
    len += snprintf(got + len, sizeof got - (size_t)len, "%s--\n", item_text(2, (lks_item *const *)(uintptr_t)one));
    len += snprintf(got + len, sizeof got - (size_t)len, "%s--\n", batch_text("g"));
    len += snprintf(got + len, sizeof got - (size_t)len, "%s--\n", batch_text(""));
    len += snprintf(got + len, sizeof got - (size_t)len, "%s--\n", list_text("g"));
    snprintf(got + len, sizeof got - (size_t)len, "%s", list_text(""));
    return got;
}

TEST(readers_see_what_a_writer_would_make)
{
    char before[4096];

    put_limited("g", "a", 10, 8);
    put_item("g", "b", 10);
    put_item("", "a", 10);
    put_item("", "b", 10);
    deduct("g", "s", "bob", "a:1");
    reserve("g", "o1", "bob", "a:2 b:3", 100000);
    reserve("g", "o2", "bob", "a:1", 100000);
    reserve("g", "o3", "bob", "a:4", 600000);
    reserve("", "o4", "", "a:7", 100000);
    reserve("", "o5", "", "b:5", 100000);
    harness_advance_ms(h, 100000);
    remember();
    expect_stock("g", "a", 5, 4, 1);
    snprintf(before, sizeof before, "%s", all_readers());
    expect_unchanged();
    assert_non_null(strstr(before, "g/b 10 0 0 v"));
    assert_non_null(strstr(before, "a/a 10 0 0 v"));
    assert_in_range(ring_lasting_alarm("g"), 400000, 500000);
    assert_int_equal(ring_lasting_alarm("a"), -1);
    assert_int_equal(ring_lasting_alarm("b"), -1);
    assert_string_equal(all_readers(), before);
}

static void get_one(void)
{
    expect_stock("g", "a", 1110, 0, 0);
}

static void get_batch(void)
{
    assert_non_null(strstr(batch_text("g"), "g/a 1110 0 0 v"));
}

static void get_list(void)
{
    assert_non_null(strstr(list_text("g"), "g/a 1110 0 0 v"));
}

static void get_namespace(void)
{
    assert_non_null(strstr(list_text(""), "g/a 1110 0 0 v"));
}

static void make_order(void)
{
    answers(reserve("g", "new", "", "a:1110", 100000), "RESERVED a:0");
}

static void sell(void)
{
    answers(deduct("g", "new", "", "a:1110"), "DEDUCTED a:0");
}

static void put_over(void)
{
    assert_int_equal(put_item("g", "a", 1200)->available, 1200);
}

static void adjust_it(void)
{
    assert_int_equal(adjust("g", "a", -1110, "adj")->item->available, 0);
}

static void delete_it(void)
{
    assert_true(delete_item("g", "a"));
}

static void buy_again(void)
{
    answers(confirm("g", "o1099", true), "CONFIRMED CONFIRMED  a:1:0");
    expect_stock("g", "a", 1109, 0, 1);
}

/* More than one call gives back or counts: it takes several rounds. */
TEST(thousands_of_holds_are_as_exact)
{
    static void (*const calls[])(void) = {get_one, get_batch, get_list,  get_namespace, make_order,
                                          sell,    put_over,  adjust_it, delete_it,     buy_again};

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        script_reset(state);
        many_holds(1100);
        calls[i]();
    }
}

TEST(some_hundred_holds_are_counted_and_not_written)
{
    many_holds(300);
    remember();
    expect_stock("g", "a", 310, 0, 0);
    assert_non_null(strstr(list_text(""), "g/a 310 0 0 v"));
    expect_unchanged();
}

/* What waits for either ledger is told. */
TEST(a_list_gives_back_in_each_group)
{
    put_item("g", "a", 10);
    put_item("h", "a", 10);
    reserve("g", "o1", "", "a:1", 100000);
    reserve("h", "o1", "", "a:2", 100000);
    harness_redis(h, "SADD ls:{default/g}:stock:r server");
    harness_redis(h, "SADD ls:{default/h}:stock:r server");
    harness_advance_ms(h, 100000);
    harness_redis(h, "FCALL stock_expire_listed_%s 1 ls:{default/-}: 5 %s 0 100 %s %s", functions_digest, "", "", "");
    assert_string_equal(harness_redis(h, "EXISTS ls:{default/g}:stock:x ls:{default/h}:stock:x "
                                         "ls:{default/g}:stock:r ls:{default/h}:stock:r"),
                        "0");
    assert_string_equal(ledger_text(read_ledger("h", "", 0)), "PUT a 10 \nRESERVED a 2 o1\nEXPIRED a 2 o1\n");
}

/* ---- writers ---- */

TEST(a_call_gives_back_some_hundred)
{
    many_holds(400);
    assert_int_equal(ring_lasting_alarm("g"), 0);
    assert_int_equal(held_orders(), 100);
    assert_int_equal(ring_lasting_alarm("g"), -1);
    assert_int_equal(held_orders(), 0);
    expect_stock("g", "a", 410, 0, 0);
}

TEST(lines_count_too)
{
    char lines[64 * 8] = "", id[16];
    size_t len = 0;

    for (int i = 0; i < 64; i++) {
        snprintf(id, sizeof id, "s%d", i);
        put_item("g", id, 100);
        len += (size_t)snprintf(lines + len, sizeof lines - len, "%s:1 ", id);
    }
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "o%d", i);
        reserve("g", id, "", lines, 100000);
    }
    harness_advance_ms(h, 100000);
    /* 600 lines, and what the last of them has more: also for calls that travel together. */
    assert_int_equal(ring_lasting_alarm("g"), 0);
    assert_int_equal(held_orders(), 30);
    const char *three = harness_redis(h, "FCALL stock_expire_%s 1 ls:{default/g}: 0 0 0", functions_digest);
    assert_string_equal(three, "OK\n0\n\nOK\n0\n\nOK\n0\n\n");
    assert_int_equal(held_orders(), 20);
    expect_stock("g", "s63", 100, 0, 0);
    assert_int_equal(held_orders(), 10);
}

/* Readers that travel together count what is over once. */
TEST(a_frame_of_reads_counts_holds_once)
{
    lks_get_item_request item = message(get_item_request, .sku = "a", .group = "g");
    const void *requests[20], *responses[20];
    lks_error errors[20];

    many_holds(250);
    for (int i = 0; i < 20; i++)
        requests[i] = &item;
    harness_redis(h, "CONFIG RESETSTAT");
    ask_together(20, requests, responses, errors);
    assert_int_equal(harness_commands(h, "zrangebyscore"), 1);
    assert_in_range(harness_commands(h, "get"), 250, 260);
    for (int i = 0; i < 20; i++)
        assert_int_equal(((const lks_get_item_response *)responses[i])->item->available, 260);
    /* The next FCALL counts anew. */
    ask_together(2, requests, responses, errors);
    assert_int_equal(harness_commands(h, "zrangebyscore"), 2);
}

/* Calls that travel together share what one call gives back. */
TEST(a_frame_of_calls_gives_back_some_hundred)
{
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_reserve_request order =
        message(reserve_request, .group = "g", .order_id = "new", .n_lines = 1, .lines = lines, .hold_ms = 60000);
    const void *requests[3] = {&order, &order, &order}, *responses[3];
    lks_error errors[3];

    many_holds(400);
    line.sku = "a";
    line.quantity = 1;
    ask_together(3, requests, responses, errors);
    assert_int_equal(held_orders(), 100);
}

/* What was over is given back; the call itself has changed nothing. */
TEST(a_refusal_that_gave_back_is_still_no_effect)
{
    lks_adjust_request request =
        message(adjust_request, .group = "g", .sku = "a", .delta = 1, .adjustment_id = "adj", .expected_version = 1);

    put_limited("g", "a", 10, 5);
    reserve("g", "o1", "bob", "a:4", 100000);
    harness_advance_ms(h, 100000);
    assert_null(answer_to(&request));
    expect_error(LKS_ABORTED, "expected_version");
    assert_int_equal(held_orders(), 0);
    expect_stock("g", "a", 10, 0, 0);
    reserve("g", "o2", "bob", "a:4", 100000);
    harness_advance_ms(h, 100000);
    assert_null(reserve("g", "o3", "", "a:1", 100000));
    expect_error(LKS_INVALID_ARGUMENT, "buyer_id");
    assert_int_equal(held_orders(), 0);
    reserve("g", "o4", "bob", "a:4", 100000);
    harness_advance_ms(h, 100000);
    assert_true(delete_item("g", "a"));
}

/* An item that nobody holds does not look at the holds of others. */
TEST(a_sale_gives_back_only_where_it_matters)
{
    put_item("g", "a", 10);
    put_item("g", "b", 10);
    reserve("g", "o1", "", "a:4", 100000);
    harness_advance_ms(h, 100000);
    deduct("g", "o2", "", "b:1");
    assert_int_equal(held_orders(), 1);
    answers(deduct("g", "o3", "", "b:1 a:10"), "DEDUCTED b:8 a:0");
    assert_int_equal(held_orders(), 0);
}

/* Held before there was a limit, or before it was set anew: counts that are not theirs
 * do not fall. */
TEST(only_its_own_count_falls)
{
    put_item("g", "a", 10);
    reserve("g", "o1", "bob", "a:2", 100000);
    put_limited("g", "a", 10, 3);
    reserve("g", "o2", "bob", "a:3", 100000);
    put_limited("g", "a", 10, 0);
    put_limited("g", "a", 10, 2);
    deduct("g", "o3", "bob", "a:2");
    harness_advance_ms(h, 100000);
    ring_lasting_alarm("g");
    expect_stock("g", "a", 8, 0, 2);
    answers(deduct("g", "o4", "bob", "a:1"), "BUYER_LIMIT a:8");
    answers(deduct("g", "o4", "eve", "a:1"), "DEDUCTED a:7");
}

/* An order's record that someone has removed holds nothing, and its id is free. */
TEST(a_lost_record_is_passed_by)
{
    put_item("g", "a", 10);
    reserve("g", "o1", "", "a:2", 100000);
    reserve("g", "o2", "", "a:3", 100000);
    harness_redis(h, "DEL ls:{default/g}:stock:o:o1 ls:{default/g}:stock:o:o2");
    deduct("g", "o2", "", "a:5");
    harness_advance_ms(h, 100000);
    expect_stock("g", "a", 0, 5, 5);
    assert_int_equal(ring_lasting_alarm("g"), -1);
    expect_stock("g", "a", 0, 5, 5);
    expect_order("g", "o2", "CONFIRMED  a:5:0");
}

/* ---- lasting alarms ---- */

TEST(a_lasting_alarm_comes_when_the_next_hold_ends)
{
    put_item("g", "a", 10);
    assert_int_equal(ring_lasting_alarm("g"), -1);
    reserve("g", "o1", "", "a:1", 100000);
    reserve("g", "o2", "", "a:1", 900000);
    reserve("g", "o3", "", "a:1", 900001);
    harness_advance_ms(h, 100000);
    assert_in_range(ring_lasting_alarm("g"), 700000, 800000);
    expect_order("g", "o1", "EXPIRED  a:1:0");
    assert_int_equal(held_orders(), 2);
    /* Ends that are close together share a lasting alarm. (The clock may have passed them.) */
    harness_advance_ms(h, 799990);
    int64_t again_ms = ring_lasting_alarm("g");
    assert_true(again_ms == 50 || again_ms == -1);
    harness_advance_ms(h, 50);
    assert_int_equal(ring_lasting_alarm("g"), -1);
}

TEST(what_nobody_gives_back_is_found)
{
    put_item("g", "a", 10);
    put_item("h}", "a", 10);
    reserve("g", "o1", "", "a:1", 100000);
    reserve("h}", "o1", "", "a:1", 500000);
    /* Not ours. */
    harness_redis(h, "ZADD other:{x}:stock:x 1 o1");
    harness_redis(h, "SET ls:{y}:stock:x 1");
    harness_advance_ms(h, 100000);
    assert_string_equal(overdue("0"), "OK\n\n");
    harness_advance_ms(h, 2000);
    assert_string_equal(overdue("0"), "OK\n\nls:{default/g}:\n");
    harness_namespace(h, "other");
    put_item("g", "a", 10);
    reserve("g", "o1", "", "a:1", 500000);
    harness_advance_ms(h, 400000);
    assert_null(strstr(overdue("0"), "other/g"));
    assert_non_null(strstr(overdue("0"), "ls:{default/h%7D}:\n"));
    ring_lasting_alarm("g");
    ring_lasting_alarm("h%7D");
    assert_string_equal(overdue("0"), "OK\n\n");
}

/* One step looks at a bounded number of keys. */
TEST(the_search_goes_step_by_step)
{
    char cursor[64] = "0";
    int steps = 0, found = 0;

    harness_redis(h, "EVAL %s 0", "for i = 1, 5000 do redis.call('SET', 'k' .. i, '') end");
    put_item("g", "a", 10);
    reserve("g", "o1", "", "a:1", 100000);
    harness_advance_ms(h, 103000);
    do {
        const char *got = overdue(cursor);
        found += !!strstr(got, "ls:{default/g}:");
        assert_int_equal(sscanf(got, "OK\n%63[0-9]", cursor) == 1 || strncmp(got, "OK\n\n", 4) == 0, 1);
        steps++;
        if (strncmp(got, "OK\n\n", 4) == 0)
            break;
    } while (steps < 100);
    assert_in_range(steps, 3, 20);
    assert_int_equal(found, 1);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
