/* Random bytes that nobody can guess, by OpenSSL's generator, which is seeded by the system's: that one takes ten times
 * as long. */
#ifndef LOCKSTOCK_SERVER_RANDOM_H
#define LOCKSTOCK_SERVER_RANDOM_H

#include <stddef.h>

/* Ends the process (abort) if there is none: no id would be safe without it. */
void random_fill(void *bytes, size_t len);

#endif
