/* Invariant: the loop thread ends only when every admitted call is settled and has completed; nothing posts calls to
 * the loop after that. */
#include <lockstock/rpc/options.h>
#include "client/call/channel.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/container.h"
#include "client/loop/forks.h"

enum {
    TIMEOUT_MS = 5000,
    IN_FLIGHT_MAX = 256,
    WAITING_MAX = 16384,
    QUEUE_MAX = 65536,
    RETRY_TOKENS_MAX = 1000,
    INSISTENT_MAX = 1024, /* calls that insist and may exceed a full queue */
    MESSAGE_BYTES_MAX = 1 << 20,
    URLS_MAX = 64,
    TIMERS_OF_URL = 4, /* for the connection, the stream, the dial and the engine */
    KEEPALIVE_MS_MIN = 1000,
    KEEPALIVE_TIMEOUT_MS = 20000,
    QUEUE_PART = 2 /* a call may queue here for 1 / QUEUE_PART of its time; the rest is for the server */
};

static const char SCHEME[] = "Bearer ";

static _Thread_local bool on_completion_thread;

static size_t text_len(const char *text)
{
    return text ? strlen(text) : 0;
}

bool channel_has_room(const lks_channel *channel, const ProtobufCMessage *request)
{
    enum { CALL_BYTES = 256 /* an upper bound for a call's bytes beyond its request and what the channel adds */ };

    return protobuf_c_message_get_packed_size(request) + text_len(channel->options.ns) +
               text_len(channel->options.token) + CALL_BYTES <=
           channel->options.message_bytes_max;
}

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
                                    "%zu calls are already under way", calls_max);
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

bool channel_is_slow(lks_channel *channel, uint32_t timeout_ms)
{
    if (timeout_ms == 0)
        timeout_ms = channel->options.timeout_ms;
    return pace_too_long(atomic_load(&channel->queue_ns), timeout_ms * CLOCK_NS_PER_MS, QUEUE_PART);
}

/* ---- calls and servers, on the loop thread --------------------------------------- */

void channel_enqueue(lks_channel *channel, connection_lane lane, frame_call *call)
{
    if (lane == LANE_PROMPT && channel->n_prompt++ == 0)
        pace_begin(&channel->pace, clock_now_ns());
    call->enqueued = channel->enqueued++;
    TAILQ_INSERT_TAIL(&channel->queue[lane], call, in_queue);
}

void channel_dequeue(lks_channel *channel, connection_lane lane, frame_call *call)
{
    TAILQ_REMOVE(&channel->queue[lane], call, in_queue);
    if (lane == LANE_PROMPT)
        channel->n_prompt--;
}

void channel_settle(lks_channel *channel, frame_call *call)
{
    TAILQ_REMOVE(&channel->calls, call, in_calls);
    TAILQ_INSERT_TAIL(&channel->settled, call, in_queue);
    channel_dismiss(channel);
}

void channel_unsettle(lks_channel *channel, frame_call *call)
{
    TAILQ_REMOVE(&channel->settled, call, in_queue);
}

const struct connection *channel_why(const lks_channel *channel)
{
    for (size_t i = 0; i < channel->n_connections; i++)
        if (*connection_why(channel->connections[i]) != '\0')
            return channel->connections[i];
    return NULL;
}

bool channel_note_try(lks_channel *channel, bool passed)
{
    const uint64_t max = 10 * (uint64_t)channel->options.retry_tokens;
    uint64_t *left = &channel->retry_tokens;

    if (passed)
        *left = *left < max ? *left + 1 : max;
    else
        *left = *left > 10 ? *left - 10 : 0;
    return max == 0 || *left > max / 2;
}

/* Sends queued calls while there is room, and writes. */
static void send_queued(lks_channel *channel)
{
    struct connection *connection;
    connection_lane lane;

    while ((connection = channel_choose(channel, &lane)))
        connection_send(connection, lane, &channel->queue[lane]);
    atomic_store(&channel->queue_ns, pace_expected_ns(&channel->pace, channel->n_prompt));
    for (size_t i = 0; i < channel->n_connections; i++)
        connection_flush(channel->connections[i]);
}

