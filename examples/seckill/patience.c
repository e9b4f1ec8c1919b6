/* Monotonic time only: a clock that is set must not end a sale. */
#include "patience.h"

#include <time.h>

enum { CALL_MAX_MS = 10000, REST_MS = 20, REST_MAX_MS = 1000 };

int64_t clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_rest(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

sale_patience patience_of(int64_t ms)
{
    return (sale_patience){.end_ms = clock_ms() + ms};
}

uint32_t patience_call_ms(const sale_patience *patience)
{
    int64_t left = patience->end_ms - clock_ms();

    return left < 1 ? 1 : left > CALL_MAX_MS ? CALL_MAX_MS : (uint32_t)left;
}

bool patience_rest(const sale_patience *patience, const lks_error *error)
{
    uint32_t advised = error->retry_after_ms != 0 ? error->retry_after_ms : REST_MS;
    uint32_t rest_ms = advised < REST_MAX_MS ? advised : REST_MAX_MS;

    if (clock_ms() + rest_ms >= patience->end_ms)
        return false;
    clock_rest(rest_ms);
    return true;
}
