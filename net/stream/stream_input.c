/* Invariant: libuv reads a stream only while it is WATCHED, and it takes turns only while it is QUEUED. A stream that
 * is not WATCHED ends as soon as its peer closes. Part of stream.c. */
#include <errno.h>
#include <unistd.h>

#include "base/container.h"
#include "net/stream/stream.h"
#include "net/stream/stream_state.h"

void stream_open(stream *s)
{
    s->connection = s->protocol->open(s->arg, s);
    if (!s->connection)
        stream_end(s, STREAM_NO_MEMORY);
}

static void take_decrypted(stream *s)
{
    int n;

    while (s->state != CLOSING && (n = tls_read(s->tls, s->all->plain_buffer, READ_BYTES)) != 0)
        if (n < 0)
            stream_end(s, STREAM_PEER_LEFT);
        else
            s->protocol->bytes(s->connection, s->all->plain_buffer, (size_t)n);
}

static void take_network(stream *s, const uint8_t *data, size_t len)
{
    tls_state state = tls_feed(s->tls, data, len) ? TLS_UP : TLS_OVER;

    if (state == TLS_UP && !s->connection) {
        state = tls_handshake(s->tls);
        if (state == TLS_UP)
            stream_open(s);
    }
    stream_mark_dirty(s);
    if (state == TLS_OVER)
        stream_end(s, STREAM_NO_TLS);
    else if (state == TLS_UP)
        take_decrypted(s);
}

/* Lets the protocol process the bytes that it kept, which come before those of the socket. False: there were none. */
static bool take_kept(stream *s)
{
    bool any = false;

    while (stream_is_read(s) && s->connection && s->protocol->kept && s->protocol->kept(s->connection))
        any = true;
    return any;
}

static void take(stream *s, const uint8_t *data, size_t len)
{
    s->counts->received += len;
    if (s->tls)
        take_network(s, data, len);
    else
        s->protocol->bytes(s->connection, data, len);
    take_kept(s);
    if (s->state != CLOSING)
        admission_follow_principal(&s->all->admission, &s->guest);
    turns_worked(s->all->admission.turns, &s->guest.turn, s->read_ns, len);
}

/* A TLS handshake costs as much as hundreds of calls. */
static bool is_light(const stream *s)
{
    return (!s->tls || s->connection) && turns_is_light(s->all->admission.turns, &s->guest.turn);
}

/* All streams share one buffer, which is processed before the next read. */
static size_t begin_read(stream *s)
{
    s->read_ns = turns_now(s->all->admission.turns);
    return turns_bytes(s->all->admission.turns, &s->guest.turn, s->tls ? RECORD_BYTES : READ_BYTES);
}

/* Gives libuv no buffer for a heavy stream: libuv then does not read, but reports that there are bytes. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    stream *s = handle->data;

    (void)suggested;
    *buffer = uv_buf_init(s->all->read_buffer, is_light(s) ? (unsigned)begin_read(s) : 0);
}

static void on_read(uv_stream_t *handle, ssize_t n, const uv_buf_t *buffer)
{
    stream *s = handle->data;

    if (n == UV_ENOBUFS)
        stream_move(s, QUEUED);
    else if (n < 0)
        stream_end(s, n == UV_EOF ? STREAM_PEER_LEFT : STREAM_LOST);
    else if (n > 0)
        take(s, (const uint8_t *)buffer->base, (size_t)n);
}

void stream_move(stream *s, stream_state to)
{
    if (s->state == WATCHED)
        uv_read_stop(&s->on.stream);
    s->state = to;
    if (to == QUEUED)
        turns_queue(s->all->admission.turns, &s->guest.turn);
    else
        turns_leave(s->all->admission.turns, &s->guest.turn);
    if (to == WATCHED && uv_read_start(&s->on.stream, on_alloc, on_read) != 0)
        stream_end(s, STREAM_NO_MEMORY);
}

/* The stream's turn has come. */
void stream_take_turn(turn_taker *t)
{
    stream *s = container_of(t, stream, guest.turn);
    size_t wanted = begin_read(s);
    uv_os_fd_t fd = -1;

    if (take_kept(s)) {
        turns_worked(s->all->admission.turns, t, s->read_ns, 0);
        return;
    }
    uv_fileno(&s->on.handle, &fd);
    ssize_t n = read(fd, s->all->read_buffer, wanted);
    if (n > 0)
        take(s, (const uint8_t *)s->all->read_buffer, (size_t)n);
    else if (n == 0)
        stream_end(s, STREAM_PEER_LEFT);
    else if (errno != EAGAIN && errno != EINTR)
        stream_end(s, STREAM_LOST);
    if (n < (ssize_t)wanted && s->state == QUEUED)
        stream_move(s, WATCHED);
}

/* A WATCHED stream first reads the bytes that came before the close. */
void stream_hung_up(void *owner)
{
    stream *s = owner;

    s->hung_up = true;
    if (s->state != WATCHED)
        stream_end(s, STREAM_PEER_LEFT);
}

void stream_pause(stream *s)
{
    if (s->state == CLOSING)
        return;
    stream_move(s, PAUSED);
    if (s->hung_up)
        stream_end(s, STREAM_PEER_LEFT);
    else if (s->request_end_ms > 0)
        stream_arm(s);
}

void stream_resume(stream *s)
{
    if (s->state != PAUSED)
        return;
    stream_move(s, is_light(s) ? WATCHED : QUEUED);
    if (s->state == WATCHED) {
        s->read_ns = turns_now(s->all->admission.turns);
        if (take_kept(s))
            turns_worked(s->all->admission.turns, &s->guest.turn, s->read_ns, 0);
    }
    if (s->request_end_ms > 0) {
        stream_arm_request(s);
        stream_arm(s);
    }
}

void stream_forget_hangup(stream *s)
{
    uv_os_fd_t fd;

    if (uv_fileno(&s->on.handle, &fd) == 0)
        hangups_forget(s->all->hangups, fd);
}

void stream_begin_reading(stream *s)
{
    uv_os_fd_t fd;

    stream_move(s, PAUSED);
    if (uv_fileno(&s->on.handle, &fd) == 0 && hangups_watch(s->all->hangups, fd, s))
        stream_resume(s);
    else
        stream_end(s, STREAM_NO_MEMORY);
}