/* Completions may start, cancel and free calls; the loop does this later, in tasks. */
static void complete_settled(lks_channel *channel)
{
    frame_call *call;

    while ((call = TAILQ_FIRST(&channel->settled))) {
        channel_unsettle(channel, call);
        call->events->complete(call);
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

static void turn(lks_channel *channel, uint64_t until_ns)
{
    run_tasks(channel, loop_wait(&channel->loop, until_ns));
    loop_run_ready(&channel->loop);
    heap_run(&channel->loop.timers);
    channel_report_state(channel);
    send_queued(channel);
    complete_settled(channel);
}

void channel_step(lks_channel *channel)
{
    loop_resume(&channel->loop);
    on_completion_thread = true;
    turn(channel, 0);
    on_completion_thread = false;
    loop_allow_borrowing(&channel->loop);
}

static void *run_loop(void *arg)
{
    lks_channel *channel = arg;

    on_completion_thread = true;
    while (!atomic_load(&channel->closing) || atomic_load(&channel->under_way) != 0)
        turn(channel, heap_next_ns(&channel->loop.timers));
    run_tasks(channel, loop_wait(&channel->loop, 0)); /* to drop the references of late cancels */
    on_completion_thread = false;
    return NULL;
}

static void run_close(loop_task *task)
{
    lks_channel *channel = container_of(task, lks_channel, close);
    frame_call *next;

    for (frame_call *call = TAILQ_FIRST(&channel->calls); call; call = next) {
        next = TAILQ_NEXT(call, in_calls);
        call->events->closing(call);
    }
}

static void run_fetched(loop_task *task)
{
    lks_channel *channel = container_of(task, lks_channel, fetched);
    lks_error why = {0};
    const char *authorization = tokens_take(channel->tokens, &why);
    frame_call *call;

    while ((call = TAILQ_FIRST(&channel->tokenless)))
        call->events->token(call, authorization, &why);
}

/* ---- borrowing the loop ---------------------------------------------------------- */

bool channel_enter(lks_channel *channel, loop_task *start)
{
    bool alone = atomic_load(&channel->under_way) == 1;

    if (!alone || !loop_enter(&channel->loop)) {
        loop_post(&channel->loop, start);
        return false;
    }
    start->run(start);
    send_queued(channel);
    return true;
}

void channel_exit(lks_channel *channel)
{
    if (!TAILQ_EMPTY(&channel->calls))
        loop_give_back(&channel->loop);
    loop_leave(&channel->loop, !TAILQ_EMPTY(&channel->settled));
}

void channel_start(lks_channel *channel, loop_task *start)
{
    if (channel_enter(channel, start))
        channel_exit(channel);
}

bool channel_read(lks_channel *channel, struct connection *connection)
{
    loop_source *source = TAILQ_EMPTY(&channel->settled) ? connection_source(connection) : NULL;

    if (!source) {
        channel_exit(channel);
        return false;
    }
    if (!loop_wait_for_source(&channel->loop, source))
        return false;
    send_queued(channel);
    return true;
}

/* ---- opening and closing ----------------------------------------------------- */

/* After the loop thread has ended, or before it was made. */
static void channel_free(lks_channel *channel)
{
    loop_close(&channel->loop);
    tokens_free(channel->tokens);
    for (size_t i = 0; i < channel->n_connections; i++)
        connection_close(channel->connections[i]);
    free(channel->connections);
    loop_fini(&channel->loop);
    lks_rpc_arena_free(channel->arena);
    tls_context_free(channel->tls);
    if (channel->options.token)
        explicit_bzero((char *)(uintptr_t)channel->options.token, strlen(channel->options.token));
    lks_rpc_arena_free(channel->texts);
    free(channel);
}

static lks_code load_tls(const lks_channel *channel, tls_context **ret, lks_error *error)
{
    const lks_channel_options *options = &channel->options;

    return tls_context_load_client(options->ca_file, options->certificate_file, options->key_file, NULL, ret, error);
}

lks_code lks_channel_reload_tls(lks_channel *channel, lks_error *error)
{
    tls_context *fresh = NULL;

    lks_error_clear(error);
    if (!channel->tls)
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "no URL of the channel is encrypted");
    lks_code code = load_tls(channel, &fresh, error);
    if (code == LKS_OK)
        tls_context_replace(channel->tls, fresh);
    return code;
}

/* How often a URL occurs before this place. Each of its connections begins with another address of the host's name. */
static uint32_t count_before(const char *urls, const char *url, size_t len)
{
    uint32_t n = 0;

    for (const char *at = urls; at < url; at += strcspn(at, ",") + 1)
        n += strcspn(at, ",") == len && memcmp(at, url, len) == 0;
    return n;
}

/* Options that no URL uses are a mistake: the calls would go in clear text. */
static lks_code check_tls_is_used(const lks_channel *channel, lks_error *error)
{
    const lks_channel_options *o = &channel->options;
    const char *unused = o->ca_file            ? "ca_file"
                         : o->certificate_file ? "certificate_file"
                         : o->key_file         ? "key_file"
                         : o->server_name      ? "server_name"
                                               : NULL;

    if (channel->tls || !unused)
        return LKS_OK;
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "options.%s: needs a URL of tls:// or grpcs://",
                         unused);
}

