/* One reply a command, in order, except where an answer is to be silent or to close. */
#include "support/fake_redis.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "support/store_driver.h"
#include "support/tempdir.h"

enum { READ_BYTES = 65536, WORDS_MAX = 4096, LINE_BYTES = 200, FCALLS_MAX = 64 };

const char fake_usual[] = "usual", fake_silent[] = "silent", fake_stuck[] = "stuck", fake_close[] = "close";

typedef struct rule {
    struct rule *next;
    char *words, *text;
    const char *reply; /* text, or one of the four */
    bool once;
} rule;

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
    bool subscribed, stuck;
    char buffer[READ_BYTES];
} peer;

struct fake_redis {
    uv_loop_t *loop;
    uv_pipe_t listener;
    uv_tcp_t tcp_listener;
    unsigned listeners;
    char *dir;
    char socket[128];
    char url[136];
    rule *rules; /* those that count once, in turn, then the others, the last one first */
    char *log;
    size_t log_bytes;
    peer *peers;
    unsigned connections, open;
    size_t sub_calls[FCALLS_MAX], fcalls; /* of each FCALL; FCALLs noted there */
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
    free(request->data);
}

/* Writes the elements at *text up to the end or a closing bracket; returns their number. */
static size_t write_list(const char **text, FILE *to)
{
    size_t n = 0;

    for (; **text && **text != ']'; n++) {
        size_t len = strcspn(*text, " ]");
        if (**text == '[') {
            char *inner;
            size_t bytes;
            FILE *list = open_memstream(&inner, &bytes);
            ++*text;
            size_t elements = write_list(text, list);
            fclose(list);
            fprintf(to, "*%zu\r\n%s", elements, inner);
            free(inner);
            len = 1;
        } else if (**text == ':' && strspn(*text + 1, "0123456789") == len - 1) {
            fprintf(to, "%.*s\r\n", (int)len, *text);
        } else {
            fprintf(to, "$%zu\r\n%.*s\r\n", len, (int)len, *text);
        }
        *text += len;
        *text += **text == ' ';
    }
    return n;
}

static char *resp_of(const char *reply)
{
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    if (*reply == '[')
        write_list(&reply, to);
    else if (*reply == '\'')
        fprintf(to, "$%zu\r\n%s\r\n", strlen(reply + 1), reply + 1);
    else
        fputs(reply, to);
    fclose(to);
    return text;
}

static void say(peer *p, const char *reply)
{
    char *raw = resp_of(reply);
    size_t len = strlen(raw);
    sending *s = malloc(sizeof *s + len);

    if (!s)
        abort();
    memcpy(s->text, raw, len);
    free(raw);
    s->request.data = s;
    uv_buf_t bytes = uv_buf_init(s->text, (unsigned)len);
    if (uv_write(&s->request, &p->on.stream, &bytes, 1, on_sent) != 0)
        free(s);
}

static size_t count_sub_calls(size_t argc, const char *const *argv)
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
        say(p, "[DONE]");
}

/* The library listed with the code that the driver's store has. */
static void say_library(peer *p)
{
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    fprintf(to, "*1\r\n*4\r\n$12\r\nlibrary_name\r\n$26\r\nlockstock_%s\r\n$12\r\nlibrary_code\r\n$%zu\r\n%s\r\n",
            driver_library_digest, strlen(driver_library_text), driver_library_text);
    fclose(to);
    say(p, text);
    free(text);
}

/* Whether a line begins with these words. */
static bool begins(const char *line, const char *words)
{
    size_t n = strlen(words);

    return strncmp(line, words, n) == 0 && (line[n] == ' ' || line[n] == '\n');
}

static void say_usual(peer *p, const char *line, size_t argc, const char *const *argv)
{
    static const struct usual {
        const char *words, *reply;
    } all[] = {
        {"HELLO", "[version 7.0.15 role master]"},
        {"CONFIG", "[save  appendonly yes maxmemory 0 maxmemory-policy noeviction]"},
        {"GET", "'3"},
        {"SET", "$-1\r\n"},
        {"TIME", "[1700000000 0]"},
        {"PING", "+PONG\r\n"},
        {"INFO", "'role:master"},
        {"HSET", ":1\r\n"},
        {"FUNCTION LIST LIBRARYNAME lockstock_*", "[]"},
    };
    char text[256];

    if (strcmp(argv[0], "FCALL") == 0) {
        say_done(p, count_sub_calls(argc, argv));
    } else if (strcmp(argv[0], "SUBSCRIBE") == 0 && argc == 2) {
        snprintf(text, sizeof text, "[subscribe %s :1]", argv[1]);
        say(p, text);
    } else if (p->subscribed && strcmp(argv[0], "PING") == 0) {
        say(p, "[pong  ]");
    } else if (strcmp(argv[argc - 1], "WITHCODE") == 0) {
        say_library(p);
    } else {
        size_t i = 0;
        while (i < sizeof all / sizeof *all && !begins(line, all[i].words))
            i++;
        say(p, i < sizeof all / sizeof *all ? all[i].reply : "+OK\r\n");
    }
}

