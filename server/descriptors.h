/* The limit of file descriptors of this process. A connection needs one. */
#ifndef LOCKSTOCK_SERVER_DESCRIPTORS_H
#define LOCKSTOCK_SERVER_DESCRIPTORS_H

#include <lockstock/status.h>

/* Reserved for everything other than connections: listeners, the store, the loop, files. */
enum { DESCRIPTORS_RESERVE = 100 };

/* Raises RLIMIT_NOFILE to the hard limit. If that is too low for *connections, lowers *connections to fit and warns in
 * the log; the server then refuses connections before the limit makes an open() fail elsewhere.
 * LKS_FAILED_PRECONDITION: the limit does not allow any connection. */
lks_code descriptors_raise(long *connections, lks_error *error);

#endif
