#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"
#include "exits.h"

static int events = -1;

int signals_catch(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    struct sigaction before;
    sigset_t set, broken_pipe;

    signal(SIGCHLD, SIG_DFL); /* if it were ignored, no end of a program would be seen */
    sigemptyset(&set);
    sigemptyset(&broken_pipe);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        /* Signals that are ignored stay ignored (nohup), in the child as well. */
        sigaction(caught[i], NULL, &before);
        if (before.sa_handler != SIG_IGN)
            sigaddset(&set, caught[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigaddset(&broken_pipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &broken_pipe, NULL);
    events = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (events < 0)
        exits_wrong("signalfd", strerror(errno));
    return events;
}

bool signals_next(signal_event *ret)
{
    struct signalfd_siginfo info;

    if (read(events, &info, sizeof info) != (ssize_t)sizeof info)
        return false;
    *ret = (signal_event){.number = (int)info.ssi_signo, .from_terminal = info.ssi_code == SI_KERNEL};
    return true;
}

bool child_start(child *c, char *const argv[], const char *const variables[], int output_fd)
{
    bool own = !isatty(STDIN_FILENO);
    pid_t pid = spawn(&(const spawn_options){.argv = (const char *const *)(uintptr_t)argv,
                                             .variables = variables,
                                             .input = SPAWN_INHERIT,
                                             .output = output_fd,
                                             .errors = SPAWN_INHERIT,
                                             .death_signal = SIGKILL,
                                             .own_group = own,
                                             .name = "lockstock"});

    if (pid < 0)
        exits_wrong(argv[0], "no process can be started");
    *c = (child){.pid = pid > 0 ? pid : 0, .group = pid > 0 && own ? pid : 0};
    return pid > 0;
}

void child_kill(const child *c, int number)
{
    if (c->group > 0)
        kill(-c->group, number);
    else if (c->pid > 0)
        kill(c->pid, number);
}

void child_stop(const child *c)
{
    child_kill(c, SIGTERM);
    child_kill(c, SIGCONT);
}

void child_signal(const child *c, const signal_event *event)
{
    if (c->pid > 0 && (c->group > 0 || !event->from_terminal))
        child_kill(c, event->number);
}

bool child_has_ended(child *c)
{
    if (c->pid > 0 && waitpid(c->pid, &c->status, WNOHANG) == c->pid)
        c->pid = 0;
    return c->pid == 0;
}

int child_code(const child *c)
{
    return WIFSIGNALED(c->status) ? EXIT_SIGNAL + WTERMSIG(c->status) : WEXITSTATUS(c->status);
}

/* ---- its standard output --------------------------------------------------------------- */

enum { READ_BYTES = 16 * 1024 };

int output_open(output *o, char *kept)
{
    int ends[2];

    *o = (output){.fd = -1, .kept = kept};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        exits_wrong("pipe", strerror(errno));
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    o->fd = ends[0];
    return ends[1];
}

/* Returns false if there is no more for now. */
static bool copy(output *o)
{
    char bytes[READ_BYTES];
    ssize_t n = read(o->fd, bytes, sizeof bytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (n <= 0) {
        close(o->fd);
        o->fd = -1;
        return false;
    }
    fwrite(bytes, 1, (size_t)n, stdout);
    size_t room = LKS_ONCE_BODY_MAX - o->n_kept, more = (size_t)n < room ? (size_t)n : room;
    o->cut = o->cut || more < (size_t)n;
    memcpy(o->kept + o->n_kept, bytes, more);
    o->n_kept += more;
    return true;
}

void output_copy(output *o)
{
    copy(o);
    fflush(stdout);
}

void output_end(output *o)
{
    while (o->fd >= 0 && copy(o))
        ;
    fflush(stdout);
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

void output_print_cut(void)
{
    exits_say("the output is cut: only its first %d bytes are stored", LKS_ONCE_BODY_MAX);
}
