/* UUIDs of version 7. Invariant: each tick of a server is greater than the one before, even when its clock is set back,
 * so its UUIDs increase; 62 random bits tell them from those of other servers.
 *
 *   0                   1                   2                   3
 *   |             unix_ts_ms, 48 bits               |0111| rand_a, 12 |
 *   |10|                     rand_b, 62 bits                          |
 *
 * rand_a is the fraction of the ms in 1/4096: with unix_ts_ms it is the tick. */
#include "services/id.h"

#include <endian.h>
#include <string.h>

#include "base/clock.h"
#include "memory.h"
#include "random.h"

uint64_t uuid_tick(uint64_t last, uint64_t now_ns)
{
    uint64_t tick = now_ns / CLOCK_NS_PER_MS << 12 | now_ns % CLOCK_NS_PER_MS * 4096 / CLOCK_NS_PER_MS;

    return tick > last ? tick : last + 1;
}

/* Writes 32 bits in hex. Each nibble gets a byte; adding 6 carries for those that become letters. Converts all eight at
 * once, because a request may ask for 10,000 UUIDs. */
static void put_hex(char to[8], uint64_t bits)
{
    uint64_t n = bits & UINT32_MAX;

    n = (n << 16 | n) & UINT64_C(0x0000ffff0000ffff);
    n = (n << 8 | n) & UINT64_C(0x00ff00ff00ff00ff);
    n = (n << 4 | n) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t letters = (n + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    n = htobe64(n + letters * ('a' - '0' - 10) + UINT64_C(0x0101010101010101) * '0');
    memcpy(to, &n, sizeof n);
}

void uuid_format(uint64_t tick, uint64_t random, char text[ID_UUID_LEN + 1])
{
    const uint64_t halves[] = {(tick << 4 & ~UINT64_C(0xffff)) | 0x7000 | (tick & 0xfff), random >> 2 | 1ull << 63};
    char digits[32];

    for (size_t i = 0; i < 2; i++) {
        put_hex(digits + 16 * i, halves[i] >> 32);
        put_hex(digits + 16 * i + 8, halves[i]);
    }
    memcpy(text, digits, 8);
    for (size_t group = 0; group < 3; group++) {
        text[8 + 5 * group] = '-';
        memcpy(text + 9 + 5 * group, digits + 8 + 4 * group, 4);
    }
    text[23] = '-';
    memcpy(text + 24, digits + 20, 12);
    text[ID_UUID_LEN] = '\0';
}

void uuid_make(uint64_t *last, lks_rpc_arena *arena, size_t count, const char **uuids)
{
    uint64_t *random = memory_in(arena, count * sizeof *random);
    char(*text)[ID_UUID_LEN + 1] = memory_in(arena, count * sizeof *text);
    uint64_t now_ns = clock_unix_ns();

    random_fill(random, count * sizeof *random);
    for (size_t i = 0; i < count; i++) {
        *last = uuid_tick(*last, now_ns);
        uuid_format(*last, random[i], text[i]);
        uuids[i] = text[i];
    }
}
