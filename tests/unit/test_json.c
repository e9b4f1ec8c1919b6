/* The JSON mapping: refusals and their messages, limits, and printed text. That the
 * mapping is Google's is tested by tests/interop/json_mapping.py. */

#include "json.pb-c.h"
#include "rpc/json/json.h"
#include "scan.pb-c.h"
#include <math.h>

#include "test.h"

typedef Lockstock__Test__Json__Everything everything;

static lks_rpc_arena *arena;
static lks_error error;

static int fill(void **state)
{
    arena = lks_rpc_arena_new();
    return arena ? 0 : -1;
}

static int empty(void **state)
{
    lks_rpc_arena_free(arena);
    return 0;
}

static lks_code parse_as(const ProtobufCMessageDescriptor *type, const char *text, const lks_rpc_scan_limits *limits,
                         void *ret)
{
    lks_error_clear(&error);
    return lks_rpc_json_parse(type, text, strlen(text), limits, arena, ret, &error);
}

static everything *parse(const char *text)
{
    everything *message = NULL;
    lks_code code = parse_as(&lockstock__test__json__everything__descriptor, text, &lks_rpc_scan_defaults, &message);

    if (code != LKS_OK)
        fail_msg("%s: %s", text, error.message);
    return message;
}

static void assert_refused_within(const lks_rpc_scan_limits *limits, const char *text, const char *why)
{
    everything *message = NULL;

    assert_int_equal(parse_as(&lockstock__test__json__everything__descriptor, text, limits, &message),
                     LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, why);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_null(message);
}

static void assert_refused(const char *text, const char *why)
{
    assert_refused_within(&lks_rpc_scan_defaults, text, why);
}

static const char *print(const void *message, lks_rpc_json_options options)
{
    lks_rpc_slice text;

    assert_int_equal(lks_rpc_json_print(message, &options, arena, &text, &error), LKS_OK);
    assert_int_equal(strlen(text.data), text.len);
    return text.data;
}

/* promise J1: an error names its path: "lines[2].sku: unknown field" */
TEST(the_path_of_an_error_is_named)
{
    assert_refused("{\"colour\":1}", "colour: unknown field");
    assert_refused("{\"inners\":[{},{},{\"sku\":1}]}", "inners[2].sku: unknown field");
    assert_refused("{\"inners\":[{},{\"deeper\":{\"name\":5}}]}", "inners[1].deeper.name: must be a string");
    assert_refused("{\"anInt32\":true}", "an_int32: must be a whole number");
    assert_refused("{\"numbers\":[1,null]}", "numbers[1]: must be a whole number");
    assert_refused("{\"innerById\":{\"7\":{\"name\":1}}}", "inner_by_id[\"7\"].name: must be a string");
    assert_refused("{\"countsByName\":{\"a\\nb\":null}}", "counts_by_name[\"a?b\"]: must be a whole number");
    assert_refused("{\"inner\":5}", "inner: must be an object");
    assert_refused("{\"inners\":{}}", "inners: must be an array");
    assert_refused("{\"names\":[]}", "names: must be an object");
    assert_string_equal(error.field, "names");
    assert_refused("[1]", "Everything: must be an object");
    assert_string_equal(error.field, "");
}

TEST(invalid_json_is_reported_with_its_position)
{
    assert_refused("", "line 1, column 0: not JSON: '[' or '{' expected");
    assert_refused("{\n\"word\":", "line 2, column 7: not JSON: unexpected token");
    assert_refused("{} {}", "line 1, column 4: not JSON: end of file expected");
    assert_refused("{\"word\":\"\xff\"}", "line 1, column 9: not JSON: unable to decode byte 0xff");
    assert_refused("{\"word\":\"\\ud800\"}", "line 1, column 16: not JSON: invalid Unicode '\\uD800'");
    assert_refused("{\"anInt32\":01}", "line 1, column 12: not JSON: invalid token");
    assert_refused("{\"anInt32\":1.}", "line 1, column 13: not JSON: invalid token");
    assert_refused("{5:1}", "line 1, column 2: not JSON: string or '}' expected");
    assert_refused("{\"numbers\":[1,2,\n3 4,5]}", "line 2, column 3: not JSON: ']' expected");
}

