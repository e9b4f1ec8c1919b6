/* A host without threads: one epoll loop serves calls and makes a call. */
#include <lockstock/host.h>
#include <lockstock/lockstock.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "hello/hello.lks_client.h"
#include "hello/hello.lks_server.h"

/* Runs in lks_host_step. */
static lks_code greet(void *self, lks_rpc_context *context, const hello_v1_greet_request *request,
                      hello_v1_greet_response *response, lks_error *error)
{
    (void)error;
    ++*(int *)self;
    response->text = lks_rpc_arena_printf(context->arena, "hello, %s", request->name);
    return LKS_OK;
}

/* Runs in lks_channel_step. */
static void on_answer(void *arg, lks_code code, const hello_v1_greet_response *response, const lks_error *error)
{
    bool *answered = arg;

    printf("%s\n", code == LKS_OK ? response->text : error->message);
    *answered = true;
}

static bool watch(int loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Returns the shorter of two timeouts; -1 is no timeout. */
static int first(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void run(int loop, lks_host *host, lks_channel *channel, const bool *answered)
{
    struct epoll_event events[2];

    while (!*answered) {
        epoll_wait(loop, events, 2, first(lks_host_timeout_ms(host), lks_channel_timeout_ms(channel)));
        lks_host_step(host, NULL);
        lks_channel_step(channel, NULL);
    }
}

int main(void)
{
    static const hello_v1_hello_handlers handlers = {.greet = greet};
    const lks_host_options of_host = {.driven = 1};
    const lks_channel_options of_channel = {.driven = 1};
    hello_v1_greet_request request = HELLO_V1_GREET_REQUEST_INIT;
    int loop = epoll_create1(EPOLL_CLOEXEC), served = 0;
    const lks_rpc_service service = hello_v1_hello_service(&handlers, &served);
    lks_host *host = NULL;
    lks_channel *channel = NULL;
    bool answered = false;
    uint16_t port;
    char url[32];

    if (lks_host_open(&of_host, &host, NULL) != LKS_OK || lks_host_add(host, &service, NULL) != LKS_OK ||
        lks_host_listen(host, "tcp://127.0.0.1:0", &port, NULL) != LKS_OK || !watch(loop, lks_host_fd(host)))
        return 1;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    request.name = "loop";
    if (lks_channel_open(url, &of_channel, &channel, NULL) != LKS_OK || !watch(loop, lks_channel_fd(channel)) ||
        hello_v1_hello_greet_start(channel, &request, NULL, on_answer, &answered, NULL, NULL) != LKS_OK)
        return 1;
    run(loop, host, channel, &answered);
    printf("%d served\n", served);
    lks_channel_close(channel);
    lks_host_close(host, 0);
    close(loop);
    return 0;
}
