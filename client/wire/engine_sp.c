/* The engine for tcp://, tls:// and unix://: SP's request protocol (net/sp/sp.h) over a stream of bytes.
 *
 * Invariant: the message of a slot is slot->operation, and in the output queue, exactly while the slot is SENDING:
 * until the stream has taken its last byte. */
#include "client/wire/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "client/wire/byte_stream.h"
#include "net/sp/sp.h"

enum {
    INPUT_BYTES = 16 * 1024,
    PARTS_MAX = 64 /* of one system call */
};

typedef struct sp {
    struct link *link;
    byte_stream stream;
    sp_mapping mapping;
    size_t header_bytes; /* of a message */
    uint32_t id_step;    /* a power of two; the ids of a slot are its place + n * id_step */

    TAILQ_HEAD(, message) output;
    size_t output_done; /* bytes of the first message that were written */

    sp_reader input;
} sp;

static sp *sp_of(const slot *s)
{
    return s->link->transport;
}

/* ---- messages out --------------------------------------------------------------------- */

static bool send_message(slot *s, message *m)
{
    sp *t = sp_of(s);
    uint8_t id[SP_ID_BYTES];

    s->id = (s->id + t->id_step) | SP_ID_MARK;
    s->operation = m;
    m->slot = s;
    sp_id_write(s->id, id);
    sp_write_header(t->mapping, id, sizeof id, m->len, message_body(m) - t->header_bytes);
    TAILQ_INSERT_TAIL(&t->output, m, next);
    return true;
}

static void drop(sp *t, message *m)
{
    TAILQ_REMOVE(&t->output, m, next);
    free(m);
}

/* Takes `n` written bytes off the output queue. */
static void take_written(sp *t, size_t n)
{
    message *m;

    t->output_done += n;
    while ((m = TAILQ_FIRST(&t->output)) && t->output_done >= t->header_bytes + m->len) {
        slot *s = m->slot;

        t->output_done -= t->header_bytes + m->len;
        drop(t, m);
        if (s) {
            s->operation = NULL;
            slot_sent(s);
        }
    }
}

/* Writes all that is queued, many messages to one system call. */
static void flush(struct link *link)
{
    sp *t = link->transport;
    size_t n = 1;

    if (!bytes_flush(&t->stream))
        return;
    while (n != 0 && !TAILQ_EMPTY(&t->output)) {
        struct iovec parts[PARTS_MAX];
        size_t n_parts = 0, skip = t->output_done;

        for (message *m = TAILQ_FIRST(&t->output); m && n_parts < PARTS_MAX; m = TAILQ_NEXT(m, next)) {
            parts[n_parts++] = (struct iovec){.iov_base = message_body(m) - t->header_bytes + skip,
                                              .iov_len = t->header_bytes + m->len - skip};
            skip = 0;
        }
        n = bytes_write(&t->stream, parts, n_parts);
        take_written(t, n);
    }
}

/* The rest of a partly written message must follow, because other messages come after it. When the connection is down,
 * nothing follows, and the server cannot have read the message. */
static bool withdraw(slot *s)
{
    sp *t = sp_of(s);
    message *m = s->operation;

    s->operation = NULL;
    if (link_is_up(s->link) && m == TAILQ_FIRST(&t->output) && t->output_done != 0) {
        m->slot = NULL;
        return false;
    }
    drop(t, m);
    return true;
}

/* ---- messages in ------------------------------------------------------------------------ */

/* Ignores a late reply, whose id no slot has any more. */
static bool take_reply(void *arg, sp_message *reply)
{
    sp *t = arg;
    uint32_t id = sp_id_read(reply->bytes), place = id & (t->id_step - 1);
    slot *s = place < t->link->n_slots ? t->link->slots[place] : NULL;

    if (s && s->state == SLOT_AWAITING && s->id == id)
        slot_end(s, SLOT_REPLY, reply->bytes + SP_ID_BYTES, reply->len - SP_ID_BYTES);
    free(reply);
    return true;
}

/* Returns NULL, or the error. */
static const char *read_bytes(sp *t, const uint8_t *bytes, size_t len)
{
    bool greeted = t->input.handshake_done;
    size_t taken;
    sp_verdict verdict = sp_read(&t->input, bytes, len, &taken, take_reply, t);

    if (verdict == SP_NO_MEMORY)
        return "out of memory";
    if (verdict != SP_FINE && !t->input.handshake_done)
        return "the server does not speak SP's request protocol";
    if (verdict != SP_FINE)
        return t->input.too_long ? "the server sent a message longer than message_bytes_max"
                                 : "the server sent something that is not an SP message";
    if (t->input.handshake_done && !greeted)
        link_up(t->link);
    return NULL;
}

static void on_readable(byte_stream *b)
{
    sp *t = container_of(b, sp, stream);
    uint8_t bytes[INPUT_BYTES];
    const char *why = NULL;
    ssize_t n = 1;

    while (n > 0 && !why) {
        n = bytes_read(b, bytes, sizeof bytes);
        if (n > 0)
            why = read_bytes(t, bytes, (size_t)n);
    }
    if (n < 0)
        why = b->why;
    if (why)
        link_down(t->link, why);
}

static void on_failed(byte_stream *b)
{
    link_down(container_of(b, sp, stream)->link, b->why);
}

/* The kernel has room for the handshake, because nothing was written before it. */
static void on_up(byte_stream *b)
{
    uint8_t bytes[SP_OUTPUT_BYTES_MAX];
    const struct iovec hello = {bytes, sp_output(&container_of(b, sp, stream)->input, bytes)};

    bytes_write(b, &hello, 1);
}

/* ---- the connection ------------------------------------------------------------------------- */

static lks_code begin_connect(struct link *link, lks_error *error)
{
    sp *t = link->transport;

    (void)error;
    sp_reader_init_client(&t->input, t->mapping, link->message_bytes_max);
    bytes_open(&t->stream);
    return LKS_OK;
}

static void disconnect(struct link *link)
{
    sp *t = link->transport;
    message *m;

    bytes_close(&t->stream);
    sp_reader_end(&t->input);
    while ((m = TAILQ_FIRST(&t->output)))
        drop(t, m);
    t->output_done = 0;
}

static bool open_link(struct link *link)
{
    sp *t = calloc(1, sizeof *t);

    if (!t)
        return false;
    t->link = link;
    for (t->id_step = 1; t->id_step < link->slots_max && t->id_step < SP_ID_MARK / 2;)
        t->id_step *= 2;
    TAILQ_INIT(&t->output);
    t->stream = (byte_stream){
        .tls_context = link->tls,
        .server_name = link->server_name,
        .first_address = link->first_address,
        .loop = link->loop,
        .up = on_up,
        .readable = on_readable,
        .failed = on_failed,
    };
    bytes_aim(&t->stream, link->scheme, link->address); /* it was checked */
    t->mapping = t->stream.path ? SP_OVER_UNIX : SP_OVER_TCP;
    t->header_bytes = sp_prefix_bytes(t->mapping) + SP_ID_BYTES;
    bytes_init(&t->stream);
    link->transport = t;
    return true;
}

static void close_link(struct link *link)
{
    sp *t = link->transport;

    disconnect(link);
    bytes_fini(&t->stream);
    free(t);
}

static loop_source *source(struct link *link)
{
    return &((sp *)link->transport)->stream.source;
}

const struct engine engine_sp = {
    .is_address = bytes_is_address,
    .open = open_link,
    .close = close_link,
    .connect = begin_connect,
    .disconnect = disconnect,
    .send = send_message,
    .withdraw = withdraw,
    .flush = flush,
    .source = source,
};