/* promise J2: a field is given once, by either name, and one field of a oneof */
TEST(duplicate_field_is_refused)
{
    assert_refused("{\"word\":\"a\",\"word\":\"b\"}", "line 1, column 18: not JSON: duplicate object key");
    assert_refused("{\"aBool\":true,\"a_bool\":true}", "a_bool: given twice, by two names");
    assert_refused("{\"word\":\"a\",\"number\":1}", "number: another field of its oneof is set too");
    assert_int_equal(parse("{\"word\":null,\"number\":1}")->choice_case,
                     LOCKSTOCK__TEST__JSON__EVERYTHING__CHOICE_NUMBER);
}

TEST(a_field_has_its_json_name)
{
    static const char text[] =
        "{\"@type\":\"t\",\"a b\\\"c\":\"q\",\"ints\":[{\"$deep\":1}],\"y?\":true,\"n\":{\"k\":7}}";
    const ProtobufCMessageDescriptor *type = &lockstock__test__json__named__descriptor;
    Lockstock__Test__Json__Named *message = NULL;
    Lockstock__Test__Json__Crossed *crossed = NULL;

    assert_int_equal(parse_as(type, text, &lks_rpc_scan_defaults, &message), LKS_OK);
    assert_string_equal(print(message, (lks_rpc_json_options){0}), text);
    assert_string_equal(print(message->int_[0], (lks_rpc_json_options){.original_names = true}), "{\"deep\":1}");
    assert_int_equal(parse_as(type, "{\"quoted_name\":\"q\"}", &lks_rpc_scan_defaults, &message), LKS_OK);
    assert_int_equal(parse_as(type, "{\"quotedName\":\"q\"}", &lks_rpc_scan_defaults, &message), LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "quotedName: unknown field");
    assert_int_equal(parse_as(&lockstock__test__json__crossed__descriptor, "{\"second\":1,\"third\":2}",
                              &lks_rpc_scan_defaults, &crossed),
                     LKS_OK);
    assert_int_equal(crossed->first, 1);
}

