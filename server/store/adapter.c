/* Invariant: no event after `lost` or adapter_close, and memory stays until the loop has closed the handle, so an
 * event may close its own adapter.
 *
 *   CONNECTING --writable, no error--> OPEN --error, EOF, garbage--> ENDED
 *        |   \--with TLS--> HANDSHAKE -done-^ \
 *        \--------- error ----\----------------------------------> ENDED
 *
 * hiredis formats commands, parses replies, and writes without TLS. No more than ENCRYPT_BYTES are encrypted before the
 * kernel has taken them, because encrypted bytes count as sent. */
#include "store/adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "memory.h"
#include "net/tls.h"

enum {
    READ_BYTES = 16 * 1024,             /* read at once */
    READS_MAX = 16,                     /* reads in one loop turn */
    REPLY_BYTES_MAX = 64 * 1024 * 1024, /* memory of one reply; no function returns more */
    GREETING_BYTES_MAX = 1024 * 1024,   /* before adapter_trust; most of it is for the text of the function library */
    REPLY_ELEMENTS_MAX = 1 << 20,
    ENCRYPT_BYTES = 32 * 1024,
    CIPHER_BYTES = 40 * 1024, /* room for ENCRYPT_BYTES after encryption, and for a handshake */
    WHY_BYTES = 160,
};

typedef enum adapter_state { CONNECTING, HANDSHAKE, OPEN, ENDED } adapter_state; /* ENDED: lost or closed */

struct adapter {
    uv_poll_t poll;
    redisContext *context;
    adapter_events on;
    lks_rpc_arena *replies; /* memory of the reply that is being read */
    size_t reply_bytes;     /* used so far */
    size_t reply_bytes_max;
    bool too_long;
    int watched;     /* events of libuv */
    tls *tls;        /* NULL: none */
    uint8_t *cipher; /* encrypted bytes for the kernel, from `taken` to `filled` */
    size_t taken, filled;
    adapter_state state;
};

/* ---- replies: hiredis' objects, allocated in the arena ----------------------------- */

/* Returns false if the reply is too long; hiredis then reports that it is out of memory. */
static bool has_room(adapter *a, size_t bytes)
{
    a->reply_bytes += bytes;
    a->too_long = a->too_long || a->reply_bytes > a->reply_bytes_max;
    return !a->too_long;
}

/* Allocates an object whose contents take `bytes` more; NULL: the reply is too long. */
static redisReply *new_reply(const redisReadTask *task, int type, size_t bytes)
{
    adapter *a = task->privdata;

    if (!has_room(a, sizeof(redisReply) + bytes))
        return NULL;
    redisReply *reply = memory_in(a->replies, sizeof *reply);
    reply->type = type;
    if (task->parent)
        ((redisReply *)task->parent->obj)->element[task->idx] = reply;
    return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    redisReply *reply = new_reply(task, task->type, len);

    if (!reply)
        return NULL;
    reply->str = memory_copy_in(((adapter *)task->privdata)->replies, text, len);
    reply->len = len;
    return reply;
}

/* Memory for an array is allocated before its elements arrive, so the number that the peer claims is bounded. */
static void *create_array(const redisReadTask *task, int elements)
{
    if (elements > REPLY_ELEMENTS_MAX)
        return NULL;
    const size_t bytes = elements > 0 ? (size_t)elements * sizeof(redisReply *) : 0;
    redisReply *reply = new_reply(task, REDIS_REPLY_ARRAY, bytes);
    if (!reply)
        return NULL;
    if (elements > 0)
        reply->element = memory_in(((adapter *)task->privdata)->replies, bytes);
    reply->elements = elements > 0 ? (size_t)elements : 0;
    return reply;
}

static void *create_integer(const redisReadTask *task, long long number)
{
    redisReply *reply = new_reply(task, REDIS_REPLY_INTEGER, 0);

    if (reply)
        reply->integer = number;
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    return new_reply(task, REDIS_REPLY_NIL, 0);
}

static void free_nothing(void *reply)
{
    (void)reply;
}

static redisReplyObjectFunctions in_the_arena = {.createString = create_string,
                                                 .createArray = create_array,
                                                 .createInteger = create_integer,
                                                 .createNil = create_nil,
                                                 .freeObject = free_nothing};

