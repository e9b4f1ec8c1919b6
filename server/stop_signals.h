/* Blocks the signals that stop the server until its loop runs, and reports whether one is pending. */
#ifndef LOCKSTOCK_SERVER_STOP_SIGNALS_H
#define LOCKSTOCK_SERVER_STOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks the signals in the calling thread. Pass the result to stop_signals_restore. */
sigset_t stop_signals_block(void);
void stop_signals_restore(const sigset_t *held);

/* Whether a signal is pending. The argument is not used. */
bool stop_signals_pending(void *arg);

#endif
