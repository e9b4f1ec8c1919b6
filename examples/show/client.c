/* show_client put URLS STOCK BUYERS
 * show_client check URLS RUN GROUP STOCK BUYERS
 * show_client exact URLS RUN GROUP BUYERS
 * show_client naive REDIS-SOCKET
 * The last two serve the buyers of standard input, "INDEX ASKED" each. */
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, LINE_BYTES = 256 };

static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static void (*serve)(const buyer *b);

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

void pay(const buyer *b)
{
    sale_rest(b->index % PAY_SLOWLY_ONE_IN == PAY_SLOWLY_ONE_IN / 2 ? PAY_SLOWLY_MS : PAY_MS);
}

static bool next_buyer(buyer *ret)
{
    int asked = 0;

    pthread_mutex_lock(&reading);
    bool found = scanf("%zu %d", &ret->index, &asked) == 2;
    pthread_mutex_unlock(&reading);
    ret->asked = asked;
    return found;
}

static void *serve_buyers(void *arg)
{
    buyer b;

    while (next_buyer(&b)) {
        say("asks %zu", b.index);
        serve(&b);
    }
    naive_leave();
    return arg;
}

static bool run(void (*serve_one)(const buyer *b))
{
    pthread_t threads[THREADS];
    size_t n = 0;

    serve = serve_one;
    while (n < THREADS && pthread_create(&threads[n], NULL, serve_buyers, NULL) == 0)
        n++;
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return n == THREADS;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    lks_error error = {0};
    lks_code code = LKS_INVALID_ARGUMENT;

    signal(SIGPIPE, SIG_IGN); /* hiredis writes to a Redis that was killed */
    if (strcmp(mode, "put") == 0 && argc == 5) {
        code = exact_put(argv[2], atoll(argv[3]), strtoul(argv[4], NULL, 10), &error);
    } else if (strcmp(mode, "check") == 0 && argc == 7) {
        code = exact_check(argv[2], argv[3], argv[4], atoll(argv[5]), strtoul(argv[6], NULL, 10), &error);
    } else if (strcmp(mode, "exact") == 0 && argc == 6) {
        code = exact_open(argv[2], argv[3], argv[4], strtoul(argv[5], NULL, 10), &error);
        if (code == LKS_OK && !run(exact_serve))
            code = LKS_INTERNAL;
        exact_close();
    } else if (strcmp(mode, "naive") == 0 && argc == 3) {
        naive_open(argv[2]);
        code = run(naive_serve) ? LKS_OK : LKS_INTERNAL;
    }
    if (code != LKS_OK)
        fprintf(stderr, "show_client %s: %s: %s\n", mode, lks_code_name(code), error.message);
    return code == LKS_OK ? 0 : 1;
}
