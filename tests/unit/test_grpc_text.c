/* The text in gRPC's headers: timeouts, messages, details. */
/* promise G10: timeouts, messages and details have the format of gRPC */

#include "base/base64.h"
#include "net/grpc/grpc_status.h"
#include "net/grpc/grpc_text.h"
#include "test.h"
#include "arena_fixture.h"

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

/* ---- details, as the client reads them ---------------------------------------------------- */

/* n: how many there are. Gives the last of them. */
static lks_rpc_metadata expect_details(const lks_error *error, size_t n)
{
    const lks_rpc_list none = {.n = 0};
    size_t len = 0;
    const char *text = grpc_encode_details(error, &none, arena, &len);

    assert_int_equal(!!text, n > 0);
    assert_in_range(len, 0, GRPC_DETAILS_BYTES_MAX);
    grpc_details got = grpc_decode_details((lks_rpc_slice){.data = text, .len = len}, arena);
    assert_string_equal(got.field ? got.field : "", error->field);
    assert_string_equal(got.reason ? got.reason : "", error->reason ? lks_reason_name(error->reason) : "");
    assert_int_equal(got.retry_after_ms, error->retry_after_ms);
    assert_int_equal(got.all.n, n);
    return n > 0 ? got.all.items[n - 1] : (lks_rpc_metadata){0};
}

/* A handler may name a field that its message does not begin with. */
TEST(a_bad_field_has_a_description)
{
    static const struct {
        const char *message, *description;
    } rows[] = {{"sku: must not be empty", "must not be empty"}, {"sku is unknown", "sku is unknown"}};

    for (size_t i = 0; i < 2; i++) {
        lks_error error = {.code = LKS_NOT_FOUND, .field = "sku"};
        snprintf(error.message, sizeof error.message, "%s", rows[i].message);
        lks_rpc_metadata detail = expect_details(&error, 1);
        size_t len = strlen(rows[i].description); /* it ends the BadRequest, behind its length */
        assert_string_equal(detail.key, "type.googleapis.com/google.rpc.BadRequest");
        assert_true(detail.value.len > len && detail.value.data[detail.value.len - len - 1] == (char)len);
        assert_memory_equal(detail.value.data + detail.value.len - len, rows[i].description, len);
    }
}

/* Also the longest error there can be. */
TEST(details_have_field_reason_and_time)
{
#define ROW(name, number, word, help) LKS_REASON_##name,
    static const lks_reason reasons[] = {LKS_REASON_NONE, LKS_REASONS(ROW)};
#undef ROW
    static const uint32_t times_ms[] = {0, 1, 2345, UINT32_MAX};
    lks_error error = {.code = LKS_INVALID_ARGUMENT};
    memset(error.message, 'm', LKS_ERROR_MESSAGE_MAX - 1);
    for (size_t i = 0; i < 4 * sizeof reasons / sizeof *reasons; i++) {
        error.reason = reasons[i / 4];
        error.retry_after_ms = times_ms[i % 4];
        memset(error.field, '\0', sizeof error.field);
        expect_details(&error, (size_t)(i >= 4) + (i % 4 > 0));
        memset(error.field, 'f', LKS_ERROR_FIELD_MAX - 1);
        expect_details(&error, 1U + (i >= 4) + (i % 4 > 0));
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

TEST_MAIN(.setup = make, .teardown = drop)