/* ---- the connection ---------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

/* uv_poll_start makes two system calls even if nothing changes. */
static void watch(adapter *a, bool writable)
{
    int events = UV_READABLE | (writable ? UV_WRITABLE : 0);

    if (events != a->watched)
        uv_poll_start(&a->poll, events, on_poll);
    a->watched = events;
}

static void lose(adapter *a, const char *reason)
{
    a->state = ENDED;
    uv_poll_stop(&a->poll);
    a->on.lost(a->on.arg, reason);
}

static void open_up(adapter *a)
{
    a->state = OPEN;
    watch(a, false);
    a->on.connected(a->on.arg);
}

/* ---- TLS --------------------------------------------------------------------------- */

static void lose_tls(adapter *a)
{
    char why[WHY_BYTES];

    snprintf(why, sizeof why, "TLS with the store: %s", tls_why(a->tls));
    lose(a, why);
}

/* Writes encrypted bytes. Returns false if the kernel takes no more now, or after an error, which the next read
 * reports. */
static bool send_cipher(adapter *a)
{
    for (;;) {
        if (a->taken == a->filled) {
            a->taken = 0;
            a->filled = tls_take(a->tls, a->cipher, CIPHER_BYTES);
            if (a->filled == 0)
                return true;
        }
        ssize_t n = send(a->context->fd, a->cipher + a->taken, a->filled - a->taken, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        a->taken += (size_t)n;
    }
}

/* Removes written bytes from the buffer once, at the end, because that moves the rest. */
static bool flush_tls(adapter *a)
{
    size_t len = a->state == OPEN ? sdslen(a->context->obuf) : 0, at = 0;
    bool all;

    while ((all = send_cipher(a)) && at < len) {
        size_t n = len - at < ENCRYPT_BYTES ? len - at : ENCRYPT_BYTES;
        if (!tls_write(a->tls, (const uint8_t *)a->context->obuf + at, n))
            break; /* the session ended; the next read reports that */
        at += n;
    }
    if (at > 0)
        sdsrange(a->context->obuf, (int)at, -1);
    return all;
}

/* Continues the handshake. Returns false if the adapter has ended. */
static bool continue_handshake(adapter *a)
{
    tls_state state = tls_handshake(a->tls);

    watch(a, !flush_tls(a));
    if (state == TLS_OVER) {
        lose_tls(a);
        return false;
    }
    if (state == TLS_UP)
        open_up(a);
    return a->state != ENDED;
}

static void finish_connecting(adapter *a, int status)
{
    int failure = 0;
    socklen_t size = sizeof failure;

    if (getsockopt(a->context->fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        failure = errno;
    if (failure == 0 && status < 0)
        failure = ECONNREFUSED; /* epoll saw an error that is no longer pending */
    if (failure != 0) {
        lose(a, strerror(failure));
        return;
    }
    if (a->tls) {
        a->state = HANDSHAKE;
        continue_handshake(a);
    } else {
        open_up(a);
    }
}

/* Whether the objects of the current reply and the bytes not parsed yet take too much memory. */
static bool is_too_long(const adapter *a)
{
    size_t unread = a->context->reader->len - a->context->reader->pos;

    return a->too_long || a->reply_bytes + unread > a->reply_bytes_max;
}

/* Returns false if the adapter has ended. */
static bool pass_replies(adapter *a)
{
    for (;;) {
        void *reply = NULL;
        int read = redisGetReplyFromReader(a->context, &reply);
        if (!reply && is_too_long(a)) {
            lose(a, "the store's reply is too long");
            return false;
        }
        if (read != REDIS_OK) {
            lose(a, "the store sent a malformed reply");
            return false;
        }
        if (!reply)
            return true;
        a->on.reply(a->on.arg, reply);
        lks_rpc_arena_reset(a->replies);
        a->reply_bytes = 0;
        if (a->state == ENDED)
            return false;
    }
}

/* Passes decrypted replies. Returns false if the adapter has ended. */
static bool take_cipher(adapter *a, const uint8_t *cipher, size_t len)
{
    uint8_t bytes[READ_BYTES];
    int n;

    if (!tls_feed(a->tls, cipher, len)) {
        lose(a, "out of memory");
        return false;
    }
    if (a->state == HANDSHAKE && !continue_handshake(a))
        return false;
    while (a->state == OPEN && (n = tls_read(a->tls, bytes, sizeof bytes)) != 0) {
        if (n < 0) {
            lose_tls(a);
            return false;
        }
        redisReaderFeed(a->context->reader, (const char *)bytes, (size_t)n);
        if (!pass_replies(a))
            return false;
    }
    return true;
}

/* Reads once. Returns 1: there may be more; 0: not now; -1: the adapter has ended. */
static int read_once(adapter *a)
{
    uint8_t bytes[READ_BYTES];
    ssize_t n = recv(a->context->fd, bytes, sizeof bytes, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        lose(a, n == 0 ? "Server closed the connection" : strerror(errno));
        return -1;
    }
    if (!a->tls)
        redisReaderFeed(a->context->reader, (const char *)bytes, (size_t)n);
    bool lives = a->tls ? take_cipher(a, bytes, (size_t)n) : pass_replies(a);
    return lives ? n == sizeof bytes : -1;
}

static void read_all(adapter *a)
{
    int more = 1;

    for (int i = 0; i < READS_MAX && more == 1; i++)
        more = read_once(a);
    if (more >= 0 && a->tls)
        watch(a, !flush_tls(a)); /* TLS may have its own bytes to send */
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    adapter *a = poll->data;

    if (a->state == CONNECTING) {
        finish_connecting(a, status);
        return;
    }
    if (events & UV_WRITABLE)
        adapter_flush(a);
    if (a->context->err != 0)
        lose(a, a->context->errstr); /* found while writing */
    else if (status < 0 || (events & UV_READABLE))
        read_all(a);
    if (status < 0 && a->state != ENDED)
        lose(a, uv_strerror(status)); /* libuv stopped the poll */
}

static void release(adapter *a)
{
    redisFree(a->context);
    lks_rpc_arena_free(a->replies);
    tls_free(a->tls);
    free(a->cipher);
    free(a);
}

static void set_socket_options(redisContext *context, bool tcp)
{
    int on = 1;

    fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    if (tcp) {
        setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        redisEnableKeepAlive(context);
    }
}

lks_code adapter_open(uv_loop_t *loop, const adapter_target *to, tls_context *context_of_tls, const char *name,
                      const adapter_events *events, adapter **ret, lks_error *error)
{
    redisContext *context = to->path ? redisConnectUnixNonBlock(to->path) : redisConnectNonBlock(to->address, to->port);
    adapter *a = NULL;

    if (!context || context->err != 0) {
        lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s", context ? context->errstr : "out of memory");
        goto failed;
    }
    set_socket_options(context, !to->path);
    a = memory_alloc(sizeof *a);
    *a = (adapter){.context = context, .on = *events, .replies = memory_arena(), .reply_bytes_max = GREETING_BYTES_MAX};
    context->reader->fn = &in_the_arena;
    context->reader->privdata = a;
    if (context_of_tls && !(a->tls = tls_connect(context_of_tls, name, NULL))) {
        lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "out of memory");
        goto failed;
    }
    a->cipher = context_of_tls ? memory_alloc(CIPHER_BYTES) : NULL;
    int status = uv_poll_init(loop, &a->poll, context->fd);
    if (status < 0) {
        lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "%s", uv_strerror(status));
        goto failed;
    }
    a->poll.data = a;
    watch(a, true);
    *ret = a;
    return LKS_OK;

failed:
    if (a)
        release(a);
    else if (context)
        redisFree(context);
    return LKS_UNAVAILABLE;
}

void adapter_trust(adapter *a)
{
    a->reply_bytes_max = REPLY_BYTES_MAX;
}

void adapter_append(adapter *a, const char *command, size_t len)
{
    redisAppendFormattedCommand(a->context, command, len);
}

void adapter_append_words(adapter *a, size_t argc, const char **argv)
{
    redisAppendCommandArgv(a->context, (int)argc, argv, NULL);
}

void adapter_flush(adapter *a)
{
    int done = 0;

    if (a->tls && (a->state == HANDSHAKE || a->state == OPEN)) {
        watch(a, !flush_tls(a));
        return;
    }
    if (a->state != OPEN)
        return;
    if (redisBufferWrite(a->context, &done) != REDIS_OK)
        done = 0; /* on_poll reports the error */
    watch(a, !done);
}

size_t adapter_unsent(const adapter *a)
{
    return sdslen(a->context->obuf);
}

static void on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

void adapter_close(adapter *a)
{
    if (!a)
        return;
    a->state = ENDED;
    uv_close((uv_handle_t *)&a->poll, on_closed);
}
