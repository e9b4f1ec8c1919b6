/* Invariant: one redis-server for each directory. After it was locked the directory is only used through its
 * descriptor, wherever its path leads. redis-server inherits the descriptor, so the lock lasts while either process
 * lives; the kernel kills redis-server when its parent ends.
 *
 *   RUNNING --ended--> PAUSING --pause over--> REPAIRING --repaired, started--> RUNNING
 *   PAUSING --no room on the disk--> FULL --room--> REPAIRING --not repaired, not started--> PAUSING
 *   RUNNING --ended, would end again--> BROKEN; REPAIRING --the data is damaged--> BROKEN
 *   each --close--> STOPPING --redis-server and the repair have ended--> closed
 *
 *   DIR                the lock (dirlock.c)
 *   DIR/lock           the holder of the lock
 *   DIR/redis.log      redis-server's log
 *   DIR/redis.sock     its socket, for this user alone
 *   DIR/appendonlydir  the data
 *
 * redis-server opens the socket relative to DIR, and this process through the descriptor, because a socket's path
 * has at most 107 bytes. */
#include "store/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "log.h"
#include "memory.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "store/aof.h"
#include "store/dirlock.h"
#include "store/errors.h"

enum {
    START_TIMEOUT_MS = 10000,
    STOP_TIMEOUT_MS = 10000,
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 2000,
    SERVED_WELL_MS = 2000,        /* after serving this long, pauses are short again */
    UNSERVED_MAX = 3,             /* exits in a row, each before it served */
    HIGH_FD = 10,                 /* above the standard descriptors */
    ROOM_BYTES_MIN = 1024 * 1024, /* on the disk; with less, redis-server ends at its first write */
    REASON_BYTES = 256,
    REPAIRING_LOG_BYTES = 256 * 1024 * 1024,
    LOOK_MS = 10, /* whether the socket exists */
    FULL_LOOK_MS = 1000,
    SOCKET_BYTES = sizeof((struct sockaddr_un *)0)->sun_path,
};
static const char no_room[] = "the store cannot write its data to disk: less than 1 MiB is free there";

#define SOCKET_NAME "redis.sock"
#define LOG_NAME "redis.log"
enum { DIR_BYTES_MAX = PATH_MAX - sizeof "/" SOCKET_NAME };

typedef enum state { RUNNING, PAUSING, FULL, REPAIRING, BROKEN, STOPPING } state;

