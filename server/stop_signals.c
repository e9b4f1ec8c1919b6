#include "stop_signals.h"

#include <stddef.h>

static const int stop_signals[] = {SIGTERM, SIGINT};
enum { N_STOP_SIGNALS = sizeof stop_signals / sizeof stop_signals[0] };

sigset_t stop_signals_block(void)
{
    sigset_t held, before;

    sigemptyset(&held);
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        sigaddset(&held, stop_signals[i]);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    return before;
}

void stop_signals_restore(const sigset_t *held)
{
    pthread_sigmask(SIG_SETMASK, held, NULL);
}

bool stop_signals_pending(void *arg)
{
    sigset_t pending;
    (void)arg;

    sigpending(&pending);
    for (size_t i = 0; i < N_STOP_SIGNALS; i++)
        if (sigismember(&pending, stop_signals[i]) == 1)
            return true;
    return false;
}
