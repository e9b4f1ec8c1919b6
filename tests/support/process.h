/* A program under test: started with fork and exec, its output kept, ended and
 * reaped by its pid, and killed by the kernel when the test dies first.
 *
 * Start processes from the main thread: the kernel ends them when the thread
 * that started them ends. All functions belong to one thread. */
#ifndef LOCKSTOCK_TESTS_PROCESS_H
#define LOCKSTOCK_TESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct process process;

/* Starts argv[0] (looked up in PATH) with this process' environment plus `env`
 * ("NAME=value", NULL-terminated, may be NULL). What it writes to stdout and
 * stderr is collected, in order. NULL when it cannot be started; a program that
 * does not exist exits with 127. The caller frees. */
process *process_spawn(const char *const argv[], const char *const env[]);

/* Its pid; 0 once it was reaped. */
pid_t process_pid(const process *p);

/* Waits until a line that contains `text` was written, from the last line found
 * on; copies the line to `line` when that is not NULL (cut to size). False when
 * the output ends or timeout_ms passes first. */
bool process_wait_line(process *p, const char *text, char *line, size_t size, int timeout_ms);

/* Its output so far; valid until the next call for this process. */
const char *process_output(process *p);

/* Sends a signal, unless it was reaped already. */
void process_signal(process *p, int signal_number);

/* Waits for its end. *status is as from waitpid. False after timeout_ms. May be
 * repeated: the status stays. */
bool process_wait(process *p, int timeout_ms, int *status);

/* Waits for its end and says whether that was exit(code); says on stderr what
 * happened instead, with the output. */
bool process_exited_with(process *p, int code, int timeout_ms);

/* kill -9 and reap. */
void process_kill(process *p);

/* Kills it if it runs, reaps, frees. Takes NULL. */
void process_free(process *p);

/* Open file descriptors of a process; 0 when it is gone. */
size_t process_fd_count(pid_t pid);

/* Resident memory in KiB; 0 when it is gone. */
size_t process_rss_kib(pid_t pid);

/* Threads of a process; 0 when it is gone. */
size_t process_thread_count(pid_t pid);

/* The first child of a process whose command line contains `text`; 0 = none. */
pid_t process_find_child(pid_t parent, const char *text);

/* Waits until `pid` is no running process any more (a zombie is none). */
bool process_wait_gone(pid_t pid, int timeout_ms);

/* Milliseconds of CLOCK_MONOTONIC. */
long long process_now_ms(void);

/* Yields the processor for a moment: the pause between two polls of something
 * that can only be polled. */
void process_pause(void);

#endif
