/* Signals go through a pipe: a handler writes the event, poll tells of it. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exits.h"

static int events[2] = {-1, -1};

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
enum { N_CAUGHT = sizeof caught / sizeof *caught };

static void on_signal(int number, siginfo_t *info, void *context)
{
    const signal_event event = {.number = number, .from_terminal = info->si_code == SI_KERNEL};
    int kept = errno;

    (void)context;
    /* Full: there are events enough to look at everything. */
    if (write(events[1], &event, sizeof event) < 0)
        errno = kept;
    errno = kept;
}

int signals_catch(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, before;

    if (pipe2(events, O_CLOEXEC | O_NONBLOCK) != 0) {
        exits_wrong("pipe", strerror(errno));
        return -1;
    }
    for (size_t i = 0; i < N_CAUGHT; i++) {
        /* What was ignored stays so (nohup), for the child too. */
        sigaction(caught[i], NULL, &before);
        if (caught[i] == SIGCHLD || before.sa_handler != SIG_IGN)
            sigaction(caught[i], &action, NULL);
    }
    return events[0];
}

bool signals_next(signal_event *ret)
{
    return read(events[0], ret, sizeof *ret) == (ssize_t)sizeof *ret;
}

/* Both environments, in memory that is freed by the caller; the strings are not copied. */
static const char **join(const char *const variables[])
{
    size_t n = 0, more = 0, kept = 0;

    while (environ[n])
        n++;
    while (variables[more])
        more++;
    const char **all = calloc(n + more + 1, sizeof *all);
    for (size_t i = 0; all && i < n; i++) {
        bool replaced = false;
        for (size_t j = 0; j < more; j++) {
            size_t name = (size_t)(strchr(variables[j], '=') - variables[j]) + 1;
            replaced = replaced || strncmp(environ[i], variables[j], name) == 0;
        }
        if (!replaced)
            all[kept++] = environ[i];
    }
    for (size_t j = 0; all && j < more; j++)
        all[kept++] = variables[j];
    return all;
}

/* Between fork and exec: nothing but system calls, since other threads may hold any lock. */
static _Noreturn void become(char *const argv[], const char *const environment[], int output, pid_t parent, bool own)
{
    sigset_t none;

    if (own)
        setpgid(0, 0);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before that counted */
        _exit(EXIT_OTHER);
    if (output >= 0)
        dup2(output, STDOUT_FILENO);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(argv[0], argv, (char *const *)(uintptr_t)environment);
    int why = errno;
    dprintf(STDERR_FILENO, "lockstock: %s: %s\n", argv[0], strerror(why));
    _exit(why == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN);
}

bool child_start(child *c, char *const argv[], const char *const variables[], int output)
{
    const char **environment = join(variables);
    bool own = !isatty(STDIN_FILENO);
    pid_t parent = getpid(), pid = environment ? fork() : -1;

    if (pid == 0)
        become(argv, environment, output, parent, own);
    if (pid > 0 && own)
        setpgid(pid, pid); /* in both, so that it is done when either goes on */
    free(environment);
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
