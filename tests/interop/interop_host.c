/* grpc.testing.TestService of a host, its unary methods: interop_host URL. Writes its port on a line, and serves until
 * its input ends. A call with the metadata x-hold is answered then.
 *
 * What each method does: github.com/grpc/grpc, doc/interop-test-descriptions.md */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <lockstock/host.h>

#include "grpc/testing/unary.lks_server.h"

enum { RESPONSE_BYTES_MAX = 1 << 20, CLOSE_MS = 10000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;
} here = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void hold(const lks_rpc_context *context)
{
    for (size_t i = 0; i < context->n_metadata; i++) {
        if (strcmp(context->metadata[i].key, "x-hold") != 0)
            continue;
        pthread_mutex_lock(&here.lock);
        while (!here.ends)
            pthread_cond_wait(&here.changed, &here.lock);
        pthread_mutex_unlock(&here.lock);
    }
}

static lks_code test_empty_call(void *self, lks_rpc_context *context, const grpc_testing_empty *request,
                                grpc_testing_empty *response, lks_error *error)
{
    hold(context);
    return LKS_OK;
}

/* Sends the metadata of custom_metadata back. */
static lks_code echo(lks_rpc_context *context, lks_error *error)
{
    static const char header[] = "x-grpc-test-echo-initial", trailer[] = "x-grpc-test-echo-trailing-bin";
    lks_rpc_slice first = lks_host_metadata(context, header), last = lks_host_metadata(context, trailer);
    lks_code code = first.data ? lks_host_add_header(context, header, first.data, first.len, error) : LKS_OK;

    if (code == LKS_OK && last.data)
        code = lks_host_add_trailer(context, trailer, last.data, last.len, error);
    return code;
}

static lks_code test_unary_call(void *self, lks_rpc_context *context, const grpc_testing_simple_request *request,
                                grpc_testing_simple_response *response, lks_error *error)
{
    const grpc_testing_echo_status *status = request->response_status;
    size_t size = (size_t)request->response_size;

    if (echo(context, error) != LKS_OK)
        return error->code;
    if (status && status->code != 0)
        return lks_error_set(error, (lks_code)status->code, LKS_APPLIED_NO, "%s", status->message);
    if (size > RESPONSE_BYTES_MAX)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "response_size: too large");
    response->payload = lks_rpc_arena_alloc(context->arena, sizeof *response->payload);
    if (!response->payload)
        return LKS_RESOURCE_EXHAUSTED;
    *response->payload = (grpc_testing_payload)GRPC_TESTING_PAYLOAD_INIT;
    response->payload->body = (ProtobufCBinaryData){.len = size, .data = lks_rpc_arena_alloc(context->arena, size)};
    return LKS_OK;
}

static lks_code test_cacheable_unary_call(void *self, lks_rpc_context *context,
                                          const grpc_testing_simple_request *request,
                                          grpc_testing_simple_response *response, lks_error *error)
{
    return test_unary_call(self, context, request, response, error);
}

static lks_code test_unimplemented_call(void *self, lks_rpc_context *context, const grpc_testing_empty *request,
                                        grpc_testing_empty *response, lks_error *error)
{
    return test_empty_call(self, context, request, response, error);
}

int main(int argc, char **argv)
{
    static const grpc_testing_test_handlers handlers = GRPC_TESTING_TEST_HANDLERS(test_);
    lks_rpc_service service = grpc_testing_test_service(&handlers, NULL);
    const lks_host_options options = {.threads = 4};
    lks_host *host = NULL;
    lks_error error;
    uint16_t port = 0;

    service.n_bindings--; /* UnimplementedCall */
    if (argc != 2)
        return 2;
    if (lks_host_open(&options, &host, &error) != LKS_OK || lks_host_add(host, &service, &error) != LKS_OK ||
        lks_host_listen(host, argv[1], &port, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%u\n", port);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    pthread_mutex_lock(&here.lock);
    here.ends = true;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.lock);
    lks_host_close(host, CLOSE_MS);
    return 0;
}
