/* Unpredictable random bytes from OpenSSL's generator, which is seeded by the system's generator and ten times as
 * fast. */
#ifndef LOCKSTOCK_SERVER_RANDOM_H
#define LOCKSTOCK_SERVER_RANDOM_H

#include <stddef.h>

/* Aborts the process if there are no random bytes: no id would be safe without them. */
void random_fill(void *bytes, size_t len);

#endif
