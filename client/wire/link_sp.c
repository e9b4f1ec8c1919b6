/* The engine of our own for tcp://, tls:// and unix://: SP's request protocol (net/sp/sp.h)
 * over a connection of bytes (conn.h).
 *
 * Invariant: a slot's message is in the output queue exactly while the slot is SENDING and
 * not `returning`, that is until the connection has taken its last byte. */
#include "client/wire/link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "client/wire/conn.h"
#include "base/address.h"
#include "net/sp/sp.h"

enum {
    INPUT_BYTES = 16 * 1024,
    PARTS_MAX = 64 /* of one system call */
};

typedef struct sp_slot {
    link_slot base;
    uint32_t id;           /* of its last message */
    link_message *message; /* in the output queue, or NULL */
    bool returning;        /* asked back: `withdrawn` is posted, and tells the outcome: */
    link_outcome outcome;  /* SENT or UNSENT */
    loop_task withdrawn;
} sp_slot;

typedef struct sp_link {
    struct link base;
    link_state state;
    conn *conn;
    struct address address; /* what conn's options point into */
    sp_mapping mapping;
    uint32_t id_step; /* a power of two; a slot's ids are its index + n * id_step */

    TAILQ_HEAD(, link_message) output;
    size_t output_done; /* bytes of the first message that were written */

    sp_reader input;
} sp_link;

static sp_link *sp_of(struct link *link)
{
    return (sp_link *)link;
}

/* ---- messages out --------------------------------------------------------------------- */

static size_t header_bytes(const sp_link *sp)
{
    return sp_prefix_bytes(sp->mapping) + SP_ID_BYTES;
}

static bool send_message(link_slot *base, link_message *message)
{
    sp_slot *slot = (sp_slot *)base;
    sp_link *sp = sp_of(base->link);
    uint8_t id[SP_ID_BYTES];

    slot->id = (slot->id + sp->id_step) | SP_ID_MARK;
    slot->message = message;
    slot->returning = false;
    message->slot = base;
    sp_id_write(slot->id, id);
    sp_write_header(sp->mapping, id, sizeof id, message->len, link_message_body(message) - header_bytes(sp));
    TAILQ_INSERT_TAIL(&sp->output, message, next);
    return true;
}

static void drop(sp_link *sp, link_message *message)
{
    TAILQ_REMOVE(&sp->output, message, next);
    free(message);
}

/* Takes `n` written bytes off the output queue. */
static void written(sp_link *sp, size_t n)
{
    link_message *message;

    sp->output_done += n;
    while ((message = TAILQ_FIRST(&sp->output)) && sp->output_done >= header_bytes(sp) + message->len) {
        sp_slot *slot = (sp_slot *)message->slot;

        sp->output_done -= header_bytes(sp) + message->len;
        drop(sp, message);
        if (slot) {
            slot->message = NULL;
            link_sent(&slot->base);
        }
    }
}

/* All that is queued, many messages to one system call. */
static void flush(struct link *base)
{
    sp_link *sp = sp_of(base);
    size_t n = 1;

    if (sp->state != LINK_UP || !conn_flush(sp->conn))
        return;
    while (n != 0 && !TAILQ_EMPTY(&sp->output)) {
        struct iovec parts[PARTS_MAX];
        size_t n_parts = 0, skip = sp->output_done;

        for (link_message *message = TAILQ_FIRST(&sp->output); message && n_parts < PARTS_MAX;
             message = TAILQ_NEXT(message, next)) {
            parts[n_parts++] = (struct iovec){.iov_base = link_message_body(message) - header_bytes(sp) + skip,
                                              .iov_len = header_bytes(sp) + message->len - skip};
            skip = 0;
        }
        n = conn_write(sp->conn, parts, n_parts);
        written(sp, n);
    }
}

/* ---- messages back -------------------------------------------------------------------- */

static void run_withdrawn(loop_task *task)
{
    sp_slot *slot = (sp_slot *)((char *)task - offsetof(sp_slot, withdrawn));

    slot->returning = false;
    if (slot->outcome == LINK_UNSENT) {
        link_slot_over(&slot->base, LINK_UNSENT, NULL, 0);
        return;
    }
    link_sent(&slot->base);
    if (sp_of(slot->base.link)->state == LINK_OVER && slot->base.state == LINK_SLOT_AWAITING)
        link_slot_over(&slot->base, LINK_LOST, NULL, 0);
}

/* Of a message that is partly written the rest has to follow, for the sake of those
 * behind it; unless nothing follows any more. */
static void withdraw(link_slot *base)
{
    sp_slot *slot = (sp_slot *)base;
    sp_link *sp = sp_of(base->link);
    link_message *message = slot->message;

    if (slot->returning)
        return;
    slot->message = NULL;
    slot->returning = true;
    if (sp->state != LINK_OVER && message == TAILQ_FIRST(&sp->output) && sp->output_done != 0) {
        message->slot = NULL;
        slot->outcome = LINK_SENT;
    } else {
        drop(sp, message);
        slot->outcome = LINK_UNSENT;
    }
    loop_post(base->link->options.loop, &slot->withdrawn);
}

/* A late answer to it has an id that no slot has any more. */
static void forget(link_slot *slot)
{
    link_slot_over(slot, LINK_FORGOTTEN, NULL, 0);
}

/* The connection is over. What was not written to its end the peer cannot have read. The
 * user learns of the connection first, so that it sends nothing again on it. */
static void fail(sp_link *sp, const char *why)
{
    struct link *link = &sp->base;

    sp->state = LINK_OVER;
    link->options.moved(link->options.arg, why);
    link_abandon(link);
    for (size_t i = 0; i < link->n_slots; i++)
        if (link->slots[i]->state == LINK_SLOT_AWAITING)
            link_slot_over(link->slots[i], LINK_LOST, NULL, 0);
}

