/* The output is drained by a thread of its own, so that a talkative child never
 * blocks on a full pipe; `output`, `length` and `ended` are guarded by `mutex`. */
#include "support/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/spawn.h"

/* The last output of a reaped process may not have arrived yet; a grandchild that holds
 * the pipe must not delay this longer. */
enum { LAST_OUTPUT_MS = 2000 };

struct process {
    pid_t pid; /* 0 after it was reaped */
    int status;
    int output_fd;
    int stop_fd;
    pthread_t reader;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char *output; /* with a NUL at output[length] */
    size_t length;
    bool ended;
    size_t seen; /* where process_wait_line continues */
    char *copy;  /* of output, for process_output */
};

long long process_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void process_pause(void)
{
    struct timespec moment = {.tv_nsec = 2000000};

    nanosleep(&moment, NULL); /* files and other processes are only looked at; no test relies on the time */
}

static void append_output(process *p, const char *data, size_t n)
{
    pthread_mutex_lock(&p->mutex);
    char *grown = realloc(p->output, p->length + n + 1);
    if (grown) {
        memcpy(grown + p->length, data, n);
        p->output = grown;
        p->length += n;
        p->output[p->length] = '\0';
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

static void *read_output(void *arg)
{
    process *p = arg;
    struct pollfd wanted[] = {{.fd = p->output_fd, .events = POLLIN}, {.fd = p->stop_fd, .events = POLLIN}};
    char buffer[16384];

    /* A grandchild may hold the pipe open after the child: hence stop_fd. */
    while (poll(wanted, 2, -1) > 0 || errno == EINTR) {
        ssize_t n = wanted[0].revents != 0 ? read(p->output_fd, buffer, sizeof buffer) : -1;
        if (n > 0)
            append_output(p, buffer, (size_t)n);
        else if (n == 0 || wanted[1].revents != 0)
            break;
    }
    pthread_mutex_lock(&p->mutex);
    p->ended = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

process *process_spawn(const char *const argv[], const char *const env[])
{
    int ends[2] = {-1, -1};
    pthread_condattr_t attributes;
    process *p = calloc(1, sizeof *p);

    if (!p || pipe2(ends, O_CLOEXEC) != 0)
        goto failed;
    p->output_fd = ends[0];
    p->stop_fd = eventfd(0, EFD_CLOEXEC);
    p->output = calloc(1, 1);
    if (p->stop_fd < 0 || !p->output)
        goto failed;
    p->pid = spawn(&(const spawn_options){.argv = argv,
                                          .variables = env,
                                          .input = SPAWN_NULL,
                                          .output = ends[1],
                                          .errors = ends[1],
                                          .death_signal = SIGKILL,
                                          .name = "test"});
    if (p->pid < 0)
        goto failed;
    close(ends[1]);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&p->reader, NULL, read_output, p) != 0)
        abort(); /* a test without threads is no test */
    return p;

failed:
    if (ends[0] >= 0) {
        close(ends[0]);
        close(ends[1]);
    }
    if (p) {
        free(p->output);
        free(p);
    }
    return NULL;
}

pid_t process_pid(const process *p)
{
    return p->pid;
}

/* With the mutex held: the next whole line with `text` in it; `seen` moves on. */
static bool take_line(process *p, const char *text, char *line, size_t size)
{
    for (char *end; (end = strchr(p->output + p->seen, '\n'));) {
        const char *start = p->output + p->seen;
        size_t n = (size_t)(end - start);
        p->seen += n + 1;
        const char *found = strstr(start, text);
        if (found && found < end) {
            if (line && size > 0)
                snprintf(line, size, "%.*s", (int)n, start);
            return true;
        }
    }
    return false;
}

/* With the mutex held: waits for more output; false after the deadline. */
static bool wait_changed(process *p, const struct timespec *deadline)
{
    return pthread_cond_timedwait(&p->changed, &p->mutex, deadline) == 0;
}

static struct timespec deadline_in(int timeout_ms)
{
    struct timespec deadline;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

bool process_wait_line(process *p, const char *text, char *line, size_t size, int timeout_ms)
{
    struct timespec deadline = deadline_in(timeout_ms);
    bool found, in_time = true;

    pthread_mutex_lock(&p->mutex);
    while (!(found = take_line(p, text, line, size)) && !p->ended && in_time)
        in_time = wait_changed(p, &deadline);
    pthread_mutex_unlock(&p->mutex);
    return found;
}

const char *process_output(process *p)
{
    struct timespec deadline = deadline_in(LAST_OUTPUT_MS);

    pthread_mutex_lock(&p->mutex);
    while (p->pid == 0 && !p->ended && wait_changed(p, &deadline))
        continue;
    free(p->copy);
    p->copy = strdup(p->output);
    pthread_mutex_unlock(&p->mutex);
    return p->copy ? p->copy : "";
}

void process_signal(process *p, int signal_number)
{
    if (p->pid > 0)
        kill(p->pid, signal_number);
}

bool process_wait(process *p, int timeout_ms, int *status)
{
    long long end = process_now_ms() + timeout_ms;

    while (p->pid > 0) {
        pid_t got = waitpid(p->pid, &p->status, WNOHANG);
        if (got == p->pid)
            p->pid = 0;
        else if (got == 0 && process_now_ms() >= end)
            return false;
        else
            process_pause();
    }
    if (status)
        *status = p->status;
    return true;
}

bool process_exited_with(process *p, int code, int timeout_ms)
{
    int status = 0;

    if (!process_wait(p, timeout_ms, &status)) {
        fprintf(stderr, "process %d still runs after %d ms; its output:\n%s\n", (int)p->pid, timeout_ms,
                process_output(p));
        return false;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code) {
        fprintf(stderr, "%s %d, expected exit %d; output:\n%s\n", WIFEXITED(status) ? "exit" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), code, process_output(p));
        return false;
    }
    return true;
}

void process_kill(process *p)
{
    process_signal(p, SIGKILL);
    process_wait(p, 60000, NULL);
}

void process_free(process *p)
{
    static const unsigned long long one = 1;

    if (!p)
        return;
    process_kill(p);
    ssize_t ignored = write(p->stop_fd, &one, sizeof one);
    (void)ignored;
    pthread_join(p->reader, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    close(p->output_fd);
    close(p->stop_fd);
    free(p->output);
    free(p->copy);
    free(p);
}

static size_t count_entries(pid_t pid, const char *what)
{
    char path[64];
    size_t n = 0;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

size_t process_fd_count(pid_t pid)
{
    return count_entries(pid, "fd");
}

size_t process_thread_count(pid_t pid)
{
    return count_entries(pid, "task");
}

/* Reads a small file of /proc whole; "" when it is gone. NULs become spaces. */
static void read_proc(pid_t pid, const char *name, char *buffer, size_t size)
{
    char path[64];
    size_t n = 0;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "r");
    if (file) {
        n = fread(buffer, 1, size - 1, file);
        fclose(file);
    }
    for (size_t i = 0; i < n; i++)
        buffer[i] = buffer[i] == '\0' ? ' ' : buffer[i];
    buffer[n] = '\0';
}

size_t process_rss_kib(pid_t pid)
{
    char status[4096];

    read_proc(pid, "status", status, sizeof status);
    const char *line = strstr(status, "VmRSS:");
    return line ? strtoul(line + 6, NULL, 10) : 0;
}

pid_t process_find_child(pid_t parent, const char *text)
{
    pid_t found = 0;
    DIR *dir = opendir("/proc");

    if (!dir)
        return 0;
    for (struct dirent *entry; found == 0 && (entry = readdir(dir));) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        char stat[512], command[1024];
        if (pid <= 0)
            continue;
        read_proc(pid, "stat", stat, sizeof stat);
        const char *after_name = strrchr(stat, ')'); /* "pid (name) state ppid ..." */
        if (!after_name || after_name[2] == 'Z' || atoi(after_name + 4) != (int)parent)
            continue;
        read_proc(pid, "cmdline", command, sizeof command);
        if (strstr(command, text))
            found = pid;
    }
    closedir(dir);
    return found;
}

bool process_wait_gone(pid_t pid, int timeout_ms)
{
    long long end = process_now_ms() + timeout_ms;

    for (;;) {
        char stat[512];
        read_proc(pid, "stat", stat, sizeof stat);
        const char *after_name = strrchr(stat, ')');
        if (!after_name || after_name[2] == 'Z')
            return true;
        if (process_now_ms() >= end)
            return false;
        process_pause();
    }
}