/* promise J3 */
TEST(numbers_are_within_their_type)
{
    assert_refused("{\"anInt32\":2147483648}", "an_int32: out of range");
    assert_refused("{\"anInt32\":-2147483649}", "an_int32: out of range");
    assert_refused("{\"aUint32\":-1}", "a_uint32: out of range");
    assert_refused("{\"aUint32\":4294967296}", "a_uint32: out of range");
    assert_refused("{\"anInt64\":\"9223372036854775808\"}", "an_int64: out of range");
    assert_refused("{\"aUint64\":\"18446744073709551616\"}", "a_uint64: out of range");
    assert_refused("{\"aUint64\":30000000000000000000}", "a_uint64: out of range");
    assert_refused("{\"aUint64\":1e999999999}", "a_uint64: out of range");
    assert_refused("{\"aUint64\":1e-999999999}", "a_uint64: must be a whole number");
    assert_refused("{\"aUint64\":0.1}", "a_uint64: must be a whole number");
    assert_refused("{\"aDouble\":1e999}", "a_double: out of range");
    assert_refused("{\"anInt64\":9007199254740993.5}", "an_int64: must be a whole number");
    assert_refused("{\"word\":5}", "word: must be a string");
    assert_refused("{\"someBytes\":5}", "some_bytes: must be a string, in base64");
    assert_true(parse("{\"anInt64\":9007199254740993.0}")->an_int64 == 9007199254740993);
    assert_true(parse("{\"aUint64\":18446744073709551615}")->a_uint64 == UINT64_MAX);
    assert_true(parse("{\"aUint64\":1844674407370955161.50e1}")->a_uint64 == UINT64_MAX);
    assert_true(parse("{\"anInt64\":100.20E+1}")->an_int64 == 1002);
    assert_true(parse("{\"anInt64\":-0}")->an_int64 == 0 && parse("{\"aUint64\":-0.00e5}")->a_uint64 == 0);
    assert_true(signbit(parse("{\"aDouble\":-0}")->a_double) && signbit(parse("{\"aDouble\":\"-0\"}")->a_double));
    assert_true(signbit(parse("{\"aFloat\":-0}")->a_float) && !signbit(parse("{\"aDouble\":0}")->a_double));
    assert_refused("{\"aUint64\":\"-1\"}", "a_uint64: out of range");
    assert_refused("{\"aUint64\":1.8446744073709552e19}", "a_uint64: out of range");
    assert_refused("{\"anInt64\":0.5}", "an_int64: must be a whole number");
    assert_refused("{\"aFloat\":3.5e38}", "a_float: out of range");
    assert_refused("{\"aDouble\":\"infinity\"}", "a_double: must be a number");
    assert_refused("{\"aDouble\":\" 1\"}", "a_double: must be a number");
    assert_refused("{\"aShape\":2147483648}", "a_shape: out of range");
    assert_true(parse("{\"aUint64\":\"18446744073709551615\"}")->a_uint64 == UINT64_MAX);
    assert_true(parse("{\"anInt64\":\"-9223372036854775808\"}")->an_int64 == INT64_MIN);
    assert_true(parse("{\"aDouble\":\"100000000000000000000\"}")->a_double == 1e20);
    assert_int_equal(parse("{\"anInt32\":1.5e1}")->an_int32, 15);
}

TEST(a_key_of_a_map_has_one_form)
{
    static const char *const bad[] = {"1.0", "01", "-0", "+1", "1e0", " 1", "", "-", "x"};
    char text[64], wanted[96];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "{\"names\":{\"1\":\"a\",\"%s\":\"b\"}}", bad[i]);
        snprintf(wanted, sizeof wanted, "names[\"%s\"]: must be a whole number in decimal digits", bad[i]);
        assert_refused(text, wanted);
    }
    assert_refused("{\"byBool\":{\"1\":1}}", "by_bool[\"1\"]: must be true or false");
    assert_int_equal(parse("{\"names\":{\"1\":\"a\",\"-1\":\"b\",\"0\":\"c\"}}")->n_names, 3);
}

/* The parser marks numbers with that character. */
TEST(a_text_may_begin_with_any_character)
{
    static const char *const texts[] = {"\x7f",
                                        "\x7f"
                                        "5",
                                        "\x7f\x7f",
                                        "\\u007f5",
                                        "\\u007F",
                                        "\x7f\\u007f"};
    static const size_t lens[] = {1, 2, 2, 2, 1, 2};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"word\":\"%s\",\"anInt32\":7}", texts[i]);
        assert_int_equal(strlen(parse(text)->word), lens[i]);
        assert_int_equal(parse(text)->word[0], 0x7f);
        assert_int_equal(parse(text)->an_int32, 7);
    }
    assert_refused("{\"anInt32\":\"\x7f"
                   "5\"}",
                   "an_int32: must be a whole number");
    assert_refused("{\"\x7fword\":\"a\"}", "?word: unknown field");
}

/* promise J3: numbers are within their type; an enum's are its own */
TEST(an_enum_is_closed_unless_the_limits_open_it)
{
    everything *message = NULL;

    assert_refused("{\"aShape\":77}", "a_shape: not a value of the enum");
    assert_refused("{\"aShape\":\"SQUARE\"}", "a_shape: not a value of the enum");
    assert_refused("{\"aShape\":true}", "a_shape: must be a name or a number of the enum");
    assert_int_equal(parse("{\"aShape\":\"SHAPE_MINUS\"}")->a_shape, LOCKSTOCK__TEST__JSON__SHAPE__SHAPE_MINUS);
    assert_int_equal(parse("{\"aShape\":-3}")->a_shape, LOCKSTOCK__TEST__JSON__SHAPE__SHAPE_MINUS);
    assert_int_equal(
        parse_as(&lockstock__test__json__everything__descriptor, "{\"aShape\":77}", &lks_rpc_scan_response, &message),
        LKS_OK);
    assert_string_equal(print(message, (lks_rpc_json_options){0}), "{\"aShape\":77}");
}

