/* wire_cpu: what a call costs the server on each of its wires, in one run: slices of calls
 * take turns on tcp:// and grpc:// of one lockstockd, and its CPU time (not
 * redis-server's) is read before and after each. Prints microseconds a call and the ratios
 * to tcp://; asserts nothing. The client writes its bytes by hand, with
 * several calls under way (32, or as the argument says). */
#include "slices.h"
#include "support/server_fixture.h"

enum { SLICE = 10000, ROUNDS = 10, N_WIRES = 2 };

static int in_flight = 32;

typedef struct wire {
    const char *scheme;
    const wire_driver *driver;
    char url[64];
    void *caller;
    double cpu_s, calls;
} wire;

/* Decode needs no store: what is measured is wire, frame and dispatch. GetItem asks it. */
static const call_spec kinds[] = {
    {.method = "/lockstock.v1.IdService/Decode", .payload = "\x08\x87\xa0\x80\xd0\x0f", .len = 6, .timeout_ms = 10000},
    {.method = "/lockstock.v1.StockService/BatchGetItems", .payload = "\x12\x04pear", .len = 6, .timeout_ms = 10000},
};
static const char *const kind_names[] = {"without the store", "with the store"};

static call_spec kind_of(const void *kind)
{
    return *(const call_spec *)kind;
}

static bool measure(wire *wires, pid_t server, size_t kind)
{
    for (int i = 0; i < N_WIRES; i++)
        wires[i].cpu_s = wires[i].calls = 0;
    for (int slice = 0; slice < (ROUNDS + 1) * N_WIRES; slice++) {
        wire *w = &wires[slice % N_WIRES];
        double before = slice_cpu_of(server);
        if (!slice_run(w->driver, w->caller, SLICE, in_flight, kind_of, &kinds[kind]))
            return false;
        if (slice >= N_WIRES) { /* the first round warms up */
            w->cpu_s += slice_cpu_of(server) - before;
            w->calls += SLICE;
        }
    }
    for (int i = 0; i < N_WIRES; i++) {
        const wire *w = &wires[i];
        printf("%-18s %-8s %6.2f us of CPU a call, %.2f of tcp\n", kind_names[kind], w->scheme,
               w->cpu_s / w->calls * 1e6, w->cpu_s / wires[0].cpu_s);
    }
    return true;
}

int main(int argc, char **argv)
{
    wire wires[N_WIRES] = {{.scheme = "tcp", .driver = &sp_driver}, {.scheme = "grpc", .driver = &grpc_driver}};
    int status = 1;

    if (argc > 1 && (in_flight = atoi(argv[1])) < 1) {
        fprintf(stderr, "usage: wire_cpu [calls under way]\n");
        return 2;
    }
    for (int i = 1; i < N_WIRES; i++)
        snprintf(wires[i].url, sizeof wires[i].url, "%s://127.0.0.1:%u", wires[i].scheme, server_fixture_free_port());
    const char *const args[] = {"--listen", wires[1].url, NULL};
    server_fixture *server = server_fixture_start(&(server_fixture_options){.args = args});
    if (!server)
        return 1;
    snprintf(wires[0].url, sizeof wires[0].url, "%s", server_fixture_url(server));
    for (int i = 0; i < N_WIRES; i++) {
        wires[i].caller = wires[i].driver->open(wires[i].url, NULL);
        if (!wires[i].caller)
            goto cleanup;
    }
    if (measure(wires, server_fixture_pid(server), 0) && measure(wires, server_fixture_pid(server), 1))
        status = 0;
cleanup:
    for (int i = 0; i < N_WIRES; i++)
        if (wires[i].caller)
            wires[i].driver->close(wires[i].caller);
    server_fixture_free(server);
    return status;
}
