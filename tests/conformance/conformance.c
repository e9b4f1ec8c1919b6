/* One suite for every wire: `conformance tcp` runs it over tcp://. A row of `wires` is all
 * that a wire adds. */
#include "conformance/suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const wire wires[] = {
    {.name = "tcp", .scheme = "tcp", .driver = &sp_driver, .closes = true, .vectors = "sp"},
    {.name = "unix", .scheme = "unix", .driver = &sp_driver, .closes = true, .vectors = "unix"},
    {.name = "tls", .scheme = "tls", .driver = &sp_driver, .closes = true, .vectors = "sp"},
    {.name = "ws", .scheme = "ws", .driver = &ws_driver, .closes = true, .vectors = "ws"},
    {.name = "wss", .scheme = "wss", .driver = &ws_driver, .closes = true, .vectors = "ws"},
    {.name = "grpc", .scheme = "grpc", .driver = &grpc_driver, .vectors = "grpc"},
    {.name = "grpcs", .scheme = "grpcs", .driver = &grpc_driver, .vectors = "grpc"},
    /* Unmodified REQ sockets of libnng on our engine. */
    {.name = "nng+tcp-from-libnng", .scheme = "nng+tcp", .driver = &nng_driver, .closes = true},
    {.name = "unix-from-libnng", .scheme = "unix", .driver = &nng_driver, .closes = true},
    {.name = "nng+ws-from-libnng", .scheme = "nng+ws", .driver = &nng_driver, .closes = true},
};

static int start(void **state)
{
    static const char *const args[] = {"--in-flight", "64", "--waiting", "160", NULL};

    here.redis = redis_fixture_start(&(redis_fixture_options){.append_only = true});
    if (!here.redis)
        return -1;
    here.server = suite_server(args);
    return here.server ? 0 : -1;
}

static int stop(void **state)
{
    int status = server_fixture_stop(here.server, 60000) ? 0 : -1;
    server_fixture_free(here.server);
    redis_fixture_free(here.redis);
    return status;
}

int main(int argc, char **argv)
{
    struct rlimit files;

    for (size_t i = 0; argc == 2 && i < sizeof wires / sizeof *wires; i++)
        if (strcmp(argv[1], wires[i].name) == 0)
            here.wire = &wires[i];
    if (!here.wire) {
        fprintf(stderr, "usage: conformance WIRE\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max; /* the server's too, which inherits it */
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return TEST_RUN(.setup_all = start, .teardown_all = stop);
}
