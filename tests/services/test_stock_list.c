/* ListItems: a group in order, a namespace without. */
#include "stock_script.h"

static const lks_list_items_response *list(const char *group, const char *prefix, int32_t size, const char *token)
{
    return ask(list_items, .group = group, .prefix = prefix, .page_size = size, .page_token = token);
}

/* "group/sku group/sku ..." of one page. */
static const char *page(const lks_list_items_response *response)
{
    static char got[4096];
    size_t len = 0;

    got[0] = '\0';
    if (!response)
        fail_msg("ListItems: %s", err.message);
    for (size_t i = 0; i < response->n_items; i++)
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%s/%s", i > 0 ? " " : "", response->items[i]->group,
                                response->items[i]->sku);
    return got;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All pages of a namespace, sorted, each item once; no page over its size. */
static const char *all_pages(const char *prefix, int32_t size)
{
    static char got[65536];
    char *found[2048];
    size_t n = 0;
    const char *token = "";
    size_t len = 0;

    do {
        const lks_list_items_response *response = list("", prefix, size, token);
        if (!response)
            fail_msg("ListItems: %s", err.message);
        assert_true(size == 0 || response->n_items <= (size_t)size);
        for (size_t i = 0; i < response->n_items; i++) {
            char item[300];
            snprintf(item, sizeof item, "%s/%s:%lld", response->items[i]->group, response->items[i]->sku,
                     (long long)response->items[i]->available);
            assert_true(n < 2048);
            found[n++] = strdup(item);
        }
        token = response->next_page_token;
    } while (token[0] != '\0');
    qsort(found, n, sizeof *found, by_text);
    got[0] = '\0';
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(found[i], found[i - 1]) != 0)
            len += (size_t)snprintf(got + len, sizeof got - len, "%s%s", i > 0 ? " " : "", found[i]);
    for (size_t i = 0; i < n; i++)
        free(found[i]);
    return got;
}

TEST(a_group_in_the_order_of_its_skus)
{
    assert_string_equal(page(list("g", "", 0, "")), "");
    put_item("g", "b", 1);
    put_item("g", "a", 2);
    put_item("g", "{", 3);
    put_item("g", "é", 4);
    put_item("g", "Z", 5);
    put_item("other", "c", 6);
    const lks_list_items_response *response = list("g", "", 0, "");
    assert_string_equal(page(response), "g/Z g/a g/b g/{ g/é");
    assert_string_equal(response->next_page_token, "");
    assert_int_equal(response->items[1]->available, 2);
    assert_true(delete_item("g", "b"));
    assert_string_equal(page(list("g", "", 0, "")), "g/Z g/a g/{ g/é");
}

TEST(a_group_page_by_page)
{
    put_item("g", "a", 1);
    put_item("g", "a b", 1);
    put_item("g", "a%", 1);
    put_item("g", "b", 1);
    const lks_list_items_response *response = list("g", "", 2, "");
    assert_string_equal(page(response), "g/a g/a b");
    /* What comes and goes between pages does not disturb the others. */
    delete_item("g", "a b");
    put_item("g", "a a", 1);
    put_item("g", "a c", 1);
    response = list("g", "", 2, response->next_page_token);
    assert_string_equal(page(response), "g/a c g/a%");
    response = list("g", "", 2, response->next_page_token);
    assert_string_equal(page(response), "g/b");
    assert_string_equal(response->next_page_token, "");
    /* A page that ends with the last item is the last. */
    response = list("g", "", 5, "");
    assert_int_equal(response->n_items, 5);
    assert_string_equal(response->next_page_token, "");
}

TEST(a_group_by_prefix)
{
    put_item("g", "a", 1);
    put_item("g", "a*", 1);
    put_item("g", "a*b", 1);
    put_item("g", "ab", 1);
    put_item("g", "b", 1);
    assert_string_equal(page(list("g", "a*", 0, "")), "g/a* g/a*b");
    const lks_list_items_response *response = list("g", "a", 2, "");
    assert_string_equal(page(response), "g/a g/a*");
    response = list("g", "a", 2, response->next_page_token);
    assert_string_equal(page(response), "g/a*b g/ab");
    assert_string_equal(response->next_page_token, "");
}

TEST(a_namespace_over_all_groups)
{
    put_item("", "a", 1);
    put_item("g", "a", 2);
    put_item("g/x}", "a:b", 3);
    put_item("g", "b", 4);
    put_limited("g", "a?", 5, 3);
    deduct("g", "order", "bob", "a?:1");
    adjust("g", "a", 1, "adj");
    harness_namespace(h, "def*");
    put_item("g", "a", 7);
    harness_namespace(h, "defaul");
    put_item("g", "t", 7);
    harness_namespace(h, "other");
    put_item("g", "a", 7);
    harness_namespace(h, "default");
    for (int32_t size = 0; size < 5; size++) {
        assert_string_equal(all_pages("", size), "a/a:1 g/a:3 g/a?:4 g/b:4 g/x}/a:b:3");
        assert_string_equal(all_pages("a", size), "a/a:1 g/a:3 g/a?:4 g/x}/a:b:3");
        assert_string_equal(all_pages("a?", size), "g/a?:4");
        assert_string_equal(all_pages("*", size), "");
    }
    harness_namespace(h, "def*");
    assert_string_equal(all_pages("", 0), "g/a:7");
}

