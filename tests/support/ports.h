/* TCP ports of this machine for servers that a test starts, also over restarts. */
#ifndef LOCKSTOCK_TESTS_PORTS_H
#define LOCKSTOCK_TESTS_PORTS_H

/* Takes a free port. Tests that run beside this one leave it alone, also while nobody listens, until the returned
 * descriptor is closed. */
int ports_take(unsigned short *ret);

#endif
