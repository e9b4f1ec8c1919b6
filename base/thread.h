/* Threads of the libraries, which run no signal handlers of the process. */
#ifndef LOCKSTOCK_BASE_THREAD_H
#define LOCKSTOCK_BASE_THREAD_H

#include <stdbool.h>

/* Starts a detached thread with all signals blocked. False when no thread can be started. */
bool thread_start(void *(*run)(void *arg), void *arg);

#endif
