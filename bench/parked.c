/* parked [calls] [locks]: what a call that waits costs the server. So many Acquires (20,000, or as the argument says) wait
 * for so many locks (as many as calls, or as the argument says) on ten connections, on each of tcp:// and grpc://. Prints
 * the bytes that lockstockd has allocated for each, and its resident memory; asserts nothing. */
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

enum { CONNECTIONS = 10, HOLD_MS = 3600000, TEXT_BYTES = 128, QUIET_ROUNDS = 10, SLICE = 100, ROUND_US = 100000 };

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

/* Until nothing is allocated any more. */
static uint64_t settled_bytes(void)
{
    uint64_t last = *bytes;

    for (int quiet = 0; quiet < QUIET_ROUNDS; quiet++) {
        usleep(ROUND_US);
        if (*bytes != last)
            quiet = 0;
        last = *bytes;
    }
    return last;
}

/* False: a call failed. */
static bool hold(const wire_driver *driver, void *const callers[], int locks)
{
    char token[TEXT_BYTES];
    outcome got;

    for (int i = 0; i < locks; i++) {
        snprintf(token, sizeof token, "holder-of-the-lock-%06d", i);
        void *caller = callers[i % CONNECTIONS]; /* each has had an answer: what HTTP/2 allows is known */
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

static bool measure(const char *scheme, const wire_driver *driver, int calls, int locks)
{
    char file[] = "/tmp/lks-heap-XXXXXX", name[TEXT_BYTES], token[TEXT_BYTES];
    int fd = mkstemp(file);
    const char *const env[] = {"LD_PRELOAD=" HEAP_BYTES_PATH, name, NULL};
    const char *const args[] = {"--allow-unsafe-store", NULL};
    void *callers[CONNECTIONS] = {NULL};
    bool done = false;

    snprintf(name, sizeof name, "HEAP_BYTES=%s", file);
    server_fixture *server = server_fixture_start(
        &(server_fixture_options){.scheme = scheme, .env = env, .args = args, .store = getenv("STORE")});
    if (fd < 0 || !server)
        return false;
    bytes = mmap(NULL, sizeof *bytes, PROT_READ, MAP_SHARED, fd, 0);
    for (int i = 0; i < CONNECTIONS; i++)
        if (!(callers[i] = driver->open(server_fixture_url(server), NULL)))
            goto cleanup;
    if (!hold(driver, callers, locks))
        goto cleanup;
    uint64_t before = settled_bytes();
    size_t rss = process_rss_kib(server_fixture_pid(server));
    for (int i = 0; i < calls; i++) {
        void *caller = callers[i % CONNECTIONS];
        snprintf(token, sizeof token, "%032d", i);
        if (send_acquire(driver, caller, i % locks, token, HOLD_MS) == 0)
            goto cleanup;
        /* From time to time an answer is waited for: it shows that none of them was refused. */
        if (i / CONNECTIONS % SLICE == SLICE - 1 && !is_only_answer(driver, caller))
            goto cleanup;
    }
    uint64_t after = settled_bytes();
    size_t rss_after = process_rss_kib(server_fixture_pid(server));
    printf("%-6s %7d calls wait for %6d locks: %5.0f bytes allocated, %5.0f resident, each\n", scheme, calls, locks,
           (double)(after - before) / calls, (double)(rss_after - rss) * 1024 / calls);
    done = true;
cleanup:
    if (!done)
        fprintf(stderr, "parked: %s: a call or a connection failed\n", scheme);
    for (int i = 0; i < CONNECTIONS; i++)
        if (callers[i])
            driver->close(callers[i]);
    server_fixture_free(server);
    unlink(file);
    close(fd);
    return done;
}

int main(int argc, char **argv)
{
    int calls = argc > 1 ? atoi(argv[1]) : 20000, locks = argc > 2 ? atoi(argv[2]) : calls;

    if (calls < 1 || locks < 1) {
        fprintf(stderr, "usage: parked [calls] [locks]\n");
        return 2;
    }
    return measure("tcp", &sp_driver, calls, locks) && measure("grpc", &grpc_driver, calls, locks) ? 0 : 1;
}
