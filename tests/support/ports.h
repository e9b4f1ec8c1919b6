/* TCP ports of 127.0.0.1 for servers that a test starts. */
#ifndef LOCKSTOCK_TESTS_PORTS_H
#define LOCKSTOCK_TESTS_PORTS_H

/* Takes a free port, also for restarts. Tests that run beside this one leave it alone, also while nobody listens, until the returned
 * descriptor is closed. */
int ports_take(unsigned short *ret);

/* Returns a socket that is bound to a port of the system's choice and does not listen. Ends the program when it
 * cannot. */
int ports_bind(unsigned short *ret);

#endif
