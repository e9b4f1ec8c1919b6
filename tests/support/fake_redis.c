/* One reply a command, in order, except where the script is silent or closes. */
#include "support/fake_redis.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "support/store_driver.h"
#include "support/tempdir.h"

enum { READ_BYTES = 65536, WORDS_MAX = 4096 };

const char fake_usual[] = "usual", fake_silent[] = "silent", fake_close[] = "close";

typedef struct peer {
    union {
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } on;
    fake_redis *fake;
    redisReader *reader;
    struct peer *next;
    char last[16]; /* command */
    bool subscribed;
    char buffer[READ_BYTES];
} peer;

struct fake_redis {
    uv_loop_t *loop;
    uv_pipe_t listener;
    uv_tcp_t tcp_listener;
    unsigned listeners;
    fake_script *script;
    void *arg;
    char *dir;
    char socket[128];
    char url[136];
    peer *peers;
    unsigned connections, open, calls;
};

typedef struct sending {
    uv_write_t request;
    char text[];
} sending;

static void on_peer_closed(uv_handle_t *handle)
{
    peer *p = handle->data;

    redisReaderFree(p->reader);
    free(p);
}

static void close_peer(peer *p)
{
    peer **link = &p->fake->peers;

    if (uv_is_closing((uv_handle_t *)&p->on))
        return;
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    p->fake->open--;
    uv_close((uv_handle_t *)&p->on, on_peer_closed);
}

static void on_sent(uv_write_t *request, int status)
{
    (void)status;
    free(request->data);
}

static void say(peer *p, const char *raw)
{
    size_t len = strlen(raw);
    sending *s = malloc(sizeof *s + len);

    if (!s)
        abort();
    memcpy(s->text, raw, len);
    s->request.data = s;
    uv_buf_t bytes = uv_buf_init(s->text, (unsigned)len);
    if (uv_write(&s->request, &p->on.stream, &bytes, 1, on_sent) != 0)
        free(s);
}

size_t fake_redis_sub_calls(size_t argc, const char *const *argv)
{
    size_t n = 0;

    for (size_t i = 3 + strtoul(argv[2], NULL, 10); i < argc; i += strtoul(argv[i], NULL, 10) + 1)
        n++;
    return n;
}

static void say_done(peer *p, size_t n)
{
    char head[32];

    snprintf(head, sizeof head, "*%zu\r\n", n);
    if (n != 1)
        say(p, head);
    while (n-- > 0)
        say(p, "*1\r\n$4\r\nDONE\r\n");
}

/* The library listed with the code that the driver's store has. */
static void say_library(peer *p)
{
    size_t size = strlen(driver_library_text) + 256;
    char *text = malloc(size);

    if (!text)
        abort();
    snprintf(text, size,
             "*1\r\n*4\r\n$12\r\nlibrary_name\r\n$26\r\nlockstock_%s\r\n$12\r\nlibrary_code\r\n$%zu\r\n%s\r\n",
             driver_library_digest, strlen(driver_library_text), driver_library_text);
    say(p, text);
    free(text);
}

static void say_usual(peer *p, size_t argc, const char *const *argv)
{
    static const struct usual {
        const char *command, *reply;
    } all[] = {
        {"HELLO", "*4\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"},
        {"CONFIG", "*8\r\n$4\r\nsave\r\n$0\r\n\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n"
                   "$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"},
        {"GET", "$1\r\n3\r\n"},
        {"SET", "$-1\r\n"},
        {"TIME", "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"},
        {"PING", "+PONG\r\n"},
        {"INFO", "$11\r\nrole:master\r\n"},
        {"HSET", ":1\r\n"},
    };

    if (strcmp(argv[0], "FCALL") == 0) {
        say_done(p, fake_redis_sub_calls(argc, argv));
        return;
    }
    if (strcmp(argv[0], "FUNCTION") == 0 && argc == 5) {
        say_library(p);
        return;
    }
    if (strcmp(argv[0], "FUNCTION") == 0) {
        say(p, argc == 4 ? "*0\r\n" : "+OK\r\n");
        return;
    }
    if (p->subscribed && strcmp(argv[0], "PING") == 0) {
        say(p, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        return;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].command, argv[0]) == 0) {
            say(p, all[i].reply);
            return;
        }
    }
    say(p, "+OK\r\n");
}

