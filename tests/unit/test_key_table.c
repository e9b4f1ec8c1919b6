/* The table of texts: what is put in is found, in few steps among many. */
/* promise L54 */

#include "calls/key_table.h"
#include "test.h"

enum { MANY = 20000, STEPS_MAX = 16 };

static keyed entry_of(const char *key)
{
    return (keyed){.key = lks_rpc_slice_of(key)};
}

TEST(what_is_in_is_found)
{
    key_table table = {0};
    keyed a = entry_of("a"), b = entry_of("b");

    assert_null(key_table_find(&table, lks_rpc_slice_of("a")));
    key_table_add(&table, &a);
    key_table_add(&table, &b);
    assert_ptr_equal(key_table_find(&table, lks_rpc_slice_of("a")), &a);
    assert_ptr_equal(key_table_find(&table, lks_rpc_slice_of("b")), &b);
    assert_null(key_table_find(&table, lks_rpc_slice_of("ab")));
    key_table_remove(&table, &a);
    assert_null(key_table_find(&table, lks_rpc_slice_of("a")));
    key_table_remove(&table, &b);
    key_table_clear(&table);
}

/* Also when the table was widened in between. */
TEST(those_of_one_key_come_in_their_order)
{
    key_table table = {0};
    keyed same[100];
    size_t n = 0;

    for (size_t i = 0; i < 100; i++) {
        same[i] = entry_of("same");
        key_table_add(&table, &same[i]);
    }
    for (keyed *k = key_table_find(&table, lks_rpc_slice_of("same")); k; k = key_table_next(k))
        assert_ptr_equal(k, &same[n++]);
    assert_int_equal(n, 100);
    for (size_t i = 0; i < 100; i++)
        key_table_remove(&table, &same[i]);
    key_table_clear(&table);
}

/* A look goes through those that share a bucket, and no others. */
TEST(a_look_takes_few_steps_among_many)
{
    key_table table = {0};
    keyed *entries = calloc(MANY, sizeof *entries);
    char(*keys)[48] = calloc(MANY, sizeof *keys);

    for (size_t i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof keys[i], "ls:{ns/g}:token-%zu", i);
        entries[i] = entry_of(keys[i]);
        key_table_add(&table, &entries[i]);
    }
    size_t *sharing = calloc(table.n_buckets, sizeof *sharing);
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(key_table_find(&table, entries[i].key), &entries[i]);
        assert_true(++sharing[entries[i].hash % table.n_buckets] <= STEPS_MAX);
    }
    for (size_t i = 0; i < MANY; i++)
        key_table_remove(&table, &entries[i]);
    key_table_clear(&table);
    free(sharing);
    free(keys);
    free(entries);
}

/* Who chooses keys that meet in one table has not chosen them for another. */
TEST(tables_differ)
{
    key_table one = {0}, other = {0};
    keyed a = entry_of("a"), b = entry_of("a");

    key_table_add(&one, &a);
    key_table_add(&other, &b);
    assert_true(a.hash != b.hash);
    key_table_remove(&one, &a);
    key_table_remove(&other, &b);
    key_table_clear(&one);
    key_table_clear(&other);
}

TEST_MAIN()
