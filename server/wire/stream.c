/* Invariant: a stream is on the list `dirty` exactly while it has something to say that
 * was not yet offered to the kernel in this turn; one write request is under way at most; and
 * `closed` of its protocol runs once, when its handles are gone. */
#include "wire/stream.h"

#include <stdlib.h>
#include <sys/socket.h>

#include <uv.h>

#include "wire/hangups.h"
#include "wire/listeners.h"

enum { READ_BYTES = 64 * 1024, PARTS_MAX = 64, KEEPALIVE_S = 30, RECORD_BYTES = 16 * 1024 };
#define PEER_MARK UINT32_C(0x80000000)
#define PEER_MASK UINT32_C(0x3FFFFFFF)

typedef union any_handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
} any_handle;

struct stream {
    any_handle on;
    uv_timer_t timer;
    uv_write_t write;
    streams *all;
    const stream_protocol *protocol;
    void *arg, *connection; /* connection NULL: not open yet */
    uint32_t peer;
    tls *tls; /* NULL: in plain */
    TAILQ_HEAD(, stream_block) output;
    size_t waiting;    /* bytes of output */
    size_t first_done; /* bytes of its first block that were taken */
    size_t write_len;  /* bytes of the write under way */
    size_t unwritten;  /* of these, when the timer was set */
    bool stalls;       /* the timer is set for the write */
    bool ready, idle, paused, dirty, wants_produce, writing, closing;
    bool hung_up; /* the peer sends no more: what it sent may be read, if it is being read */
    budget_share *share;      /* NULL: output is not counted */
    size_t held;              /* bytes of it: the blocks of output */
    uint64_t request_end_ms;  /* uv_now; 0: no message is half there */
    uint64_t greeting_end_ms; /* uv_now: nothing that comes before it is over moves it */
    unsigned open_handles;
    TAILQ_ENTRY(stream) next, next_dirty;
};

struct streams {
    streams_options options;
    uv_prepare_t turn_end;
    listeners *listeners;
    hangups *hangups;
    TAILQ_HEAD(, stream) open, dirty;
    size_t n_open;
    size_t n_handles; /* not yet closed, and modules below */
    uint32_t last_peer;
    char *read_buffer;
    uint8_t *plain_buffer; /* what TLS makes of it */
    void (*closed)(void *arg);
    void *arg;
    bool ending;
};

/* ---- the end -------------------------------------------------------------------- */

static void free_all_when_over(streams *all)
{
    if (!all->ending || all->n_handles > 0)
        return;
    void (*closed)(void *arg) = all->closed;
    void *arg = all->arg;
    free(all->read_buffer);
    free(all->plain_buffer);
    free(all);
    closed(arg);
}

static void handle_closed(streams *all)
{
    all->n_handles--;
    free_all_when_over(all);
}

static void give_back(stream *s, size_t bytes)
{
    if (s->share && bytes > 0)
        budget_give(s->share, bytes);
    s->held -= bytes;
}

static void drop_block(stream *s, stream_block *block)
{
    TAILQ_REMOVE(&s->output, block, next);
    give_back(s, block->len);
    free(block);
}

static void drop_output(stream *s)
{
    stream_block *block;

    while ((block = TAILQ_FIRST(&s->output)))
        drop_block(s, block);
    s->waiting = 0;
}

/* Both handles tell; the second frees. */
static void on_stream_closed(uv_handle_t *handle)
{
    stream *s = handle->data;
    streams *all = s->all;

    if (--s->open_handles == 0) {
        drop_output(s);
        if (s->connection)
            s->protocol->closed(s->connection);
        tls_free(s->tls);
        free(s);
    }
    handle_closed(all);
}

static void forget_hangup(stream *s)
{
    uv_os_fd_t fd;

    if (uv_fileno(&s->on.handle, &fd) == 0)
        hangups_forget(s->all->hangups, fd);
}

static void flush(stream *s);
static void mark_dirty(stream *s);

