/* Calls that end with the call for which they are made. Invariant: one lock for all contexts guards the lists, so that
 * a follower can always leave, even while its context ends. */
#include <pthread.h>

#include <lockstock/rpc/service.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_out(lks_rpc_follower *f)
{
    *f->at = f->next;
    if (f->next)
        f->next->at = f->at;
    f->at = NULL;
}

bool lks_rpc_follow(lks_rpc_context *context, lks_rpc_follower *follower)
{
    pthread_mutex_lock(&lock);
    bool stopped = context->stopped;
    context->followed = true;
    if (!stopped) {
        follower->next = context->followers;
        follower->at = &context->followers;
        if (follower->next)
            follower->next->at = &follower->next;
        context->followers = follower;
    }
    pthread_mutex_unlock(&lock);
    return !stopped;
}

void lks_rpc_unfollow(lks_rpc_follower *follower)
{
    pthread_mutex_lock(&lock);
    if (follower->at)
        take_out(follower);
    pthread_mutex_unlock(&lock);
}

void lks_rpc_context_stop(lks_rpc_context *context)
{
    pthread_mutex_lock(&lock);
    context->stopped = true;
    while (context->followers) {
        lks_rpc_follower *f = context->followers;
        take_out(f);
        f->stop(f);
    }
    pthread_mutex_unlock(&lock);
}

void lks_rpc_context_end(lks_rpc_context *context)
{
    if (!context->followed)
        return;
    pthread_mutex_lock(&lock);
    while (context->followers)
        take_out(context->followers);
    pthread_mutex_unlock(&lock);
}
