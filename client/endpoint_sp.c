/* The engine for TCP: SP's request protocol over a socket of our own, all of it on the
 * driver thread. It is what libnng's REQ and REP sockets speak:
 *
 *   handshake  00 'S' 'P' 00  00 30 00 00      (REQ; the peer's is 31, REP), once
 *   message    length, 8 bytes | request id, 4 bytes, high bit set | Frame or Reply
 *
 * Invariant: a slot's message is in the output queue exactly while the slot is SENDING,
 * that is until its last byte was given to the kernel. */
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "endpoint.h"
#include "jitter.h"
#include "resolve.h"

enum {
    REDIAL_MS_MIN = 20,
    REDIAL_MS_MAX = 1000,
    CONNECT_MS = 5000,       /* to connect and shake hands */
    UNACKNOWLEDGED_MS = 20000, /* then the peer's host is gone */
    KEEPALIVE_S = 15,
    HANDSHAKE_BYTES = 8,
    LENGTH_BYTES = 8,
    ID_BYTES = 4,
    HEADER_BYTES = LENGTH_BYTES + ID_BYTES,
    INPUT_BYTES_MIN = 64 * 1024,
    PARTS_MAX = 64 /* of one system call */
};
#define ID_MARK UINT32_C(0x80000000)

static const uint8_t our_handshake[HANDSHAKE_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
static const uint8_t peer_handshake[HANDSHAKE_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

/*   DOWN -> RESOLVING -> CONNECTING -> SHAKING -> UP
 *     ^----------+-----------+-----------+--------+   whatever fails */
typedef enum sp_state { DOWN, RESOLVING, CONNECTING, SHAKING, UP } sp_state;

typedef struct sp_slot {
    endpoint_slot base;
    bool used;
    uint32_t id;
    endpoint_message *message; /* while SENDING */
    struct sp_slot *next_idle;
} sp_slot;

typedef struct sp_endpoint {
    struct endpoint base;
    sp_state state;
    int fd;
    struct timer timer; /* DOWN: to dial; CONNECTING, SHAKING: to give up */
    uint64_t redial_ms;

    char *host, *port; /* one allocation */
    struct resolution *resolution;
    inbox_item resolved;
    struct addrinfo *addresses, *next_address;

    sp_slot *slots, *idle;
    uint32_t id_step; /* a power of two; a slot's ids are its index + n * id_step */

    TAILQ_HEAD(, endpoint_message) output;
    size_t output_done; /* bytes of the first message that were written */
    bool blocked;       /* the kernel takes no more at present */

    uint8_t *input;
    size_t input_len, input_max;
} sp_endpoint;

static sp_endpoint *sp_of(struct endpoint *endpoint)
{
    return (sp_endpoint *)endpoint;
}

/* ---- slots --------------------------------------------------------------------- */

/* Returns its owner. */
static void *release(sp_slot *slot)
{
    sp_endpoint *sp = sp_of(slot->base.endpoint);
    void *owner = slot->base.owner;

    slot->used = false;
    slot->message = NULL;
    slot->next_idle = sp->idle;
    sp->idle = slot;
    endpoint_give_back(&slot->base);
    return owner;
}

static void put_header(endpoint_message *message, uint32_t id)
{
    uint64_t length = htobe64(message->len + ID_BYTES);
    uint32_t big_id = htobe32(id);

    memcpy(message->data - HEADER_BYTES, &length, LENGTH_BYTES);
    memcpy(message->data - ID_BYTES, &big_id, ID_BYTES);
}

static endpoint_slot *sp_send(struct endpoint *endpoint, endpoint_message *message)
{
    sp_endpoint *sp = sp_of(endpoint);
    sp_slot *slot = sp->idle;

    sp->idle = slot->next_idle;
    slot->used = true;
    slot->message = message;
    slot->id = (slot->id + sp->id_step) | ID_MARK;
    message->slot = &slot->base;
    put_header(message, slot->id);
    TAILQ_INSERT_TAIL(&sp->output, message, in_output);
    return &slot->base;
}

static bool partly_written(const sp_endpoint *sp, const endpoint_message *message)
{
    return message == TAILQ_FIRST(&sp->output) && sp->output_done != 0;
}

/* Of a message that is partly written the rest has to follow, for the sake of those
 * behind it. */
static void sp_withdraw(endpoint_slot *base)
{
    sp_slot *slot = (sp_slot *)base;
    sp_endpoint *sp = sp_of(base->endpoint);
    endpoint_message *message = slot->message;

    if (partly_written(sp, message)) {
        message->slot = NULL;
        slot->message = NULL;
        sp->base.options.events->sent(base->owner);
        return;
    }
    TAILQ_REMOVE(&sp->output, message, in_output);
    free(message);
    sp->base.options.events->unsent(release(slot));
}

/* A late answer to it has an id that no slot has any more. */
static void sp_forget(endpoint_slot *base)
{
    release((sp_slot *)base);
}

/* ---- the connection made and lost ------------------------------------------------ */

static void hang_up(sp_endpoint *sp)
{
    if (sp->fd >= 0)
        close(sp->fd);
    sp->fd = -1;
    sp->state = DOWN;
    sp->input_len = 0;
    sp->output_done = 0;
    sp->blocked = false;
}

static void redial_in(sp_endpoint *sp, uint64_t ns)
{
    timers_set(sp->base.options.timers, &sp->timer, clock_now_ns() + ns);
}

/* The next address at once; after the last one a pause, longer each time. */
static void dial_failed(sp_endpoint *sp)
{
    uint64_t pause_ns = sp->redial_ms * CLOCK_NS_PER_MS;

    hang_up(sp);
    if (sp->next_address != NULL) {
        redial_in(sp, 0);
        return;
    }
    redial_in(sp, pause_ns / 2 + jitter(sp->base.options.jitter, pause_ns / 2));
    sp->redial_ms = 2 * sp->redial_ms < REDIAL_MS_MAX ? 2 * sp->redial_ms : REDIAL_MS_MAX;
}

/* Tells every owner what became of its message: what was not written to its end the
 * peer cannot have read. */
static void link_lost(sp_endpoint *sp)
{
    const endpoint_events *events = sp->base.options.events;
    endpoint_message *message;

    hang_up(sp);
    sp->next_address = NULL;
    redial_in(sp, jitter(sp->base.options.jitter, REDIAL_MS_MIN * CLOCK_NS_PER_MS));
    while ((message = TAILQ_FIRST(&sp->output)) != NULL) {
        endpoint_slot *slot = message->slot;

        TAILQ_REMOVE(&sp->output, message, in_output);
        free(message);
        if (slot != NULL)
            events->unsent(release((sp_slot *)slot));
    }
    for (uint32_t i = 0; i < sp->base.options.in_flight_max; i++)
        if (sp->slots[i].used)
            events->lost(release(&sp->slots[i]));
}

static void set_options(int fd)
{
    static const int on = 1, unacknowledged_ms = UNACKNOWLEDGED_MS, idle_s = KEEPALIVE_S, interval_s = 3, probes = 3;

    /* Each is an improvement only: nothing is lost where a kernel refuses one. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static void connect_next(sp_endpoint *sp)
{
    const struct addrinfo *address = sp->next_address;

    sp->next_address = address->ai_next;
    sp->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sp->fd < 0) {
        dial_failed(sp);
        return;
    }
    set_options(sp->fd);
    if (connect(sp->fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
        dial_failed(sp);
        return;
    }
    sp->state = CONNECTING;
    redial_in(sp, CONNECT_MS * CLOCK_NS_PER_MS);
}

static void dial(sp_endpoint *sp)
{
    if (sp->next_address == NULL) {
        if (sp->addresses != NULL)
            freeaddrinfo(sp->addresses);
        sp->next_address = sp->addresses = resolve_numeric(sp->host, sp->port);
    }
    if (sp->next_address != NULL) {
        connect_next(sp);
        return;
    }
    sp->resolution = resolve_start(sp->host, sp->port, sp->base.options.inbox, &sp->resolved);
    if (sp->resolution != NULL)
        sp->state = RESOLVING;
    else
        dial_failed(sp);
}

static void run_resolved(inbox_item *item)
{
    sp_endpoint *sp = (sp_endpoint *)((char *)item - offsetof(sp_endpoint, resolved));

    sp->next_address = sp->addresses = resolve_end(sp->resolution);
    sp->resolution = NULL;
    if (sp->addresses != NULL)
        connect_next(sp);
    else
        dial_failed(sp);
}

static void run_due(struct timer *timer)
{
    sp_endpoint *sp = (sp_endpoint *)((char *)timer - offsetof(sp_endpoint, timer));

    if (sp->state == DOWN)
        dial(sp);
    else
        dial_failed(sp);
}

static void connected(sp_endpoint *sp)
{
    int failed = 0;
    socklen_t len = sizeof failed;

    if (getsockopt(sp->fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0 || failed != 0 ||
        send(sp->fd, our_handshake, HANDSHAKE_BYTES, MSG_NOSIGNAL) != HANDSHAKE_BYTES)
        dial_failed(sp);
    else
        sp->state = SHAKING;
}

/* ---- bytes -------------------------------------------------------------------------- */

/* Takes `n` written bytes off the output queue. */
static void written(sp_endpoint *sp, size_t n)
{
    endpoint_message *message;

    sp->output_done += n;
    while ((message = TAILQ_FIRST(&sp->output)) != NULL && sp->output_done >= HEADER_BYTES + message->len) {
        sp_slot *slot = (sp_slot *)message->slot;

        sp->output_done -= HEADER_BYTES + message->len;
        TAILQ_REMOVE(&sp->output, message, in_output);
        free(message);
        if (slot != NULL) {
            slot->message = NULL;
            sp->base.options.events->sent(slot->base.owner);
        }
    }
}

/* All that is queued, many messages to one system call. */
static void flush(sp_endpoint *sp)
{
    while (!sp->blocked && !TAILQ_EMPTY(&sp->output)) {
        struct iovec parts[PARTS_MAX];
        struct msghdr header = {.msg_iov = parts};
        size_t skip = sp->output_done;

        for (endpoint_message *message = TAILQ_FIRST(&sp->output);
             message != NULL && header.msg_iovlen < PARTS_MAX; message = TAILQ_NEXT(message, in_output)) {
            parts[header.msg_iovlen++] = (struct iovec){.iov_base = message->data - HEADER_BYTES + skip,
                                                        .iov_len = HEADER_BYTES + message->len - skip};
            skip = 0;
        }
        ssize_t n = sendmsg(sp->fd, &header, MSG_NOSIGNAL);
        if (n >= 0) {
            written(sp, (size_t)n);
        } else if (errno != EINTR) {
            sp->blocked = true; /* a broken connection is found by reading, after what it still holds */
        }
    }
}

static void deliver(sp_endpoint *sp, uint32_t id, const uint8_t *data, size_t len)
{
    uint32_t index = id & (sp->id_step - 1);

    if (index >= sp->base.options.in_flight_max)
        return;
    sp_slot *slot = &sp->slots[index];
    if (slot->used && slot->message == NULL && slot->id == id)
        sp->base.options.events->reply(release(slot), data, len);
}

/* Handles all that is whole in the input. False = the peer does not speak SP. */
static bool parse(sp_endpoint *sp)
{
    const uint8_t *at = sp->input;
    size_t left = sp->input_len;

    if (sp->state == SHAKING && left >= HANDSHAKE_BYTES) {
        if (memcmp(at, peer_handshake, HANDSHAKE_BYTES) != 0)
            return false;
        at += HANDSHAKE_BYTES;
        left -= HANDSHAKE_BYTES;
        sp->state = UP;
        sp->redial_ms = REDIAL_MS_MIN;
        timers_clear(sp->base.options.timers, &sp->timer);
    }
    while (sp->state == UP && left >= LENGTH_BYTES) {
        uint64_t length;
        uint32_t id;

        memcpy(&length, at, LENGTH_BYTES);
        length = be64toh(length);
        if (length < ID_BYTES || length - ID_BYTES > sp->base.options.message_bytes_max)
            return false;
        if (left - LENGTH_BYTES < length)
            break;
        memcpy(&id, at + LENGTH_BYTES, ID_BYTES);
        deliver(sp, be32toh(id), at + HEADER_BYTES, (size_t)length - ID_BYTES);
        at += LENGTH_BYTES + length;
        left -= LENGTH_BYTES + (size_t)length;
    }
    memmove(sp->input, at, left);
    sp->input_len = left;
    return true;
}

/* The buffer grows with what has come, not with what was announced. */
static bool make_room(sp_endpoint *sp)
{
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

/* False = the connection is over. */
static bool read_some(sp_endpoint *sp)
{
    if (!make_room(sp))
        return false;
    ssize_t n = recv(sp->fd, sp->input + sp->input_len, sp->input_max - sp->input_len, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    sp->input_len += (size_t)n;
    return n != 0 && parse(sp);
}

/* ---- the engine ----------------------------------------------------------------------- */

static bool sp_connected(const struct endpoint *endpoint)
{
    return ((const sp_endpoint *)endpoint)->state == UP;
}

static void sp_prepare(struct endpoint *endpoint, struct pollfd *fd)
{
    sp_endpoint *sp = sp_of(endpoint);

    if (sp->state == UP)
        flush(sp);
    *fd = (struct pollfd){.fd = sp->fd, .events = sp->state == CONNECTING ? POLLOUT : POLLIN};
    if (sp->blocked)
        fd->events |= POLLOUT;
}

static void sp_ready(struct endpoint *endpoint, short events)
{
    sp_endpoint *sp = sp_of(endpoint);

    if (sp->state == CONNECTING) {
        connected(sp);
        return;
    }
    if ((events & POLLOUT) != 0)
        sp->blocked = false;
    if ((events & ~POLLOUT) == 0 || read_some(sp))
        return;
    if (sp->state == UP)
        link_lost(sp);
    else
        dial_failed(sp);
}

static void sp_close(struct endpoint *endpoint)
{
    sp_endpoint *sp = sp_of(endpoint);
    endpoint_message *message;
    struct addrinfo *late = resolve_end(sp->resolution);

    hang_up(sp);
    while ((message = TAILQ_FIRST(&sp->output)) != NULL) {
        TAILQ_REMOVE(&sp->output, message, in_output);
        free(message);
    }
    if (late != NULL)
        freeaddrinfo(late);
    if (sp->addresses != NULL)
        freeaddrinfo(sp->addresses);
    free(sp->host);
    free(sp->slots);
    free(sp->input);
    free(sp);
}

/* Takes "tcp://host:port" and "tcp://[host]:port" apart, into one allocation. */
static lks_code split(const char *address, char **host, char **port, lks_error *error)
{
    char *copy = strdup(address + strlen("tcp://"));
    if (copy == NULL)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    char *end = copy[0] == '[' ? strchr(copy, ']') : strchr(copy, ':');
    bool bracket = end != NULL && *end == ']';
    char *colon = bracket ? end + 1 : end;
    long number = 0;

    if (colon != NULL && *colon == ':' && colon[strspn(colon + 1, "0123456789") + 1] == '\0')
        number = strtol(colon + 1, NULL, 10);
    if (number < 1 || number > 65535 || end == copy + bracket || strcspn(copy, "/?#@ \t") != strlen(copy)) {
        free(copy);
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "urls: not HOST:PORT after the scheme");
    }
    if (bracket)
        memmove(copy, copy + 1, (size_t)(end - copy) - 1);
    *(bracket ? end - 1 : end) = '\0';
    *host = copy;
    *port = colon + 1;
    return LKS_OK;
}

static lks_code sp_open(const char *address, const endpoint_options *options, struct endpoint **ret,
                        lks_error *error)
{
    char *host = NULL, *port = NULL;
    lks_code code = split(address, &host, &port, error);
    if (code != LKS_OK)
        return code;
    sp_endpoint *sp = calloc(1, sizeof *sp);
    sp_slot *slots = calloc(options->in_flight_max, sizeof *slots);
    if (sp == NULL || slots == NULL) {
        free(host);
        free(sp);
        free(slots);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    *sp = (sp_endpoint){
        .base = {.options = *options},
        .state = DOWN,
        .fd = -1,
        .timer = {.due = run_due},
        .redial_ms = REDIAL_MS_MIN,
        .host = host,
        .port = port,
        .resolved = {.run = run_resolved},
        .slots = slots,
        .id_step = 1,
    };
    TAILQ_INIT(&sp->output);
    while (sp->id_step < options->in_flight_max)
        sp->id_step *= 2;
    for (uint32_t i = options->in_flight_max; i-- != 0;) {
        slots[i] = (sp_slot){.base = {.endpoint = &sp->base}, .id = i, .next_idle = sp->idle};
        sp->idle = &slots[i];
    }
    redial_in(sp, 0);
    *ret = &sp->base;
    return LKS_OK;
}

const struct endpoint_engine endpoint_sp = {
    .open = sp_open,
    .close = sp_close,
    .connected = sp_connected,
    .send = sp_send,
    .withdraw = sp_withdraw,
    .forget = sp_forget,
    .prepare = sp_prepare,
    .ready = sp_ready,
};