TEST(a_namespace_of_many_keys)
{
    enum { GROUPS = 3, SKUS = 400 };
    char *expected[GROUPS * SKUS];
    static char all[65536];
    size_t len = 0;

    for (int g = 0; g < GROUPS; g++) {
        for (int s = 0; s < SKUS; s++) {
            char group[8], sku[8], item[32];
            snprintf(group, sizeof group, "g%d", g);
            snprintf(sku, sizeof sku, "s%d", s);
            put_item(group, sku, s);
            snprintf(item, sizeof item, "%s/%s:%d", group, sku, s);
            expected[g * SKUS + s] = strdup(item);
        }
        harness_forget(h);
    }
    /* Far more keys than a call looks at. */
    harness_redis(h, "EVAL %s 0", "for i = 1, 30000 do redis.call('SET', 'ls:{default/g}:stock:o:' .. i, '') end");
    qsort(expected, GROUPS * SKUS, sizeof *expected, by_text);
    for (size_t i = 0; i < GROUPS * SKUS; i++) {
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i > 0 ? " " : "", expected[i]);
        free(expected[i]);
    }
    assert_string_equal(all_pages("", 0), all);
    assert_string_equal(all_pages("", 7), all);
    /* A call with nothing to show still ends, and says that there is more. */
    const lks_list_items_response *response = list("", "nothing", 0, "");
    assert_int_equal(response->n_items, 0);
    assert_true(response->next_page_token[0] != '\0');
}

/* Neither a pattern, nor what other names hold. */
TEST(a_prefix_is_only_a_prefix)
{
    put_item("g", "a", 3);
    put_item("g", "[a]b", 2);
    put_item("g", "x}:stock:i:ab", 1);
    deduct("g", "o}:stock:i:ac", "", "a:1");
    assert_string_equal(list("", "[a]", 0, "")->items[0]->sku, "[a]b");
    const lks_list_items_response *response = list("", "a", 0, "");
    assert_int_equal(response->n_items, 1);
    assert_string_equal(response->items[0]->sku, "a");
    assert_int_equal(list("", "", 0, "")->n_items, 3);
}

TEST(foreign_data_is_not_listed)
{
    put_item("g", "a", 1);
    harness_redis(h, "SET ls:{default/g}:stock:i:b x");
    harness_redis(h, "HSET ls:{default/g}:stock:i:c x y");
    harness_redis(h, "HSET ls:{default/g}:other:i:d available 1");
    assert_string_equal(all_pages("", 0), "g/a:1");
}

TEST(a_page_token_is_checked)
{
    static const char *const of_group[] = {"x", "G", "Ga b", "G%4", "G%41", "G%e9", "N0", "g"};
    static const char *const of_namespace[] = {"x",
                                               "X0",
                                               "N",
                                               "Nx",
                                               "N:",
                                               "N0:",
                                               "N0:g",
                                               "N0:/a",
                                               "N0:g/",
                                               "N0:g/a:",
                                               "N0:g/%41",
                                               "N0:g/a}",
                                               "N0:{x/g/a",
                                               "Ga",
                                               "N 0",
                                               "N-1",
                                               "N000000000000000000001",
                                               "N0:g/a/b"};

    put_item("g", "a", 1);
    for (size_t i = 0; i < sizeof of_group / sizeof of_group[0]; i++) {
        assert_null(list("g", "", 0, of_group[i]));
        expect_error(LKS_INVALID_ARGUMENT, "page_token");
    }
    for (size_t i = 0; i < sizeof of_namespace / sizeof of_namespace[0]; i++) {
        if (list("", "", 0, of_namespace[i]))
            fail_msg("the page token %s was taken", of_namespace[i]);
        expect_error(LKS_INVALID_ARGUMENT, "page_token");
    }
    /* A made-up one leads nowhere else than into the caller's namespace. */
    harness_namespace(h, "other");
    put_item("g", "b", 1);
    harness_namespace(h, "default");
    assert_string_equal(page(list("", "", 0, "N:g/b")), "");
    assert_string_equal(page(list("", "", 0, "N:g/a")), "g/a");
}

/* A page of a thousand is made in steps; a name space's is a step long. */
TEST(a_large_page_is_made_in_steps)
{
    char sku[16];

    for (int i = 0; i < 1010; i++) {
        snprintf(sku, sizeof sku, "s%04d", i);
        put_item("g", sku, i);
    }
    harness_redis(h, "CONFIG RESETSTAT");
    const lks_list_items_response *all = list("g", "", 1000, "");
    assert_int_equal(harness_commands(h, "fcall"), 4);
    assert_int_equal(all->n_items, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(all->items[i]->available, i);
    assert_int_equal(list("g", "", 1000, all->next_page_token)->n_items, 10);
    assert_int_equal(list("g", "s1", 1000, "")->n_items, 10);
    assert_in_range(list("", "", 1000, "")->n_items, 1, 250);
}

/* What a caller makes up is not looked at without end. */
TEST(a_page_token_has_a_bounded_number_of_places)
{
    static char token[4 * 501 + 2] = "N";

    for (int i = 0; i < 501; i++)
        strcat(token, ":g/a");
    assert_null(list("", "", 0, token));
    expect_error(LKS_INVALID_ARGUMENT, "page_token");
    token[strlen(token) - 4] = '\0';
    assert_non_null(list("", "", 0, token));
}

/* A scan takes its time: others are not kept waiting behind several. */
TEST(scans_travel_alone)
{
    const lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;
    lks_rpc_arena *arena = lks_rpc_arena_new();
    const service *s;
    const service_method *method = method_for(&request, &s);
    plan p = {.arena = arena, .method = method->method, .ns = lks_rpc_slice_of("default")};

    method->prepare(&request.base, &p);
    assert_int_equal(p.n_calls, 1);
    assert_int_equal(p.calls[0].weight, STORE_WEIGHT_MAX);
    lks_rpc_arena_free(arena);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
