/* The fields that guards read from a request. */
/* promise GD1 */

#include "host/guard/keys.h"
#include "guarded.pb-c.h"
#include "presence.pb-c.h"
#include "test.h"

typedef Lockstock__Test__BuyRequest buy_request;
typedef Lockstock__Test__BuyRequest__QuantitiesEntry quantity;
typedef Lockstock__Test__Place place;

enum { BYTES_MAX = 32 };

static char a[] = "a", b[] = "b", colons[] = "50%:b", empty[] = "";

#define PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_key(const buy_request *request, const char *const *paths, const char *prefix, const char *key)
{
    lks_error error = {0};
    char *text = NULL;

    if (guard_key(&request->base, paths, prefix, BYTES_MAX, &text, &error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_string_equal(text, key);
    free(text);
}

static void expect_refusal(const buy_request *request, const char *const *paths, const char *message)
{
    lks_error error = {0};
    char *text;

    assert_int_equal(guard_key(&request->base, paths, "", BYTES_MAX, &text, &error), LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, message);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
}

TEST(single_value_is_the_unchanged_key)
{
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;

    request.order_id = colons;
    expect_key(&request, PATHS("order_id"), "", "50%:b");
    expect_key(&request, PATHS("order_id"), "g:", "g::50%:b");
}

TEST(several_values_are_joined_so_that_others_never_give_the_same)
{
    char *items[] = {colons, a};
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;

    request.order_id = colons;
    request.buyer_id = b;
    expect_key(&request, PATHS("order_id", "buyer_id"), "", "50%25%3Ab:b");
    expect_key(&request, PATHS("buyer_id", "order_id"), "g", "g:b:50%25%3Ab");
    request.items = items;
    request.n_items = 1;
    expect_key(&request, PATHS("items"), "", "50%25%3Ab");
    request.n_items = 2;
    expect_key(&request, PATHS("items"), "", "50%25%3Ab:a");
}

TEST(each_kind_of_value_has_a_text)
{
    uint8_t raw[] = {0x00, 0xab, 0x7f};
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;

    request.raw = (ProtobufCBinaryData){.len = sizeof raw, .data = raw};
    request.number = UINT64_MAX;
    request.below = INT64_MIN;
    request.code = -7;
    request.doing = LOCKSTOCK__TEST__DOING__DOING_WAIT;
    request.bytes = 5000000000;
    expect_key(&request, PATHS("raw"), "", "00ab7f");
    expect_key(&request, PATHS("number"), "", "18446744073709551615");
    expect_key(&request, PATHS("below"), "", "-9223372036854775808");
    expect_key(&request, PATHS("code", "doing", "bytes"), "", "-7:3:5000000000");
    request.choice_case = LOCKSTOCK__TEST__BUY_REQUEST__CHOICE_SMALL;
    request.small = 1;
    expect_key(&request, PATHS("small"), "", "1");
    expect_refusal(&request, PATHS("word"), "word: must be set, because it is a key of the guard");
}

TEST(a_path_leads_through_messages_and_maps)
{
    place here = LOCKSTOCK__TEST__PLACE__INIT, there = here, *places[] = {&here, &there};
    quantity one = LOCKSTOCK__TEST__BUY_REQUEST__QUANTITIES_ENTRY__INIT, *quantities[] = {&one};
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;

    expect_refusal(&request, PATHS("place.street"), "place.street: must be set, because it is a key of the guard");
    expect_refusal(&request, PATHS("places.street"), "places.street: must be set, because it is a key of the guard");
    here.street = a;
    one.key = b;
    one.value = 3;
    request.place = &here;
    request.places = places;
    request.n_places = 2;
    request.quantities = quantities;
    request.n_quantities = 1;
    expect_key(&request, PATHS("place.street"), "", "a");
    expect_refusal(&request, PATHS("places.street"), "places.street: must be set, because it is a key of the guard");
    there.street = colons;
    expect_key(&request, PATHS("places.street"), "", "a:50%25%3Ab");
    expect_key(&request, PATHS("quantities.key", "quantities.value"), "", "b::3");
    expect_key(&request, PATHS("place.street", "places.street"), "", "a:a:50%25%3Ab");
}

/* [a] [b a] and [a b] [a]. */
TEST(values_of_one_path_are_not_taken_for_those_of_the_next)
{
    char *one[] = {a}, *two[] = {a, b};
    place first = LOCKSTOCK__TEST__PLACE__INIT, second = first, *places[] = {&first, &second};
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;

    first.street = b;
    second.street = a;
    request.items = one;
    request.n_items = 1;
    request.places = places;
    request.n_places = 2;
    expect_key(&request, PATHS("items", "places.street"), "g", "g:a::b:a");
    request.items = two;
    request.n_items = 2;
    request.places = places + 1;
    request.n_places = 1;
    expect_key(&request, PATHS("items", "places.street"), "g", "g:a:b::a");
}

/* proto2: a default is not a value that the caller set. */
TEST(a_field_that_is_absent_is_not_set_although_it_has_a_default)
{
    Lockstock__Test__Presence request = LOCKSTOCK__TEST__PRESENCE__INIT;
    static const char *const paths[] = {"id", "number", "key", "wait_ms"};
    char id[] = "none", *text = NULL;
    lks_error error;

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(guard_key(&request.base, PATHS(paths[i]), "", BYTES_MAX, &text, &error), LKS_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, "must be set, because it is a key of the guard"));
    }
    request.id = id;
    request.has_number = request.has_wait_ms = true;
    request.must = 3;
    assert_int_equal(guard_key(&request.base, PATHS("id", "number", "wait_ms", "must"), "", BYTES_MAX, &text, &error),
                     LKS_OK);
    assert_string_equal(text, "none:7:2500:3");
    free(text);
}

