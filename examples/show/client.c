/* show_client put URLS STOCK BUYERS
 * show_client check URLS RUN GROUP STOCK BUYERS
 * show_client exact NUMBER URLS RUN GROUP BUYERS
 * show_client naive NUMBER FORM REDIS-SOCKET
 * The last two read lines from standard input: "INDEX ASKED ARRIVAL-MS" for each buyer, then "open CLOCK-MS", the time
 * from which arrivals count. A later "stop" makes them give up. */
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, LINE_BYTES = 256 };

typedef struct work {
    client client;
    bool exact;
    buyer *buyers;
    size_t n;
    atomic_size_t next;
} work;

void say(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[n++] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        exit(1); /* show.py has ended */
}

void say_told(const buyer *b, const char *what, bool replayed)
{
    say("told %zu %s %lld %d", b->index, what, (long long)(sale_now_ms() - b->arrival_ms), replayed);
}

void pay(const buyer *b)
{
    sale_rest(b->index % PAY_SLOWLY_ONE_IN == PAY_SLOWLY_ONE_IN / 2 ? PAY_SLOWLY_MS : PAY_MS);
}

/* Reads a line of standard input unbuffered, because another thread reads the next lines. */
static bool read_line(char line[LINE_BYTES])
{
    size_t n = 0;

    while (n < LINE_BYTES - 1 && read(STDIN_FILENO, &line[n], 1) == 1 && line[n] != '\n')
        n++;
    bool whole = line[n] == '\n';
    line[n] = '\0';
    return whole;
}

static bool read_buyers(work *w)
{
    char line[LINE_BYTES] = "";
    long long opens_ms = 0;

    while (read_line(line) && sscanf(line, "open %lld", &opens_ms) != 1) {
        buyer b = {0};
        int asked;
        long long arrival_ms;
        if (sscanf(line, "%zu %d %lld", &b.index, &asked, &arrival_ms) != 3 ||
            !(w->buyers = realloc(w->buyers, (w->n + 1) * sizeof b)))
            return false;
        b.asked = asked;
        b.arrival_ms = arrival_ms;
        w->buyers[w->n++] = b;
    }
    for (size_t i = 0; i < w->n; i++)
        w->buyers[i].arrival_ms += opens_ms;
    return opens_ms != 0;
}

static void *await_stop(void *arg)
{
    client *c = arg;
    char line[LINE_BYTES] = "";

    while (read_line(line))
        if (strcmp(line, "stop") == 0)
            atomic_store(&c->gives_up, true);
    return NULL;
}

static void *serve(void *arg)
{
    work *w = arg;

    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
        const buyer *b = &w->buyers[i];
        int64_t rest = b->arrival_ms - sale_now_ms();
        if (rest > 0)
            sale_rest(rest);
        (w->exact ? exact_serve : naive_serve)(&w->client, b);
    }
    naive_leave();
    return NULL;
}

static bool run(work *w)
{
    pthread_t threads[THREADS], stop;
    size_t n = 0;

    say("ready");
    if (!read_buyers(w) || pthread_create(&stop, NULL, await_stop, &w->client) != 0)
        return false;
    pthread_detach(stop);
    while (n < THREADS && pthread_create(&threads[n], NULL, serve, w) == 0)
        n++;
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&w->client.ends, true);
    return n == THREADS;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    static work w;
    lks_error error = {0};
    lks_code code = LKS_INVALID_ARGUMENT;

    signal(SIGPIPE, SIG_IGN); /* hiredis writes to a Redis that was killed */
    if (strcmp(mode, "put") == 0 && argc == 5) {
        code = exact_put(argv[2], atoll(argv[3]), (size_t)atoll(argv[4]), &error);
    } else if (strcmp(mode, "check") == 0 && argc == 7) {
        code = exact_check(argv[2], argv[3], argv[4], atoll(argv[5]), (size_t)atoll(argv[6]), &error);
    } else if (strcmp(mode, "exact") == 0 && argc == 7) {
        w = (work){.client.number = (unsigned)atoi(argv[2]), .exact = true};
        code = exact_open(&w.client, argv[3], argv[4], argv[5], (size_t)atoll(argv[6]), &error);
        if (code == LKS_OK && !run(&w))
            code = LKS_INTERNAL;
        exact_close();
    } else if (strcmp(mode, "naive") == 0 && argc == 5) {
        w = (work){.client.number = (unsigned)atoi(argv[2])};
        code = naive_open(&w.client, argv[3], argv[4]) && run(&w) ? LKS_OK : LKS_INTERNAL;
    }
    if (code != LKS_OK)
        fprintf(stderr, "show_client %s: %s: %s\n", mode, lks_code_name(code), error.message);
    free(w.buyers);
    return code == LKS_OK ? 0 : 1;
}
