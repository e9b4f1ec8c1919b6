/* Threads of the libraries: they run no signal handlers of the process. */
#ifndef LOCKSTOCK_BASE_THREAD_H
#define LOCKSTOCK_BASE_THREAD_H

#include <stdbool.h>

/* Starts a detached thread with all signals blocked. False when the system has none to give. */
bool thread_start(void *(*run)(void *arg), void *arg);

#endif
