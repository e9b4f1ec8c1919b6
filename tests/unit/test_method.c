/* Properties derived from a method's table entry and a request. */

#include <lockstock/rpc/method.h>

#include "method.pb-c.h"
#include "presence.pb-c.h"
#include "test.h"

typedef Lockstock__Test__Order order;
typedef Lockstock__Test__Item item;
typedef Lockstock__Test__Presence presence;

static lks_rpc_method method = {
    .path = "/lockstock.test.Shop/Buy",
    .request = &lockstock__test__order__descriptor,
    .response = &lockstock__test__order__descriptor,
    .effect = LKS_RPC_EFFECT_WRITE,
};

static bool may_repeat(const char *natural_id, const order *request)
{
    method.effect = LKS_RPC_EFFECT_WRITE;
    method.natural_id = natural_id;
    return lks_rpc_may_repeat(&method, &request->base);
}

TEST(only_reads_and_calls_with_an_id_are_repeated)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    assert_false(may_repeat(NULL, &request));
    assert_false(may_repeat("id", &request));
    assert_false(may_repeat("no_such_field", &request));
    request.id = "";
    assert_false(may_repeat("id", &request));
    request.id = "x";
    assert_true(may_repeat("id", &request));
    method.effect = LKS_RPC_EFFECT_READ;
    method.natural_id = NULL;
    assert_true(lks_rpc_may_repeat(&method, &request.base));
    method.effect = LKS_RPC_EFFECT_ADMIN;
    assert_false(lks_rpc_may_repeat(&method, &request.base));
}

TEST(an_id_may_be_of_any_type)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    assert_false(may_repeat("fence", &request));
    assert_false(may_repeat("key", &request));
    assert_false(may_repeat("small", &request));
    assert_false(may_repeat("first", &request));
    assert_false(may_repeat("word", &request));
    request.fence = UINT64_C(1) << 40;
    request.key = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"k"};
    request.small = true;
    item first = LOCKSTOCK__TEST__ITEM__INIT;
    request.first = &first;
    request.choice_case = LOCKSTOCK__TEST__ORDER__CHOICE_WORD;
    request.word = "w";
    assert_true(may_repeat("fence", &request));
    assert_true(may_repeat("key", &request));
    assert_true(may_repeat("small", &request));
    assert_true(may_repeat("first", &request));
    assert_true(may_repeat("word", &request));
    /* Another member of the oneof shares its memory. */
    request.choice_case = LOCKSTOCK__TEST__ORDER__CHOICE_NUMBER;
    request.number = 7;
    assert_false(may_repeat("word", &request));
    assert_true(may_repeat("number", &request));
}

TEST(an_id_may_lie_deeper)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    item one = LOCKSTOCK__TEST__ITEM__INIT, two = LOCKSTOCK__TEST__ITEM__INIT;
    item *items[] = {&one, &two};
    assert_false(may_repeat("first.name", &request));
    request.first = &one;
    assert_false(may_repeat("first.name", &request));
    one.name = "x";
    assert_true(may_repeat("first.name", &request));
    assert_false(may_repeat("id.name", &request));
    /* Of a repeated message, in every element, of which there is one. */
    assert_false(may_repeat("items.name", &request));
    request.n_items = 2;
    request.items = items;
    assert_false(may_repeat("items.name", &request));
    two.name = "y";
    assert_true(may_repeat("items.name", &request));
}

TEST(only_an_empty_string_is_filled)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    method.natural_id = "id";
    method.fill = LKS_RPC_FILL_NONE;
    assert_null(lks_rpc_field_to_fill(&method, &request.base));
    method.fill = LKS_RPC_FILL_RANDOM;
    assert_ptr_equal(lks_rpc_field_to_fill(&method, &request.base), &request.id);
    request.id = "x";
    assert_null(lks_rpc_field_to_fill(&method, &request.base));
    request.id = NULL;
    assert_ptr_equal(lks_rpc_field_to_fill(&method, &request.base), &request.id);
    static const char *const none[] = {"fence", "names", "no_such_field", NULL};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        method.natural_id = none[i];
        assert_null(lks_rpc_field_to_fill(&method, &request.base));
    }
    method.fill = LKS_RPC_FILL_NONE;
}

