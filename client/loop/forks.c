/* Invariant: only a child of fork changes `forks`, before its fork returns. */
#include "client/loop/forks.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint forks;

static void in_child(void)
{
    atomic_fetch_add(&forks, 1);
}

/* When out of memory, a child that does not exec is not detected. */
static void watch(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

unsigned forks_so_far(void)
{
    pthread_once(&once, watch);
    return atomic_load(&forks);
}
