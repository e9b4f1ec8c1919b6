/* hello.v1.HelloService, of a host: hello_host URL [CERTIFICATE KEY]. Writes its port on a line, "waiting" for each
 * Wait that began, and serves until SIGTERM; then it closes, with a minute for running calls. A byte on its input
 * opens the door that Wait waits for. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/host.h>

#include "base/clock.h"
#include "google/protobuf/duration.lks.h"
#include "hello/v1/hello.lks_server.h"

enum { DRAIN_MS = 60000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
} door = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static lks_code hello_greet(void *self, lks_rpc_context *context, const hello_v1_greet_request *request,
                            hello_v1_greet_response *response, lks_error *error)
{
    google_protobuf_duration *left = lks_rpc_arena_alloc(context->arena, sizeof *left);
    uint64_t now_ns = clock_now_ns();

    if (request->name[0] == '\0')
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "name: must be set");
    *left = (google_protobuf_duration)GOOGLE_PROTOBUF_DURATION_INIT;
    left->seconds = context->deadline_ns > now_ns ? (int64_t)((context->deadline_ns - now_ns) / 1000000000) : 0;
    response->left = left;
    response->text = lks_rpc_arena_printf(context->arena, "hello, %s", request->name);
    for (size_t i = 0; i < context->n_metadata; i++)
        if (strcmp(context->metadata[i].key, "tenant-bin") == 0)
            response->tenant =
                lks_rpc_arena_copy(context->arena, context->metadata[i].value.data, context->metadata[i].value.len);
    return LKS_OK;
}

static lks_code hello_wait(void *self, lks_rpc_context *context, const hello_v1_wait_request *request,
                           hello_v1_wait_response *response, lks_error *error)
{
    pthread_mutex_lock(&door.lock);
    puts("waiting");
    fflush(stdout);
    while (!door.is_open)
        pthread_cond_wait(&door.changed, &door.lock);
    pthread_mutex_unlock(&door.lock);
    return LKS_OK;
}

static void *open_door(void *arg)
{
    getchar();
    pthread_mutex_lock(&door.lock);
    door.is_open = true;
    pthread_cond_broadcast(&door.changed);
    pthread_mutex_unlock(&door.lock);
    return NULL;
}

int main(int argc, char **argv)
{
    static const hello_v1_hello_handlers handlers = HELLO_V1_HELLO_HANDLERS(hello_);
    const lks_rpc_service service = hello_v1_hello_service(&handlers, NULL);
    const lks_host_options options = {
        .threads = 4, .tls_certificate = argc == 4 ? argv[2] : NULL, .tls_key = argc == 4 ? argv[3] : NULL};
    lks_host *host = NULL;
    lks_error error;
    uint16_t port = 0;
    sigset_t ends;
    pthread_t doorman;
    int number;

    if (argc != 2 && argc != 4) {
        fputs("hello_host URL [CERTIFICATE KEY]\n", stderr);
        return 2;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGUSR1);
    sigaddset(&ends, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* in all threads */
    if (lks_host_open(&options, &host, &error) != LKS_OK || lks_host_add(host, &service, &error) != LKS_OK ||
        lks_host_listen(host, argv[1], &port, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        lks_host_close(host, 0);
        return 1;
    }
    pthread_create(&doorman, NULL, open_door, NULL);
    printf("%u\n", port);
    fflush(stdout);
    while (sigwait(&ends, &number) == 0 && number != SIGTERM)
        lks_host_set_health(host, service.name, number == SIGUSR2, &error);
    lks_host_close(host, DRAIN_MS);
    pthread_cancel(doorman);
    pthread_join(doorman, NULL);
    return 0;
}