void stream_close(stream *s)
{
    if (s->closing)
        return;
    s->closing = true;
    if (!s->writing)
        flush(s);
    if (s->dirty)
        TAILQ_REMOVE(&s->all->dirty, s, next_dirty);
    s->dirty = false;
    TAILQ_REMOVE(&s->all->open, s, next);
    s->all->n_open--;
    forget_hangup(s);
    uv_close(&s->on.handle, on_stream_closed);
    uv_close((uv_handle_t *)&s->timer, on_stream_closed);
}

/* ---- timers --------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

/* What the kernel has not taken of the write under way: while it shrinks, the peer reads. */
static void arm_for_write(stream *s)
{
    s->unwritten = uv_stream_get_write_queue_size(&s->on.stream);
    s->stalls = true;
    if (s->all->options.stall_ms > 0)
        uv_timer_start(&s->timer, on_timer, s->all->options.stall_ms, 0);
    else
        uv_timer_stop(&s->timer);
}

static void on_timer(uv_timer_t *timer)
{
    stream *s = timer->data;

    if (s->writing && uv_stream_get_write_queue_size(&s->on.stream) < s->unwritten)
        arm_for_write(s);
    else
        stream_close(s);
}

/* Sets the timer for what the stream is waiting for now. */
static void arm(stream *s)
{
    const streams_options *o = &s->all->options;
    uint64_t ms = 0;

    if (s->closing)
        return;
    if (s->writing) {
        if (!s->stalls) /* what else happens gives no more time */
            arm_for_write(s);
        return;
    }
    s->stalls = false;
    if (!s->ready && o->greeting_ms > 0)
        ms = s->greeting_end_ms > uv_now(o->loop) ? s->greeting_end_ms - uv_now(o->loop) : 1;
    else if (s->request_end_ms > 0 && !s->paused)
        ms = s->request_end_ms > uv_now(o->loop) ? s->request_end_ms - uv_now(o->loop) : 1;
    else if (s->ready && s->idle)
        ms = o->idle_ms;
    if (ms > 0)
        uv_timer_start(&s->timer, on_timer, ms, 0);
    else
        uv_timer_stop(&s->timer);
}

void stream_ready(stream *s)
{
    s->ready = true;
    arm(s);
}

void stream_idle(stream *s, bool idle)
{
    s->idle = idle;
    arm(s);
}

static void begin_request_time(stream *s)
{
    s->request_end_ms = uv_now(s->all->options.loop) + s->all->options.request_ms;
}

void stream_unfinished(stream *s, bool unfinished, bool anew)
{
    bool was = s->request_end_ms > 0;

    if (s->all->options.request_ms == 0 || (unfinished == was && !(was && anew)))
        return;
    if (unfinished)
        begin_request_time(s);
    else
        s->request_end_ms = 0;
    arm(s);
}

/* ---- output --------------------------------------------------------------------- */

stream_block *stream_block_new(size_t len)
{
    stream_block *block = malloc(sizeof *block + len);

    if (block)
        block->len = len;
    return block;
}

static void add_output(stream *s, stream_block *block)
{
    TAILQ_INSERT_TAIL(&s->output, block, next);
    s->waiting += block->len;
    s->held += block->len;
    if (s->share)
        budget_force(s->share, block->len);
}

/* What was written before, too. */
void stream_charge(stream *s, budget_share *share)
{
    s->share = share;
    budget_force(share, s->held);
}

/* The first parts of the output. */
static unsigned gather(const stream *s, uv_buf_t *parts)
{
    unsigned n = 0;
    size_t skip = s->first_done;

    for (stream_block *block = TAILQ_FIRST(&s->output); block && n < PARTS_MAX; block = TAILQ_NEXT(block, next)) {
        parts[n++] = uv_buf_init((char *)block->data + skip, (unsigned)(block->len - skip));
        skip = 0;
    }
    return n;
}

