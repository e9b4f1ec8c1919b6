/* Whether the process is another one than before: after fork the child has none of the library's
 * threads. Costs no call of the system, unlike getpid. */
#ifndef LOCKSTOCK_CLIENT_LOOP_FORKS_H
#define LOCKSTOCK_CLIENT_LOOP_FORKS_H

/* How many forks lie between the first process that asked and this one. Any thread. */
unsigned forks_so_far(void);

#endif
