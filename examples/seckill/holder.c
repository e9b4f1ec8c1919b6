/* The kernel kills the holder when who started it ends, even if it is frozen; and one
 * that starts too late for that finds its standard input at an end. */
#include "holder.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/mutex.h>

#include "lease.h"

extern char **environ;

/* ---- the parent's side ---------------------------------------------------------- */

static lks_code failure(lks_error *error, const char *what)
{
    return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the holder: %s", what);
}

/* Starts it with `socket` as its standard input and output. */
static pid_t spawn(const char *program, const char *const argv[], int socket)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return 0;
    if (posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO) != 0 ||
        posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

lks_code holder_start(const char *program, const char *urls, const char *name, uint32_t lease_ms, holder *ret,
                      lks_error *error)
{
    char lease_text[16], line[64];
    const char *argv[] = {program, HOLDER_FLAG, urls, name, lease_text, NULL};
    int ends[2];

    *ret = (holder){0};
    snprintf(lease_text, sizeof lease_text, "%" PRIu32, lease_ms);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return failure(error, "has no socket");
    ret->pid = spawn(program, argv, ends[1]);
    close(ends[1]);
    ret->talk = fdopen(ends[0], "r");
    if (!ret->talk)
        close(ends[0]);
    if (ret->pid == 0 || !ret->talk)
        return failure(error, "cannot be started");
    if (!fgets(line, sizeof line, ret->talk) || sscanf(line, "holds %" SCNu64, &ret->fence) != 1)
        return failure(error, "does not get the lock");
    return LKS_OK;
}

lks_code holder_write(holder *h, bool *written, bool *lost, lks_error *error)
{
    char line[64], word[16];
    int is_lost;

    if (send(fileno(h->talk), "write\n", 6, MSG_NOSIGNAL) != 6 || !fgets(line, sizeof line, h->talk) ||
        sscanf(line, "%15s %d", word, &is_lost) != 2)
        return failure(error, "says nothing");
    *written = strcmp(word, "OK") == 0;
    *lost = is_lost != 0;
    return LKS_OK;
}

void holder_end(holder *h)
{
    if (h->pid > 0) {
        kill(h->pid, SIGKILL);
        while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (h->talk)
        fclose(h->talk);
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

    if (argc != 5 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
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