struct embedded {
    embedded_options options;
    state state;
    bool serves;        /* redis-server has answered since it was started */
    bool served;        /* since the store was opened */
    bool has_served;    /* ever from this directory */
    char dir[PATH_MAX]; /* this and the next two are for messages */
    char log_path[PATH_MAX];
    char address[PATH_MAX];
    char socket[SOCKET_BYTES];
    int dir_fd; /* holds the lock */
    pid_t pid;  /* 0 = none; in RUNNING there is one */
    int pidfd;  /* of pid; -1 = none, or passed to watch() */
    uint64_t starts;
    unsigned failures;
    unsigned unserved; /* exits in a row, each before it served */
    uint64_t serves_since_ns;
    uint64_t random;  /* of backoff_ns */
    uv_timer_t timer; /* ends PAUSING and FULL; in STOPPING, the wait */
    uv_work_t repairing;
    off_t logged_repaired;  /* bytes read of the file, as last logged */
    lks_error not_repaired; /* why the file was not repaired; LKS_OK: it was */
    bool is_open;           /* embedded_open has returned it */
    atomic_bool stops_repairing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- the process --------------------------------------------------------------- */

/* Runs in the child: only async-signal-safe calls. Writes an errno to `report`. */
static void become_redis(char *const argv[], int dir_fd, int report, pid_t parent)
{
    sigset_t none;
    int failure, null, output;

    setsid(); /* the terminal's Ctrl-C ends lockstockd, which then stops this process in order */
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* the parent ended before prctl: no signal will come */
    null = open("/dev/null", O_RDWR);
    umask(S_IRWXG | S_IRWXO); /* only this user can use its files */
    output = openat(dir_fd, LOG_NAME, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    dir_fd = fcntl(dir_fd, F_DUPFD, HIGH_FD);
    report = fcntl(report, F_DUPFD_CLOEXEC, dir_fd + 1);
    if (dir_fd < 0 || report < 0)
        _exit(1);
    dup2(null, STDIN_FILENO);
    dup2(output >= 0 ? output : null, STDOUT_FILENO);
    dup2(output >= 0 ? output : null, STDERR_FILENO);
    close_range(STDERR_FILENO + 1, (unsigned)dir_fd - 1, 0);
    close_range((unsigned)dir_fd + 1, (unsigned)report - 1, 0);
    close_range((unsigned)report + 1, ~0U, 0);
    if (fchdir(dir_fd) == 0)
        execvp(argv[0], argv);
    failure = errno;
    if (write(report, &failure, sizeof failure) < 0)
        _exit(1);
    _exit(127);
}

/* Blocks signals around fork, so that no handler runs in the child. */
static pid_t fork_redis(embedded *e, int report)
{
    /* clang-format off */
    const char *argv[] = {
        "redis-server",
        "--port", "0",
        "--unixsocket", SOCKET_NAME,
        "--unixsocketperm", "700",
        "--appendonly", "yes",
        "--appendfsync", e->options.store->fsync,
        "--aof-load-truncated", "no",
        "--save", "",
        "--maxmemory-policy", "noeviction",
        "--stream-node-max-bytes", "256", /* a ledger of one entry takes a whole node, which has 4096 by default */
        "--daemonize", "no",
        "--logfile", LOG_NAME,
        NULL,
    };
    /* clang-format on */
    pid_t parent = getpid();
    sigset_t all, old;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    pid_t pid = fork();
    if (pid == 0)
        become_redis((char *const *)(const void *)argv, e->dir_fd, report, parent);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

/* Writes a path through the descriptor. */
static void path_of(const embedded *e, const char *name, char *path, size_t size)
{
    snprintf(path, size, "/proc/self/fd/%d/%s", e->dir_fd, name);
}

static void note(const embedded *e, int pid)
{
    int failure = dirlock_note(e->dir_fd, pid, e->has_served);

    if (failure != 0)
        log_warn("store-note", "error=\"%s\"", strerror(failure));
}

/* From the end of embedded_open on, embedded_close stops it. */
static bool is_stop_requested(const embedded *e)
{
    const store_options *of = e->options.store;

    return !e->is_open && of->stop_requested && of->stop_requested(of->arg);
}

static bool on_repairing(void *arg, off_t done, off_t size)
{
    embedded *e = arg;

    if (done - e->logged_repaired >= REPAIRING_LOG_BYTES) {
        e->logged_repaired = done;
        log_info("store-mending", "dir=%s bytes=%lld of=%lld", e->dir, (long long)done, (long long)size);
    }
    return !atomic_load(&e->stops_repairing) && !is_stop_requested(e);
}

/* Returns the free bytes on the disk; -1: not known. */
static int64_t room_of(const embedded *e)
{
    struct statvfs disk;

    return fstatvfs(e->dir_fd, &disk) == 0 ? (int64_t)(disk.f_bavail * disk.f_frsize) : -1;
}

static bool has_room(const embedded *e)
{
    int64_t room = room_of(e);

    return room < 0 || room >= ROOM_BYTES_MIN;
}

/* Runs on any thread. */
static lks_code repair(embedded *e, lks_error *error)
{
    char dir[SOCKET_BYTES];
    aof_repaired done;
    lks_error why;

    path_of(e, "", dir, sizeof dir);
    e->logged_repaired = 0;
    lks_code code = aof_repair(dir, e->has_served, on_repairing, e, &done, &why);
    if (code != LKS_OK)
        return lks_error_set(error, code, LKS_APPLIED_NO, "the store in %s: %s", e->dir, why.message);
    if (done.cut > 0)
        log_warn("store-mended", "dir=%s bytes=%lld kept=\"%s\" reason=\"it ended in the middle of a transaction\"",
                 e->dir, (long long)done.cut, done.kept);
    return LKS_OK;
}

/* Starts redis-server, and returns after exec: 0, or an errno. */
static int spawn(embedded *e)
{
    int report[2], failure = 0;

    if (pipe2(report, O_CLOEXEC) != 0)
        return errno;
    pid_t pid = fork_redis(e, report[1]);
    if (pid < 0)
        failure = errno;
    close(report[1]);
    if (pid > 0 && read(report[0], &failure, sizeof failure) <= 0)
        failure = 0; /* exec closed the pipe */
    close(report[0]);
    if (pid > 0 && failure == 0 && (e->pidfd = pidfd_open(pid, 0)) < 0)
        failure = errno;
    if (failure != 0 && pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (failure == 0) {
        e->pid = pid;
        e->starts++;
        e->serves = false;
    }
    return failure;
}

/* ---- its end ------------------------------------------------------------------- */

static void on_pause_over(uv_timer_t *timer);

static void pause_then_spawn(embedded *e)
{
    uint64_t ns = e->failures == 0 ? 0 : backoff_ns(PAUSE_MIN_MS, PAUSE_MAX_MS, e->failures, &e->random);

    e->failures++;
    e->state = PAUSING;
    uv_timer_start(&e->timer, on_pause_over, ns / CLOCK_NS_PER_MS, 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
    embedded *e = handle->data;
    void (*closed)(void *arg) = e->closed;
    void *arg = e->closed_arg;

    free(e);
    closed(arg);
}

static void release_dir(embedded *e)
{
    note(e, 0);
    close(e->dir_fd);
    uv_close((uv_handle_t *)&e->timer, on_timer_closed);
}

static void on_watch_closed(uv_handle_t *handle)
{
    int fd;

    if (uv_fileno(handle, &fd) == 0)
        close(fd);
    free(handle);
}

/* Whether a process exited or died of a signal that a program causes itself, so that it would end again. */
static bool would_end_again(int how)
{
    static const int own[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};

    for (size_t i = 0; WIFSIGNALED(how) && i < sizeof own / sizeof *own; i++)
        if (WTERMSIG(how) == own[i])
            return true;
    return WIFEXITED(how);
}

/* Counts an end. Returns false if it will never serve. A restart has several tries: memory or disk may be short for a
 * moment. */
static bool may_serve_again(embedded *e, int how)
{
    if (e->serves) {
        e->unserved = 0;
        if (clock_now_ns() - e->serves_since_ns >= SERVED_WELL_MS * CLOCK_NS_PER_MS)
            e->failures = 0;
    } else if (would_end_again(how)) {
        e->unserved++;
    }
    return e->unserved < (e->served ? UNSERVED_MAX : 1);
}

static void on_end(uv_poll_t *watch, int status, int events)
{
    embedded *e = watch->data;
    char reason[REASON_BYTES];
    int how = 0;

    (void)status;
    (void)events;
    if (waitpid(e->pid, &how, WNOHANG) == 0)
        return;
    uv_close((uv_handle_t *)watch, on_watch_closed);
    if (e->state == STOPPING) {
        log_info("store-stopped", "pid=%d", (int)e->pid);
        e->pid = 0;
        release_dir(e);
        return;
    }
    log_error("store-ended", "pid=%d %s=%d log=%s", (int)e->pid, WIFSIGNALED(how) ? "signal" : "exit",
              WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how), e->log_path);
    e->pid = 0;
    if (may_serve_again(e, how)) {
        pause_then_spawn(e);
        return;
    }
    e->state = BROKEN;
    snprintf(reason, sizeof reason, "redis-server ends before it serves; see %.200s", e->log_path);
    e->options.on_broken(e->options.arg, STORE_FAULT(STORE_UNREACHABLE, reason));
}

static void watch(embedded *e)
{
    uv_poll_t *poll = memory_alloc(sizeof *poll);
    int status = uv_poll_init(e->options.store->loop, poll, e->pidfd);

    if (status < 0) {
        log_error("store-not-watched", "error=\"%s\"", uv_strerror(status));
        abort(); /* epoll is out of descriptors or memory */
    }
    poll->data = e;
    e->pidfd = -1;
    e->state = RUNNING;
    uv_poll_start(poll, UV_READABLE, on_end);
    log_info("store-started", "pid=%d dir=%s fsync=%s", (int)e->pid, e->dir, e->options.store->fsync);
}

static void repair_in_thread(uv_work_t *work)
{
    embedded *e = work->data;

    e->not_repaired = (lks_error){.code = LKS_OK};
    repair(e, &e->not_repaired);
}

static void on_repaired(uv_work_t *work, int status)
{
    embedded *e = work->data;
    (void)status;

    if (e->state == STOPPING) {
        release_dir(e);
        return;
    }
    if (e->not_repaired.code == LKS_FAILED_PRECONDITION) {
        e->state = BROKEN;
        log_error("store-damaged", "reason=\"%s\"", e->not_repaired.message);
        e->options.on_broken(e->options.arg, STORE_FAULT(STORE_UNREACHABLE, e->not_repaired.message));
        return;
    }
    int failure = e->not_repaired.code == LKS_OK ? spawn(e) : 0;
    if (failure != 0 || e->not_repaired.code != LKS_OK) {
        log_error("store-not-started", "error=\"%s\"", failure ? strerror(failure) : e->not_repaired.message);
        pause_then_spawn(e);
    } else {
        watch(e);
    }
}

static void on_pause_over(uv_timer_t *timer)
{
    embedded *e = timer->data;
    bool was_full = e->state == FULL;

    if (!has_room(e)) {
        e->state = FULL;
        if (!was_full)
            e->options.on_full(e->options.arg);
        uv_timer_start(&e->timer, on_pause_over, FULL_LOOK_MS, 0);
        return;
    }
    e->state = REPAIRING;
    e->repairing.data = e;
    uv_queue_work(e->options.store->loop, &e->repairing, repair_in_thread,
                  on_repaired); /* fails only for a NULL function */
}

/* ---- opening ------------------------------------------------------------------- */

static bool has_socket(const embedded *e)
{
    struct stat found;

    return fstatat(e->dir_fd, SOCKET_NAME, &found, 0) == 0;
}

/* Waits until the socket exists or the process has ended. */
static lks_code wait_for_socket(embedded *e, lks_error *error)
{
    struct pollfd end = {.fd = e->pidfd, .events = POLLIN};
    uint64_t until_ns = clock_in_ms(START_TIMEOUT_MS);
    int how = 0;

    for (bool late = false; !late && poll(&end, 1, LOOK_MS) <= 0 && !is_stop_requested(e);) {
        late = clock_now_ns() >= until_ns;
        if (has_socket(e))
            return LKS_OK;
    }
    bool ended = end.revents != 0, stopped = is_stop_requested(e);
    if (!ended)
        kill(e->pid, SIGKILL);
    waitpid(e->pid, &how, 0);
    e->pid = 0;
    if (stopped)
        return lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "stopped");
    if (ended && would_end_again(how))
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "redis-server ends before it serves; see %s", e->log_path);
    return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "redis-server %s; see %s",
                         ended ? "was killed as soon as it was started" : "does not listen", e->log_path);
}

/* A killed redis-server leaves its socket. */
static lks_code start(embedded *e, lks_error *error)
{
    unlinkat(e->dir_fd, SOCKET_NAME, 0);
    int failure = spawn(e);
    if (failure != 0)
        return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "cannot start redis-server: %s%s",
                             strerror(failure), failure == ENOENT ? " (is it installed?)" : "");
    return wait_for_socket(e, error);
}

