/* Compares and writes in one step: between a look and a write a holder may freeze. */
#include "resource.h"

bool resource_write(resource *r, const char *writer, uint64_t fence)
{
    pthread_mutex_lock(&r->mutex);
    bool good = fence >= r->fence;
    if (good) {
        r->fence = fence;
        r->writer = writer;
        r->writes++;
    }
    pthread_mutex_unlock(&r->mutex);
    return good;
}
