/* Invariant: the loop thread ends only when no admitted call is unsettled and every
 * completion has run; nothing posts calls to the loop after that. */
#include "client/call/channel.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/call/call.h"
#include "client/loop/forks.h"
#include "base/backoff.h"
#include "client/wire/reaper.h"

enum {
    TIMEOUT_MS = 5000,
    IN_FLIGHT_MAX = 256,
    WAITING_MAX = 16384,
    QUEUE_MAX = 65536,
    INSISTENT_MAX = 1024, /* calls under way beyond a full queue: of those that end or keep something */
    MESSAGE_BYTES_MAX = 1 << 20,
    URLS_MAX = 64,
    TOKEN_BYTES_MAX = 4096
};

static _Thread_local bool on_completion_thread;

bool channel_on_completion_thread(void)
{
    return on_completion_thread;
}

/* ---- shared ------------------------------------------------------------------ */

lks_code channel_admit(lks_channel *channel, bool insist, lks_error *error)
{
    size_t calls_max = channel->calls_max + (insist ? INSISTENT_MAX : 0);

    if (channel->forks != forks_so_far())
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "the channel belongs to the process before the fork");
    if (atomic_fetch_add(&channel->under_way, 1) >= calls_max) {
        channel_dismiss(channel);
        return lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_MANY_CALLS,
                                    "%zu calls are under way already", calls_max);
    }
    if (atomic_load(&channel->closing)) {
        channel_dismiss(channel);
        return lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "the channel is being closed");
    }
    return LKS_OK;
}

void channel_dismiss(lks_channel *channel)
{
    atomic_fetch_sub(&channel->under_way, 1);
}

/* ---- on the loop thread ---------------------------------------------------- */

bool channel_connected(const lks_channel *channel)
{
    for (size_t i = 0; i < channel->n_endpoints; i++)
        if (endpoint_connected(channel->endpoints[i]))
            return true;
    return false;
}

const struct endpoint *channel_why(const lks_channel *channel)
{
    for (size_t i = 0; i < channel->n_endpoints; i++)
        if (*endpoint_why(channel->endpoints[i]) != '\0')
            return channel->endpoints[i];
    return NULL;
}

/* The current endpoint, or the next after it that is connected; NULL when none is. */
static struct endpoint *choose(lks_channel *channel)
{
    for (size_t i = 0; i < channel->n_endpoints; i++) {
        size_t at = (channel->current + i) % channel->n_endpoints;

        if (endpoint_connected(channel->endpoints[at])) {
            channel->current = at;
            return channel->endpoints[at];
        }
    }
    return NULL;
}

void channel_leave(lks_channel *channel, const struct endpoint *endpoint)
{
    if (channel->endpoints[channel->current] != endpoint)
        return;
    channel->current = (channel->current + 1) % channel->n_endpoints;
    choose(channel);
}

/* Gives queued calls to the endpoint in use, the oldest that has room first. */
static void dispatch(lks_channel *channel)
{
    struct endpoint *endpoint = choose(channel);
    endpoint_lane lane = ENDPOINT_PROMPT;
    const lks_call *first;

    if (!endpoint)
        return;
    do {
        first = NULL;
        for (int l = 0; l < ENDPOINT_LANES; l++) {
            const lks_call *call = TAILQ_FIRST(&channel->queue[l]);

            if (call && (!first || call->enqueued < first->enqueued) && endpoint_room(endpoint, (endpoint_lane)l) > 0) {
                first = call;
                lane = (endpoint_lane)l;
            }
        }
        if (first)
            frame_send(channel, lane, endpoint);
    } while (first);
}

/* Completions may start, cancel and free calls: all of that comes back as a task
 * of the loop, so nothing changes meanwhile. */
static void complete_settled(lks_channel *channel)
{
    lks_call *call;

    while ((call = TAILQ_FIRST(&channel->settled))) {
        TAILQ_REMOVE(&channel->settled, call, in_line);
        call_complete(call);
    }
}

static void run_tasks(lks_channel *channel, loop_task *task)
{
    while (task) {
        loop_task *next = task->next;

        task->run(task);
        complete_settled(channel);
        task = next;
    }
}

/* Queued calls, as far as there is room, and what is to be written. */
static void send_off(lks_channel *channel)
{
    dispatch(channel);
    atomic_store(&channel->queue_ns, pace_foresee(&channel->pace[ENDPOINT_PROMPT], channel->n_queued[ENDPOINT_PROMPT]));
    for (size_t i = 0; i < channel->n_endpoints; i++)
        endpoint_flush(channel->endpoints[i]);
}

