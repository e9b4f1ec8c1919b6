/* Invariant: a stream is on the list `dirty` exactly while it has output that was not offered to the kernel in this
 * turn. At most one write request is in progress. The bytes of its blocks are held in its share. Part of stream.c. */
#include <sys/socket.h>
#include <stdlib.h>

#include "net/stream/stream.h"
#include "net/stream/stream_state.h"

enum { PARTS_MAX = 64 };

/* ---- blocks ---------------------------------------------------------------------- */

stream_block *stream_block_new(size_t len)
{
    stream_block *block = malloc(sizeof *block + len);

    if (block)
        block->len = len;
    return block;
}

static void drop_block(stream *s, stream_block *block)
{
    TAILQ_REMOVE(&s->output, block, next);
    budget_give(s->guest.bytes, block->len);
    free(block);
}

void stream_drop_output(stream *s)
{
    stream_block *block;

    while ((block = TAILQ_FIRST(&s->output)))
        drop_block(s, block);
    s->waiting = 0;
}

static void add_output(stream *s, stream_block *block)
{
    TAILQ_INSERT_TAIL(&s->output, block, next);
    s->waiting += block->len;
    budget_force(s->guest.bytes, block->len);
}

/* Collects the first parts of the output. */
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

/* Removes n bytes that the kernel took. */
static void taken(stream *s, size_t n)
{
    s->waiting -= n;
    s->taken += n;
    s->counts->sent += n;
    n += s->first_done;
    for (stream_block *block; (block = TAILQ_FIRST(&s->output)) && n >= block->len;) {
        n -= block->len;
        drop_block(s, block);
    }
    s->first_done = n;
}

static void flush_and_notify(stream *s);

static void on_written(uv_write_t *request, int status)
{
    stream *s = request->data;

    s->writing = false;
    if (s->state == CLOSING)
        return;
    taken(s, s->write_len);
    if (status < 0)
        stream_end(s, STREAM_LOST);
    else
        flush_and_notify(s);
}

/* The kernel's buffer is full: libuv writes the rest. */
static void start_write(stream *s)
{
    uv_buf_t parts[PARTS_MAX];
    unsigned n = gather(s, parts);

    s->write_len = 0;
    for (unsigned i = 0; i < n; i++)
        s->write_len += parts[i].len;
    s->writing = uv_write(&s->write, &s->on.stream, parts, n, on_written) == 0;
    if (s->writing)
        stream_arm(s);
    else
        stream_end(s, STREAM_LOST);
}

/* Moves the network bytes of TLS to the output. */
static void take_encrypted(stream *s)
{
    size_t len = s->tls ? tls_pending(s->tls) : 0;
    stream_block *block = len > 0 ? stream_block_new(len) : NULL;

    if (block) {
        tls_take(s->tls, block->data, len);
        add_output(s, block);
    }
}

/* TLS never shrinks its buffer, so it is given at most one record at a time. */
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

void stream_flush(stream *s)
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
    if (sent == UV_EAGAIN && s->state != CLOSING)
        start_write(s);
    else if (sent < 0)
        stream_end(s, STREAM_LOST);
}

/* Counts the time: output uses the loop as well. */
static void call(stream *s, void (*what)(void *connection))
{
    uint64_t began_ns = turns_now(s->all->admission.turns);

    what(s->connection);
    turns_worked(s->all->admission.turns, &s->guest.turn, began_ns, 0);
}

static void flush_and_notify(stream *s)
{
    if (s->writing)
        return;
    stream_flush(s);
    stream_arm(s);
    if (s->connection && s->state != CLOSING && !s->writing)
        call(s, s->protocol->drained);
}

void streams_turn_end(uv_prepare_t *prepare)
{
    streams *all = prepare->data;
    stream *s;

    while ((s = TAILQ_FIRST(&all->dirty))) {
        if (s->wants_produce) {
            s->wants_produce = false;
            call(s, s->protocol->produce);
            continue;
        }
        TAILQ_REMOVE(&all->dirty, s, next_dirty);
        s->dirty = false;
        flush_and_notify(s);
    }
}

void stream_mark_dirty(stream *s)
{
    if (!s->dirty && (!s->writing || s->wants_produce) && s->state != CLOSING) {
        s->dirty = true;
        TAILQ_INSERT_TAIL(&s->all->dirty, s, next_dirty);
    }
}

void stream_produce(stream *s)
{
    s->wants_produce = true;
    stream_mark_dirty(s);
}

void stream_write(stream *s, stream_block *block)
{
    if (!s->tls && s->state != CLOSING) {
        add_output(s, block);
    } else {
        bool encrypted = s->state != CLOSING && encrypt(s, block->data, block->len);
        free(block);
        if (!encrypted)
            stream_end(s, STREAM_LOST);
    }
    stream_mark_dirty(s);
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

void stream_end_output(stream *s)
{
    uv_os_fd_t fd;

    if (!s->tls && s->state != CLOSING && uv_fileno(&s->on.handle, &fd) == 0)
        shutdown(fd, SHUT_WR);
}