/* The kernel took n bytes. */
static void taken(stream *s, size_t n)
{
    s->waiting -= n;
    n += s->first_done;
    for (stream_block *block; (block = TAILQ_FIRST(&s->output)) && n >= block->len;) {
        n -= block->len;
        drop_block(s, block);
    }
    s->first_done = n;
}

static void flush_and_tell(stream *s);

static void on_written(uv_write_t *request, int status)
{
    stream *s = request->data;

    s->writing = false;
    if (s->closing)
        return;
    taken(s, s->write_len);
    if (status < 0)
        stream_close(s);
    else
        flush_and_tell(s);
}

/* The kernel takes no more now: libuv writes when it does. */
static void start_write(stream *s)
{
    uv_buf_t parts[PARTS_MAX];
    unsigned n = gather(s, parts);

    s->write_len = 0;
    for (unsigned i = 0; i < n; i++)
        s->write_len += parts[i].len;
    s->writing = uv_write(&s->write, &s->on.stream, parts, n, on_written) == 0;
    if (s->writing)
        arm(s);
    else
        stream_close(s);
}

/* What TLS has for the network becomes output. */
static void take_encrypted(stream *s)
{
    size_t len = s->tls ? tls_pending(s->tls) : 0;
    stream_block *block = len > 0 ? stream_block_new(len) : NULL;

    if (block) {
        tls_take(s->tls, block->data, len);
        add_output(s, block);
    }
}

/* TLS keeps a buffer as large as it ever was: so it is given no more than a record at a time. */
static bool encrypt(stream *s, const uint8_t *data, size_t len)
{
    for (size_t n; len > 0; data += n, len -= n) {
        n = len < RECORD_BYTES ? len : RECORD_BYTES;
        if (tls_pending(s->tls) + n > RECORD_BYTES)
            take_encrypted(s);
        if (!tls_write(s->tls, data, n))
            return false;
    }
    return true;
}

static void flush(stream *s)
{
    uv_buf_t parts[PARTS_MAX];
    int sent = 0;

    take_encrypted(s);

    while (!TAILQ_EMPTY(&s->output) && sent >= 0) {
        unsigned n = gather(s, parts);
        sent = uv_try_write(&s->on.stream, parts, n);
        if (sent > 0)
            taken(s, (size_t)sent);
    }
    if (sent == UV_EAGAIN && !s->closing)
        start_write(s);
    else if (sent < 0)
        stream_close(s);
}

static void flush_and_tell(stream *s)
{
    if (s->writing)
        return;
    flush(s);
    arm(s);
    if (s->connection && !s->closing && !s->writing)
        s->protocol->drained(s->connection);
}

/* Once a turn, before the loop waits. */
static void on_turn_end(uv_prepare_t *prepare)
{
    streams *all = prepare->data;
    stream *s;

    while ((s = TAILQ_FIRST(&all->dirty))) {
        if (s->wants_produce) {
            s->wants_produce = false;
            s->protocol->produce(s->connection);
            continue;
        }
        TAILQ_REMOVE(&all->dirty, s, next_dirty);
        s->dirty = false;
        flush_and_tell(s);
    }
}

static void mark_dirty(stream *s)
{
    if (!s->dirty && (!s->writing || s->wants_produce) && !s->closing) {
        s->dirty = true;
        TAILQ_INSERT_TAIL(&s->all->dirty, s, next_dirty);
    }
}

void stream_produce(stream *s)
{
    s->wants_produce = true;
    mark_dirty(s);
}

void stream_write(stream *s, stream_block *block)
{
    if (!s->tls && !s->closing) {
        add_output(s, block);
    } else {
        bool encrypted = !s->closing && encrypt(s, block->data, block->len);
        free(block);
        if (!encrypted)
            stream_close(s);
    }
    mark_dirty(s);
}

size_t stream_waiting(const stream *s)
{
    return s->waiting + (s->tls ? tls_pending(s->tls) : 0);
}

