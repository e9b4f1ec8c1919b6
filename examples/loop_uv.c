/* A channel without a thread, in a program that runs on libuv. */
#include <lockstock/lockstock.h>
#include <stdio.h>
#include <uv.h>

typedef struct driver {
    lks_channel *channel;
    uv_poll_t readable;
    uv_timer_t due;
    int left; /* calls */
} driver;

static void step(driver *d);

static void on_readable(uv_poll_t *readable, int status, int events)
{
    (void)status;
    (void)events;
    step(readable->data);
}

static void on_due(uv_timer_t *due)
{
    step(due->data);
}

static void step(driver *d)
{
    lks_channel_step(d->channel, NULL);
    int timeout_ms = lks_channel_timeout_ms(d->channel);

    uv_timer_stop(&d->due);
    if (timeout_ms >= 0)
        uv_timer_start(&d->due, on_due, (uint64_t)timeout_ms, 0);
    if (d->left == 0) {
        uv_close((uv_handle_t *)&d->readable, NULL);
        uv_close((uv_handle_t *)&d->due, NULL);
    }
}

/* Runs in lks_channel_step, so on the loop's thread. */
static void on_answer(void *arg, lks_code code, const lks_next_response *response, const lks_error *error)
{
    driver *d = arg;

    if (code == LKS_OK)
        printf("%zu ids\n", response->n_ids);
    else
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error->message);
    d->left--;
}

int main(int argc, char **argv)
{
    const lks_channel_options options = {.driven = 1};
    lks_next_request request = LKS_NEXT_REQUEST_INIT;
    uv_loop_t *loop = uv_default_loop();
    driver d = {.left = 2};

    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", &options, &d.channel, NULL) != LKS_OK)
        return 1;
    uv_poll_init(loop, &d.readable, lks_channel_fd(d.channel));
    uv_timer_init(loop, &d.due);
    d.readable.data = d.due.data = &d;
    uv_poll_start(&d.readable, UV_READABLE, on_readable);
    request.kind = LKS_ID_KIND_SNOWFLAKE;
    request.count = 3;
    for (int i = d.left; i > 0; i--)
        if (lks_id_next_start(d.channel, &request, NULL, on_answer, &d, NULL, NULL) != LKS_OK)
            d.left--;
    uv_timer_start(&d.due, on_due, 0, 0); /* the first step */
    uv_run(loop, UV_RUN_DEFAULT);
    lks_channel_close(d.channel);
    return uv_loop_close(loop) != 0;
}
