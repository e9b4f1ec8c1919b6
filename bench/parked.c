/* parked [calls] [locks] [connections]: prints the memory of waiting calls. Acquires (20,000) wait for locks (one
 * each) on connections (10), over tcp:// and over grpc://. Prints the bytes that lockstockd has allocated for each
 * connection and call, and its resident memory. */
#include <fcntl.h>
#include <lockstock/v1/lock.lks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/caller.h"
#include "support/process.h"
#include "support/server_fixture.h"

enum { HOLD_MS = 3600000, TEXT_BYTES = 128, QUIET_ROUNDS = 10, SLICE = 1000, ROUND_US = 100000 };

typedef struct load {
    int calls, locks, connections;
} load;

static const volatile uint64_t *bytes;

static unsigned send_acquire(const wire_driver *driver, void *caller, int lock, const char *token, int64_t wait_ms)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    char name[TEXT_BYTES];
    uint8_t payload[512];

    snprintf(name, sizeof name, "lock-%06d", lock);
    target.name = name;
    target.mode = LKS_LOCK_MODE_EXCLUSIVE;
    request.targets = targets;
    request.n_targets = 1;
    request.token = token;
    request.lease_ms = HOLD_MS;
    request.wait_ms = wait_ms;
    size_t len = protobuf_c_message_pack(&request.base, payload);
    return driver->start(caller, &(call_spec){.method = "/lockstock.v1.LockService/Acquire",
                                              .payload = payload,
                                              .len = len,
                                              .timeout_ms = wait_ms ? HOLD_MS : 20000});
}

/* Waits until the number of allocated bytes stops changing. */
static uint64_t settled_bytes(int rounds)
{
    uint64_t last = *bytes;

    for (int quiet = 0; quiet < rounds; quiet++) {
        usleep(ROUND_US);
        if (*bytes != last)
            quiet = 0;
        last = *bytes;
    }
    return last;
}

/* Takes the locks. Returns false if a call failed. */
static bool hold(const wire_driver *driver, void *const callers[], const load *l)
{
    char token[TEXT_BYTES];
    outcome got;

    for (int i = 0; i < l->locks; i++) {
        snprintf(token, sizeof token, "holder-of-the-lock-%06d", i);
        void *caller = callers[i % l->connections]; /* after the first answer, the limits of HTTP/2 are known */
        if (send_acquire(driver, caller, i, token, 0) == 0 || !driver->await(caller, &got) || got.code != LKS_OK)
            return false;
        free(got.payload);
    }
    return true;
}

static bool is_only_answer(const wire_driver *driver, void *caller)
{
    outcome got;
    unsigned call = driver->start(caller, &(call_spec){.method = "/lockstock.v1.IdService/Decode",
                                                       .payload = "\x08\x87\xa0\x80\xd0\x0f",
                                                       .len = 6,
                                                       .timeout_ms = 20000});

    bool is_right = call > 0 && driver->await(caller, &got) && got.call == call && got.code == LKS_OK;
    if (!is_right)
        fprintf(stderr, "parked: call %u: call %u: %s %s\n", call, got.call, lks_code_name(got.code), got.message);
    if (is_right)
        free(got.payload);
    return is_right;
}

static bool measure(const char *scheme, const wire_driver *driver, const load *l)
{
    char file[] = "/tmp/lks-heap-XXXXXX", name[TEXT_BYTES], token[TEXT_BYTES];
    int fd = mkstemp(file);
    const char *const env[] = {"LD_PRELOAD=" HEAP_BYTES_PATH, name, NULL};
    const char *const args[] = {"--allow-unsafe-store", "--connections=40000",       "--connections-per-address=20000",
                                "--waiting=1000000",    "--memory-bytes=2147483648", NULL};
    void **callers = calloc((size_t)l->connections, sizeof *callers);
    bool done = false;

    snprintf(name, sizeof name, "HEAP_BYTES=%s", file);
    server_fixture *server = server_fixture_start(
        &(server_fixture_options){.scheme = scheme, .env = env, .args = args, .store = getenv("STORE")});
    if (fd < 0 || !server || !callers)
        return false;
    bytes = mmap(NULL, sizeof *bytes, PROT_READ, MAP_SHARED, fd, 0);
    uint64_t alone = settled_bytes(QUIET_ROUNDS);
    size_t rss_alone = process_rss_kib(server_fixture_pid(server));
    for (int i = 0; i < l->connections; i++)
        if (!(callers[i] = driver->open(server_fixture_url(server), NULL)) || !is_only_answer(driver, callers[i]))
            goto cleanup;
    if (!hold(driver, callers, l))
        goto cleanup;
    uint64_t before = settled_bytes(QUIET_ROUNDS);
    size_t rss = process_rss_kib(server_fixture_pid(server));
    for (int i = 0; i < l->calls; i++) {
        void *caller = callers[i % l->connections];
        snprintf(token, sizeof token, "%032d", i);
        if (send_acquire(driver, caller, i % l->locks, token, HOLD_MS) == 0)
            goto cleanup;
        if (i % SLICE == SLICE - 1) /* the server limits calls that do not wait yet */
            settled_bytes(1);
    }
    uint64_t after = settled_bytes(QUIET_ROUNDS);
    for (int i = 0; i < l->connections; i++)
        if (!is_only_answer(driver, callers[i])) /* none was refused */
            goto cleanup;
    size_t rss_after = process_rss_kib(server_fixture_pid(server));
    printf("%-6s %7d connections: %5.0f bytes allocated, %5.0f resident, each\n", scheme, l->connections,
           (double)(before - alone) / l->connections, (double)(rss - rss_alone) * 1024 / l->connections);
    printf("%-6s %7d calls wait for %6d locks: %5.0f bytes allocated, %5.0f resident, each\n", scheme, l->calls,
           l->locks, (double)(after - before) / l->calls, (double)(rss_after - rss) * 1024 / l->calls);
    done = true;
cleanup:
    if (!done)
        fprintf(stderr, "parked: %s: a call or a connection failed\n", scheme);
    for (int i = 0; i < l->connections; i++)
        if (callers[i])
            driver->close(callers[i]);
    free(callers);
    server_fixture_free(server);
    unlink(file);
    close(fd);
    return done;
}

int main(int argc, char **argv)
{
    load l = {.calls = argc > 1 ? atoi(argv[1]) : 20000, .connections = argc > 3 ? atoi(argv[3]) : 10};

    l.locks = argc > 2 ? atoi(argv[2]) : l.calls;
    if (l.calls < 1 || l.locks < 1 || l.connections < 1) {
        fprintf(stderr, "usage: parked [calls] [locks] [connections]\n");
        return 2;
    }
    return measure("tcp", &sp_driver, &l) && measure("grpc", &grpc_driver, &l) ? 0 : 1;
}
