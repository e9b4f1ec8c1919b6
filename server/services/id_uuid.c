/* UUIDs of version 7. Invariant: each tick of a server is greater than the one before,
 * also when its clock steps back, so its UUIDs increase; 62 random bits of each set it
 * apart from those of other servers. Called by id.c; needs no store.
 *
 *   0                   1                   2                   3
 *   |             unix_ts_ms, 48 bits               |0111| rand_a, 12 |
 *   |10|                     rand_b, 62 bits                          |
 *
 * rand_a is the fraction of the ms in 1/4096: with unix_ts_ms it is the tick. */
#include "services/id.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "memory.h"

uint64_t uuid_tick(uint64_t last, int64_t sec, int64_t nsec)
{
    uint64_t ms = (uint64_t)sec * 1000 + (uint64_t)nsec / 1000000;
    uint64_t tick = ms << 12 | (uint64_t)nsec % 1000000 * 4096 / 1000000;

    return tick > last ? tick : last + 1;
}

void uuid_format(uint64_t tick, uint64_t random, char text[ID_UUID_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    const uint64_t halves[] = {(tick << 4 & ~UINT64_C(0xffff)) | 0x7000 | (tick & 0xfff), random >> 2 | 1ull << 63};
    char *at = text;

    /* By hand: a request may ask for 10,000, and printf takes ten times as long. */
    for (unsigned i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            *at++ = '-';
        *at++ = digits[halves[i / 16] >> (60 - 4 * (i % 16)) & 0xf];
    }
    *at = '\0';
}

static void fill_random(void *bytes, size_t len)
{
    unsigned char *at = bytes;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        /* Without the call there is no safe id. */
        if (got < 0 && errno != EINTR)
            abort();
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
}

void uuid_make(uint64_t *last, lks_rpc_arena *arena, size_t count, char **uuids)
{
    uint64_t *random = memory_in(arena, count * sizeof *random);
    char(*text)[ID_UUID_LEN + 1] = memory_in(arena, count * sizeof *text);
    struct timespec now;

    fill_random(random, count * sizeof *random);
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < count; i++) {
        *last = uuid_tick(*last, now.tv_sec, now.tv_nsec);
        uuid_format(*last, random[i], text[i]);
        uuids[i] = text[i];
    }
}
