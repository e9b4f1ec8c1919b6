/* The wire scanner: what it accepts, and its errors. */

#include <lockstock/rpc/scan.h>

#include "scan.pb-c.h"
#include "test.h"

static const ProtobufCMessageDescriptor *const kinds = &lockstock__test__kinds__descriptor;
static lks_rpc_scan_limits limits;

static int defaults(void **state)
{
    limits = lks_rpc_scan_defaults;
    return 0;
}

static void expect(const void *data, size_t len, const char *message)
{
    /* In memory of its own, so that a sanitizer sees a read past the end. */
    void *exact = malloc(len > 0 ? len : 1);
    lks_error error = {0};
    assert_non_null(exact);
    memcpy(exact, data, len);
    lks_code code = lks_rpc_scan(kinds, exact, len, &limits, &error);
    if (message) {
        assert_string_equal(error.message, message);
        assert_int_equal(code, LKS_INVALID_ARGUMENT);
        assert_int_equal(error.code, LKS_INVALID_ARGUMENT);
        assert_int_equal(error.applied, LKS_APPLIED_NO);
        assert_int_equal(error.origin, LKS_ORIGIN_LOCAL);
    } else {
        if (code != LKS_OK)
            fail_msg("refused: %s", error.message);
        Lockstock__Test__Kinds *unpacked = lockstock__test__kinds__unpack(NULL, len, exact);
        assert_non_null(unpacked);
        lockstock__test__kinds__free_unpacked(unpacked, NULL);
    }
    free(exact);
}

#define PASSES(bytes) expect(bytes, sizeof(bytes) - 1, NULL)
#define REFUSED(bytes, message) expect(bytes, sizeof(bytes) - 1, message)