static lks_code open_connections(lks_channel *channel, const char *urls, lks_error *error)
{
    connection_options options = {
        .in_flight_max = channel->options.in_flight_max,
        .waiting_max = channel->options.waiting_max,
        .message_bytes_max = channel->options.message_bytes_max,
        .keepalive_ms = channel->options.keepalive_ms,
        .keepalive_timeout_ms = channel->options.keepalive_timeout_ms,
        .loop = &channel->loop,
        .server_name = channel->options.server_name,
        .random = &channel->random,
        .arena = channel->arena,
    };
    const char *url = urls;

    for (;;) {
        size_t len = strcspn(url, ",");

        if (channel->n_connections == URLS_MAX)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: must have at most %d URLs",
                                 URLS_MAX);
        lks_code code =
            connection_is_encrypted(url) && !channel->tls ? load_tls(channel, &channel->tls, error) : LKS_OK;
        if (code != LKS_OK)
            return code;
        options.tls = channel->tls;
        options.first_address = count_before(urls, url, len);
        code = connection_open(url, len, &options, &channel->connections[channel->n_connections], error);
        if (code != LKS_OK)
            return code;
        channel->n_connections++;
        if (url[len] == '\0')
            return check_tls_is_used(channel, error);
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
    if (options->keepalive_timeout_ms == 0)
        options->keepalive_timeout_ms = KEEPALIVE_TIMEOUT_MS;
    if (options->message_bytes_max == 0)
        options->message_bytes_max = MESSAGE_BYTES_MAX;
}

/* Replaces the texts of the options by copies, or by NULL when out of memory: then it returns false. */
static bool copy_texts(lks_channel_options *options, lks_rpc_arena *arena)
{
    const char **const texts[] = {&options->ns,      &options->server_name,      &options->token,
                                  &options->ca_file, &options->certificate_file, &options->key_file};
    bool copied = arena;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = *texts[i], *prefix = texts[i] == &options->token ? SCHEME : "";

        *texts[i] = copied && text ? lks_rpc_arena_printf(arena, "%s%s", prefix, text) : NULL;
        copied = copied && (!text || *texts[i]);
    }
    return copied;
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
    channel->options = *options;
    fill_in(&channel->options);
    channel->texts = lks_rpc_arena_new();
    bool copied = copy_texts(&channel->options, channel->texts);
    channel->retry_tokens = 10 * (uint64_t)channel->options.retry_tokens;
    channel->calls_max = (size_t)channel->options.in_flight_max + channel->options.queue_max;
    channel->forks = forks_so_far();
    channel->close.run = run_close;
    channel->fetched.run = run_fetched;
    TAILQ_INIT(&channel->tokenless);
    TAILQ_INIT(&channel->calls);
    TAILQ_INIT(&channel->settled);
    for (int lane = 0; lane < LANES; lane++)
        TAILQ_INIT(&channel->queue[lane]);
    channel->random = backoff_random();
    channel->connections = calloc(URLS_MAX, sizeof(struct connection *));
    channel->arena = lks_rpc_arena_new();
    if (heap_reserve(&channel->loop.timers, channel->calls_max + INSISTENT_MAX + TIMERS_OF_URL * URLS_MAX) &&
        channel->connections && channel->arena && copied)
        return channel;
    channel_free(channel);
    return NULL;
}