static void abandon(struct link *base)
{
    sp_link *sp = sp_of(base);

    if (sp->state == LINK_UP)
        return;
    sp->state = LINK_OVER;
    conn_abandon(sp->conn);
}

/* ---- bytes in ------------------------------------------------------------------------- */

/* The reader's: of a reply that nobody waits for any more nothing is left. */
static bool take(void *arg, sp_message *message)
{
    sp_link *sp = arg;
    uint32_t id = sp_id_read(message->bytes), index = id & (sp->id_step - 1);
    sp_slot *slot = index < sp->base.n_slots ? (sp_slot *)sp->base.slots[index] : NULL;

    if (slot && slot->base.state == LINK_SLOT_AWAITING && slot->id == id)
        link_slot_over(&slot->base, LINK_REPLY, message->bytes + SP_ID_BYTES, message->len - SP_ID_BYTES);
    free(message);
    return true;
}

/* NULL, or what is wrong with them. */
static const char *read_bytes(sp_link *sp, const uint8_t *bytes, size_t len)
{
    size_t taken;
    sp_verdict verdict = sp_read(&sp->input, bytes, len, &taken, take, sp);

    if (verdict == SP_NO_MEMORY)
        return "out of memory";
    if (verdict != SP_FINE && !sp->input.shaken)
        return "the server does not speak SP's request protocol";
    if (verdict != SP_FINE)
        return sp->input.too_long ? "the server sent a message longer than message_bytes_max"
                                  : "the server sent what is no message of SP";
    if (sp->input.shaken && sp->state == LINK_CONNECTING) {
        sp->state = LINK_UP;
        sp->base.options.moved(sp->base.options.arg, NULL);
    }
    return NULL;
}

static void on_readable(void *arg)
{
    sp_link *sp = arg;
    uint8_t bytes[INPUT_BYTES];
    const char *why = NULL;
    ssize_t n = 1;

    while (n > 0 && !why) {
        n = conn_read(sp->conn, bytes, sizeof bytes);
        if (n > 0)
            why = read_bytes(sp, bytes, (size_t)n);
    }
    if (n < 0)
        why = conn_why(sp->conn);
    if (why) {
        fail(sp, why);
        conn_abandon(sp->conn);
    }
}

static void on_up(void *arg)
{
    sp_link *sp = arg;
    uint8_t bytes[SP_SAY_BYTES_MAX];
    const struct iovec hello = {bytes, sp_say(&sp->input, bytes)};

    /* The kernel has room for it: it is the first. Else its loss is seen as that of the
     * connection, when the server says nothing. */
    conn_write(sp->conn, &hello, 1);
}

static void on_over(void *arg)
{
    sp_link *sp = arg;
    fail(sp, conn_why(sp->conn));
}

/* ---- the link ------------------------------------------------------------------------- */

static bool is_address(const char *scheme, const char *text)
{
    struct sockaddr_un path;
    struct address parsed;

    if (strcmp(scheme, "unix://") == 0)
        return text[0] == '/' && text[1] != '\0' && strlen(text) < sizeof path.sun_path;
    return address_parse(text, &parsed) && parsed.number != 0;
}

static link_state state_of(const struct link *link)
{
    return ((const sp_link *)link)->state;
}

static loop_source *source_of(const struct link *link)
{
    return conn_source(((const sp_link *)link)->conn);
}

static link_slot *open_slot(struct link *link)
{
    sp_slot *slot = calloc(1, sizeof *slot);

    if (!slot)
        return NULL;
    slot->id = (uint32_t)link->n_slots;
    slot->withdrawn.run = run_withdrawn;
    return &slot->base;
}

static void close_link(struct link *base)
{
    sp_link *sp = sp_of(base);
    link_message *message;

    conn_close(sp->conn);
    while ((message = TAILQ_FIRST(&sp->output)))
        drop(sp, message);
    for (size_t i = 0; i < base->n_slots; i++)
        free(base->slots[i]);
    sp_reader_end(&sp->input);
}

static lks_code open_link(const link_options *options, struct link **ret, lks_error *error)
{
    struct link *base = link_new(sizeof(sp_link), options);
    bool is_unix = strcmp(options->scheme, "unix://") == 0;

    if (!base)
        goto failed;
    sp_link *sp = sp_of(base);
    TAILQ_INIT(&sp->output);
    sp->mapping = is_unix ? SP_OVER_UNIX : SP_OVER_TCP;
    sp_reader_init_client(&sp->input, sp->mapping, options->message_bytes_max);
    for (sp->id_step = 1; sp->id_step < options->slots_max && sp->id_step < SP_ID_MARK / 2;)
        sp->id_step *= 2;
    if (!is_unix)
        address_parse(options->address, &sp->address); /* it was checked */
    const conn_options connection = {
        .host = sp->address.host,
        .port = sp->address.port,
        .path = is_unix ? options->address : NULL,
        .tls = strcmp(options->scheme, "tls://") == 0 ? options->tls : NULL,
        .server_name = options->server_name ? options->server_name : sp->address.host,
        .loop = options->loop,
        .holds = &base->in_use,
        .up = on_up,
        .readable = on_readable,
        .over = on_over,
        .arg = sp,
    };
    sp->conn = conn_open(&connection);
    if (!sp->conn)
        goto failed;
    *ret = base;
    return LKS_OK;
failed:
    if (base)
        free(base->slots);
    free(base);
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

const struct link_engine link_sp = {
    .is_address = is_address,
    .open = open_link,
    .close = close_link,
    .state = state_of,
    .slot_new = open_slot,
    .send = send_message,
    .withdraw = withdraw,
    .forget = forget,
    .abandon = abandon,
    .flush = flush,
    .source = source_of,
};
