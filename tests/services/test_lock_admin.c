/* Inspect, List, ForceRelease: seeing what is held, and taking it away. */
#include "services/lock_script.h"

#include <stdio.h>

TEST(inspect_shows_each_holder)
{
    says(inspect("a"), "FREE");
    assert_int_equal(inspected->last_fence, 0);
    assert_int_equal(inspected->capacity, 0);
    assert_string_equal(inspected->group, "g");
    assert_string_equal(inspected->name, "a");
    acquire("T1", "a:P2/5");
    uint64_t first = fence();
    pass_seconds(300);
    acquire("T2", "a:P1/5");
    says(inspect("a"), "PERMIT/5 T1=2 T2=1");
    assert_int_equal(inspected->holders[0]->fence, first);
    about(inspected->holders[0]->lease_ms, LEASE_MS - 300000);
    assert_in_range(inspected->holders[0]->held_ms, 300000, 390000);
    assert_int_equal(inspected->holders[1]->fence, fence());
    about(inspected->holders[1]->lease_ms, LEASE_MS);
    assert_int_equal(inspected->waiters, 0);
    assert_int_equal(inspected->last_fence, fence());
    remember();
    pass_seconds(700);
    says(inspect("a"), "PERMIT/5 T2=1");
    pass_seconds(300);
    says(inspect("a"), "FREE");
    expect_unchanged();
}

TEST(a_forced_release_removes_every_holder)
{
    acquire("T1", "a:S b");
    acquire_for("T2", "a:S", 10);
    acquire("T3", "a:S");
    pass_seconds(500);
    says(force_release("a"), "T1 T3");
    says(inspect("a"), "FREE");
    says(inspect("b"), "EXCLUSIVE T1");
    says(force_release("a"), "");
    says(force_release("never"), "");
}

TEST(who_was_forced_out_is_out)
{
    acquire("T1", "a b");
    uint64_t old = fence();
    force_release("a");
    says(renew("T1", "a"), "LOST");
    says(renew("T1", ""), "LOST");
    says(renew("T1", "b"), "RENEWED");
    says(acquire("T1", "a b"), "TOKEN_SPENT");
    says(release("T1", "a"), "NOT_HELD");
    says(acquire("T2", "a"), "ACQUIRED");
    assert_true(fence() > old);
    says(release("T1", ""), "NOT_HELD a=NOT_HELD b=RELEASED");
    says(inspect("a"), "EXCLUSIVE T2");
}

TEST(a_clock_that_stepped_back_gives_no_negative_times)
{
    says(acquire("T1", "a"), "ACQUIRED");
    pass_seconds(-3600);
    says(inspect("a"), "EXCLUSIVE T1");
    assert_int_equal(inspected->holders[0]->held_ms, 0);
    about(inspected->holders[0]->lease_ms, LEASE_MS + 3600000);
    says(acquire("T2", "a"), "BUSY a held by T1");
}

/* The lock is free by the time when a holder's record is read. */
TEST(a_forced_release_of_a_holder_whose_record_is_foreign_is_told)
{
    acquire("T1", "a:S");
    acquire("T2", "a:S");
    harness_redis(h, "DEL ls:{default/g}:lock:t:%s", token_of("T1"));
    harness_redis(h, "RPUSH ls:{default/g}:lock:t:%s foreign", token_of("T1"));
    says(inspect("a"), "SHARED  T2");
    says(force_release("a"), "T2");
    says(inspect("a"), "FREE");
    acquire("T3", "a");
    harness_redis(h, "SET ls:{default/g}:lock:t:%s foreign", token_of("T3"));
    says(force_release("a"), "");
    assert_int_equal(err.code, LKS_OK);
    says(inspect("a"), "FREE");
}

/* ---- List ---- */

typedef struct listing {
    int pages;
    int locks;
    int largest_page;
    char seen[4096]; /* "group/name:MODE:holders " each */
} listing;

static const lks_list_response *list_page(const char *prefix, int size, const char *page_token)
{
    lks_list_request request = message(list_request, .prefix = prefix, .page_size = size, .page_token = page_token);

    const lks_list_response *page = answer_to(&request);
    if (!page)
        fail_msg("List: %s", err.message);
    return page;
}

static void note(listing *all, const lks_list_response *page)
{
    all->pages++;
    if ((int)page->n_locks > all->largest_page)
        all->largest_page = (int)page->n_locks;
    for (size_t i = 0; i < page->n_locks; i++) {
        const lks_lock_summary *lock = page->locks[i];
        size_t len = strlen(all->seen);
        char text[128];
        snprintf(text, sizeof text, "%s/%s:%d:%ld ", lock->group, lock->name, (int)lock->mode, lock->holders);
        all->locks++;
        if (!strstr(all->seen, text))
            snprintf(all->seen + len, sizeof all->seen - len, "%s", text);
        assert_true(lock->lease_ms > 0);
    }
}

static listing list_all(const char *prefix, int size)
{
    listing all = {0};
    const lks_list_response *page = list_page(prefix, size, "");

    for (note(&all, page); page->next_page_token[0]; note(&all, page)) {
        page = list_page(prefix, size, page->next_page_token);
        assert_true(all.pages < 10000);
    }
    return all;
}

static int spaces(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == ' ';
    return n;
}