/* Whether the call is alone and the loop thread sleeps: then the calling thread has sent it, in that one's place. */
static bool start_in_place(lks_channel *channel, lks_call *call)
{
    bool alone = atomic_load(&channel->under_way) == 1;

    if (!alone || !loop_enter(&channel->loop)) {
        loop_post(&channel->loop, &call->start);
        return false;
    }
    call_begin(call);
    send_off(channel);
    return true;
}

/* What is left is the loop thread's: other calls, and completions. */
static void leave_place(lks_channel *channel)
{
    if (!TAILQ_EMPTY(&channel->calls))
        loop_give_back(&channel->loop);
    loop_leave(&channel->loop, !TAILQ_EMPTY(&channel->settled));
}

void channel_start(lks_channel *channel, lks_call *call)
{
    if (start_in_place(channel, call))
        leave_place(channel);
}

void channel_run(lks_channel *channel, lks_call *call)
{
    loop_source *source;

    if (!start_in_place(channel, call))
        return;
    while (call->state == CALL_AWAITING && TAILQ_EMPTY(&channel->settled) &&
           (source = endpoint_source(call->endpoint))) {
        if (!loop_stay(&channel->loop, source))
            return;
        send_off(channel);
    }
    if (call->state == CALL_SETTLED) {
        TAILQ_REMOVE(&channel->settled, call, in_line);
        call_complete(call);
    }
    leave_place(channel);
}

static void *run_loop(void *arg)
{
    lks_channel *channel = arg;

    on_completion_thread = true;
    while (!atomic_load(&channel->closing) || atomic_load(&channel->under_way) != 0) {
        run_tasks(channel, loop_wait(&channel->loop, heap_next_ns(&channel->loop.timers)));
        loop_run_ready(&channel->loop);
        heap_run(&channel->loop.timers);
        send_off(channel);
        complete_settled(channel);
        for (size_t i = 0; i < channel->n_endpoints; i++)
            endpoint_tidy(channel->endpoints[i]);
    }
    run_tasks(channel, loop_wait(&channel->loop, 0)); /* cancels that came too late hold calls */
    return NULL;
}

static void run_close(loop_task *task)
{
    lks_channel *channel = (lks_channel *)((char *)task - offsetof(lks_channel, close));
    lks_call *next;

    for (lks_call *call = TAILQ_FIRST(&channel->calls); call; call = next) {
        next = TAILQ_NEXT(call, in_calls);
        call_cancel(call, "the channel was closed");
    }
}

/* ---- opening and closing ----------------------------------------------------- */

/* After the loop thread has ended, or before it was made. */
static void channel_free(lks_channel *channel)
{
    loop_close(&channel->loop);
    for (size_t i = 0; i < channel->n_endpoints; i++)
        endpoint_close(channel->endpoints[i]);
    reaper_wait();
    free(channel->endpoints);
    loop_fini(&channel->loop);
    lks_rpc_arena_free(channel->arena);
    tls_context_free(channel->tls);
    free(channel->server_name);
    free(channel->ns);
    if (channel->authorization)
        explicit_bzero(channel->authorization, strlen(channel->authorization));
    free(channel->authorization);
    free(channel);
}

/* The files are read once, when the first URL needs them. */
static lks_code load_tls(lks_channel *channel, lks_error *error)
{
    lks_channel_options *options = &channel->options;

    if (channel->tls)
        return LKS_OK;
    return tls_context_load_client(options->ca_file, options->certificate_file, options->key_file, NULL, &channel->tls,
                                   error);
}

static lks_code open_endpoints(lks_channel *channel, const char *urls, lks_error *error)
{
    endpoint_options options = {
        .in_flight_max = channel->options.in_flight_max,
        .waiting_max = channel->options.waiting_max,
        .message_bytes_max = channel->options.message_bytes_max,
        .events = &frame_events,
        .loop = &channel->loop,
        .server_name = channel->server_name,
        .random = &channel->random,
    };
    const char *url = urls;

    for (;;) {
        size_t len = strcspn(url, ",");

        if (channel->n_endpoints == URLS_MAX)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: more than %d", URLS_MAX);
        lks_code code = strncmp(url, "tls://", strlen("tls://")) == 0 ? load_tls(channel, error) : LKS_OK;
        if (code != LKS_OK)
            return code;
        options.tls = channel->tls;
        code = endpoint_open(url, len, &options, &channel->endpoints[channel->n_endpoints], error);
        if (code != LKS_OK)
            return code;
        channel->n_endpoints++;
        if (url[len] == '\0')
            return LKS_OK;
        url += len + 1;
    }
}

