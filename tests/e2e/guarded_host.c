/* A shop with guards (guarded_shop.h) in a process of its own, that is killed and frozen:
 *
 *     guarded_host LOCKSTOCKD-URL EFFECTS GATE THREADS
 *
 * Writes "tcp=tcp://... grpc=grpc://... ..." on a line, what its handlers do on further ones, and serves until SIGTERM,
 * which drains it, or SIGINT. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "e2e/guarded_shop.h"

enum { DRAIN_MS = 60000 };

int main(int argc, char **argv)
{
    static const char *const schemes[] = {"tcp", "grpc", "nng+tcp", "http"};
    static guarded_shop shop;
    lks_host_options options = {.in_flight_max = 8192, .in_flight_per_connection = 4096, .timeout_ms = 60000};
    const lks_rpc_service service = guarded_service(&shop);
    lks_host *host = NULL;
    lks_error error;
    sigset_t ends;
    int signal;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* in all threads */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 5 || lks_channel_open(argv[1], NULL, &shop.channel, &error) != LKS_OK)
        return 2;
    shop.effects = argv[2];
    shop.gate = argv[3];
    options.threads = options.threads_max = (uint32_t)strtoul(argv[4], NULL, 10);
    options.guards = shop.channel;
    if (lks_host_open(&options, &host, &error) != LKS_OK || lks_host_add(host, &service, &error) != LKS_OK)
        return 2;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        char url[64];
        uint16_t port;

        snprintf(url, sizeof url, "%s://127.0.0.1:0", schemes[i]);
        if (lks_host_listen(host, url, &port, &error) != LKS_OK)
            return 2;
        printf("%s%s=%s://127.0.0.1:%d", i > 0 ? " " : "", schemes[i], schemes[i], port);
    }
    printf("\n");
    sigwait(&ends, &signal);
    lks_host_close(host, signal == SIGTERM ? DRAIN_MS : 0);
    lks_channel_close(shop.channel);
    return 0;
}
