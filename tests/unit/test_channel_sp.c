/* Behaviour specific to the client's own SP engine: late answers, names that resolve to several addresses or none,
 * servers that use another protocol. */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/channel_fixture.h"
#include "test.h"

/* Both calls have the one slot, one after the other. */
/* promise C32: an answer goes only to its own request */
TEST(a_late_answer_reaches_no_call)
{
    struct witness old, new;

    reopen((lks_channel_options){.in_flight_max = 1});
    hold(2);
    start(&server_plain, "old", NULL, &old);
    assert_true(server_await(server, 1));
    lks_call_cancel(old.call);
    start(&server_plain, "new", NULL, &new);
    assert_true(server_await(server, 2));
    server_release(server); /* in the order of the requests */
    assert_ended(&old, LKS_CANCELLED, LKS_APPLIED_MAYBE);
    assert_ok(&new, 1);
}

/* ---- servers that are not there ------------------------------------------------------ */

static void open_to(const char *urls)
{
    close_channel();
    channel = open_channel(urls, (lks_channel_options){0});
}

static void assert_unreachable(const char *url, const char *why)
{
    lks_error error;

    open_to(url);
    run(&server_plain, "a", &(lks_call_options){.timeout_ms = 500}, NULL, &error);
    assert_error(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    if (!strstr(error.message, why) || !strstr(error.message, url))
        fail_msg("\"%s\" instead of \"%s\"", error.message, why);
}

/* promise C34: broken connections leave nothing behind; the reason for having none is reported; names are resolved */
TEST(a_server_that_cannot_be_reached_is_named_with_the_reason)
{
    char url[64], long_name[300] = "tcp://";
    uint16_t port;

    close(ports_bind(&port));
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
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

/* promise C33: a message over the limit, or a server of another protocol, ends the connection */
TEST(a_server_of_another_protocol_is_refused)
{
    uint16_t port;
    int listener = ports_bind(&port);
    pthread_t thread;
    char url[64];

    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_in_http, &listener), 0);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    assert_unreachable(url, "does not speak SP");
    snprintf(url, sizeof url, "tls://127.0.0.1:%u", port);
    assert_unreachable(url, "TLS: ");
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

/* ---- names and many servers ------------------------------------------------------------ */

/* "localhost" may be ::1 first, where nothing listens. */
/* promise C34 */
TEST(a_name_is_resolved_again_for_each_connection_and_may_be_left)
{
    static struct witness witness; /* the last calls end with the channel, after the test */
    char url[64];

    snprintf(url, sizeof url, "tcp://localhost:%u", server_port(server));
    open_to(url);
    run_ok(&server_plain, "a");
    server_drop_connections(server);
    assert_int_equal(run(&server_write, "b", NULL, NULL, NULL), LKS_OK);
    for (int i = 0; i < 200; i++) {
        open_to(url);
        start(&server_write, "a", NULL, &witness);
        if (i % 2 == 0)
            server_await(server, 3);
        lks_call_free(witness.call);
    }
}

/* 63 servers that are not there, and the one. Each of them has timers among those of the others. */
TEST(many_servers_may_be_named)
{
    char urls[64 * 64];
    uint16_t port;
    size_t at = 0;

    close(ports_bind(&port));
    for (int i = 0; i < 63; i++)
        at += (size_t)snprintf(urls + at, sizeof urls - at, "tcp://127.0.0.1:%u,", port);
    snprintf(urls + at, sizeof urls - at, "tcp://127.0.0.1:%u", server_port(server));
    for (int i = 0; i < 50; i++)
        open_to(urls);
    for (int i = 0; i < 20; i++)
        run_ok(&server_plain, "a");
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)
