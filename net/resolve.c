/* Invariant: the thread and the owner both release the resolution; the second one frees it. */
#include "net/resolve.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/thread.h"

/*   LOOKING_UP --done--> FINISHED --resolve_end, resolve_cancel--> freed
 *        \--resolve_cancel--> CANCELLED --the thread returns--> freed */
typedef enum resolution_state { LOOKING_UP, FINISHED, CANCELLED } resolution_state;

struct resolution {
    pthread_mutex_t lock;
    resolution_state state;
    int failed; /* getaddrinfo's */
    struct addrinfo *addresses;
    void (*found)(void *arg);
    void *arg;
    uint16_t port;
    char host[];
};

static int look_up(const char *host, uint16_t port, int flags, struct addrinfo **ret)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    char digits[ADDRESS_PORT_BYTES];

    snprintf(digits, sizeof digits, "%u", port);
    int failed = getaddrinfo(host, digits, &hints, ret);
    if (failed != 0)
        *ret = NULL;
    return failed;
}

struct addrinfo *resolve_numeric(const char *host, uint16_t port)
{
    struct addrinfo *addresses;

    look_up(host, port, AI_NUMERICHOST, &addresses);
    return addresses;
}

static void resolution_free(struct resolution *resolution)
{
    pthread_mutex_destroy(&resolution->lock);
    free(resolution);
}

static void *resolve(void *arg)
{
    struct resolution *resolution = arg;
    struct addrinfo *addresses;
    int failed = look_up(resolution->host, resolution->port, 0, &addresses);

    pthread_mutex_lock(&resolution->lock);
    bool cancelled = resolution->state == CANCELLED;
    if (!cancelled) {
        resolution->addresses = addresses;
        resolution->failed = failed;
        resolution->state = FINISHED;
        resolution->found(resolution->arg);
    }
    pthread_mutex_unlock(&resolution->lock);
    if (!cancelled)
        return NULL;
    if (addresses)
        freeaddrinfo(addresses);
    resolution_free(resolution);
    return NULL;
}

struct resolution *resolve_start(const char *host, uint16_t port, void (*found)(void *arg), void *arg)
{
    struct resolution *resolution = malloc(sizeof *resolution + strlen(host) + 1);

    if (!resolution)
        return NULL;
    *resolution = (struct resolution){.found = found, .arg = arg, .port = port};
    strcpy(resolution->host, host);
    pthread_mutex_init(&resolution->lock, NULL);
    if (thread_start(resolve, resolution))
        return resolution;
    resolution_free(resolution);
    return NULL;
}

bool resolve_is_over(struct resolution *resolution)
{
    pthread_mutex_lock(&resolution->lock);
    bool finished = resolution->state == FINISHED;
    pthread_mutex_unlock(&resolution->lock);
    return finished;
}

struct addrinfo *resolve_end(struct resolution *resolution, const char **why)
{
    pthread_mutex_lock(&resolution->lock); /* the thread may still hold it */
    struct addrinfo *addresses = resolution->addresses;
    *why = resolution->failed != 0 ? gai_strerror(resolution->failed) : "no address";
    pthread_mutex_unlock(&resolution->lock);
    resolution_free(resolution);
    return addresses;
}

void resolve_cancel(struct resolution *resolution)
{
    if (!resolution)
        return;
    pthread_mutex_lock(&resolution->lock);
    bool finished = resolution->state == FINISHED;
    struct addrinfo *addresses = resolution->addresses;
    resolution->state = CANCELLED;
    pthread_mutex_unlock(&resolution->lock);
    if (addresses)
        freeaddrinfo(addresses);
    if (finished)
        resolution_free(resolution);
}