lks_code embedded_open(const embedded_options *options, embedded **ret, lks_error *error)
{
    const char *dir = options->dir, *fsync = options->store->fsync;
    embedded *e = memory_alloc(sizeof *e);
    lks_code code;

    *e = (embedded){.options = *options, .random = backoff_random(), .dir_fd = -1, .pidfd = -1};
    if (strcmp(fsync, "always") != 0 && strcmp(fsync, "everysec") != 0) {
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "fsync: must be always or everysec");
        goto failed;
    }
    if ((code = dirlock_take(dir, &e->dir_fd, error)) != LKS_OK)
        goto failed;
    if (!realpath(dir, e->dir) || strlen(e->dir) > DIR_BYTES_MAX) {
        code = lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "cannot use the directory %s", dir);
        goto failed;
    }
    snprintf(e->log_path, sizeof e->log_path, "%.*s/" LOG_NAME, DIR_BYTES_MAX, e->dir);
    snprintf(e->address, sizeof e->address, "%.*s/" SOCKET_NAME, DIR_BYTES_MAX, e->dir);
    path_of(e, SOCKET_NAME, e->socket, sizeof e->socket);
    e->has_served = dirlock_has_served(e->dir_fd);
    note(e, (int)getpid());
    if (!has_room(e)) {
        code = lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s", no_room);
        goto failed;
    }
    if ((code = repair(e, error)) != LKS_OK || (code = start(e, error)) != LKS_OK)
        goto failed;
    e->is_open = true;
    uv_timer_init(options->store->loop, &e->timer);
    e->timer.data = e;
    watch(e);
    *ret = e;
    return LKS_OK;