static lks_code check_options(const lks_channel_options *o, lks_error *error)
{
    const char *wrong = NULL;

    if (o->token && !tokens_is_valid(o->token))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "options.token: must be 1 to %d of A-Z, a-z, 0-9 and -._~+/=", LKS_TOKEN_BYTES_MAX);
    if (o->policy > LKS_LEAST_IN_FLIGHT)
        wrong = "options.policy: must be an lks_channel_policy";
    else if (o->token && o->get_token)
        wrong = "options.get_token: must be NULL if options.token is set";
    else if (o->driven > 1)
        wrong = "options.driven: must be 0 or 1";
    else if (o->keepalive_ms > 0 && o->keepalive_ms < KEEPALIVE_MS_MIN)
        wrong = "options.keepalive_ms: must be 0 or at least 1,000";
    else if (o->keepalive_timeout_ms > 0 && o->keepalive_timeout_ms < KEEPALIVE_MS_MIN)
        wrong = "options.keepalive_timeout_ms: must be 0 or at least 1,000";
    else if (o->keepalive_timeout_ms > 0 && o->keepalive_ms == 0)
        wrong = "options.keepalive_timeout_ms: needs keepalive_ms";
    else if (o->retry_tokens > RETRY_TOKENS_MAX)
        wrong = "options.retry_tokens: at most 1,000";
    else if (o->n_interceptors > LKS_INTERCEPTORS_MAX)
        wrong = "options.n_interceptors: must be at most 32";
    else if (o->n_interceptors > 0 && !o->interceptors)
        wrong = "options.interceptors: must not be NULL if n_interceptors is not 0";
    for (size_t i = 0; !wrong && i < o->n_interceptors; i++)
        if (!o->interceptors[i].before && !o->interceptors[i].after)
            wrong = "options.interceptors: each must have `before` or `after`";
    return wrong ? lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s", wrong) : LKS_OK;
}

lks_code lks_channel_open_sized(const char *urls, const lks_channel_options *options, size_t options_bytes,
                                lks_channel **ret, lks_error *error)
{
    sigset_t all, before;
    lks_channel_options own;
    lks_code code = lks_rpc_options_read(&own, sizeof own, options, options_bytes, "lks_channel_options", error);

    if (code != LKS_OK)
        return code;
    if ((code = check_options(&own, error)) != LKS_OK)
        return code;
    lks_channel *channel = channel_new(&own);
    if (!channel)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");

    /* Blocks signals for the threads of the channel, and for those that nng starts with the first socket. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    code = open_connections(channel, urls, error);
    if (code == LKS_OK && own.get_token && !(channel->tokens = tokens_new(&own, &channel->loop, &channel->fetched)))
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot start a thread");
    if (own.driven)
        loop_allow_borrowing(&channel->loop);
    else if (code == LKS_OK && pthread_create(&channel->thread, NULL, run_loop, channel) != 0)
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "cannot start a thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != LKS_OK) {
        channel_free(channel);
        return code;
    }
    lks_error_clear(error);
    *ret = channel;
    return LKS_OK;
}

lks_code lks_channel_close(lks_channel *channel)
{
    if (!channel)
        return LKS_OK;
    if (on_completion_thread || tokens_is_thread(channel->tokens) || channel->forks != forks_so_far())
        return LKS_FAILED_PRECONDITION;
    atomic_store(&channel->closing, true);
    loop_post(&channel->loop, &channel->close);
    if (channel->options.driven) {
        loop_resume(&channel->loop);
        run_loop(channel);
    } else {
        pthread_join(channel->thread, NULL);
    }
    channel_free(channel);
    return LKS_OK;
}
