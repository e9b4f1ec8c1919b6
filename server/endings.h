/* The signals that end the server, while its loop does not run yet: they are held back, and can be looked for. */
#ifndef LOCKSTOCK_SERVER_ENDINGS_H
#define LOCKSTOCK_SERVER_ENDINGS_H

#include <signal.h>
#include <stdbool.h>

/* Returns what endings_release takes. The calling thread's. */
sigset_t endings_hold(void);
void endings_release(const sigset_t *held);

/* Whether one came since endings_hold. The argument is not used. */
bool endings_came(void *arg);

#endif
