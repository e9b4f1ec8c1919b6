/* What the whole program needs: memory, threads, and an orderly end after a signal. */
#ifndef LOCKSTOCK_BENCH_PROGRAM_H
#define LOCKSTOCK_BENCH_PROGRAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Allocates zeroed memory. Exits when out of memory. */
void *program_alloc(size_t n, size_t size);

/* Starts a thread. Exits if that fails. */
pthread_t program_thread(void *(*function)(void *arg), void *arg);

/* Makes Ctrl-C and SIGTERM end the measurement, so that started programs are ended. Call it once, from main. */
void program_catch_signals(void);
bool program_interrupted(void);

/* Sleeps. Returns false, early, if the program was interrupted. */
bool program_pause(double seconds);

#endif
