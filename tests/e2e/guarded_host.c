/* A shop with guards (guarded_shop.h) in a process of its own, that is killed and frozen:
 *
 *     guarded_host LOCKSTOCKD-URL EFFECTS GATE
 *
 * Writes "tcp://... grpc://... nng+tcp://..." on a line, what its handlers do on further ones, and serves until
 * SIGTERM. */
#include <signal.h>
#include <stdio.h>

#include "e2e/guarded_shop.h"

enum { DRAIN_MS = 10000 };

int main(int argc, char **argv)
{
    static const char *const schemes[] = {"tcp", "grpc", "nng+tcp"};
    static guarded_shop shop = {.prints = true};
    lks_host_options options = {
        .threads = 8, .in_flight_max = 8192, .in_flight_per_connection = 4096, .timeout_ms = 60000};
    const lks_rpc_service service = guarded_service(&shop);
    lks_host *host = NULL;
    lks_error error;
    sigset_t ends;
    int signal;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* in all threads */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 4 || lks_channel_open(argv[1], NULL, &shop.channel, &error) != LKS_OK)
        return 2;
    shop.effects = argv[2];
    shop.gate = argv[3];
    options.guards = shop.channel;
    if (lks_host_open(&options, &host, &error) != LKS_OK || lks_host_add(host, &service, &error) != LKS_OK)
        return 2;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        char url[64];
        uint16_t port;

        snprintf(url, sizeof url, "%s://127.0.0.1:0", schemes[i]);
        if (lks_host_listen(host, url, &port, &error) != LKS_OK)
            return 2;
        printf("%s%s://127.0.0.1:%d", i > 0 ? " " : "", schemes[i], port);
    }
    printf("\n");
    sigwait(&ends, &signal);
    lks_host_close(host, DRAIN_MS);
    lks_channel_close(shop.channel);
    return 0;
}
