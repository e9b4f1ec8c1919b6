/* A lock with a name: the keeper renews it while it is held, and the end of the block releases it.
 *
 *     mutex [URL [NAME]] */
#include <lockstock/lockstock.h>
#include <stdio.h>

/* On the keeper's thread: it must not block. */
static void on_lost(void *arg, const lks_lock_loss *loss)
{
    (void)arg;
    fprintf(stderr, "%s is lost: its holder must stop\n", loss->name);
}

/* Writes what the lock protects, which refuses a fence below the highest one seen (fenced_row.c): the write of a holder
 * that lost the lock without knowing. */
static int write_report(uint64_t fence)
{
    printf(fence > 0 ? "written\n" : "no fence\n");
    return fence == 0;
}

static int work(lks_mutex *mutex)
{
    lks_error error;
    LKS_MUTEX_GUARD guard = lks_mutex_guard_take(mutex, 2000, &error);

    switch (guard.result) {
    case LKS_LOCK_ACQUIRED:
        return lks_mutex_is_lost(mutex) ? 1 : write_report(lks_mutex_fence(mutex));
    case LKS_LOCK_BUSY:
    case LKS_LOCK_TIMED_OUT:
        printf("someone else is at it\n");
        return 0;
    default:
        fprintf(stderr, "%s: %s\n", lks_code_name(error.code), error.message);
        return 1;
    }
}

int main(int argc, char **argv)
{
    const lks_lock_options options = {.lease_ms = 10000, .on_lost = on_lost};
    lks_channel *channel;
    lks_mutex *mutex;
    lks_error error;
    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error) != LKS_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    if (lks_mutex_new(channel, argc > 2 ? argv[2] : "report", &options, &mutex, &error) != LKS_OK)
        return fprintf(stderr, "%s\n", error.message), 1;

    int status = work(mutex);
    lks_mutex_free(mutex);
    lks_channel_close(channel);
    return status;
}
