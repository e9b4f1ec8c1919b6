/* The reader finds the same messages in any pieces; none is longer than
 * allowed, compressed or not; and a written message is read back unchanged.
 *
 *   flags (1)  size of a piece, 0 = 256 (1)  what comes
 *   flags: 1 gzip is announced; 6 which limit */
#include "fuzz.h"
#include "net/grpc/grpc_message.h"

enum { ROOM_MIN = 512, MESSAGES_MAX = 64 };

typedef struct found {
    lks_code code;
    size_t n;
    size_t lens[MESSAGES_MAX];
    uint32_t sums[MESSAGES_MAX];
} found;

static uint32_t sum_of(const uint8_t *data, size_t len)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < len; i++)
        sum = sum * 31 + data[i];
    return sum;
}

static found read_all(fuzz_input in, size_t piece, size_t bytes_max, bool gzip)
{
    grpc_reader r = {.bytes_max = bytes_max, .gzip = gzip};
    found f = {.code = LKS_OK};

    while (in.len > 0 && f.code == LKS_OK && f.n < MESSAGES_MAX) {
        size_t n, done = 0;
        uint8_t *data = fuzz_bytes(&in, piece, &n);
        while (done < n && f.code == LKS_OK && f.n < MESSAGES_MAX) {
            lks_error error = {0};
            size_t used, len;
            uint8_t *message;
            f.code = grpc_read(&r, data + done, n - done, &used, &message, &len, &error);
            fuzz_expect(f.code == error.code);
            if (f.code != LKS_OK) {
                fuzz_expect(!message && error.message[0] != '\0' && error.applied == LKS_APPLIED_NO);
                fuzz_expect(f.code == LKS_RESOURCE_EXHAUSTED || f.code == LKS_UNIMPLEMENTED || f.code == LKS_INTERNAL);
                break;
            }
            done += used;
            fuzz_expect(done <= n && (message || done == n));
            fuzz_expect(!r.data || r.room <= ROOM_MIN || r.room <= 2 * r.len);
            fuzz_expect(!message || grpc_reader_idle(&r));
            if (message) {
                fuzz_expect(len <= bytes_max);
                f.lens[f.n] = len;
                f.sums[f.n++] = sum_of(message, len);
                free(message);
            }
        }
        free(data);
    }
    grpc_reader_end(&r);
    return f;
}

static void write_and_read(fuzz_input in, bool gzip)
{
    size_t len, used, read_len, given;
    uint8_t *data = fuzz_bytes(&in, in.len, &given), *message;
    uint8_t *written = grpc_write(data, given, gzip, &len);
    grpc_reader r = {.bytes_max = given, .gzip = gzip};
    lks_error error;

    fuzz_expect(written && len >= GRPC_PREFIX_BYTES && len <= GRPC_PREFIX_BYTES + given);
    fuzz_expect(grpc_read(&r, written, len, &used, &message, &read_len, &error) == LKS_OK);
    fuzz_expect(message && used == len && read_len == given && (given == 0 || memcmp(message, data, given) == 0));
    grpc_reader_end(&r);
    free(message);
    free(written);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const size_t limits[] = {100, 5000, 70000, 0};
    fuzz_input in = {.data = data, .len = len};
    uint8_t flags = fuzz_byte(&in), piece = fuzz_byte(&in);
    size_t bytes_max = limits[flags >> 1 & 3];
    bool gzip = flags & 1;

    found whole = read_all(in, in.len, bytes_max, gzip);
    found cut = read_all(in, piece > 0 ? piece : 256, bytes_max, gzip);
    fuzz_expect(whole.code == cut.code && whole.n == cut.n);
    fuzz_expect(memcmp(whole.lens, cut.lens, whole.n * sizeof *whole.lens) == 0);
    fuzz_expect(memcmp(whole.sums, cut.sums, whole.n * sizeof *whole.sums) == 0);
    write_and_read(in, gzip);
    return 0;
}
