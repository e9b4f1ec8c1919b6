/* Messages are a byte or two on a socket: news this way, one byte "release" the other. */
#include "lock_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/mutex.h>

#include "base/clock.h"

/* A ForceRelease is noticed at the next renewal: until then the program overlaps with the next holder's. */
enum { RENEW_MS = 1000 };

enum { DEFAULT_LEASE_MS = 30000, MARGIN_PART = 10, MARGIN_MS_MAX = 1000, LOOK_PART = 20, LOOK_MS_MAX = 500 };

typedef struct shared {
    _Atomic uint64_t certain_ns, fence; /* written by the lock process */
    _Atomic pid_t group;                /* the other's */
} shared;

struct lock_process {
    pid_t pid;
    int fd;
    shared *shared;
    uint64_t lease_ms;
    bool held, gone;
    exit_code code;
};

typedef struct message {
    unsigned char news, code;
} message;

/* ---- in the lock process ----------------------------------------------------------------- */

typedef struct work {
    int fd;
    shared *shared;
    const lock_process_options *options;
    lks_mutex *mutex;
    _Atomic bool told; /* of the loss */
} work;

/* The other process is dead. What it ran must not go on without it. */
static _Noreturn void orphan(const work *w)
{
    if (w->shared->group > 0)
        kill(-w->shared->group, SIGKILL);
    _exit(EXIT_OTHER);
}

static void send_news(work *w, lock_process_news news, exit_code code)
{
    const message m = {.news = (unsigned char)news, .code = (unsigned char)code};

    if (send(w->fd, &m, sizeof m, MSG_NOSIGNAL) < 0)
        orphan(w);
}

static void say_lost(work *w, lks_loss_reason reason)
{
    static const char *const reasons[] = {
        [LKS_LOSS_UNRENEWED] = "no server renewed it in time",
        [LKS_LOSS_TAKEN] = "it was taken away, or its lease had ended",
        [LKS_LOSS_MAX_HOLD] = "it was held for too long",
    };

    fprintf(stderr, "lockstock: the lock is lost: %s\n", reasons[reason]);
    w->told = true;
}

static void on_lost(void *arg, const lks_lock_loss *loss)
{
    work *w = arg;

    say_lost(w, loss->reason);
    send_news(w, LOCK_PROCESS_LOST, EXIT_LOST);
}

/* Makes an error about the request name the flag that the field came from. Without --group the lock's name is the
 * group, too. */
static void name_flag(const lock_process_options *o, lks_error *error)
{
    if (options_rename(error, "targets[0].name", "--lock") || (!o->group && options_rename(error, "group", "--lock")))
        return;
    options_name_flag(run_options, run_options_len, error);
}

static exit_code not_taken(const lock_process_options *o, lks_lock_result result, lks_error *error)
{
    bool refused = result != LKS_LOCK_FAILED && error->applied == LKS_APPLIED_NO;

    if (result == LKS_LOCK_FAILED)
        name_flag(o, error);
    return refused ? exits_refused("", error->message) : exits_failed(error, false);
}

/* Until the other process wants no more. */
static void keep(work *w, uint64_t lease_ms)
{
    char order;

    uint64_t look_ms = lease_ms / LOOK_PART < LOOK_MS_MAX ? lease_ms / LOOK_PART + 1 : LOOK_MS_MAX;
    struct pollfd fd = {.fd = w->fd, .events = POLLIN};

    do {
        uint64_t now_ns = clock_now_ns(); /* before the look: never too late */
        uint64_t left_ms = lks_mutex_left_ms(w->mutex);
        if (left_ms > 0)
            w->shared->certain_ns = now_ns + left_ms * NS_PER_MS;
        if (w->shared->fence == 0) {
            prctl(PR_SET_PDEATHSIG, 0); /* from now on it sees that itself: the socket ends */
            w->shared->fence = lks_mutex_fence(w->mutex);
            send_news(w, LOCK_PROCESS_HELD, EXIT_DONE);
        }
    } while (poll(&fd, 1, (int)look_ms) == 0);
    if (recv(w->fd, &order, sizeof order, 0) != (ssize_t)sizeof order)
        orphan(w);
}

