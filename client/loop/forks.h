/* Detects a child of fork, which has none of the library's threads. Makes no system call, unlike getpid. */
#ifndef LOCKSTOCK_CLIENT_LOOP_FORKS_H
#define LOCKSTOCK_CLIENT_LOOP_FORKS_H

/* The number of forks between the first process that called it and this one. Any thread. */
unsigned forks_so_far(void);

#endif
