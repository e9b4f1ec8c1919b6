/* Other threads may hold any lock at the fork, so the child makes only system calls. */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Returns the environment with the variables, which replace those of the same name; the strings are not copied. */
static const char **join(const char *const variables[])
{
    size_t n_old = 0, n_new = 0, n = 0;

    while (environ[n_old])
        n_old++;
    while (variables && variables[n_new])
        n_new++;
    const char **all = calloc(n_old + n_new + 1, sizeof *all);
    for (size_t i = 0; all && i < n_new; i++)
        all[n++] = variables[i];
    for (size_t i = 0; all && i < n_old; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        bool replaced = false;
        for (size_t k = 0; k < n_new && !replaced; k++)
            replaced = strncmp(environ[i], variables[k], name) == 0;
        if (!replaced)
            all[n++] = environ[i];
    }
    return all;
}

static bool redirect(int from, int to)
{
    if (from == SPAWN_NULL)
        from = open("/dev/null", O_RDWR | O_CLOEXEC);
    return from == SPAWN_INHERIT || (from >= 0 && dup2(from, to) >= 0);
}

static _Noreturn void run_child(const spawn_options *o, const char *const environment[], pid_t parent)
{
    sigset_t none;

    if (o->own_group)
        setpgid(0, 0);
    if (o->death_signal != 0)
        prctl(PR_SET_PDEATHSIG, o->death_signal);
    if (o->death_signal != 0 && getppid() != parent) /* the parent ended before prctl */
        _exit(SPAWN_CANNOT_RUN);
    if (!redirect(o->input, STDIN_FILENO) || !redirect(o->output, STDOUT_FILENO) || !redirect(o->errors, STDERR_FILENO))
        _exit(SPAWN_CANNOT_RUN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(o->argv[0], (char *const *)(uintptr_t)o->argv, (char *const *)(uintptr_t)environment);
    int why = errno;
    dprintf(STDERR_FILENO, "%s: %s: %s\n", o->name, o->argv[0], strerror(why));
    _exit(why == ENOENT ? SPAWN_NO_PROGRAM : SPAWN_CANNOT_RUN);
}

pid_t spawn(const spawn_options *options)
{
    const char **environment = join(options->variables);
    pid_t parent = getpid(), pid = environment ? fork() : -1;

    if (pid == 0)
        run_child(options, environment, parent);
    if (pid > 0 && options->own_group)
        setpgid(pid, pid); /* in both processes, so that it is done whichever runs first */
    free(environment);
    return pid;
}
