/* Ctrl-C and SIGTERM: what runs is ended and what was started is taken away. */
#ifndef LOCKSTOCK_BENCH_INTERRUPT_H
#define LOCKSTOCK_BENCH_INTERRUPT_H

#include <stdbool.h>

/* Once, from main. */
void interrupt_catch(void);

bool interrupted(void);

#endif
