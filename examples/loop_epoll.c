/* A channel without a thread, in a program with its own epoll loop. */
#include <lockstock/lockstock.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Runs in lks_channel_step, so on the program's own thread. */
static void on_answer(void *arg, lks_code code, const lks_next_response *response, const lks_error *error)
{
    int *left = arg;

    if (code == LKS_OK)
        printf("%zu ids\n", response->n_ids);
    else
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error->message);
    --*left;
}

int main(int argc, char **argv)
{
    const lks_channel_options options = {.driven = 1};
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    struct epoll_event event = {.events = EPOLLIN};
    lks_channel *channel = NULL;
    int left = 2, loop = epoll_create1(EPOLL_CLOEXEC);

    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", &options, &channel, NULL) != LKS_OK)
        return 1;
    event.data.ptr = channel;
    epoll_ctl(loop, EPOLL_CTL_ADD, lks_channel_fd(channel), &event);
    request.kind = LKS_ID_KIND_SNOWFLAKE;
    request.count = 3;
    for (int i = left; i > 0; i--)
        if (lks_id_next_start(channel, &request, NULL, on_answer, &left, NULL, NULL) != LKS_OK)
            left--;
    while (left > 0) {
        epoll_wait(loop, &event, 1, lks_channel_timeout_ms(channel)); /* the program's other descriptors, too */
        lks_channel_step(channel, NULL);
    }
    close(loop);
    return lks_channel_close(channel) != LKS_OK;
}