static void fill_in(lks_channel_options *options)
{
    if (options->timeout_ms == 0)
        options->timeout_ms = TIMEOUT_MS;
    if (options->in_flight_max == 0)
        options->in_flight_max = IN_FLIGHT_MAX;
    if (options->waiting_max == 0)
        options->waiting_max = WAITING_MAX;
    if (options->queue_max == 0)
        options->queue_max = QUEUE_MAX;
    if (options->message_bytes_max == 0)
        options->message_bytes_max = MESSAGE_BYTES_MAX;
}

/* RFC 6750, 2.1. */
static bool is_token(const char *token)
{
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
    size_t len = strspn(token, characters);

    return token[len] == '\0' && len >= 1 && len <= TOKEN_BYTES_MAX;
}

static bool copy_texts(lks_channel *channel)
{
    static const char scheme[] = "Bearer ";
    lks_channel_options *options = &channel->options;

    if (options->ns && !(channel->ns = strdup(options->ns)))
        return false;
    options->ns = channel->ns;
    if (options->server_name && !(channel->server_name = strdup(options->server_name)))
        return false;
    options->server_name = channel->server_name;
    if (!options->token)
        return true;
    channel->authorization = malloc(sizeof scheme + strlen(options->token));
    if (!channel->authorization)
        return false;
    stpcpy(stpcpy(channel->authorization, scheme), options->token);
    options->token = channel->authorization;
    return true;
}

/* A channel without connections and without its thread; NULL when out of memory. */
static lks_channel *channel_new(const lks_channel_options *options)
{
    lks_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    if (!loop_init(&channel->loop)) {
        free(channel);
        return NULL;
    }
    if (options)
        channel->options = *options;
    fill_in(&channel->options);
    channel->calls_max = (size_t)channel->options.in_flight_max + channel->options.queue_max;
    channel->forks = forks_so_far();
    channel->close.run = run_close;
    atomic_init(&channel->under_way, 0);
    atomic_init(&channel->closing, false);
    atomic_init(&channel->queue_ns, 0);
    TAILQ_INIT(&channel->calls);
    TAILQ_INIT(&channel->settled);
    for (int lane = 0; lane < ENDPOINT_LANES; lane++)
        TAILQ_INIT(&channel->queue[lane]);
    channel->random = backoff_random();
    channel->endpoints = calloc(URLS_MAX, sizeof(struct endpoint *));
    channel->arena = lks_rpc_arena_new();
    bool made = heap_reserve(&channel->loop.timers, channel->calls_max + INSISTENT_MAX + 2 * URLS_MAX) &&
                channel->endpoints && channel->arena && copy_texts(channel);
    if (made)
        return channel;
    channel_free(channel);
    return NULL;
}

lks_code lks_channel_open(const char *urls, const lks_channel_options *options, lks_channel **ret, lks_error *error)
{
    sigset_t all, before;

    if (options && options->token && !is_token(options->token))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "options.token: must be 1 to %d of A-Z, a-z, 0-9 and -._~+/=", TOKEN_BYTES_MAX);
    lks_channel *channel = channel_new(options);
    if (!channel)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");

    /* The process' signals are its own business: neither our thread nor those that
     * nng starts with the first socket take any. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    lks_code code = open_endpoints(channel, urls, error);
    channel->options.ca_file = channel->options.certificate_file = channel->options.key_file = NULL; /* the caller's */
    if (code == LKS_OK && pthread_create(&channel->thread, NULL, run_loop, channel) != 0)
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot start a thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != LKS_OK) {
        channel_free(channel);
        return code;
    }
    if (error)
        *error = (lks_error){.code = LKS_OK};
    *ret = channel;
    return LKS_OK;
}

lks_code lks_channel_close(lks_channel *channel)
{
    if (!channel)
        return LKS_OK;
    if (on_completion_thread || channel->forks != forks_so_far())
        return LKS_FAILED_PRECONDITION;
    atomic_store(&channel->closing, true);
    loop_post(&channel->loop, &channel->close);
    pthread_join(channel->thread, NULL);
    channel_free(channel);
    return LKS_OK;
}
