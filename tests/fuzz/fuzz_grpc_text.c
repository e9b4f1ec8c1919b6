/* What is a timeout is what the specification says; a status message says the same when
 * it is decoded; details fit, are base64, and well-formed Protobuf; a binary value is decoded
 * within its bounds.
 *
 *   code (1)  retry_after_ms (4)  text */
#include "fuzz.h"
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

static int hex(char c)
{
    const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;

    fuzz_expect(at);
    return (int)(at - digits);
}

static void check_message(const lks_error *error)
{
    char *out = malloc(3 * LKS_ERROR_MESSAGE_MAX);
    size_t len = grpc_encode_message(error->message, out), at = 0;

    fuzz_expect(len <= 3 * strlen(error->message));
    for (const char *c = error->message; *c; c++) {
        fuzz_expect(at < len && out[at] >= ' ' && out[at] <= '~');
        if (out[at] == '%') {
            fuzz_expect(at + 3 <= len && (char)(hex(out[at + 1]) << 4 | hex(out[at + 2])) == *c);
            at += 3;
        } else {
            fuzz_expect(out[at++] == *c);
        }
    }
    fuzz_expect(at == len);
    free(out);
}

static size_t from_base64(const char *text, size_t len, uint8_t *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t n = 0;

    fuzz_expect(len % 4 != 1);
    for (size_t i = 0; i < len; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        fuzz_expect(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4 > 0)
            out[n++] = (uint8_t)(bits >> (6 - i % 4 * 2));
    }
    return n;
}

/* One field: its number; its value or, of bytes, where they are. */
static unsigned read_field(fuzz_input *in, uint64_t *value, fuzz_input *bytes)
{
    uint64_t numbers[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        unsigned shift = 0;
        uint8_t byte;
        do {
            fuzz_expect(in->len > 0 && shift < 64);
            byte = fuzz_byte(in);
            numbers[i] |= (uint64_t)(byte & 0x7F) << shift;
            shift += 7;
        } while (byte & 0x80);
    }
    *value = numbers[1];
    if ((numbers[0] & 7) == 2) {
        fuzz_expect(numbers[1] <= in->len);
        *bytes = (fuzz_input){.data = in->data, .len = (size_t)numbers[1]};
        in->data += numbers[1];
        in->len -= (size_t)numbers[1];
    } else {
        fuzz_expect((numbers[0] & 7) == 0);
    }
    return (unsigned)(numbers[0] >> 3);
}

static void check_details(const lks_error *error)
{
    const lks_rpc_list none = {.n = 0};
    lks_rpc_arena *arena = lks_rpc_arena_new();
    uint8_t raw[GRPC_DETAILS_BYTES_MAX];
    size_t len = 0, n_details = 0;
    const char *out = grpc_encode_details(error, &none, arena, &len);
    uint64_t value;

    fuzz_expect(len <= GRPC_DETAILS_BYTES_MAX && (len > 0 || error->retry_after_ms == 0));
    fuzz_input in = {.data = raw, .len = from_base64(out, len, raw)}, bytes = {NULL, 0};
    lks_rpc_arena_free(arena);
    while (in.len > 0) {
        switch (read_field(&in, &value, &bytes)) {
        case 1:
            fuzz_expect(value == (uint64_t)error->code);
            break;
        case 2:
            fuzz_expect(bytes.len == strlen(error->message) && memcmp(bytes.data, error->message, bytes.len) == 0);
            break;
        default:
            n_details++;
            fuzz_expect(read_field(&bytes, &value, &(fuzz_input){NULL, 0}) == 1);
            fuzz_expect(read_field(&bytes, &value, &(fuzz_input){NULL, 0}) == 2 && bytes.len == 0);
        }
    }
    fuzz_expect((len > 0) == (n_details > 0) && n_details <= 3);
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
    check_message(&error);
    check_details(&error);
    free(text);
    return 0;
}