/* promise J4: accepted JSON passes the wire scanner: no NUL, depth, elements, lengths */
TEST(text_is_as_the_scanner_wants_it)
{
    const lks_rpc_scan_limits tight = {.depth = 3, .elements = 3, .string_bytes = 4, .bytes_bytes = 4};

    assert_refused("{\"someText\":\"a\\u0000b\"}", "some_text: contains a NUL");
    assert_refused("{\"names\":{\"1\":\"a\\u0000\"}}", "names[\"1\"]: contains a NUL");
    assert_refused("{\"someBytes\":\"a\"}", "some_bytes: not base64");
    assert_refused("{\"someBytes\":\"Y=\"}", "some_bytes: not base64");
    assert_refused("{\"someBytes\":\"YQ==YQ==\"}", "some_bytes: not base64");
    assert_refused_within(&tight, "{\"someText\":\"abcde\"}", "some_text: string too long");
    assert_refused_within(&tight, "{\"someBytes\":\"YWJjZGU=\"}", "some_bytes: too many bytes");
    assert_refused_within(&tight, "{\"someBytes\":\"YWJjZGVmZ2hpamtsbW5vcA==\"}", "some_bytes: too many bytes");
    assert_refused_within(&tight, "{\"numbers\":[1,2,3,4]}", "numbers: too many elements in the whole message");
    assert_refused_within(&tight, "{\"inner\":{},\"numbers\":[1,2,3]}",
                          "numbers: too many elements in the whole message");
    assert_refused_within(&tight, "{\"inners\":[{\"deeper\":{\"deeper\":{}}}]}",
                          "inners[0].deeper.deeper: nested too deep");
    assert_refused_within(&tight, "{\"inner\":{\"deeper\":{\"pairs\":[{}]}}}",
                          "inner.deeper.pairs[0]: nested too deep");
    assert_refused_within(&tight, "{\"names\":{\"1\":\"\",\"2\":\"\",\"3\":\"\",\"4\":\"\"}}",
                          "names: too many elements in the whole message");
    assert_refused_within(&(lks_rpc_scan_limits){.depth = 1, .elements = 9}, "{\"names\":{\"1\":\"\"}}",
                          "names: nested too deep");
}

TEST(depth_of_the_text_itself_is_bounded)
{
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 1);
    everything *message = NULL;

    assert_non_null(text);
    memset(text, '[', DEPTH);
    text[DEPTH] = '\0';
    assert_int_equal(parse_as(&lockstock__test__json__everything__descriptor, text, &lks_rpc_scan_defaults, &message),
                     LKS_INVALID_ARGUMENT);
    free(text);
}

TEST(a_required_field_is_named)
{
    void *message = NULL;

    assert_int_equal(
        parse_as(&lockstock__test__leaf__descriptor, "{\"deeper\":null}", &lks_rpc_scan_defaults, &message),
        LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "name: required and missing");
    assert_int_equal(parse_as(&lockstock__test__leaf__descriptor, "{\"name\":null}", &lks_rpc_scan_defaults, &message),
                     LKS_INVALID_ARGUMENT);
    assert_int_equal(parse_as(&lockstock__test__leaf__descriptor, "{\"name\":\"a\",\"deeper\":{}}",
                              &lks_rpc_scan_defaults, &message),
                     LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "deeper.name: required and missing");
}

