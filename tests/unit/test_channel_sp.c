/* What is particular to the client's own SP engine: messages that are half written, names
 * that resolve to several addresses or none, servers that speak something else. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/channel_fixture.h"
#include "test.h"

enum { BALLAST = 900000, HEAVY = 16 };

static uint8_t ballast[BALLAST];

static void start_heavy(lks_channel *channel, const char *id, struct witness *witness)
{
    ping_request request = ping(id);

    memset(witness, 0, sizeof *witness);
    request.ballast = (ProtobufCBinaryData){.len = BALLAST, .data = ballast};
    assert_int_equal(
        lks_call_start(channel, &server_write, &request.base, NULL, see, NULL, witness, &witness->call, NULL), LKS_OK);
}

/* The server reads nothing, so the kernel takes some messages, a part of one, and none of
 * the others. What is taken back was not seen; what was half written is ended, or what
 * comes behind it would be read as its rest. */
/* promise C30: a half written message is ended, one that was not begun is taken back and NO */
TEST(a_half_written_message_is_ended)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness calls[HEAVY];
    size_t no = 0, maybe = 0;
    char id[16];
    assert_int_equal(run(channel, &server_read, "first", NULL, NULL, NULL), LKS_OK);
    server_read_on(server, false);
    for (int i = 0; i < HEAVY; i++) {
        snprintf(id, sizeof id, "heavy-%d", i);
        start_heavy(channel, id, &calls[i]);
    }
    run(channel, &server_write, "behind", &(lks_call_options){.timeout_ms = 200}, NULL, NULL);
    for (int i = 0; i < HEAVY; i++)
        lks_call_cancel(calls[i].call);
    for (int i = 0; i < HEAVY; i++)
        assert_int_equal(lks_call_wait(calls[i].call, NULL), LKS_CANCELLED);
    server_read_on(server, true);
    assert_int_equal(run(channel, &server_write, "after", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    assert_true(server_settle(server));
    for (int i = 0; i < HEAVY; i++) {
        snprintf(id, sizeof id, "heavy-%d", i);
        int32_t seen = server_count(server, id);

        assert_in_range(seen, 0, 1);
        if (calls[i].error.applied == LKS_APPLIED_NO)
            assert_int_equal(seen, 0);
        no += calls[i].error.applied == LKS_APPLIED_NO;
        maybe += calls[i].error.applied == LKS_APPLIED_MAYBE;
        lks_call_free(calls[i].call);
    }
    assert_int_equal(no + maybe, HEAVY);
    assert_in_range(no, 1, HEAVY - 1);
    assert_true(server_await_accepted(server, 1));
    assert_false(server_seen(server) < 2);
    server_stop(server);
}

/* Both calls have the one slot, one after the other. */
/* promise C32: an answer is only its own request's */
TEST(a_late_answer_is_nobodys)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.in_flight_max = 1});
    struct witness old, new;
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, 2});
    start(channel, &server_write, "old", NULL, &old);
    assert_true(server_await(server, 1));
    lks_call_cancel(old.call);
    start(channel, &server_write, "new", NULL, &new);
    assert_true(server_await(server, 2));
    server_release(server); /* in the order of the requests */
    assert_ended(&old, LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_ended(&new, LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_string_equal(new.id, "new");
    lks_channel_close(channel);
    server_stop(server);
}

static uint16_t port_of(int listener)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;

    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    return ntohs(address.sin_port);
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static void assert_unreachable(const char *url, const char *why)
{
    lks_channel *channel = open_channel(url, (lks_channel_options){0});
    lks_error error;

    run(channel, &server_plain, "a", &(lks_call_options){.timeout_ms = 500}, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    if (!strstr(error.message, why) || !strstr(error.message, url))
        fail_msg("\"%s\" instead of \"%s\"", error.message, why);
    lks_channel_close(channel);
}

/* promise C34 */
TEST(who_cannot_be_reached_is_told_with_the_reason)
{
    char url[64], long_name[300] = "tcp://";
    int listener = listen_on(0);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port_of(listener));
    close(listener);
    assert_unreachable(url, "cannot connect: Connection refused");
    assert_unreachable("unix:///nonexistent/lockstock.sock", "cannot connect: No such file or directory");
    memset(long_name + 6, 'a', 70); /* a label has 63 characters at most: no name server is asked */
    strcat(long_name, ".invalid:7700");
    assert_unreachable(long_name, "cannot resolve the host: Name");
}

static void *answer_in_http(void *arg)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    int *listener = arg, fd;

    while ((fd = accept(*listener, NULL, NULL)) >= 0) {
        send(fd, text, strlen(text), MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

/* promise C33 */
TEST(a_server_of_another_protocol_is_refused)
{
    int listener = listen_on(0);
    pthread_t thread;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port_of(listener));
    assert_int_equal(pthread_create(&thread, NULL, answer_in_http, &listener), 0);
    assert_unreachable(url, "does not speak SP");
    snprintf(url, sizeof url, "tls://127.0.0.1:%u", port_of(listener));
    assert_unreachable(url, "TLS: ");
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

/* "localhost" may be ::1 first, where nobody listens. */
/* promise C34 */
TEST(a_name_is_resolved)
{
    struct server *server = server_start(0);
    char url[64];
    snprintf(url, sizeof url, "tcp://localhost:%u", server_port(server));
    lks_channel *channel = open_channel(url, (lks_channel_options){0});
    assert_int_equal(run(channel, &server_plain, "a", NULL, NULL, NULL), LKS_OK);
    server_drop_connections(server);
    assert_int_equal(run(channel, &server_write, "b", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(a_channel_may_be_closed_while_a_name_is_resolved)
{
    struct server *server = server_start(0);
    struct witness witness;
    char url[64];
    snprintf(url, sizeof url, "tcp://localhost:%u", server_port(server));
    for (int i = 0; i < 200; i++) {
        lks_channel *channel = open_channel(url, (lks_channel_options){0});

        start(channel, &server_write, "a", NULL, &witness);
        if (i % 2 == 0)
            server_await(server, 1);
        assert_int_equal(lks_channel_close(channel), LKS_OK);
        lks_call_free(witness.call);
    }
    server_stop(server);
}

enum { URLS_BYTES = 64 * 64 };

/* 63 servers that are not there, and the one. */
static void name_many(char *urls, struct server *server)
{
    int listener = listen_on(0);
    uint16_t port = port_of(listener);
    size_t at = 0;

    close(listener);
    for (int i = 0; i < 63; i++)
        at += (size_t)snprintf(urls + at, URLS_BYTES - at, "tcp://127.0.0.1:%u,", port);
    snprintf(urls + at, URLS_BYTES - at, "tcp://127.0.0.1:%u", server_port(server));
}

/* Each of them has timers among those of the others. */
TEST(a_channel_to_many_servers_may_be_closed_at_once)
{
    struct server *server = server_start(0);
    char urls[URLS_BYTES];

    name_many(urls, server);
    for (int i = 0; i < 50; i++)
        lks_channel_close(open_channel(urls, (lks_channel_options){0}));
    server_stop(server);
}

TEST(many_servers_may_be_named)
{
    struct server *server = server_start(0);
    char urls[URLS_BYTES];

    name_many(urls, server);
    lks_channel *channel = open_channel(urls, (lks_channel_options){0});
    for (int i = 0; i < 20; i++)
        assert_int_equal(run(channel, &server_plain, "a", NULL, NULL, NULL), LKS_OK);
    lks_channel_close(channel);
    server_stop(server);
}

TEST_MAIN()