failed:
    if (e->pidfd >= 0)
        close(e->pidfd);
    if (e->dir_fd >= 0)
        close(e->dir_fd);
    free(e);
    return code;
}

void embedded_serves(embedded *e)
{
    if (!e->serves)
        e->serves_since_ns = clock_now_ns();
    e->serves = true;
    e->served = true;
    if (!e->has_served) {
        e->has_served = true;
        note(e, (int)getpid());
    }
}

/* redis-server makes its socket only when it starts. */
void embedded_lost(embedded *e)
{
    if (e->state != RUNNING || !e->serves || has_socket(e) || errno != ENOENT)
        return;
    log_warn("store-socket-gone", "pid=%d dir=%s action=\"start it again\"", (int)e->pid, e->dir);
    kill(e->pid, SIGTERM);
}

store_process embedded_look(const embedded *e)
{
    return (store_process){.starts = e->starts, .disk_free_bytes = room_of(e)};
}

bool embedded_has_files(const embedded *e)
{
    return faccessat(e->dir_fd, "appendonlydir/appendonly.aof.manifest", F_OK, 0) == 0;
}

const char *embedded_full(const embedded *e)
{
    return e->state == FULL ? no_room : NULL;
}

const char *embedded_socket(const embedded *e)
{
    return e->socket;
}

const char *embedded_address(const embedded *e)
{
    return e->address;
}

static void on_stop_timeout(uv_timer_t *timer)
{
    embedded *e = timer->data;

    log_warn("store-killed", "pid=%d reason=\"it does not stop\"", (int)e->pid);
    kill(e->pid, SIGKILL);
}

void embedded_close(embedded *e, void (*closed)(void *arg), void *arg)
{
    state before = e->state;

    e->closed = closed;
    e->closed_arg = arg;
    e->state = STOPPING;
    uv_timer_stop(&e->timer);
    atomic_store(&e->stops_repairing, true);
    if (before == REPAIRING)
        return; /* on_repaired continues */
    if (before != RUNNING) {
        release_dir(e);
        return;
    }
    kill(e->pid, SIGTERM);
    uv_timer_start(&e->timer, on_stop_timeout, STOP_TIMEOUT_MS, 0);
}