TEST(message_is_printed_as_json)
{
    const everything *message =
        parse("{\"anInt64\":-5,\"aDouble\":0.1,\"aFloat\":0.1,\"someText\":\"a\\\"\\u0001\\n\",\"inner\":{},"
              "\"numbers\":[1,2],\"by_bool\":{\"true\":\"NaN\"},\"names\":{\"-1\":\"x\"},\"some_bytes\":\"_-8\"}");

    assert_string_equal(print(message, (lks_rpc_json_options){0}),
                        "{\"anInt64\":\"-5\",\"aFloat\":0.1,\"aDouble\":0.1,\"someText\":\"a\\\"\\u0001\\n\","
                        "\"someBytes\":\"/+8=\",\"inner\":{},\"numbers\":[\"1\",\"2\"],\"names\":{\"-1\":\"x\"},"
                        "\"byBool\":{\"true\":\"NaN\"}}");
    message = parse("{\"an_int32\":1,\"inners\":[{\"name\":\"a\"},{}],\"names\":{\"2\":\"b\"}}");
    assert_string_equal(print(message, (lks_rpc_json_options){.indent = true, .original_names = true}),
                        "{\n  \"an_int32\": 1,\n  \"inners\": [\n    {\n      \"name\": \"a\"\n    },\n    {}\n  ],\n"
                        "  \"names\": {\n    \"2\": \"b\"\n  }\n}");
    assert_string_equal(print(parse("{}"), (lks_rpc_json_options){.indent = true}), "{}");
    assert_string_equal(print(parse("{\"inner\":{\"name\":\"a\"}}")->inner, (lks_rpc_json_options){.defaults = true}),
                        "{\"name\":\"a\",\"pairs\":[]}");
}

TEST(invalid_utf8_is_not_printed)
{
    everything message = LOCKSTOCK__TEST__JSON__EVERYTHING__INIT;
    Lockstock__Test__Json__Inner inner = LOCKSTOCK__TEST__JSON__INNER__INIT, *inners[] = {&inner};
    char text[] = "a\xff";
    lks_rpc_slice printed;

    inner.name = text;
    message.n_inners = 1;
    message.inners = inners;
    assert_int_equal(lks_rpc_json_print(&message.base, &(lks_rpc_json_options){0}, arena, &printed, &error),
                     LKS_INVALID_ARGUMENT);
    assert_string_equal(error.message, "inners[0].name: not valid UTF-8");
}

/* Fields that the wire omits from a map entry are present. */
TEST(an_entry_without_a_value_is_printed_with_one)
{
    const uint8_t wire[] = {0x8a, 0x02, 0x02, 0x08, 0x07}; /* inner_by_id: {key: 7} */
    ProtobufCMessage *message = protobuf_c_message_unpack(&lockstock__test__json__everything__descriptor,
                                                          lks_rpc_arena_allocator(arena), sizeof wire, wire);

    assert_non_null(message);
    assert_string_equal(print(message, (lks_rpc_json_options){0}), "{\"innerById\":{\"7\":{}}}");
}

TEST(the_last_entry_of_a_key_counts)
{
    static const uint8_t wire[] = {0xfa, 1, 5, 10, 1, 'a', 16, 1, 0xfa, 1, 5, 10, 1, 'b',  16, 2, /* counts_by_name */
                                   0xfa, 1, 5, 10, 1, 'a', 16, 3, 0xfa, 1, 2, 16, 4, 0xfa, 1,  4, 10, 0, 16, 5};
    ProtobufCMessage *message = protobuf_c_message_unpack(&lockstock__test__json__everything__descriptor,
                                                          lks_rpc_arena_allocator(arena), sizeof wire, wire);

    assert_non_null(message);
    assert_string_equal(print(message, (lks_rpc_json_options){0}),
                        "{\"countsByName\":{\"b\":\"2\",\"a\":\"3\",\"\":\"5\"}}");
}

TEST_MAIN(.setup = fill, .teardown = empty)
