/* Short messages on a socket: the keeper sends news; the parent sends one byte, which asks to release. Longer data is
 * in shared memory; its writer does not change it after the message. */
#include "keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/once.h>

#include "base/clock.h"

enum {
    MARGIN_PART = 10,
    MARGIN_MS_MAX = 1000,
    LOOK_PART = 20,
    LOOK_MS_MAX = 500,
    LOOK_MS_UNKNOWN = 50, /* if only a look shows a loss */
    VARIABLE_BYTES = 512,
};

typedef struct shared {
    /* Written by the keeper. */
    _Atomic uint64_t certain_ns;
    _Atomic bool held;
    unsigned n_variables;
    char variables[KEEPER_VARIABLES_MAX][VARIABLE_BYTES];
    /* Written by the parent. */
    _Atomic pid_t group;
    keeper_end end;
    char output[LKS_ONCE_BODY_MAX];
} shared;

typedef struct message {
    unsigned char news, code;
} message;

/* ---- in the keeper ------------------------------------------------------------------------------- */

struct keeping {
    int fd;
    shared *shared;
    const keeper_kind *kind;
    uint64_t lease_ms;
    _Atomic bool lost; /* keeping_lose was called */
    int code;          /* of keeping_set_code */
};

/* The parent is dead. The program must not run without it. */
static _Noreturn void on_parent_death(const keeping *k)
{
    if (k->shared->group > 0)
        kill(-k->shared->group, SIGKILL);
    _exit(EXIT_OTHER);
}

static void send_news(keeping *k, keeper_news news, int code)
{
    const message m = {.news = (unsigned char)news, .code = (unsigned char)code};

    if (send(k->fd, &m, sizeof m, MSG_NOSIGNAL) < 0)
        on_parent_death(k);
}

void keeping_add_variable(keeping *k, const char *format, ...)
{
    va_list args;

    if (k->shared->n_variables == KEEPER_VARIABLES_MAX)
        return;
    va_start(args, format);
    vsnprintf(k->shared->variables[k->shared->n_variables++], VARIABLE_BYTES, format, args);
    va_end(args);
}

bool keeping_lose(keeping *k, const char *why)
{
    if (atomic_exchange(&k->lost, true))
        return false;
    exits_say("%s is lost: %s", k->kind->what, why);
    send_news(k, KEEPER_LOST, EXIT_LOST);
    return true;
}

bool keeping_is_lost(const keeping *k)
{
    return k->lost;
}

void keeping_set_code(keeping *k, int code)
{
    k->code = code;
}

void keeping_keep(keeping *k, uint32_t (*left_ms)(const void *held), const void *held, keeper_end *ret)
{
    uint64_t look_ms = k->lease_ms / LOOK_PART < LOOK_MS_MAX ? k->lease_ms / LOOK_PART + 1 : LOOK_MS_MAX;
    struct pollfd fd = {.fd = k->fd, .events = POLLIN};
    char order;

    do {
        uint64_t now_ns = clock_now_ns(); /* read first, so that the result is never too late */
        uint32_t left = left_ms(held);
        if (left == UINT32_MAX && look_ms > LOOK_MS_UNKNOWN)
            look_ms = LOOK_MS_UNKNOWN;
        if (left > 0)
            k->shared->certain_ns = left == UINT32_MAX ? UINT64_MAX : now_ns + left * NS_PER_MS;
        if (!k->shared->held) {
            prctl(PR_SET_PDEATHSIG, 0); /* from now on the end of the socket shows that the parent died */
            k->shared->held = true;
            send_news(k, KEEPER_HELD, EXIT_DONE);
        }
    } while (poll(&fd, 1, (int)look_ms) == 0);
    if (recv(k->fd, &order, sizeof order, 0) != (ssize_t)sizeof order)
        on_parent_death(k);
    *ret = k->shared->end;
    ret->output = k->shared->output;
}

/* The keeper ends with its parent. */
static _Noreturn void become_keeper(keeping *k, cli *c, const void *options, pid_t parent)
{
    lks_channel *channel = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_OTHER);
    exit_code code = cli_open(c, &channel);
    if (code == EXIT_DONE)
        code = k->kind->run(k, c, channel, options);
    lks_channel_close(channel);
    code = exits_flush(code, EXIT_OTHER);
    if (code == EXIT_DONE)
        send_news(k, KEEPER_DONE, k->code);
    else
        send_news(k, KEEPER_FAILED, (int)code);
    _exit((int)code);
}

/* ---- in the parent ------------------------------------------------------------------------------- */

keeper *keeper_start(cli *c, const keeper_kind *kind, const void *options, uint64_t lease_ms)
{
    int fds[2] = {-1, -1};
    pid_t parent = getpid();
    keeper *k = calloc(1, sizeof *k);
    shared *common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (!k || common == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        exits_wrong("lockstock", strerror(errno));
        if (common != MAP_FAILED)
            munmap(common, sizeof *common);
        free(k);
        return NULL;
    }
    *k = (keeper){.fd = fds[0], .shared = common, .lease_ms = lease_ms ? lease_ms : KEEPER_DEFAULT_LEASE_MS};
    k->pid = fork();
    if (k->pid == 0) {
        keeping own = {.fd = fds[1], .shared = common, .kind = kind, .lease_ms = k->lease_ms};
        close(fds[0]);
        become_keeper(&own, c, options, parent);
    }
    close(fds[1]);
    if (k->pid > 0)
        return k;
    exits_wrong("lockstock", strerror(errno));
    keeper_free(k);
    return NULL;
}

keeper_news keeper_next(keeper *k)
{
    message m;
    ssize_t n = recv(k->fd, &m, sizeof m, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return KEEPER_NONE;
    if (n != (ssize_t)sizeof m) {
        m = (message){.news = k->held && !k->gone ? KEEPER_LOST : KEEPER_FAILED, .code = EXIT_OTHER};
        k->gone = true;
    }
    k->held = k->held || m.news == KEEPER_HELD;
    k->code = m.code;
    return (keeper_news)m.news;
}

bool keeper_holds(const keeper *k)
{
    return k->shared->held;
}

void keeper_variables(const keeper *k, const char *ret[KEEPER_VARIABLES_MAX + 1])
{
    unsigned n = k->shared->n_variables;

    for (unsigned i = 0; i < n; i++)
        ret[i] = k->shared->variables[i];
    ret[n] = NULL;
}

uint64_t keeper_certain_ns(const keeper *k)
{
    return k->shared->certain_ns;
}

uint64_t keeper_margin_ns(const keeper *k)
{
    uint64_t ms = k->lease_ms / MARGIN_PART;

    return (ms < MARGIN_MS_MAX ? ms : MARGIN_MS_MAX) * NS_PER_MS;
}

void keeper_guard(keeper *k, pid_t group)
{
    k->shared->group = group;
}

char *keeper_room(keeper *k)
{
    return k->shared->output;
}

void keeper_release(keeper *k, const keeper_end *end)
{
    k->shared->end = *end;
    (void)send(k->fd, "", 1, MSG_NOSIGNAL); /* keeper_next reports a keeper that is gone */
}

void keeper_free(keeper *k)
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
