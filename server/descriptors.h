/* The descriptors that this process may have: a connection needs one. */
#ifndef LOCKSTOCK_SERVER_DESCRIPTORS_H
#define LOCKSTOCK_SERVER_DESCRIPTORS_H

#include <lockstock/status.h>

/* Kept for everything that is no connection: listeners, the store, the loop, files. */
enum { DESCRIPTORS_RESERVE = 100 };

/* Raises RLIMIT_NOFILE as far as it may be raised. Where that is still too little for
 * *connections, lowers *connections to what there is room for, and warns in the log; so that the
 * limit is met where connections are refused, and not wherever one is opened.
 * LKS_FAILED_PRECONDITION: there is no room for any. */
lks_code descriptors_raise(long *connections, lks_error *error);

#endif
