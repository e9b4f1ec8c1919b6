/* The engine of our own for tcp://, tls:// and unix://: SP's request protocol over a
 * connection of bytes (conn.h). It is what libnng's REQ and REP sockets speak:
 *
 *   handshake  00 'S' 'P' 00  00 30 00 00      (REQ; the peer's is 31, REP), once
 *   message    [01]  length, 8 bytes | request id, 4 bytes, high bit set | Frame or Reply
 *                                              [01] on unix sockets only
 *
 * Invariant: a slot's message is in the output queue exactly while the slot is SENDING and
 * not `returning`, that is until the connection has taken its last byte. */
#include "link.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "conn.h"

enum {
    HANDSHAKE_BYTES = 8,
    LENGTH_BYTES = 8,
    ID_BYTES = 4,
    INPUT_BYTES_MIN = 16 * 1024,
    INPUT_BYTES_KEPT = 256 * 1024, /* a larger buffer is freed when it is empty */
    PARTS_MAX = 64                 /* of one system call */
};
#define ID_MARK UINT32_C(0x80000000)

static const uint8_t our_handshake[HANDSHAKE_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
static const uint8_t peer_handshake[HANDSHAKE_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

typedef struct sp_slot {
    link_slot base;
    uint32_t id;           /* of its last message */
    link_message *message; /* in the output queue, or NULL */
    bool returning;        /* asked back: `withdrawn` is in the inbox, and tells the outcome: */
    link_outcome outcome;  /* SENT or UNSENT */
    inbox_item withdrawn;
} sp_slot;

typedef struct sp_link {
    struct link base;
    link_state state;
    conn *conn;
    char *address;    /* what conn's options point into */
    size_t prefix;    /* bytes before the length: 1 on unix sockets */
    uint32_t id_step; /* a power of two; a slot's ids are its index + n * id_step */

    TAILQ_HEAD(, link_message) output;
    size_t output_done; /* bytes of the first message that were written */

    uint8_t *input;
    size_t input_len, input_max;
} sp_link;

static sp_link *sp_of(struct link *link)
{
    return (sp_link *)link;
}

/* ---- messages out --------------------------------------------------------------------- */

static size_t header_bytes(const sp_link *sp)
{
    return sp->prefix + LENGTH_BYTES + ID_BYTES;
}

static void put_header(const sp_link *sp, link_message *message, uint32_t id)
{
    uint64_t length = htobe64(message->len + ID_BYTES);
    uint8_t *body = link_message_body(message);
    uint32_t big_id = htobe32(id);

    *(body - header_bytes(sp)) = 1; /* the length lies over it where there is no prefix */
    memcpy(body - ID_BYTES - LENGTH_BYTES, &length, LENGTH_BYTES);
    memcpy(body - ID_BYTES, &big_id, ID_BYTES);
}

static bool send_message(link_slot *base, link_message *message)
{
    sp_slot *slot = (sp_slot *)base;
    sp_link *sp = sp_of(base->link);

    slot->id = (slot->id + sp->id_step) | ID_MARK;
    slot->message = message;
    slot->returning = false;
    message->slot = base;
    put_header(sp, message, slot->id);
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
    while ((message = TAILQ_FIRST(&sp->output)) != NULL && sp->output_done >= header_bytes(sp) + message->len) {
        sp_slot *slot = (sp_slot *)message->slot;

        sp->output_done -= header_bytes(sp) + message->len;
        drop(sp, message);
        if (slot != NULL) {
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

        for (link_message *message = TAILQ_FIRST(&sp->output); message != NULL && n_parts < PARTS_MAX;
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

static void run_withdrawn(inbox_item *item)
{
    sp_slot *slot = (sp_slot *)((char *)item - offsetof(sp_slot, withdrawn));

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
    inbox_push(base->link->options.inbox, &slot->withdrawn);
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

static void deliver(sp_link *sp, uint32_t id, const uint8_t *data, size_t len)
{
    uint32_t index = id & (sp->id_step - 1);

    if (index >= sp->base.n_slots)
        return;
    sp_slot *slot = (sp_slot *)sp->base.slots[index];
    if (slot->base.state == LINK_SLOT_AWAITING && slot->id == id)
        link_slot_over(&slot->base, LINK_REPLY, data, len);
}

/* Handles the first message in `left` bytes. Returns its length, 0 = it is not whole yet;
 * then, or not, *why says what is wrong. */
static size_t take_message(sp_link *sp, const uint8_t *at, size_t left, const char **why)
{
    uint64_t length;
    uint32_t id;

    if (left < sp->prefix + LENGTH_BYTES)
        return 0;
    memcpy(&length, at + sp->prefix, LENGTH_BYTES);
    length = be64toh(length);
    if ((sp->prefix != 0 && *at != 1) || length < ID_BYTES)
        *why = "the server sent what is no message of SP";
    else if (length - ID_BYTES > sp->base.options.message_bytes_max)
        *why = "the server sent a message longer than message_bytes_max";
    if (*why != NULL || left - sp->prefix - LENGTH_BYTES < length)
        return 0;
    at += sp->prefix + LENGTH_BYTES;
    memcpy(&id, at, ID_BYTES);
    deliver(sp, be32toh(id), at + ID_BYTES, (size_t)length - ID_BYTES);
    return sp->prefix + LENGTH_BYTES + (size_t)length;
}

/* Handles all that is whole in the input. NULL, or what is wrong. */
static const char *parse(sp_link *sp)
{
    const uint8_t *at = sp->input;
    size_t left = sp->input_len, n;
    const char *why = NULL;

    if (sp->state == LINK_CONNECTING) {
        if (left < HANDSHAKE_BYTES)
            return NULL;
        if (memcmp(at, peer_handshake, HANDSHAKE_BYTES) != 0)
            return "the server does not speak SP's request protocol";
        at += HANDSHAKE_BYTES;
        left -= HANDSHAKE_BYTES;
        sp->state = LINK_UP;
        sp->base.options.moved(sp->base.options.arg, NULL);
    }
    while ((n = take_message(sp, at, left, &why)) != 0) {
        at += n;
        left -= n;
    }
    memmove(sp->input, at, left);
    sp->input_len = left;
    return why;
}

/* The buffer grows with what has come, not with what was announced. */
static bool make_room(sp_link *sp)
{
    if (sp->input_len == 0 && sp->input_max > INPUT_BYTES_KEPT) {
        free(sp->input);
        sp->input = NULL;
        sp->input_max = 0;
    }
    if (sp->input_len < sp->input_max)
        return true;
    size_t larger = sp->input_max == 0 ? INPUT_BYTES_MIN : 2 * sp->input_max;
    uint8_t *input = realloc(sp->input, larger);
    if (input == NULL)
        return false;
    sp->input = input;
    sp->input_max = larger;
    return true;
}

static void on_readable(void *arg)
{
    sp_link *sp = arg;
    const char *why = NULL;
    ssize_t n = 1;

    while (n > 0 && why == NULL) {
        if (!make_room(sp)) {
            why = "out of memory";
            break;
        }
        n = conn_read(sp->conn, sp->input + sp->input_len, sp->input_max - sp->input_len);
        if (n > 0) {
            sp->input_len += (size_t)n;
            why = parse(sp);
        }
    }
    if (n < 0)
        why = conn_why(sp->conn);
    if (why != NULL) {
        fail(sp, why);
        conn_abandon(sp->conn);
    }
}

static void on_up(void *arg)
{
    sp_link *sp = arg;
    const struct iovec hello = {(void *)(uintptr_t)our_handshake, HANDSHAKE_BYTES};

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

/* Takes "host:port" and "[host]:port" apart, in place. */
static bool split(char *address, char **host, char **port)
{
    bool bracket = address[0] == '[';
    char *end = bracket ? strchr(address, ']') : strchr(address, ':');
    char *colon = end != NULL && bracket ? end + 1 : end;

    if (colon == NULL || *colon != ':' || end == address + bracket || strcspn(address, "/?#@ \t") != strlen(address))
        return false;
    size_t digits = strspn(colon + 1, "0123456789");
    long number = digits == 0 || digits > 5 || colon[1 + digits] != '\0' ? 0 : strtol(colon + 1, NULL, 10);
    *end = '\0';
    *host = address + bracket;
    *port = colon + 1;
    return number >= 1 && number <= 65535;
}

static bool is_address(const char *scheme, const char *address)
{
    struct sockaddr_un path;
    char copy[512], *host, *port;

    if (strcmp(scheme, "unix://") == 0)
        return address[0] == '/' && address[1] != '\0' && strlen(address) < sizeof path.sun_path;
    return (size_t)snprintf(copy, sizeof copy, "%s", address) < sizeof copy && split(copy, &host, &port);
}

static link_state state_of(const struct link *link)
{
    return ((const sp_link *)link)->state;
}

static link_slot *open_slot(struct link *link)
{
    sp_slot *slot = calloc(1, sizeof *slot);

    if (slot == NULL)
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
    while ((message = TAILQ_FIRST(&sp->output)) != NULL)
        drop(sp, message);
    for (size_t i = 0; i < base->n_slots; i++)
        free(base->slots[i]);
    free(sp->address);
    free(sp->input);
}

static lks_code open_link(const link_options *options, struct link **ret, lks_error *error)
{
    struct link *base = link_new(sizeof(sp_link), options);
    bool is_unix = strcmp(options->scheme, "unix://") == 0;
    char *copy = strdup(options->address), *host = NULL, *port = NULL;

    if (base == NULL || copy == NULL)
        goto failed;
    sp_link *sp = sp_of(base);
    TAILQ_INIT(&sp->output);
    sp->prefix = is_unix;
    for (sp->id_step = 1; sp->id_step < options->slots_max && sp->id_step < ID_MARK / 2;)
        sp->id_step *= 2;
    if (!is_unix)
        split(copy, &host, &port); /* it was checked */
    sp->address = copy;
    const conn_options connection = {
        .host = host,
        .port = port,
        .path = is_unix ? copy : NULL,
        .tls = strcmp(options->scheme, "tls://") == 0 ? options->tls : NULL,
        .server_name = options->server_name != NULL ? options->server_name : host,
        .inbox = options->inbox,
        .timers = options->timers,
        .holds = &base->in_use,
        .up = on_up,
        .readable = on_readable,
        .over = on_over,
        .arg = sp,
    };
    sp->conn = conn_open(&connection);
    if (sp->conn == NULL)
        goto failed;
    *ret = base;
    return LKS_OK;
failed:
    if (base != NULL)
        free(base->slots);
    free(base);
    free(copy);
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
};
