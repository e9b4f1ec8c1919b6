/* Remembered refusals: known until their end and no longer, gone with a drop, bounded. */
/* promise S54 */

#include "services/recent.h"
#include "test.h"

enum { PLACES = 64, MANY = 10000 };
#define BASE(text) lks_rpc_slice_of("ls:{ns/" text "}:")

static recent *r;

static int make(void **state)
{
    r = recent_new(PLACES);
    return 0;
}

static int clear(void **state)
{
    recent_free(r);
    return 0;
}

static recent_key key_of(const char *first, const char *second)
{
    return (recent_key){{lks_rpc_slice_of(first), lks_rpc_slice_of(second)}, 2};
}

static void put(const char *first, const char *second, uint64_t now_ns, uint64_t ask_ns, uint64_t until_ns,
                int64_t number)
{
    const recent_key key = key_of(first, second);
    const recent_fact what = {.ask_ns = ask_ns, .until_ns = until_ns, .number = {number}};

    recent_put(r, BASE("g"), &key, &what, now_ns);
}

/* Its number; -1: it is not known. */
static int64_t known(const char *first, const char *second, uint64_t now_ns)
{
    const recent_key key = key_of(first, second);
    const recent_fact *found = recent_find(r, &key, now_ns);

    return found ? found->number[0] : -1;
}

TEST(it_is_known_until_its_end)
{
    assert_int_equal(known("g", "a", 1), -1);
    put("g", "a", 10, 20, 20, 7);
    assert_int_equal(known("g", "a", 10), 7);
    assert_int_equal(known("g", "a", 19), 7);
    assert_int_equal(known("g", "a", 20), -1);
    assert_int_equal(known("g", "a", 21), -1);
}

TEST(refusal_that_arrives_expired_is_not_kept)
{
    put("g", "a", 20, 20, 20, 7);
    assert_int_equal(known("g", "a", 19), -1);
    put("g", "b", 10, 20, 30, 7); /* the table is looked at */
    assert_int_equal(known("g", "a", 19), -1);
}

TEST(the_newest_counts)
{
    put("g", "a", 10, 30, 30, 7);
    put("g", "a", 11, 25, 25, 0);
    assert_int_equal(known("g", "a", 12), 0);
    assert_int_equal(known("g", "a", 25), -1);
}

TEST(one_caller_asks_before_the_end_and_the_others_do_not)
{
    put("g", "a", 10, 20, 30, 7);
    assert_int_equal(known("g", "a", 19), 7);
    assert_int_equal(known("g", "a", 20), -1);
    assert_int_equal(known("g", "a", 20), 7);
    assert_int_equal(known("g", "a", 29), 7);
    put("g", "a", 29, 39, 49, 6); /* its answer */
    assert_int_equal(known("g", "a", 38), 6);
    assert_int_equal(known("g", "a", 40), -1);
    assert_int_equal(known("g", "a", 40), 6);
}

TEST(key_parts_are_distinguished)
{
    put("ab", "c", 10, 20, 20, 1);
    put("a", "bc", 10, 20, 20, 2);
    put("", "abc", 10, 20, 20, 3);
    assert_int_equal(known("ab", "c", 11), 1);
    assert_int_equal(known("a", "bc", 11), 2);
    assert_int_equal(known("", "abc", 11), 3);
    assert_int_equal(known("abc", "", 11), -1);

    assert_null(recent_find(r, &(recent_key){{lks_rpc_slice_of("a")}, 1}, 11));
}

TEST(forgetting_is_of_one_key)
{
    put("g", "a", 10, 20, 20, 1);
    put("g", "b", 10, 20, 20, 2);
    const recent_key key = key_of("g", "a");
    recent_forget(r, &key, 11);
    assert_int_equal(known("g", "a", 11), -1);
    assert_int_equal(known("g", "b", 11), 2);
    put("g", "a", 12, 20, 20, 3);
    assert_int_equal(known("g", "a", 13), 3);
}

TEST(a_drop_is_of_all_of_a_base)
{
    const recent_key of_other = key_of("h", "a");
    const recent_fact what = {.ask_ns = 20, .until_ns = 20, .number = {3}};

    put("g", "a", 10, 20, 20, 1);
    put("g", "b", 10, 20, 20, 2);
    recent_put(r, BASE("h"), &of_other, &what, 10);
    recent_drop(r, BASE("g"));
    assert_int_equal(known("g", "a", 11), -1);
    assert_int_equal(known("g", "b", 11), -1);
    assert_int_equal(known("h", "a", 11), 3);
    put("g", "a", 11, 20, 20, 4); /* what was asked for since */
    assert_int_equal(known("g", "a", 12), 4);
    recent_drop_all(r);
    assert_int_equal(known("g", "a", 12), -1);
    assert_int_equal(known("h", "a", 12), -1);
}

TEST(a_key_that_is_too_long_is_not_kept)
{
    char text[RECENT_KEY_BYTES_MAX + 1] = {0};

    memset(text, 'x', RECENT_KEY_BYTES_MAX - 4);
    put(text, "", 10, 20, 20, 1);
    assert_int_equal(known(text, "", 11), 1);
    put(text, "y", 10, 20, 20, 1);
    assert_int_equal(known(text, "y", 11), -1);
    text[RECENT_KEY_BYTES_MAX - 4] = 'x';
    put(text, "", 10, 20, 20, 1);
    assert_int_equal(known(text, "", 11), -1);
    put("", text, 10, 20, 20, 1);
    assert_int_equal(known("", text, 11), -1);
}

TEST(expired_refusals_are_evicted_first)
{
    static const char *const names[] = {"a", "b", "c"};
    const recent_key of_other = key_of("h", "x");

    recent_free(r);
    r = recent_new(4); /* which any key may be in */
    put("g", "a", 10, 20, 20, 1);
    recent_put(r, BASE("h"), &of_other, &(recent_fact){.ask_ns = 90, .until_ns = 90}, 10);
    put("g", "b", 10, 20, 20, 1);
    recent_drop(r, BASE("h"));
    put("g", "c", 10, 20, 20, 1);
    put("g", "d", 10, 30, 30, 1);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(known("g", names[i], 11), 1);
    put("g", "e", 20, 30, 30, 1);
    assert_int_equal(known("g", "d", 20), 1);
}

/* With any number of entries the results are correct, and the last entry is found. */
TEST(many_find_no_more_room_than_there_is)
{
    char name[16];
    size_t n = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%d", i);
        put("g", name, 10, 20, 20 + (uint64_t)(i % 10), i);
        assert_int_equal(known("g", name, 11), i);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%d", i);
        int64_t number = known("g", name, 11);
        n += number >= 0;
        assert_true(number == -1 || number == i);
    }
    assert_in_range(n, 1, PLACES);
}

TEST_MAIN(.setup = make, .teardown = clear)
