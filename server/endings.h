/* Holds back the signals that end the server while its loop does not run yet, and tells whether one has come. */
#ifndef LOCKSTOCK_SERVER_ENDINGS_H
#define LOCKSTOCK_SERVER_ENDINGS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks the signals in the calling thread. Pass the result to endings_release. */
sigset_t endings_hold(void);
void endings_release(const sigset_t *held);

/* Whether a signal came since endings_hold. The argument is not used. */
bool endings_came(void *arg);

#endif
