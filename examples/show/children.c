#include "children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

enum { STOP_TIMEOUT_MS = 15000, FD_FREE = 10 };

/* Only what is allowed between fork and exec in a process with threads. */
static void become(const char *const argv[], const char *log, int fd, int report, pid_t parent)
{
    sigset_t none;

    setsid(); /* Ctrl-C at the terminal is for show alone */
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC),
        output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    report = fcntl(report, F_DUPFD_CLOEXEC, FD_FREE);
    fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FD_FREE) : -1;
    if (getppid() == parent && null >= 0 && output >= 0 && report >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        if (fd >= 0)
            dup2(fd, CLIENT_CROWD_FD);
        execvp(argv[0], (char *const *)(const void *)argv);
    }
    int failure = errno;
    if (write(report, &failure, sizeof failure) < 0)
        _exit(1);
    _exit(127);
}

lks_code player_start(const char *const argv[], const char *log, int fd, pid_t *ret, lks_error *error)
{
    int report[2], failure = 0;
    sigset_t all, old;
    pid_t parent = getpid();

    if (pipe2(report, O_CLOEXEC) != 0)
        return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s: %s", argv[0], strerror(errno));
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old); /* no handler may run in the child */
    pid_t pid = fork();
    if (pid == 0)
        become(argv, log, fd, report[1], parent);
    failure = pid < 0 ? errno : 0;
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(report[1]);
    if (pid > 0 && read(report[0], &failure, sizeof failure) <= 0)
        failure = 0; /* the pipe closed itself at exec */
    close(report[0]);
    if (failure != 0) {
        if (pid > 0)
            player_kill(pid);
        return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "cannot start %s: %s", argv[0], strerror(failure));
    }
    *ret = pid;
    return LKS_OK;
}

/* WNOWAIT: the end of a process is left to who reaps. */
bool player_freeze(pid_t pid)
{
    siginfo_t what = {0};

    if (kill(pid, SIGSTOP) != 0)
        return false;
    while (waitid(P_PID, (id_t)pid, &what, WSTOPPED | WEXITED | WNOWAIT) != 0)
        if (errno != EINTR)
            return false;
    return what.si_code == CLD_STOPPED;
}

void player_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

bool player_stop(pid_t pid)
{
    struct pollfd end = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    int how = 0;

    kill(pid, SIGTERM);
    if (end.fd < 0 || poll(&end, 1, STOP_TIMEOUT_MS) <= 0)
        kill(pid, SIGKILL);
    if (end.fd >= 0)
        close(end.fd);
    while (waitpid(pid, &how, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

pid_t player_child_of(pid_t parent, const char *program)
{
    DIR *processes = opendir("/proc");
    pid_t found = 0;

    for (const struct dirent *entry; found == 0 && processes && (entry = readdir(processes));) {
        char path[64], line[128], name[32], state;
        long pid = strtol(entry->d_name, NULL, 10);
        int its_parent;
        if (pid <= 0)
            continue;
        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        FILE *stat = fopen(path, "re");
        if (stat && fgets(line, sizeof line, stat) &&
            sscanf(line, "%*d (%31[^)]) %c %d", name, &state, &its_parent) == 3 && its_parent == parent &&
            state != 'Z' && strcmp(name, program) == 0)
            found = (pid_t)pid;
        if (stat)
            fclose(stat);
    }
    if (processes)
        closedir(processes);
    return found;
}