TEST(the_wait_is_read_by_convention)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    item other = LOCKSTOCK__TEST__ITEM__INIT;
    lks_rpc_method without = method;
    without.request = &lockstock__test__item__descriptor;
    assert_int_equal(lks_rpc_wait_ms(&without, &other.base), 0);
    assert_int_equal(lks_rpc_wait_ms(&method, &request.base), 0);
    request.wait_ms = 1500;
    assert_int_equal(lks_rpc_wait_ms(&method, &request.base), 1500);
    request.wait_ms = -1;
    assert_int_equal(lks_rpc_wait_ms(&method, &request.base), 0);
}

/* promise CH14 */
TEST(undo_request_copies_fields_of_the_call)
{
    static const lks_rpc_method undoing = {.request = &lockstock__test__order__descriptor};
    const lks_rpc_undo_field fields[] = {
        {"id", (const char *const[]){"word", "items.name", NULL}},
        {"word", (const char *const[]){"id", NULL}},  /* of a oneof, which it does not select */
        {"fence", (const char *const[]){"id", NULL}}, /* no string, as the next two */
        {"names", (const char *const[]){"id", NULL}},
        {"nothing", (const char *const[]){"id", NULL}},
    };
    const lks_rpc_undo undo = {&undoing, sizeof fields / sizeof *fields, fields};
    lks_rpc_method undone = {.request = &lockstock__test__order__descriptor};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    item one = LOCKSTOCK__TEST__ITEM__INIT, two = LOCKSTOCK__TEST__ITEM__INIT;
    item *items[] = {&one, &two};

    assert_null(lks_rpc_undo_request(&undone, &request.base));
    undone.undo = &undo;
    request.id = "an id";
    one.name = "one";
    two.name = "two";
    request.items = items;
    for (size_t n = 0; n <= 3; n++) { /* the last: the first path is set too */
        request.n_items = n < 3 ? n : 1;
        request.choice_case = n < 3 ? LOCKSTOCK__TEST__ORDER__CHOICE__NOT_SET : LOCKSTOCK__TEST__ORDER__CHOICE_WORD;
        if (n == 3)
            request.word = "word";
        order *made = (order *)(void *)lks_rpc_undo_request(&undone, &request.base);
        assert_non_null(made);
        assert_string_equal(made->id, n == 1 ? "one" : n == 3 ? "word" : "");
        assert_int_equal(made->choice_case, LOCKSTOCK__TEST__ORDER__CHOICE__NOT_SET);
        assert_int_equal(made->fence, 0);
        assert_int_equal(made->n_names, 0);
        assert_int_equal(protobuf_c_message_get_packed_size(&made->base), n == 1 ? 5 : n == 3 ? 6 : 0);
        free(made);
    }
}

/* proto2: a value without its `has_`, and a default, are not sent. */
/* promise CH5 */
TEST(only_a_field_that_is_sent_is_an_id)
{
    lks_rpc_method of_presence = {
        .request = &lockstock__test__presence__descriptor, .effect = LKS_RPC_EFFECT_WRITE, .fill = LKS_RPC_FILL_RANDOM};
    presence request = LOCKSTOCK__TEST__PRESENCE__INIT;
    of_presence.natural_id = "number";
    assert_false(lks_rpc_may_repeat(&of_presence, &request.base));
    request.number = 12;
    assert_false(lks_rpc_may_repeat(&of_presence, &request.base));
    request.has_number = true;
    assert_true(lks_rpc_may_repeat(&of_presence, &request.base));
    request.number = 0;
    assert_true(lks_rpc_may_repeat(&of_presence, &request.base));

    of_presence.natural_id = "key";
    request.key = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"k"};
    assert_false(lks_rpc_may_repeat(&of_presence, &request.base));
    request.has_key = true;
    assert_true(lks_rpc_may_repeat(&of_presence, &request.base));
    request.key.len = 0;
    assert_false(lks_rpc_may_repeat(&of_presence, &request.base));

    of_presence.natural_id = "must";
    assert_false(lks_rpc_may_repeat(&of_presence, &request.base));
    request.must = 1;
    assert_true(lks_rpc_may_repeat(&of_presence, &request.base));

    of_presence.natural_id = "id";
    assert_string_equal(request.id, "none");
    assert_false(lks_rpc_may_repeat(&of_presence, &request.base));
    assert_ptr_equal(lks_rpc_field_to_fill(&of_presence, &request.base), &request.id);
    request.id = "mine";
    assert_true(lks_rpc_may_repeat(&of_presence, &request.base));
    assert_null(lks_rpc_field_to_fill(&of_presence, &request.base));
}

