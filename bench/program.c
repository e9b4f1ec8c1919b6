#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void *program_alloc(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);

    if (!memory) {
        fprintf(stderr, "lockstock-bench: out of memory\n");
        exit(1);
    }
    return memory;
}

pthread_t program_thread(void *(*function)(void *arg), void *arg)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, function, arg) != 0) {
        fprintf(stderr, "lockstock-bench: cannot start a thread\n");
        exit(1);
    }
    return thread;
}

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

bool program_interrupted(void)
{
    return caught != 0;
}

void program_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool program_pause(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (!program_interrupted() && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return !program_interrupted();
}
