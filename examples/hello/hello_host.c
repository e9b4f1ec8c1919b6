#include <lockstock/host.h>
#include <signal.h>
#include <stdio.h>

#include "hello.lks_server.h"

static lks_code my_greet(void *self, lks_rpc_context *context, const hello_v1_greet_request *request,
                         hello_v1_greet_response *response, lks_error *error)
{
    (void)self;
    response->text = lks_rpc_arena_printf(context->arena, "hello, %s", request->name);
    return response->text ? LKS_OK : lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

int main(int argc, char **argv)
{
    static const hello_v1_hello_handlers handlers = HELLO_V1_HELLO_HANDLERS(my_);
    const lks_rpc_service service = hello_v1_hello_service(&handlers, NULL);
    lks_host *host = NULL;
    lks_error error = {0};
    sigset_t ends;
    int number;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* before there are threads: they inherit it */
    if (lks_host_open(NULL, &host, &error) == LKS_OK && lks_host_add(host, &service, &error) == LKS_OK &&
        lks_host_listen(host, argc > 1 ? argv[1] : "tcp://127.0.0.1:7800", NULL, &error) == LKS_OK)
        sigwait(&ends, &number);
    else
        fprintf(stderr, "%s: %s\n", lks_code_name(error.code), error.message);
    lks_host_close(host, 1000);
    return error.code != LKS_OK;
}