/* promise CH5: proto2: an id that is not sent is none; a wait that is not sent is its default */
TEST(a_wait_that_is_not_sent_is_its_default)
{
    lks_rpc_method of_presence = {.request = &lockstock__test__presence__descriptor};
    presence request = LOCKSTOCK__TEST__PRESENCE__INIT;
    request.wait_ms = 99;
    assert_int_equal(lks_rpc_wait_ms(&of_presence, &request.base), 2500);
    request.has_wait_ms = true;
    assert_int_equal(lks_rpc_wait_ms(&of_presence, &request.base), 99);
    request.wait_ms = 0;
    assert_int_equal(lks_rpc_wait_ms(&of_presence, &request.base), 0);
}

/* promise CH4: a field is false in later tries by the option first_try, not by its name */
TEST(a_second_try_says_that_it_is_one)
{
    lks_rpc_method of_presence = {.request = &lockstock__test__presence__descriptor};
    lks_rpc_method of_order = method;
    presence request = LOCKSTOCK__TEST__PRESENCE__INIT;
    order other = LOCKSTOCK__TEST__ORDER__INIT;
    other.small = true;
    assert_false(lks_rpc_end_first_try(&of_order, &other.base));
    assert_true(other.small);
    of_order.first_try = "small";
    assert_true(lks_rpc_end_first_try(&of_order, &other.base));
    assert_false(other.small);
    assert_false(lks_rpc_end_first_try(&of_order, &other.base));
    static const char *const none[] = {"id", "names", "no_such_field"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        of_order.first_try = none[i];
        assert_false(lks_rpc_end_first_try(&of_order, &other.base));
    }

    /* A default of true has to be contradicted aloud. */
    of_presence.first_try = "fresh";
    assert_true(lks_rpc_end_first_try(&of_presence, &request.base));
    assert_true(request.has_fresh);
    assert_false(request.fresh);
    of_presence.first_try = "unsure";
    request.unsure = true;
    assert_false(lks_rpc_end_first_try(&of_presence, &request.base)); /* it is not sent */
    request.has_unsure = true;
    assert_true(lks_rpc_end_first_try(&of_presence, &request.base));
}

TEST(random_ids_use_their_whole_alphabet_and_differ)
{
    enum { IDS = 10000, EXPECTED = IDS * LKS_RPC_RANDOM_ID_LEN / 36 };
    char before[LKS_RPC_RANDOM_ID_LEN + 1] = "";
    size_t seen[256] = {0};
    for (int i = 0; i < IDS; i++) {
        char id[LKS_RPC_RANDOM_ID_LEN + 1];
        lks_rpc_random_id(id);
        assert_int_equal(strlen(id), LKS_RPC_RANDOM_ID_LEN);
        assert_string_not_equal(id, before);
        memcpy(before, id, sizeof id);
        for (size_t k = 0; k < LKS_RPC_RANDOM_ID_LEN; k++)
            seen[(unsigned char)id[k]]++;
    }
    for (int c = 0; c < 256; c++) {
        bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
        /* 9.6 standard deviations are allowed. */
        assert_true(letter ? seen[c] > EXPECTED * 9 / 10 && seen[c] < EXPECTED * 11 / 10 : seen[c] == 0);
    }
    /* 256 byte values do not divide evenly: the first four would be more frequent, by 11 standard deviations. */
    size_t first_four = seen['0'] + seen['1'] + seen['2'] + seen['3'];
    assert_true(first_four < 4 * EXPECTED * 106 / 100);
}

TEST_MAIN()
