/* What a server keeps of policies: names of one namespace are not those of another, and
 * who was used last stays. In a small cache, where all entries meet in few buckets. */
/* promise R30 */

#include "services/ratelimit_cache.h"
#include "test.h"

static ratelimit_cache *cache;

static int new_cache(void **state)
{
    cache = ratelimit_cache_new(3);
    return cache ? 0 : -1;
}

static int free_cache(void **state)
{
    ratelimit_cache_free(cache);
    return 0;
}

static void put(const char *ns, const char *name, int64_t limit)
{
    const cached_policy policy = {.exists = true, .spec = {.limit = limit}};

    ratelimit_cache_put(cache, lks_rpc_slice_of(ns), name, &policy);
}

/* The limit that is known of a name; 0: nothing. */
static int64_t known(const char *ns, const char *name)
{
    const cached_policy *policy = ratelimit_cache_find(cache, lks_rpc_slice_of(ns), name);

    return policy ? policy->spec.limit : 0;
}

TEST(a_name_is_of_its_namespace)
{
    static const char *const others[][2] = {{"b", "x"}, {"a", "y"}, {"", "ax"}, {"ax", ""}, {"a", "xx"}};
    for (int64_t n = 1; n <= 60; n++) { /* wherever their buckets are */
        char name[8] = {'x', (char)('A' + n), '\0'};
        put("a", name, n);
        assert_int_equal(known("a", name), n);
        assert_int_equal(known("b", name), 0);
        assert_int_equal(known("a", "x"), 0);
        put("b", name, n + 100);
        assert_int_equal(known("a", name), n);
        assert_int_equal(known("b", name), n + 100);
    }
    put("a", "x", 1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(known(others[i][0], others[i][1]), 0);
    put("a", "x", 2);
    assert_int_equal(known("a", "x"), 2);
}

TEST(the_least_recently_used_goes)
{
    put("a", "1", 1);
    put("a", "2", 2);
    put("a", "3", 3);
    assert_int_equal(known("a", "1"), 1);
    put("a", "4", 4);
    assert_int_equal(known("a", "2"), 0);
    assert_int_equal(known("a", "1"), 1);
    assert_int_equal(known("a", "3"), 3);
    assert_int_equal(known("a", "4"), 4);
    put("a", "5", 5);
    assert_int_equal(known("a", "1"), 0);
}

TEST(what_is_forgotten_makes_room)
{
    put("a", "1", 1);
    put("a", "2", 2);
    put("a", "3", 3);
    ratelimit_cache_forget(cache, lks_rpc_slice_of("a"), "2");
    ratelimit_cache_forget(cache, lks_rpc_slice_of("a"), "never");
    assert_int_equal(known("a", "2"), 0);
    put("a", "4", 4);
    assert_int_equal(known("a", "1"), 1);
    assert_int_equal(known("a", "3"), 3);
    ratelimit_cache_forget(cache, lks_rpc_slice_of("a"), "1");
    ratelimit_cache_forget(cache, lks_rpc_slice_of("a"), "3");
    ratelimit_cache_forget(cache, lks_rpc_slice_of("a"), "4");
    put("a", "5", 5);
    assert_int_equal(known("a", "5"), 5);
}

TEST_MAIN(.setup = new_cache, .teardown = free_cache)
