/* What is a timeout is what the specification says; a status message and details say the same when the client's side
 * decodes them, and fit.
 *
 *   code (1)  retry_after_ms (4)  text */
#include "fuzz.h"
#include "net/grpc/grpc_status.h"
#include "net/grpc/grpc_text.h"

static void check_timeout(const uint8_t *data, size_t len)
{
    static const char units[] = "HMSmun";
    static const double ms_of[] = {3600e3, 60e3, 1e3, 1, 1e-3, 1e-6};
    uint32_t ms = 0;
    const char *unit = len > 0 && data[len - 1] ? strchr(units, data[len - 1]) : NULL;
    bool valid = unit && len >= 2 && len <= 9;
    double value = 0;

    for (size_t i = 0; i + 1 < len; i++) {
        valid = valid && data[i] >= '0' && data[i] <= '9';
        value = value * 10 + (data[i] - '0');
    }
    fuzz_expect(grpc_parse_timeout((const char *)data, len, &ms) == valid);
    if (!valid)
        return;
    value *= ms_of[unit - units];
    if (value >= UINT32_MAX)
        fuzz_expect(ms == UINT32_MAX);
    else
        fuzz_expect(ms >= 1 && ms >= value - 1e-3 && ms <= value + 1);
}

/* As the client decodes it. */
static void check_message(const lks_error *error, lks_rpc_arena *arena)
{
    char *out = malloc(3 * LKS_ERROR_MESSAGE_MAX);
    size_t len = grpc_encode_message(error->message, out);

    fuzz_expect(len <= 3 * strlen(error->message));
    for (size_t i = 0; i < len; i++)
        fuzz_expect(out[i] >= ' ' && out[i] <= '~');
    fuzz_expect(strcmp(grpc_decode_message((lks_rpc_slice){.data = out, .len = len}, arena), error->message) == 0);
    free(out);
}

static void check_details(const lks_error *error, lks_rpc_arena *arena)
{
    const lks_rpc_list none = {.n = 0};
    size_t len = 0;
    const char *out = grpc_encode_details(error, &none, arena, &len);
    grpc_details got = grpc_decode_details((lks_rpc_slice){.data = out, .len = len}, arena);
    bool has_reason = error->reason != LKS_REASON_NONE;

    fuzz_expect(len <= GRPC_DETAILS_BYTES_MAX && (len > 0) == (got.all.n > 0));
    fuzz_expect(strcmp(got.field ? got.field : "", error->field) == 0);
    fuzz_expect(strcmp(got.reason ? got.reason : "", has_reason ? lks_reason_name(error->reason) : "") == 0);
    fuzz_expect(got.retry_after_ms == error->retry_after_ms);
    fuzz_expect(got.all.n == (size_t)(error->field[0] != '\0') + has_reason + (error->retry_after_ms > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_input in = {.data = data, .len = len};
    lks_error error = {.code = (lks_code)(1 + fuzz_byte(&in) % 16)};

    for (int i = 0; i < 4; i++)
        error.retry_after_ms = error.retry_after_ms << 8 | fuzz_byte(&in);
    error.reason = (lks_reason)(fuzz_byte(&in) % 64);
    size_t text_len, field_len = fuzz_byte(&in) % LKS_ERROR_FIELD_MAX;
    uint8_t *text = fuzz_bytes(&in, in.len, &text_len);
    check_timeout(text, text_len);
    if (text_len > 0)
        memcpy(error.message, text, text_len < sizeof error.message ? text_len : sizeof error.message - 1);
    if (text_len > 0)
        memcpy(error.field, text, text_len < field_len ? text_len : field_len);
    lks_rpc_arena *arena = lks_rpc_arena_new();
    check_message(&error, arena);
    check_details(&error, arena);
    lks_rpc_arena_free(arena);
    free(text);
    return 0;
}
