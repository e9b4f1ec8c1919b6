/* How long a buyer goes on asking for an order that has no answer yet. */
#ifndef SECKILL_PATIENCE_H
#define SECKILL_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

typedef struct sale_patience {
    int64_t end_ms; /* CLOCK_MONOTONIC */
} sale_patience;

int64_t clock_ms(void);

/* Sleeps so many milliseconds; less when a signal comes. */
void clock_rest(int64_t ms);

/* Patience of so many milliseconds, from now. */
sale_patience patience_of(int64_t ms);

/* The deadline to give to the next call: what is left, 1 ms to 10 s. */
uint32_t patience_call_ms(const sale_patience *patience);

/* Rests before the next try, as long as `error` advises; false, at once, when the
 * patience is over. */
bool patience_rest(const sale_patience *patience, const lks_error *error);

#endif
