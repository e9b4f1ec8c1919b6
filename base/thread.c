#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

bool thread_start(void *(*run)(void *arg), void *arg)
{
    pthread_attr_t detached;
    sigset_t all, before;
    pthread_t thread;

    if (pthread_attr_init(&detached) != 0)
        return false;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&thread, &detached, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return started;
}
