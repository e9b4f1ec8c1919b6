#include "unit/fake_names.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ADDRESSES_BYTES = 1024 };

typedef int look_up(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char addresses[ADDRESSES_BYTES];

void fake_name_is(const char *given)
{
    pthread_mutex_lock(&lock);
    snprintf(addresses, sizeof addresses, "%s", given);
    pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) look_up getaddrinfo;
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
    look_up *real = NULL;
    struct addrinfo **end = ret;
    char copy[ADDRESSES_BYTES], *rest = copy, *address;
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    int failed = 0;

    memcpy(&real, &found, sizeof real); /* ISO C has no conversion from an object to a function */
    if (!host || strcmp(host, FAKE_NAME) != 0 || (hints && (hints->ai_flags & AI_NUMERICHOST)))
        return real(host, port, hints, ret);
    pthread_mutex_lock(&lock);
    memcpy(copy, addresses, sizeof copy);
    pthread_mutex_unlock(&lock);
    *ret = NULL;
    while (failed == 0 && (address = strtok_r(rest, " ", &rest))) {
        failed = real(address, port, hints, end);
        if (failed == 0)
            end = &(*end)->ai_next; /* freeaddrinfo takes a list that was joined */
    }
    return failed == 0 && !*ret ? EAI_NONAME : failed;
}
