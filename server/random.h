/* Unpredictable random bytes from OpenSSL's generator, which the system's generator seeds: that one takes ten times as
 * long. */
#ifndef LOCKSTOCK_SERVER_RANDOM_H
#define LOCKSTOCK_SERVER_RANDOM_H

#include <stddef.h>

/* Ends the process (abort) if there is none: no id would be safe without it. */
void random_fill(void *bytes, size_t len);

#endif