static exit_code work_on(cli *c, work *w, uint64_t lease_ms)
{
    const lock_process_options *o = w->options;
    const lks_lock_options options = {.group = o->group,
                                      .owner = o->owner,
                                      .lease_ms = cli_ms(o->lease),
                                      .renew_ms = RENEW_MS,
                                      .on_lost = on_lost,
                                      .arg = w};
    lks_channel *channel = NULL;
    lks_error error;
    exit_code code = cli_open(c, &channel);

    if (code != EXIT_DONE)
        return code;
    if (lks_mutex_new(channel, o->name, &options, &w->mutex, &error) != LKS_OK) {
        name_flag(o, &error);
        code = exits_failed(&error, true);
    } else {
        lks_lock_result result = lks_mutex_lock(w->mutex, cli_ms(o->wait), &error);
        if (result == LKS_LOCK_ACQUIRED) {
            keep(w, lease_ms);
            lks_code unlocked = lks_mutex_unlock(w->mutex, &error);
            if (unlocked == LKS_ABORTED)
                code = EXIT_LOST;
            if (unlocked == LKS_ABORTED && !w->told)
                say_lost(w, LKS_LOSS_TAKEN);
            else if (unlocked != LKS_OK && !w->told)
                exits_failed(&error, false);
        } else {
            code = not_taken(o, result, &error);
        }
        lks_mutex_free(w->mutex);
    }
    lks_channel_close(channel);
    return code;
}

/* It ends when its parent does, and by no signal that is meant for that. */
static _Noreturn void become_keeper(cli *c, work *w, pid_t parent, uint64_t lease_ms)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    if (getppid() != parent)
        _exit(EXIT_OTHER);
    exit_code code = work_on(c, w, lease_ms);
    send_news(w, code == EXIT_DONE ? LOCK_PROCESS_DONE : LOCK_PROCESS_FAILED, code);
    _exit((int)code);
}

/* ---- in the other process ---------------------------------------------------------- */

lock_process *lock_process_start(cli *c, const lock_process_options *options)
{
    int fds[2] = {-1, -1};
    pid_t parent = getpid();
    lock_process *k = calloc(1, sizeof *k);
    shared *common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (!k || common == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        exits_wrong("lockstock", strerror(errno));
        if (common != MAP_FAILED)
            munmap(common, sizeof *common);
        free(k);
        return NULL;
    }
    *k = (lock_process){
        .fd = fds[0], .shared = common, .lease_ms = options->lease ? (uint64_t)options->lease : DEFAULT_LEASE_MS};
    k->pid = fork();
    if (k->pid == 0) {
        work w = {.fd = fds[1], .shared = common, .options = options};
        close(fds[0]);
        become_keeper(c, &w, parent, k->lease_ms);
    }
    close(fds[1]);
    if (k->pid > 0)
        return k;
    exits_wrong("lockstock", strerror(errno));
    lock_process_free(k);
    return NULL;
}

int lock_process_fd(const lock_process *k)
{
    return k->fd;
}

lock_process_news lock_process_next(lock_process *k)
{
    message m;
    ssize_t n = recv(k->fd, &m, sizeof m, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return LOCK_PROCESS_NONE;
    if (n != (ssize_t)sizeof m) {
        m = (message){.news = k->held && !k->gone ? LOCK_PROCESS_LOST : LOCK_PROCESS_FAILED, .code = EXIT_OTHER};
        k->gone = true;
    }
    k->held = k->held || m.news == LOCK_PROCESS_HELD;
    k->code = (exit_code)m.code;
    return (lock_process_news)m.news;
}

uint64_t lock_process_fence(const lock_process *k)
{
    return k->shared->fence;
}

uint64_t lock_process_certain_ns(const lock_process *k)
{
    return k->shared->certain_ns;
}

uint64_t lock_process_margin_ns(const lock_process *k)
{
    uint64_t ms = k->lease_ms / MARGIN_PART;

    return (ms < MARGIN_MS_MAX ? ms : MARGIN_MS_MAX) * NS_PER_MS;
}

exit_code lock_process_code(const lock_process *k)
{
    return k->code;
}

void lock_process_guard(lock_process *k, pid_t group)
{
    k->shared->group = group;
}

void lock_process_release(lock_process *k)
{
    (void)send(k->fd, "", 1, MSG_NOSIGNAL); /* when it is gone, lock_process_next tells */
}

void lock_process_free(lock_process *k)
{
    if (!k)
        return;
    if (k->pid > 0) {
        kill(k->pid, SIGKILL);
        waitpid(k->pid, NULL, 0);
    }
    close(k->fd);
    munmap(k->shared, sizeof *k->shared);
    free(k);
}