static const char *note(fake_redis *f, size_t argc, const char *const *argv)
{
    size_t used = f->log_bytes, end = used + LINE_BYTES;

    if (!(f->log = realloc(f->log, end + 2)))
        abort();
    for (size_t i = 0; i < argc && used < end; i++)
        used += (size_t)snprintf(f->log + used, end - used, "%s%s", i > 0 ? " " : "", argv[i] ? argv[i] : "");
    used = used < end ? used : end - 1;
    memcpy(f->log + used, "\n", 2);
    char *line = f->log + f->log_bytes;
    for (char *c = line; c < f->log + used; c++)
        *c = *c == '\n' ? ' ' : *c;
    f->log_bytes = used + 1;
    return line;
}

unsigned fake_redis_seen(const fake_redis *f, const char *words)
{
    unsigned n = 0;

    for (const char *line = fake_redis_log(f); *line; line = strchr(line, '\n') + 1)
        n += begins(line, words);
    return n;
}

const char *fake_redis_log(const fake_redis *f)
{
    return f->log ? f->log : "";
}

static bool is_act(const char *reply)
{
    return reply == fake_usual || reply == fake_silent || reply == fake_stuck || reply == fake_close;
}

/* Puts a rule at this place of the list. */
static void add_rule(rule **at, const char *words, const char *reply, bool once)
{
    rule *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    r->words = strdup(words);
    r->text = reply && !is_act(reply) ? strdup(reply) : NULL;
    r->reply = r->text ? r->text : reply;
    r->once = once;
    r->next = *at;
    *at = r;
}

static void take_rule(rule **at)
{
    rule *r = *at;

    *at = r->next;
    free(r->words);
    free(r->text);
    free(r);
}

static rule **first_lasting(fake_redis *f)
{
    rule **at = &f->rules;

    while (*at && (*at)->once)
        at = &(*at)->next;
    return at;
}

void fake_redis_next(fake_redis *f, const char *words, const char *reply)
{
    add_rule(first_lasting(f), words, reply, true);
}

void fake_redis_answer(fake_redis *f, const char *words, const char *reply)
{
    rule **first = first_lasting(f), **at = first;

    while (*at && strcmp((*at)->words, words) != 0)
        at = &(*at)->next;
    if (*at)
        take_rule(at);
    if (reply)
        add_rule(first, words, reply, false);
}

/* The rule of a command; where NULL stands if there is none. */
static rule **find_rule(fake_redis *f, const char *line)
{
    rule **at = &f->rules;

    while (*at && !begins(line, (*at)->words))
        at = &(*at)->next;
    return at;
}

static void act(peer *p, const char *reply, const char *line, size_t argc, const char *const *argv)
{
    p->stuck = p->stuck || reply == fake_stuck;
    if (p->stuck || reply == fake_silent)
        return;
    if (reply == fake_usual)
        say_usual(p, line, argc, argv);
    else if (reply == fake_close)
        close_peer(p);
    else
        say(p, reply);
}

static void answer(peer *p, const redisReply *command)
{
    static const char *words[WORDS_MAX];
    fake_redis *f = p->fake;
    size_t n = command->elements < WORDS_MAX ? command->elements : WORDS_MAX;

    for (size_t i = 0; i < n; i++)
        words[i] = command->element[i]->str;
    if (strcmp(words[0], "FCALL") == 0 && f->fcalls < FCALLS_MAX)
        f->sub_calls[f->fcalls++] = count_sub_calls(n, words);
    snprintf(p->last, sizeof p->last, "%s", words[0]);
    p->subscribed = p->subscribed || strcmp(words[0], "SUBSCRIBE") == 0;
    const char *line = note(f, n, words);
    rule **r = find_rule(f, line);
    act(p, *r ? (*r)->reply : fake_usual, line, n, words);
    if (*r && (*r)->once)
        take_rule(r);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    peer *p = handle->data;

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

fake_redis *fake_redis_start(uv_loop_t *loop)
{
    fake_redis *f = calloc(1, sizeof *f);

    if (!f || !(f->dir = tempdir_make()))
        abort();
    f->loop = loop;
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

size_t fake_redis_sub_calls(const fake_redis *f, size_t i)
{
    return i < f->fcalls ? f->sub_calls[i] : 0;
}

void fake_redis_say(fake_redis *f, const char *raw)
{
    fake_redis_say_to(f, NULL, raw);
}

void fake_redis_say_to(fake_redis *f, const char *command, const char *raw)
{
    for (peer *p = f->peers; p; p = p->next)
        if (!command || strcmp(p->last, command) == 0)
            say(p, raw);
}

void fake_redis_publish(fake_redis *f, const char *channel, const char *text)
{
    char *message;
    size_t bytes;
    FILE *to = open_memstream(&message, &bytes);

    fprintf(to, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(channel), channel, strlen(text), text);
    fclose(to);
    for (peer *p = f->peers; p; p = p->next)
        if (p->subscribed)
            say(p, message);
    free(message);
}

void fake_redis_turn_deaf(fake_redis *f, bool only_to_subscribers)
{
    for (peer *p = f->peers; p; p = p->next)
        if (p->subscribed || !only_to_subscribers)
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
    while (f->rules)
        take_rule(&f->rules);
    free(f->log);
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