TEST(unset_or_too_long_key_is_refused_by_its_path)
{
    char *items[] = {a, empty};
    char text[BYTES_MAX + 2] = "";
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;
    static const char *const numbers[] = {"raw", "number", "below", "code", "doing", "bytes", "order_id", "items"};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char message[64];

        snprintf(message, sizeof message, "%s: must be set, because it is a key of the guard", numbers[i]);
        expect_refusal(&request, PATHS(numbers[i]), message);
    }
    request.items = items;
    request.n_items = 2;
    expect_refusal(&request, PATHS("items"), "items: must be set, because it is a key of the guard");
    memset(text, 'x', BYTES_MAX);
    request.order_id = text;
    expect_key(&request, PATHS("order_id"), "", text);
    text[BYTES_MAX] = 'x';
    expect_refusal(&request, PATHS("order_id"), "order_id: too long; the key of the guard may have at most 32 bytes");
    text[BYTES_MAX - 2] = '\0';
    request.buyer_id = a;
    expect_key(&request, PATHS("order_id", "buyer_id"), "", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx:a");
    text[0] = '%';
    expect_refusal(&request, PATHS("order_id", "buyer_id"),
                   "buyer_id: too long; the key of the guard may have at most 32 bytes");
}

TEST(names_are_in_order_and_each_once)
{
    char *items[] = {b, colons, a, b};
    char *names[GUARD_NAMES_MAX];
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;
    size_t n;

    request.items = items;
    request.n_items = 4;
    request.order_id = a;
    assert_int_equal(guard_names(&request.base, PATHS("items", "order_id"), "s", BYTES_MAX, names, &n, NULL), LKS_OK);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "s:50%:b");
    assert_string_equal(names[1], "s:a");
    assert_string_equal(names[2], "s:b");
    while (n > 0)
        free(names[--n]);
}

/* ---- fingerprints ---- */

static const lks_rpc_method buy = {.path = "/Buy"}, sell = {.path = "/Sell"};

