/* A URL whose host is a name with several addresses. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/channel_fixture.h"
#include "unit/fake_names.h"
#include "test.h"

/* Longer than one attempt to connect begins after the other, and less than an attempt lasts that is not answered. */
enum { HALF_AN_ATTEMPT_MS = 2500, FILLERS = 2 };

/* An address that answers no attempt to connect: its queue is full. */
static int silent[1 + FILLERS];

static void fall_silent(const char *host, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    inet_pton(AF_INET, host, &address.sin_addr);
    silent[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(silent[0], (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(silent[0], 0), 0);
    for (int i = 1; i <= FILLERS; i++) {
        silent[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(silent[i], (struct sockaddr *)&address, sizeof address);
    }
}

static void speak_again(void)
{
    for (int i = 0; i <= FILLERS; i++)
        close(silent[i]);
}

static void connects_to(const char *host, const char *addresses)
{
    struct server *there = server_start_at(host, 0);
    char url[64];

    fall_silent("127.0.0.9", server_port(there));
    fake_name_is(addresses);
    snprintf(url, sizeof url, "%s://%s:%u", server_scheme(), FAKE_NAME, server_port(there));
    lks_channel *on = open_channel(url, (lks_channel_options){0});
    lks_call_options options = {.timeout_ms = HALF_AN_ATTEMPT_MS};
    assert_int_equal(run_on(on, &server_read, "a", &options, NULL, NULL), LKS_OK);
    lks_channel_close(on);
    speak_again();
    server_stop(there);
}

/* promise C37: an address of a name that does not answer holds up a call no longer than until the next address is
 * tried, and both families are */
TEST(an_address_that_does_not_answer_is_passed_by)
{
    connects_to("127.0.0.1", "127.0.0.9 127.0.0.1");
}

/* promise C37 */
TEST(the_other_family_is_tried_second)
{
    connects_to("::1", "127.0.0.9 127.0.0.9 127.0.0.9 127.0.0.9 127.0.0.9 127.0.0.9 127.0.0.9 127.0.0.9 "
                       "127.0.0.9 127.0.0.9 127.0.0.9 127.0.0.9 ::1");
}

/* An address that refuses is followed by the next at once, and the last answer counts. */
TEST(addresses_that_refuse_are_passed_by)
{
    connects_to("127.0.0.1", "127.0.0.8 ::1 127.0.0.7 127.0.0.1");
}

/* promise CH43: a URL that stands there twice has a connection to each of two addresses of its name */
TEST(addresses_of_a_name_share_the_calls)
{
    struct server *first = server_start_at("127.0.0.1", 0), *second = server_start_at("127.0.0.2", server_port(first));
    char url[128];

    fake_name_is("127.0.0.1 127.0.0.2");
    snprintf(url, sizeof url, "%s://%s:%u,%s://%s:%u", server_scheme(), FAKE_NAME, server_port(first), server_scheme(),
             FAKE_NAME, server_port(first));
    lks_channel *on = open_channel(url, (lks_channel_options){.policy = LKS_ROUND_ROBIN});
    assert_true(server_await_accepted(first, 1));
    assert_true(server_await_accepted(second, 1));
    lks_channel_close(on);
    server_stop(first);
    server_stop(second);
}

TEST_MAIN()