bool streams_flushing(const streams *all)
{
    const stream *s;

    TAILQ_FOREACH(s, &all->open, next)
        if (stream_waiting(s) > 0)
            return true;
    return false;
}

/* ---- input ---------------------------------------------------------------------- */

/* One buffer for all: what was read is taken before the next read. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    stream *s = handle->data;

    (void)suggested;
    *buffer = uv_buf_init(s->all->read_buffer, READ_BYTES);
}

/* The connection is the protocol's from now on. */
static void open_connection(stream *s)
{
    s->connection = s->protocol->open(s->arg, s);
    if (!s->connection)
        stream_close(s);
}

static void take_decrypted(stream *s)
{
    int n;

    while (!s->closing && (n = tls_read(s->tls, s->all->plain_buffer, READ_BYTES)) != 0) {
        if (n < 0)
            stream_close(s);
        else
            s->protocol->bytes(s->connection, s->all->plain_buffer, (size_t)n);
    }
}

static void take_network(stream *s, const uint8_t *data, size_t len)
{
    tls_state state = tls_feed(s->tls, data, len) ? TLS_UP : TLS_OVER;

    if (state == TLS_UP && !s->connection) {
        state = tls_shake(s->tls);
        if (state == TLS_UP)
            open_connection(s);
    }
    mark_dirty(s);
    if (state == TLS_OVER)
        stream_close(s);
    else if (state == TLS_UP)
        take_decrypted(s);
}

static void on_read(uv_stream_t *handle, ssize_t n, const uv_buf_t *buffer)
{
    stream *s = handle->data;

    if (n < 0)
        stream_close(s);
    else if (n > 0 && s->tls)
        take_network(s, (const uint8_t *)buffer->base, (size_t)n);
    else if (n > 0)
        s->protocol->bytes(s->connection, (const uint8_t *)buffer->base, (size_t)n);
}

/* Who reads hears of the end after what came before it. */
static void on_hung_up(void *who)
{
    stream *s = who;

    s->hung_up = true;
    if (s->paused)
        stream_close(s);
}

void stream_pause(stream *s)
{
    if (!s->paused && !s->closing)
        uv_read_stop(&s->on.stream);
    s->paused = true;
    if (s->hung_up)
        stream_close(s);
    else if (s->request_end_ms > 0)
        arm(s);
}

void stream_resume(stream *s)
{
    bool was_paused = s->paused;

    s->paused = false;
    if (!was_paused || s->closing)
        return;
    if (uv_read_start(&s->on.stream, on_alloc, on_read) != 0)
        stream_close(s);
    if (s->request_end_ms > 0) {
        begin_request_time(s);
        arm(s);
    }
}

bool stream_is_closing(const stream *s)
{
    return s->closing;
}

uint32_t stream_peer(const stream *s)
{
    return s->peer;
}

const char *stream_peer_certificate(const stream *s)
{
    return s->tls ? tls_peer_name(s->tls) : NULL;
}