static bool same(const lks_rpc_method *left_method, buy_request *left, const lks_rpc_method *right_method,
                 buy_request *right)
{
    uint8_t of_left[GUARD_FINGERPRINT_BYTES], of_right[GUARD_FINGERPRINT_BYTES];

    guard_order_maps(&left->base);
    guard_order_maps(&right->base);
    assert_int_equal(guard_fingerprint(left_method, &left->base, of_left, NULL), LKS_OK);
    assert_int_equal(guard_fingerprint(right_method, &right->base, of_right, NULL), LKS_OK);
    return memcmp(of_left, of_right, sizeof of_left) == 0;
}

/* promise GD2 */
TEST(a_fingerprint_is_of_the_method_and_the_whole_request)
{
    buy_request one = LOCKSTOCK__TEST__BUY_REQUEST__INIT, other = one;

    assert_true(same(&buy, &one, &buy, &other));
    assert_false(same(&buy, &one, &sell, &other));
    other.bytes = 1;
    assert_false(same(&buy, &one, &buy, &other));
}

/* promise GD2: a repeat is the same request to the same method, maps in any order; with key_alone the key counts */
TEST(the_order_of_a_maps_entries_does_not_count_and_that_of_a_list_does)
{
    quantity first = LOCKSTOCK__TEST__BUY_REQUEST__QUANTITIES_ENTRY__INIT, second = first;
    quantity *forth[] = {&first, &second}, *back[] = {&second, &first};
    char *items[] = {a, b}, *items_back[] = {b, a};
    place here = LOCKSTOCK__TEST__PLACE__INIT, there = here, *places[] = {&here, &there},
          *places_back[] = {&there, &here};
    buy_request one = LOCKSTOCK__TEST__BUY_REQUEST__INIT, other = one;

    first.key = a;
    second.key = b;
    second.value = 2;
    one.n_quantities = other.n_quantities = 2;
    one.quantities = forth;
    other.quantities = back;
    assert_true(same(&buy, &one, &buy, &other));
    expect_key(&one, PATHS("quantities.key"), "", "a:b");
    expect_key(&other, PATHS("quantities.key"), "", "a:b");
    one.n_items = other.n_items = 2;
    one.items = items;
    other.items = items_back;
    assert_false(same(&buy, &one, &buy, &other));
    other.items = items;
    assert_true(same(&buy, &one, &buy, &other));
    here.street = a;
    there.street = b;
    one.n_places = other.n_places = 2;
    one.places = places;
    other.places = places_back;
    assert_false(same(&buy, &one, &buy, &other));
}

/* Their keys are NULL: protobuf-c leaves an unsent key of proto2 so. */
TEST(entries_without_a_key_are_ordered_like_others)
{
    quantity none = LOCKSTOCK__TEST__BUY_REQUEST__QUANTITIES_ENTRY__INIT, one_more = none, with = none;
    quantity *forth[] = {&with, &none, &one_more}, *back[] = {&none, &one_more, &with};
    buy_request one = LOCKSTOCK__TEST__BUY_REQUEST__INIT, other = one;

    none.key = one_more.key = NULL;
    with.key = a;
    one.n_quantities = other.n_quantities = 3;
    one.quantities = forth;
    other.quantities = back;
    assert_true(same(&buy, &one, &buy, &other));
}

TEST(a_list_of_messages_that_look_like_entries_keeps_its_order)
{
    Lockstock__Test__LogEntry first = LOCKSTOCK__TEST__LOG_ENTRY__INIT, second = first, *forth[] = {&first, &second},
                              *back[] = {&second, &first};
    buy_request one = LOCKSTOCK__TEST__BUY_REQUEST__INIT, other = one;

    first.key = a;
    second.key = b;
    one.n_logs = other.n_logs = 2;
    one.logs = forth;
    other.logs = back;
    assert_false(same(&buy, &one, &buy, &other));
    expect_key(&other, PATHS("logs.key"), "", "b:a");
}

TEST_MAIN()
