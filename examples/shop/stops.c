#include "stops.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct meeting {
    struct meeting *next;
    int here;
    char order[];
} meeting;

static atomic_bool has_stopped;
static meeting *meetings;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t two_are_here = PTHREAD_COND_INITIALIZER;

/* The mutex is locked. */
static meeting *meeting_of(const char *order)
{
    meeting *m = meetings;

    while (m && strcmp(m->order, order) != 0)
        m = m->next;
    if (!m && (m = calloc(1, sizeof *m + strlen(order) + 1))) {
        strcpy(m->order, order);
        m->next = meetings;
        meetings = m;
    }
    return m;
}

static void meet(const char *order)
{
    pthread_mutex_lock(&mutex);
    meeting *m = meeting_of(order);
    if (m && ++m->here == 2)
        pthread_cond_broadcast(&two_are_here);
    while (m && m->here < 2)
        pthread_cond_wait(&two_are_here, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void wait_at_gate(void)
{
    static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    static bool is_open;

    printf("at the gate\n");
    fflush(stdout);
    pthread_mutex_lock(&gate);
    while (!is_open) {
        int c = getchar();
        is_open = c == '\n' || c == EOF;
    }
    pthread_mutex_unlock(&gate);
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value != '\0';
}

void stops_at(const char *point, const char *order)
{
    bool has_read = strcmp(point, "read") == 0;
    const char *stop = getenv("SHOP_STOP");
    size_t len = strlen(point);

    if (has_read && is_set("SHOP_MEET"))
        meet(order);
    if (has_read && is_set("SHOP_GATE"))
        wait_at_gate();
    if (!stop || strncmp(stop, point, len) != 0 || stop[len] != ':' || strcmp(stop + len + 1, order) != 0 ||
        atomic_exchange(&has_stopped, true))
        return;
    printf("stopped\n");
    fflush(stdout);
    raise(SIGSTOP);
}
