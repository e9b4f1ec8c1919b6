#include "holder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/mutex.h>

#include "lease.h"

/* ---- the parent's side ---------------------------------------------------------- */

static lks_code failure(lks_error *error, const char *what)
{
    return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the holder: %s", what);
}

lks_code holder_start(const char *program, const char *urls, const char *name, uint32_t lease_ms, holder *ret,
                      lks_error *error)
{
    char lease_text[16], line[64];
    const char *argv[] = {program, HOLDER_FLAG, urls, name, lease_text, NULL};

    *ret = (holder){0};
    snprintf(lease_text, sizeof lease_text, "%" PRIu32, lease_ms);
    if (!child_start(program, argv, &ret->process))
        return failure(error, "cannot be started");
    if (!child_line(&ret->process, line, sizeof line) || sscanf(line, "holds %" SCNu64, &ret->fence) != 1)
        return failure(error, "does not get the lock");
    return LKS_OK;
}

lks_code holder_write(holder *h, bool *written, bool *lost, lks_error *error)
{
    char line[64], word[16];
    int is_lost;

    if (!child_tell(&h->process, "write\n") || !child_line(&h->process, line, sizeof line) ||
        sscanf(line, "%15s %d", word, &is_lost) != 2)
        return failure(error, "says nothing");
    *written = strcmp(word, "OK") == 0;
    *lost = is_lost != 0;
    return LKS_OK;
}

void holder_end(holder *h)
{
    child_end(&h->process);
    *h = (holder){0};
}

/* ---- the holder's side ---------------------------------------------------------- */

/* Holds, and writes when it is told to. */
static lks_code hold(lks_channel *channel, const char *name, lks_mutex *mutex, lks_error *error)
{
    char line[16];
    uint64_t fence;

    if (lks_mutex_lock(mutex, 0, error) != LKS_LOCK_ACQUIRED)
        return LKS_ABORTED;
    fence = lks_mutex_fence(mutex);
    printf("holds %" PRIu64 "\n", fence);
    fflush(stdout);
    lks_code code = LKS_OK;
    if (fgets(line, sizeof line, stdin)) {
        /* Written without a look at lks_mutex_is_lost, which may be asked too early. */
        bool good = false;
        code = lease_check_fence(channel, name, fence, &good, error);
        printf("%s %d\n", good ? "OK" : "STALE", lks_mutex_is_lost(mutex));
        fflush(stdout);
    }
    lks_mutex_unlock(mutex, NULL);
    return code;
}

int holder_main(int argc, char **argv)
{
    lks_channel *channel = NULL;
    lks_mutex *mutex = NULL;
    lks_error error = {0};

    if (argc != 5 || !child_begin())
        return 2;
    const lks_lock_options options = {.lease_ms = (uint32_t)strtoul(argv[4], NULL, 10)};
    lks_code code = lks_channel_open(argv[2], NULL, &channel, &error);
    if (code == LKS_OK && (code = lks_mutex_new(channel, argv[3], &options, &mutex, &error)) == LKS_OK)
        code = hold(channel, argv[3], mutex, &error);
    if (code != LKS_OK)
        fprintf(stderr, "seckill %s: %s: %s\n", HOLDER_FLAG, lks_code_name(error.code), error.message);
    lks_mutex_free(mutex);
    lks_channel_close(channel);
    return code == LKS_OK ? 0 : 1;
}
