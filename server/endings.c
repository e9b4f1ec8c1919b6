#include "endings.h"

#include <stddef.h>

static const int endings[] = {SIGTERM, SIGINT};
enum { N_ENDINGS = sizeof endings / sizeof endings[0] };

sigset_t endings_hold(void)
{
    sigset_t held, before;

    sigemptyset(&held);
    for (size_t i = 0; i < N_ENDINGS; i++)
        sigaddset(&held, endings[i]);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    return before;
}

void endings_release(const sigset_t *held)
{
    pthread_sigmask(SIG_SETMASK, held, NULL);
}

bool endings_came(void *arg)
{
    sigset_t pending;
    (void)arg;

    sigpending(&pending);
    for (size_t i = 0; i < N_ENDINGS; i++)
        if (sigismember(&pending, endings[i]) == 1)
            return true;
    return false;
}