TEST(list_shows_what_is_held)
{
    acquire("T1", "a");
    acquire("T2", "b:S");
    acquire_for("T3", "b:S", 3000000);
    acquire("T4", "c:P2/5");
    acquire("T5", "gone");
    acquire_for("T6", "over", 10);
    release("T5", "");
    pass_seconds(500);
    const lks_list_response *page = list_page("", 0, "");
    listing all = {0};
    note(&all, page);
    assert_int_equal(page->n_locks, 3);
    assert_string_equal(page->next_page_token, "");
    assert_non_null(strstr(all.seen, "g/a:1:1 "));
    assert_non_null(strstr(all.seen, "g/b:2:2 "));
    assert_non_null(strstr(all.seen, "g/c:3:1 "));
    for (size_t i = 0; i < page->n_locks; i++)
        about(page->locks[i]->lease_ms, page->locks[i]->name[0] == 'b' ? 2500000 : LEASE_MS - 500000);
    pass_seconds(500);
    all = list_all("", 0);
    assert_string_equal(all.seen, "g/b:2:1 ");
}

TEST(list_keeps_to_its_prefix_and_namespace)
{
    acquire("T1", "job/1 job/2 jo job% other");
    harness_namespace(h, "other");
    acquire("T1", "job/other");
    harness_namespace(h, "default");
    assert_int_equal(list_all("", 10).locks, 5);
    assert_int_equal(list_all("jo", 10).locks, 4);
    assert_int_equal(list_all("job/", 10).locks, 2);
    assert_string_equal(list_all("job%", 10).seen, "g/job%:1:1 ");
    assert_int_equal(list_all("*", 10).locks, 0);
    assert_int_equal(list_all("jo?", 10).locks, 0);
    assert_int_equal(list_all("[j]o", 10).locks, 0);
    assert_int_equal(list_all("x", 10).locks, 0);
    harness_namespace(h, "defaul*");
    assert_int_equal(list_all("", 10).locks, 0);
    harness_namespace(h, "other");
    assert_string_equal(list_all("", 10).seen, "g/job/other:1:1 ");
}

TEST(list_finds_all_by_pages_of_any_size)
{
    enum { LOCKS = 200 };
    static const int sizes[] = {1, 2, 3, 7, 10, 50, 199, 200, 1000};

    for (int i = 0; i < LOCKS; i++) {
        char alias[8];
        char name[8];
        snprintf(alias, sizeof alias, "T%d", i);
        snprintf(name, sizeof name, "n%d", i);
        says(acquire(alias, name), "ACQUIRED");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        listing all = list_all("n", sizes[i]);
        assert_int_equal(spaces(all.seen), LOCKS);
        assert_true(all.largest_page <= sizes[i]);
    }
}

/* Keys of others come and go, so that Redis' table grows and shrinks under way. */
TEST(list_misses_nothing_that_stays_while_much_changes)
{
    enum { LOCKS = 50 };

    for (int i = 0; i < LOCKS; i++) {
        char alias[8];
        char name[8];
        snprintf(alias, sizeof alias, "T%d", i);
        snprintf(name, sizeof name, "n%d", i);
        says(acquire(alias, name), "ACQUIRED");
    }
    for (int size = 1; size < 8; size += 3) {
        listing all = {0};
        const lks_list_response *page = list_page("n", size, "");
        for (note(&all, page); page->next_page_token[0]; note(&all, page)) {
            harness_redis(h, "EVAL %s 0",
                          all.pages % 8 < 4
                              ? "for i = 1, 400 do redis.call('SET', 'x' .. math.random(), '') end"
                              : "for _, k in ipairs(redis.call('KEYS', 'x*')) do redis.call('DEL', k) end");
            page = list_page("n", size, page->next_page_token);
            assert_true(all.pages < 10000);
        }
        assert_int_equal(spaces(all.seen), LOCKS);
    }
}

TEST(a_page_does_a_bounded_amount_of_work)
{
    acquire("T1", "a");
    harness_redis(h, "EVAL %s 0",
                  "for i = 1, 20000 do redis.call('HSET', 'ls:{default/g}:stock:i:' .. i, 'f', '1') end");
    harness_redis(h, "CONFIG RESETSTAT");
    const lks_list_response *page = list_page("", 1000, "");
    assert_true(page->next_page_token[0] != '\0');
    assert_in_range(harness_commands(h, "scan"), 1, 50);
    assert_string_equal(list_all("", 1000).seen, "g/a:1:1 ");
}

/* Holders count as well: a page ends within a step too, and all are on some page. */
TEST(a_page_reads_few_large_locks)
{
    enum { LOCKS = 20, HOLDERS = 600 };

    for (int i = 0; i < LOCKS * HOLDERS; i++) {
        char alias[16];
        char target[16];
        snprintf(alias, sizeof alias, "T%d", i);
        snprintf(target, sizeof target, "n%d:S", i % LOCKS);
        says(acquire(alias, target), "ACQUIRED");
        if (i % 100 == 0)
            harness_forget(h);
    }
    harness_redis(h, "EVAL %s 0",
                  "for _, key in ipairs(redis.call('KEYS', '*:lock:t:*')) do redis.call('DEL', key) end");
    for (int size = 1; size <= 1000; size += 333) {
        listing all = {0};
        const char *token = "";
        do {
            harness_redis(h, "CONFIG RESETSTAT");
            const lks_list_response *page = list_page("n", size, token);
            assert_in_range(harness_commands(h, "hgetall"), 0, 1);
            note(&all, page);
            token = page->next_page_token;
            assert_true(all.pages < 10000);
        } while (token[0]);
        assert_int_equal(spaces(all.seen), LOCKS);
    }
}

TEST(foreign_data_does_not_stop_a_listing)
{
    acquire("T1", "a");
    harness_redis(h, "SET ls:{default/g}:lock:n:x foreign");
    harness_redis(h, "HSET ls:{default/g}:lock:n:y some thing");
    assert_string_equal(list_all("", 0).seen, "g/a:1:1 ");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
