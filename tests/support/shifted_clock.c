/* LD_PRELOAD: a clock that a test puts forward, of redis-server, lockstockd or a client. The time of day is
 * the system's plus the microseconds in the file SHIFTED_CLOCK (one int64, written by
 * the test through a mapping); with STILL_CLOCK set, it is those microseconds alone, and
 * stands still. The monotonic clock stays, for Redis' own rhythm is not what a test changes; with SHIFTED_MONOTONIC
 * set, it moves too. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MICROSECONDS = 1000000 };

static _Atomic int64_t none;
static _Atomic int64_t *_Atomic shift = &none;
static bool is_still, moves_monotonic;

__attribute__((constructor)) static void map_shift(void)
{
    const char *path = getenv("SHIFTED_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = fd >= 0 ? mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (mapped == MAP_FAILED)
        abort(); /* a test that believes in it would wait for nothing */
    close(fd);
    is_still = getenv("STILL_CLOCK");
    moves_monotonic = getenv("SHIFTED_MONOTONIC");
    shift = mapped;
}

static long ask_kernel(long number, const long words[6])
{
    static long (*real)(long, ...);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

static int system_clock(clockid_t clock, struct timespec *ts)
{
    return (int)ask_kernel(SYS_clock_gettime, (const long[6]){clock, (long)(intptr_t)ts});
}

static int64_t shifted_us(clockid_t clock)
{
    struct timespec now;

    system_clock(clock, &now);
    return (int64_t)now.tv_sec * MICROSECONDS + now.tv_nsec / 1000 + atomic_load(shift);
}

static int64_t now_us(void)
{
    return is_still ? atomic_load(shift) : shifted_us(CLOCK_REALTIME);
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    int64_t now = now_us();

    *tv = (struct timeval){.tv_sec = now / MICROSECONDS, .tv_usec = now % MICROSECONDS};
    return 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts)
{
    const bool moves =
        clock == CLOCK_REALTIME || (moves_monotonic && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE));
    if (!moves)
        return system_clock(clock, ts);
    int64_t now = clock == CLOCK_REALTIME ? now_us() : shifted_us(clock);
    *ts = (struct timespec){.tv_sec = now / MICROSECONDS, .tv_nsec = now % MICROSECONDS * 1000};
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret)
{
    time_t now = (time_t)(now_us() / MICROSECONDS);

    if (ret)
        *ret = now;
    return now;
}

/* gRPC's core asks the kernel itself. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long words[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_clock_gettime)
        return clock_gettime((clockid_t)words[0], (struct timespec *)(intptr_t)words[1]);
    return ask_kernel(number, words);
}
