#include "child.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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

bool child_start(const char *program, const char *const argv[], child *ret)
{
    int ends[2];

    *ret = (child){0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    ret->pid = spawn(program, argv, ends[1]);
    close(ends[1]);
    ret->talk = fdopen(ends[0], "r");
    if (!ret->talk)
        close(ends[0]);
    return ret->pid != 0 && ret->talk;
}

bool child_line(child *c, char *line, size_t size)
{
    if (!c->talk || !fgets(line, (int)size, c->talk))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

bool child_tell(child *c, const char *line)
{
    return c->talk && send(fileno(c->talk), line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line);
}

void child_end(child *c)
{
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (c->talk)
        fclose(c->talk);
    *c = (child){0};
}

bool child_begin(void)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}