static void answer(peer *p, const redisReply *command)
{
    static const char *words[WORDS_MAX];
    fake_redis *f = p->fake;

    for (size_t i = 0; i < command->elements && i < WORDS_MAX; i++)
        words[i] = command->element[i]->str;
    f->calls += strcmp(words[0], "FCALL") == 0;
    snprintf(p->last, sizeof p->last, "%s", words[0]);
    p->subscribed = p->subscribed || strcmp(words[0], "SUBSCRIBE") == 0;
    const char *reply = f->script ? f->script(f->arg, command->elements, words) : fake_usual;
    if (reply == fake_usual)
        say_usual(p, command->elements, words);
    else if (reply == fake_close)
        close_peer(p);
    else if (reply != fake_silent)
        say(p, reply);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    peer *p = handle->data;

    (void)suggested;
    *ret = uv_buf_init(p->buffer, sizeof p->buffer);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    peer *p = stream->data;

    if (n < 0) {
        close_peer(p);
        return;
    }
    redisReaderFeed(p->reader, bytes->base, (size_t)n);
    for (void *command;
         !uv_is_closing((uv_handle_t *)stream) && redisReaderGetReply(p->reader, &command) == REDIS_OK && command;) {
        answer(p, command);
        freeReplyObject(command);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    fake_redis *f = listener->data;
    peer *p = calloc(1, sizeof *p);

    if (status < 0 || !p)
        abort();
    p->fake = f;
    p->reader = redisReaderCreate();
    p->next = f->peers;
    f->peers = p;
    f->connections++;
    f->open++;
    if (listener->type == UV_TCP)
        uv_tcp_init(f->loop, &p->on.tcp);
    else
        uv_pipe_init(f->loop, &p->on.pipe, 0);
    p->on.stream.data = p;
    uv_accept(listener, &p->on.stream);
    uv_read_start(&p->on.stream, on_alloc, on_read);
}

fake_redis *fake_redis_start(uv_loop_t *loop, fake_script *script, void *arg)
{
    fake_redis *f = calloc(1, sizeof *f);

    if (!f || !(f->dir = tempdir_make()))
        abort();
    f->loop = loop;
    f->script = script;
    f->arg = arg;
    snprintf(f->socket, sizeof f->socket, "%s/redis.sock", f->dir);
    snprintf(f->url, sizeof f->url, "unix://%s", f->socket);
    uv_pipe_init(loop, &f->listener, 0);
    f->listener.data = f;
    f->listeners = 1;
    if (uv_pipe_bind(&f->listener, f->socket) != 0 || uv_listen((uv_stream_t *)&f->listener, 64, on_connection) != 0)
        abort();
    return f;
}

unsigned fake_redis_listen_tcp(fake_redis *f)
{
    struct sockaddr_in address;
    int size = sizeof address;

    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(f->loop, &f->tcp_listener);
    f->tcp_listener.data = f;
    f->listeners = 2;
    if (uv_tcp_bind(&f->tcp_listener, (struct sockaddr *)&address, 0) != 0 ||
        uv_listen((uv_stream_t *)&f->tcp_listener, 64, on_connection) != 0 ||
        uv_tcp_getsockname(&f->tcp_listener, (struct sockaddr *)&address, &size) != 0)
        abort();
    return ntohs(address.sin_port);
}

const char *fake_redis_url(const fake_redis *f)
{
    return f->url;
}

unsigned fake_redis_connections(const fake_redis *f)
{
    return f->connections;
}

unsigned fake_redis_open_connections(const fake_redis *f)
{
    return f->open;
}

unsigned fake_redis_calls(const fake_redis *f)
{
    return f->calls;
}

void fake_redis_say(fake_redis *f, const char *raw)
{
    for (peer *p = f->peers; p; p = p->next)
        say(p, raw);
}

void fake_redis_say_to(fake_redis *f, const char *command, const char *raw)
{
    for (peer *p = f->peers; p; p = p->next)
        if (strcmp(p->last, command) == 0)
            say(p, raw);
}

void fake_redis_turn_deaf(fake_redis *f)
{
    for (peer *p = f->peers; p; p = p->next)
        uv_read_stop(&p->on.stream);
}

void fake_redis_deafen_subscribers(fake_redis *f)
{
    for (peer *p = f->peers; p; p = p->next)
        if (p->subscribed)
            uv_read_stop(&p->on.stream);
}

void fake_redis_hang_up(fake_redis *f)
{
    while (f->peers)
        close_peer(f->peers);
}

static void on_listener_closed(uv_handle_t *handle)
{
    fake_redis *f = handle->data;

    if (--f->listeners > 0)
        return;
    tempdir_remove(f->dir);
    free(f);
}

void fake_redis_stop(fake_redis *f)
{
    if (!f)
        return;
    fake_redis_hang_up(f);
    if (f->listeners == 2)
        uv_close((uv_handle_t *)&f->tcp_listener, on_listener_closed);
    uv_close((uv_handle_t *)&f->listener, on_listener_closed);
}