bool stream_peer_uid(const stream *s, uid_t *uid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    uv_os_fd_t fd;

    if (s->on.handle.type != UV_NAMED_PIPE || uv_fileno(&s->on.handle, &fd) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return false;
    *uid = peer.uid;
    return true;
}

/* ---- accepting ------------------------------------------------------------------ */

static lks_code out_of_memory(lks_error *error)
{
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

static void begin(stream *s)
{
    uv_tcp_t *tcp = s->on.handle.type == UV_TCP ? &s->on.tcp : NULL;
    uv_os_fd_t fd;

    if (tcp) {
        uv_tcp_nodelay(tcp, 1);
        uv_tcp_keepalive(tcp, 1, KEEPALIVE_S);
    }
    if (uv_fileno(&s->on.handle, &fd) != 0 || !hangups_watch(s->all->hangups, fd, s)) {
        stream_close(s);
        return;
    }
    s->paused = true;
    s->greeting_end_ms = uv_now(s->all->options.loop) + s->all->options.greeting_ms;
    stream_resume(s);
    arm(s);
    if (!s->tls)
        open_connection(s);
}

static void on_accept(void *arg, uv_stream_t *from, const served *what)
{
    streams *all = arg;
    uv_loop_t *loop = all->options.loop;
    stream *s = malloc(sizeof *s);

    if (!s)
        return;
    *s = (stream){.all = all, .protocol = what->protocol, .arg = what->arg,
                  .peer = (++all->last_peer & PEER_MASK) | PEER_MARK, .open_handles = 2};
    TAILQ_INIT(&s->output);
    if (what->is_unix)
        uv_pipe_init(loop, &s->on.pipe, 0);
    else
        uv_tcp_init(loop, &s->on.tcp);
    uv_timer_init(loop, &s->timer);
    s->on.handle.data = s->timer.data = s->write.data = s;
    all->n_handles += 2;
    TAILQ_INSERT_TAIL(&all->open, s, next);
    all->n_open++;
    bool wanted = uv_accept(from, &s->on.stream) == 0 && all->n_open <= all->options.connections_max;
    if (wanted && what->tls)
        wanted = (s->tls = tls_accept(*what->tls)) != NULL;
    if (wanted)
        begin(s);
    else
        stream_close(s);
}

/* libuv has closed it. */
static void on_refused(void *arg, const served *what)
{
    (void)arg;
    (void)what;
}

lks_code streams_listen_tcp(streams *all, const char *address, tls_context *const *context,
                            const stream_protocol *protocol, void *arg, uint16_t *bound, lks_error *error)
{
    const served what = {.protocol = protocol, .arg = arg, .tls = context};

    return listeners_add_tcp(all->listeners, address, &what, bound, error);
}

lks_code streams_listen_unix(streams *all, const char *path, const stream_protocol *protocol, void *arg,
                             lks_error *error)
{
    const served what = {.protocol = protocol, .arg = arg, .is_unix = true};

    return listeners_add_unix(all->listeners, path, &what, error);
}

void streams_stop_accepting(streams *all)
{
    listeners_stop(all->listeners);
}

/* ---- all of them ---------------------------------------------------------------- */

static void ignore(void *arg)
{
    (void)arg;
}

static bool make_parts(streams *all)
{
    const listeners_options listening = {
        .loop = all->options.loop, .accept = on_accept, .refused = on_refused, .arg = all};

    return (all->read_buffer = malloc(READ_BYTES)) && (all->plain_buffer = malloc(READ_BYTES)) &&
           (all->hangups = hangups_new(all->options.loop, on_hung_up)) && (all->listeners = listeners_new(&listening));
}

lks_code streams_new(const streams_options *options, streams **ret, lks_error *error)
{
    streams *all = calloc(1, sizeof *all);

    if (all)
        all->options = *options;
    if (!all || !make_parts(all)) {
        if (all && all->hangups)
            hangups_close(all->hangups, ignore, NULL);
        free(all ? all->read_buffer : NULL);
        free(all ? all->plain_buffer : NULL);
        free(all);
        return out_of_memory(error);
    }
    TAILQ_INIT(&all->open);
    TAILQ_INIT(&all->dirty);
    uv_prepare_init(options->loop, &all->turn_end);
    all->turn_end.data = all;
    uv_prepare_start(&all->turn_end, on_turn_end);
    uv_unref((uv_handle_t *)&all->turn_end);
    all->n_handles = 3;
    *ret = all;
    return LKS_OK;
}

static void on_turn_end_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void on_part_closed(void *arg)
{
    handle_closed(arg);
}

void streams_close(streams *all, void (*closed)(void *arg), void *arg)
{
    stream *s;

    all->closed = closed;
    all->arg = arg;
    all->ending = true;
    while ((s = TAILQ_FIRST(&all->open)))
        stream_close(s);
    listeners_close(all->listeners, on_part_closed, all);
    hangups_close(all->hangups, on_part_closed, all);
    uv_close((uv_handle_t *)&all->turn_end, on_turn_end_closed);
}
