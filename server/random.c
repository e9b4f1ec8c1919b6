/* Called by id_uuid.c. */
#include "random.h"

#include <stdlib.h>

#include <openssl/rand.h>

void random_fill(void *bytes, size_t len)
{
    if (RAND_bytes(bytes, (int)len) != 1)
        abort();
}
