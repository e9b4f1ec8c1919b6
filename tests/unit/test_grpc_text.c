/* What gRPC writes into headers: timeouts, messages, details. */
/* promise G10: timeouts, messages and details have the format of gRPC */

#include "base/base64.h"
#include "net/grpc/grpc_text.h"
#include "test.h"

TEST(timeouts)
{
    static const struct {
        const char *text;
        uint32_t ms; /* 0: none */
    } rows[] = {
        {"1H", 3600000},
        {"1M", 60000},
        {"1S", 1000},
        {"100m", 100},
        {"1000u", 1},
        {"1001u", 2},
        {"1n", 1},
        {"0n", 1},
        {"99999999H", UINT32_MAX},
        {"00000001S", 1000},
        {"", 0},
        {"S", 0},
        {"1", 0},
        {"-1S", 0},
        {"1.5S", 0},
        {"1s", 0},
        {"123456789S", 0},
        {" 1S", 0},
        {"1S ", 0},
        {"1 S", 0},
        {"+1S", 0},
        {"0x1S", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t ms = 0;
        bool good = grpc_parse_timeout(rows[i].text, strlen(rows[i].text), &ms);
        if (good != (rows[i].ms > 0) || ms != rows[i].ms)
            fail_msg("\"%s\": %d, %u ms", rows[i].text, good, ms);
    }
}

static void expect_message(const char *message, const char *encoded)
{
    char out[3 * LKS_ERROR_MESSAGE_MAX];
    size_t len = grpc_encode_message(message, out);

    assert_int_equal(len, strlen(encoded));
    assert_memory_equal(out, encoded, len);
}

TEST(messages)
{
    char worst[LKS_ERROR_MESSAGE_MAX], out[3 * LKS_ERROR_MESSAGE_MAX];
    expect_message("", "");
    expect_message("sku: must not be empty ~!", "sku: must not be empty ~!");
    expect_message("100%\n\xc3\xa4\x7f", "100%25%0A%C3%A4%7F");
    memset(worst, '%', sizeof worst - 1);
    worst[sizeof worst - 1] = '\0';
    assert_int_equal(grpc_encode_message(worst, out), 3 * (sizeof worst - 1));
}

/* ---- details, read by a reader of the test's own ---------------------------------------- */

typedef struct bytes {
    const uint8_t *data;
    size_t len;
} bytes;

static size_t decode_base64(const char *text, size_t len, uint8_t *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t have = 0, n = 0;

    for (size_t i = 0; i < len; i++) {
        const char *at = memchr(digits, text[i], 64);
        assert_non_null(at);
        bits = bits << 6 | (uint32_t)(at - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (uint8_t)(bits >> have);
        }
    }
    assert_true(len % 4 != 1);
    return n;
}

static uint64_t varint(bytes *from)
{
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        assert_true(from->len > 0 && shift < 64);
        uint8_t byte = *from->data++;
        from->len--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

/* The nth field of a number; its value, or its length with *ret set. */
static uint64_t get(bytes from, unsigned wanted, unsigned nth, bytes *ret)
{
    while (from.len > 0) {
        uint64_t key = varint(&from), value = varint(&from);
        bytes part = {from.data, 0};
        if ((key & 7) == 2) {
            assert_true(value <= from.len);
            part.len = value;
            from.data += value;
            from.len -= value;
        } else {
            assert_int_equal(key & 7, 0);
        }
        if (key >> 3 == wanted && nth-- == 0) {
            if (ret)
                *ret = part;
            return value;
        }
    }
    return UINT64_MAX;
}

static void expect_text(bytes from, unsigned wanted, const char *text)
{
    bytes part = {0};

    assert_int_equal(get(from, wanted, 0, &part), strlen(text));
    assert_memory_equal(part.data, text, part.len);
}

/* The nth detail's value, of a type. */
static bytes detail(bytes status, unsigned nth, const char *type)
{
    bytes any = {0}, value = {0};

    assert_int_not_equal(get(status, 3, nth, &any), UINT64_MAX);
    expect_text(any, 1, type);
    assert_int_not_equal(get(any, 2, 0, &value), UINT64_MAX);
    return value;
}

static size_t encode_details(const lks_error *error, char text[GRPC_DETAILS_BYTES_MAX])
{
    const lks_rpc_list none = {.n = 0};
    lks_rpc_arena *arena = lks_rpc_arena_new();
    size_t len = 0;
    const char *encoded = grpc_encode_details(error, &none, arena, &len);

    assert_in_range(len, 0, GRPC_DETAILS_BYTES_MAX);
    if (encoded)
        memcpy(text, encoded, len);
    lks_rpc_arena_free(arena);
    return encoded ? len : 0;
}

static bytes details_of(const lks_error *error, uint8_t *raw)
{
    char text[GRPC_DETAILS_BYTES_MAX];
    size_t len = encode_details(error, text);

    return (bytes){raw, decode_base64(text, len, raw)};
}

TEST(details_of_a_bad_field)
{
    uint8_t raw[GRPC_DETAILS_BYTES_MAX];
    bytes violation = {0};
    lks_error error;
    lks_error_set(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "lines[0].sku: must not be empty");
    bytes status = details_of(&error, raw);
    assert_int_equal(get(status, 1, 0, NULL), 3);
    expect_text(status, 2, "lines[0].sku: must not be empty");
    assert_int_not_equal(get(detail(status, 0, "type.googleapis.com/google.rpc.BadRequest"), 1, 0, &violation),
                         UINT64_MAX);
    expect_text(violation, 1, "lines[0].sku");
    expect_text(violation, 2, "must not be empty");
    bytes info = detail(status, 1, "type.googleapis.com/google.rpc.ErrorInfo");
    expect_text(info, 1, "invalid_field");
    expect_text(info, 2, "lockstock");
    assert_int_equal(get(status, 3, 2, NULL), UINT64_MAX);
}

/* A handler may name a field that its message does not begin with. */
TEST(details_of_a_field_that_the_message_does_not_begin_with)
{
    uint8_t raw[GRPC_DETAILS_BYTES_MAX];
    bytes violation = {0};
    lks_error error = {.code = LKS_NOT_FOUND, .field = "sku", .message = "sku is unknown"};
    bytes status = details_of(&error, raw);
    assert_int_not_equal(get(detail(status, 0, "type.googleapis.com/google.rpc.BadRequest"), 1, 0, &violation),
                         UINT64_MAX);
    expect_text(violation, 1, "sku");
    expect_text(violation, 2, "sku is unknown");
    assert_int_equal(get(status, 3, 1, NULL), UINT64_MAX);
}

TEST(details_of_each_reason)
{
#define ROW(name, number, word, help) LKS_REASON_##name,
    static const lks_reason reasons[] = {LKS_REASONS(ROW)};
#undef ROW
    uint8_t raw[GRPC_DETAILS_BYTES_MAX];
    lks_error error;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        lks_error_set_reason(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, reasons[i], "why");
        bytes info = detail(details_of(&error, raw), 0, "type.googleapis.com/google.rpc.ErrorInfo");
        expect_text(info, 1, lks_reason_name(reasons[i]));
        expect_text(info, 2, "lockstock");
    }
}

TEST(details_of_when_to_try_again)
{
    uint8_t raw[GRPC_DETAILS_BYTES_MAX];
    bytes delay = {0};
    lks_error error;
    lks_error_set(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "store: away");
    error.retry_after_ms = 2345;
    bytes status = details_of(&error, raw);
    assert_int_equal(get(status, 1, 0, NULL), 14);
    assert_int_not_equal(get(detail(status, 0, "type.googleapis.com/google.rpc.RetryInfo"), 1, 0, &delay), UINT64_MAX);
    assert_int_equal(get(delay, 1, 0, NULL), 2);
    assert_int_equal(get(delay, 2, 0, NULL), 345000000);
}

TEST(no_details_where_there_are_none)
{
    char text[GRPC_DETAILS_BYTES_MAX];
    lks_error error;
    lks_error_set(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "sku: not now");
    assert_int_equal(encode_details(&error, text), 0);
    lks_error_clear(&error);
    assert_int_equal(encode_details(&error, text), 0);
}

/* The longest error there can be fits. */
TEST(details_of_the_longest_error)
{
#define ROW(name, number, word, help) LKS_REASON_##name,
    static const lks_reason reasons[] = {LKS_REASONS(ROW)};
#undef ROW
    char text[GRPC_DETAILS_BYTES_MAX];
    lks_error error = {.code = LKS_INVALID_ARGUMENT, .retry_after_ms = UINT32_MAX};
    memset(error.message, 'm', LKS_ERROR_MESSAGE_MAX - 1);
    memset(error.field, 'f', LKS_ERROR_FIELD_MAX - 1);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        error.reason = reasons[i];
        assert_in_range(encode_details(&error, text), 1, sizeof text);
    }
}

TEST(binary_values_with_padding_and_without)
{
    static const struct {
        const char *text, *bytes;
    } good[] = {{"", ""}, {"AA==", "\0"}, {"aGk", "hi"}, {"aGk=", "hi"}, {"aGkh", "hi!"}, {"+/+/", "\xfb\xff\xbf"}};
    static const char *const bad[] = {"a", "aGkha", "a~k=", "aG k", "=aGk", "aGk==="};
    uint8_t out[16];
    size_t len;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(base64_decode(good[i].text, strlen(good[i].text), out, &len));
        assert_int_equal(len, i == 1 ? 1 : strlen(good[i].bytes));
        assert_memory_equal(out, good[i].bytes, len);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(base64_decode(bad[i], strlen(bad[i]), out, &len));
}

TEST_MAIN()