TEST(passes_every_kind_of_field)
{
    PASSES("");
    PASSES("\x08\x01");
    PASSES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); /* -1 */
    PASSES("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    PASSES("\x18\xff\xff\xff\xff\x0f");
    PASSES("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    PASSES("\x28\xff\xff\xff\xff\x0f");
    PASSES("\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    PASSES("\x3d\x01\x02\x03\x04");
    PASSES("\x41\x01\x02\x03\x04\x05\x06\x07\x08");
    PASSES("\x4d\x01\x02\x03\x04");
    PASSES("\x51\x01\x02\x03\x04\x05\x06\x07\x08");
    PASSES("\x5d\x01\x02\x03\x04");
    PASSES("\x61\x01\x02\x03\x04\x05\x06\x07\x08");
    PASSES("\x68\x01");
    PASSES("\x70\x01");
    PASSES("\x70\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); /* COLOR_MINUS */
    PASSES("\x7a\x02hi");
    PASSES("\x82\x01\x02\x00\xff");
    PASSES("\x8a\x01\x03\x0a\x01x");
    PASSES("\x92\x01\x03\x0a\x01x\x92\x01\x03\x0a\x01y");
    PASSES("\x9a\x01\x03\x01\x02\x03"); /* packed */
    PASSES("\x98\x01\x01\x98\x01\x02"); /* the same field, not packed */
    PASSES("\xa2\x01\x08\x01\x00\x00\x00\x02\x00\x00\x00");
    PASSES("\xa5\x01\x01\x00\x00\x00");
    PASSES("\xaa\x01\x01x\xaa\x01\x00");
    PASSES("\xb0\x01\x01\xb2\x01\x02\x00\x01");
    PASSES("\xba\x01\x02\x00\x01");
    PASSES("\xc2\x01\x01w\xca\x01\x03\x0a\x01x\xd0\x01\x07"); /* a oneof, again and again */
    PASSES("\xfa\xff\xff\xff\x0f\x01x");                      /* the greatest number a field can have */
    PASSES("\x08\x81\x80\x80\x00");                           /* longer than needed, not than allowed */
}

/* promise W1 */
TEST(refuses_truncated_messages)
{
    REFUSED("\x08", "i32: not a whole varint");
    REFUSED("\x08\x80", "i32: not a whole varint");
    REFUSED("\x3d\x01\x02\x03", "f32: ends inside the value");
    REFUSED("\x41\x01\x02\x03\x04\x05\x06\x07", "f64: ends inside the value");
    REFUSED("\x7a", "text: ends inside the value");
    REFUSED("\x7a\x03hi", "text: ends inside the value");
    REFUSED("\x7a\xff\xff\xff\xff\x0f", "text: ends inside the value");
    REFUSED("\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "text: ends inside the value");
    REFUSED("\x82", "Kinds: not a field's tag");
    REFUSED("\x9a\x01\x02\x01\x80", "packed[1]: not a whole varint");
    REFUSED("\xa2\x01\x07\x01\x00\x00\x00\x02\x00\x00", "fixed[1]: ends inside the value");
    REFUSED("\xf8\x7f\x80", "Kinds: ends inside an unknown field");
}

/* promise W1 */
TEST(refuses_invalid_tags)
{
    REFUSED("\x00\x01", "Kinds: not a field's tag");                 /* number 0 */
    REFUSED("\x80\x00\x01", "Kinds: not a field's tag");             /* number 0, longer */
    REFUSED("\x80\x80\x80\x80\x10\x01", "Kinds: not a field's tag"); /* number 2^29 */
    REFUSED("\x88\x80\x80\x80\x80\x00\x01", "Kinds: not a field's tag");
    REFUSED("\x0b\x0c", "Kinds: not a field's tag"); /* a group */
    REFUSED("\x0c", "Kinds: not a field's tag");
    REFUSED("\x0e", "Kinds: not a field's tag"); /* wire types 6 and 7 */
    REFUSED("\x0f", "Kinds: not a field's tag");
    REFUSED("\x8a\x01\x04\x0a\x01x\x0b", "leaf: not a field's tag");
}

/* promise W4 */
TEST(refuses_numbers_that_do_not_fit)
{
    REFUSED("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "i64: not a whole varint");
    REFUSED("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "i64: not a whole varint");
    REFUSED("\x18\x80\x80\x80\x80\x10", "u32: more than 32 bits");
    REFUSED("\x28\x80\x80\x80\x80\x10", "s32: more than 32 bits");
    REFUSED("\x08\x80\x80\x80\x80\x08", "i32: more than 32 bits");
    REFUSED("\x08\xff\xff\xff\xff\xf7\xff\xff\xff\xff\x01", "i32: more than 32 bits");
    PASSES("\x08\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01"); /* INT32_MIN */
    PASSES("\x08\xff\xff\xff\xff\x07");
    REFUSED("\x9a\x01\x06\x01\x80\x80\x80\x80\x08", "packed[1]: more than 32 bits");
}

/* promise W1 */
TEST(refuses_another_wire_type)
{
    REFUSED("\x0d\x01\x02\x03\x04", "i32: not of the wire type of the field");
    REFUSED("\x0a\x01\x01", "i32: not of the wire type of the field"); /* packed, but not repeated */
    REFUSED("\x78\x01", "text: not of the wire type of the field");
    REFUSED("\x88\x01\x01", "leaf: not of the wire type of the field");
    REFUSED("\xa8\x01\x01", "texts[0]: not of the wire type of the field");
    REFUSED("\xa0\x01\x01", "fixed[0]: not of the wire type of the field");
}

/* promise W4: an unknown enum value: INVALID_ARGUMENT; numbers of more than 32 bits too */
TEST(refuses_unknown_enum_values)
{
    REFUSED("\x70\x02", "color: not a value of the enum");
    REFUSED("\x70\x81\x80\x80\x80\x10", "color: not a value of the enum"); /* 2^32 + 1 is not 1 */
    REFUSED("\xb2\x01\x02\x01\x05", "colors[1]: not a value of the enum");
    REFUSED("\xb0\x01\x01\xb0\x01\x05", "colors[1]: not a value of the enum");
    limits.open_enums = true;
    PASSES("\x70\x02");
    REFUSED("\x70\x81\x80\x80\x80\x10", "color: not a value of the enum");
}

/* promise W2: not UTF-8: INVALID_ARGUMENT */
TEST(strings_are_utf8)
{
    PASSES("\x7a\x02\xc2\x80");
    PASSES("\x7a\x02\xdf\xbf");
    PASSES("\x7a\x03\xe0\xa0\x80");
    PASSES("\x7a\x03\xed\x9f\xbf");
    PASSES("\x7a\x03\xee\x80\x80");
    PASSES("\x7a\x03\xef\xbf\xbf");
    PASSES("\x7a\x04\xf0\x90\x80\x80");
    PASSES("\x7a\x04\xf4\x8f\xbf\xbf");
    PASSES("\x7a\x0b"
           "ascii\xe2\x82\xac"
           "abc");
    static const char *const broken[] = {
        "\x7a\x01\x80",     /* a continuation alone */
        "\x7a\x02\xc0\x80", /* overlong */
        "\x7a\x02\xc1\xbf",
        "\x7a\x03\xe0\x9f\xbf",
        "\x7a\x04\xf0\x8f\xbf\xbf",
        "\x7a\x03\xed\xa0\x80", /* surrogates */
        "\x7a\x03\xed\xbf\xbf",
        "\x7a\x04\xf4\x90\x80\x80", /* above U+10FFFF */
        "\x7a\x04\xf5\x80\x80\x80",
        "\x7a\x01\xff",
        "\x7a\x01\xc2", /* cut short */
        "\x7a\x02\xe2\x82",
        "\x7a\x03\xf0\x90\x80",
        "\x7a\x02\xc2\x41",
        "\x7a\x03\xe2\x82\x41",
        "\x7a\x04\xf0\x90\x80\x41",
        ("\x7a\x09"
         "12345678\xc2"), /* after eight bytes of ASCII */
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        expect(broken[i], 2 + (size_t)broken[i][1], "text: not valid UTF-8");
    PASSES("\x82\x01\x01\xff"); /* bytes may be anything */
}

/* promise W3: a NUL in a string: INVALID_ARGUMENT */
TEST(strings_have_no_nul)
{
    REFUSED("\x7a\x03"
            "a\0b",
            "text: contains a NUL");
    REFUSED("\x7a\x01\0", "text: contains a NUL");
    PASSES("\x82\x01\x01\0");
}

TEST(names_the_path_of_the_field)
{
    REFUSED("\x92\x01\x03\x0a\x01x\x92\x01\x03\x0a\x01y\x92\x01\x03\x0a\x01\xff", "leaves[2].name: not valid UTF-8");
    /* Unknown fields and packed runs on the way do not count. */
    REFUSED("\xf8\x7f\x01\xaa\x01\x01x\x08\x01\xaa\x01\x01\xff", "texts[1]: not valid UTF-8");
    REFUSED("\x9a\x01\x02\x01\x02\xaa\x01\x01x\xaa\x01\x01\xff", "texts[1]: not valid UTF-8");
    REFUSED("\x9a\x01\x02\x01\x02\x98\x01\x03\x9a\x01\x02\x04\x80", "packed[4]: not a whole varint");
    REFUSED("\x92\x01\x0a\x0a\x01x\x12\x05\x0a\x01y\x12\x00", "leaves[0].deeper.deeper.name: required and missing");
    REFUSED("\x92\x01\x07\x0a\x01x\x1a\x02\x01\x80", "leaves[0].numbers[1]: not a whole varint");
}

TEST(finds_missing_required_fields)
{
    REFUSED("\x8a\x01\x00", "leaf.name: required and missing");
    PASSES("\x8a\x01\x02\x0a\x00");
}

/* Protobuf says that they are merged; protobuf-c would lose the numbers of the first part. */
TEST(a_message_in_two_parts_is_refused)
{
    REFUSED("\x8a\x01\x03\x0a\x01x\x8a\x01\x09\x0a\x01y\x12\x04\x0a\x02zz", "leaf: comes in more than one part");
    REFUSED("\x8a\x01\x0d\x0a\x01x\x12\x03\x0a\x01y\x12\x03\x0a\x01y", "leaf.deeper: comes in more than one part");
}

/* promise W6 */
TEST(limits_depth)
{
    limits.depth = 3;
    PASSES("\x8a\x01\x08\x0a\x01x\x12\x03\x0a\x01y");
    REFUSED("\x8a\x01\x0d\x0a\x01x\x12\x08\x0a\x01y\x12\x03\x0a\x01z", "leaf.deeper.deeper: nested too deep");
}

/* promise W6 */
TEST(limits_elements)
{
    limits.elements = 3;
    PASSES("\xaa\x01\x01x\xaa\x01\x01y\xaa\x01\x01z");
    REFUSED("\xaa\x01\x01x\xaa\x01\x01y\xaa\x01\x01z\xaa\x01\x00", "texts[3]: too many elements in the whole message");
    REFUSED("\x9a\x01\x04\x01\x02\x03\x04", "packed[3]: too many elements in the whole message");
    /* Over all fields and messages together. */
    REFUSED("\x92\x01\x07\x0a\x01x\x1a\x02\x01\x02\xaa\x01\x00", "texts[0]: too many elements in the whole message");
    limits.elements = 2;
    PASSES("\x8a\x01\x08\x0a\x01x\x12\x03\x0a\x01y");
    REFUSED("\x8a\x01\x0d\x0a\x01x\x12\x08\x0a\x01y\x12\x03\x0a\x01z",
            "leaf.deeper.deeper: too many elements in the whole message");
    limits.elements = 3;
    /* A field that is not repeated costs nothing once, but protobuf-c keeps every copy. */
    PASSES("\x08\x01\x10\x01\x18\x01\x20\x01\x7a\x01x");
    PASSES("\x7a\x01x\x7a\x01x\x7a\x01x\x7a\x01x");
    REFUSED("\x7a\x01x\x7a\x01x\x7a\x01x\x7a\x01x\x7a\x01x", "text: too many elements in the whole message");
}

/* promise W6: sizes that a message claims take no memory: depth, elements and sizes are limited before unpacking */
TEST(limits_sizes)
{
    limits.string_bytes = 3;
    limits.bytes_bytes = 2;
    PASSES("\x7a\x03"
           "abc");
    REFUSED("\x7a\x04"
            "abcd",
            "text: string too long");
    PASSES("\x82\x01\x02"
           "ab");
    REFUSED("\x82\x01\x03"
            "abc",
            "blob: too many bytes");
}

/* promise W5: an unknown field is ignored, but only a limited number of them */
TEST(limits_unknown_fields)
{
    limits.unknown = 2;
    PASSES("\xf8\x7f\x01\xf9\x7f"
           "12345678"
           "\x08\x01");
    PASSES("\xfa\x7f\x02\xff\xff\xfd\x7f"
           "1234");
    REFUSED("\xf8\x7f\x01\xf8\x7f\x01\xf8\x7f\x01", "Kinds: too many unknown fields");
    REFUSED("\xfb\x7f\xfc\x7f", "Kinds: not a field's tag"); /* an unknown group */
}

TEST(a_deep_path_is_cut_not_overrun)
{
    uint8_t bytes[512];
    size_t len = 0;
    lks_error error;
    limits.depth = 100;
    /* From the inside out: each level wraps what is there in a `deeper`. */
    for (int level = 0; level < 80; level++) {
        uint8_t wrapped[512];
        size_t n = 0;
        wrapped[n++] = level == 79 ? 0x8a : 0x12;
        if (level == 79)
            wrapped[n++] = 0x01;
        if (len > 127)
            wrapped[n++] = (uint8_t)(0x80 | (len & 0x7f));
        wrapped[n++] = (uint8_t)(len > 127 ? len >> 7 : len);
        memcpy(wrapped + n, bytes, len);
        memcpy(bytes, wrapped, n + len);
        len += n;
    }
    assert_int_equal(lks_rpc_scan(kinds, bytes, len, &limits, &error), LKS_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "leaf.deeper.deeper"));
    assert_non_null(strstr(error.message, ": required and missing"));
}

TEST_MAIN(.setup = defaults)
