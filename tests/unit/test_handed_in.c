/* A host on sockets that the process was started with: by number, and by the names of systemd's socket activation. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "support/tempdir.h"
#include "test.h"

enum { FIRST = 3, N = 3 };

static struct {
    lks_host *host;
} here;

static int tcp_socket(bool listens)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    if (listens)
        assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static int unix_socket(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in name;
    socklen_t len = sizeof name;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    return ntohs(name.sin_port);
}

static void expect_served(const char *url)
{
    Lockstock__Test__Order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_channel *channel;
    lks_error error;

    assert_int_equal(lks_channel_open(url, NULL, &channel, &error), LKS_OK);
    lks_code code = lks_call_run(channel, &shop_buy_method, &request.base, NULL, NULL, &error);
    lks_channel_close(channel);
    assert_string_equal(code == LKS_OK ? "" : error.message, "");
}

static void expect_refused(const char *url, lks_code code, const char *why)
{
    char message[512];
    lks_error error;

    assert_int_equal(lks_host_listen(here.host, url, NULL, &error), code);
    snprintf(message, sizeof message, "%s: %s", url, why);
    assert_string_equal(error.message, message);
}

static void expect_refused_fd(int fd, const char *why)
{
    char url[64];

    snprintf(url, sizeof url, "tcp+fd://%d", fd);
    expect_refused(url, LKS_FAILED_PRECONDITION, why);
    close(fd);
}

static void set_number(const char *name, long number)
{
    char text[32];

    snprintf(text, sizeof text, "%ld", number);
    setenv(name, text, 1);
}

static void fill_places(void)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (int i = 0; i < N; i++)
        if (FIRST + i != null)
            dup2(null, FIRST + i);
}

/* As if the test were started with it. */
static void hand_in(const int fds[N], const char *names)
{
    for (int i = 0; i < N; i++)
        assert_int_equal(dup2(fds[i], FIRST + i), FIRST + i);
    set_number("LISTEN_FDS", N);
    set_number("LISTEN_PID", getpid());
    setenv("LISTEN_FDNAMES", names, 1);
}

static void take_back(void)
{
    unsetenv("LISTEN_FDS");
    fill_places();
}

/* No object of a host gets the descriptors 3, 4 and 5. */
static int keep_places(void **state)
{
    fill_places();
    return 0;
}

static int set_up(void **state)
{
    lks_error error;
    assert_int_equal(lks_host_open(NULL, &here.host, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &shop_service, &error), LKS_OK);
    return 0;
}

static int tear_down(void **state)
{
    lks_host_close(here.host, 0);
    return 0;
}

/* promise CH36: a host listens on sockets that it was given */
TEST(a_descriptor_is_served_and_stays_the_callers)
{
    char url[64], served[64];
    uint16_t port = 0;
    lks_error error;
    int fd = tcp_socket(true);

    snprintf(url, sizeof url, "grpc+fd://%d", fd);
    snprintf(served, sizeof served, "grpc://127.0.0.1:%u", port_of(fd));
    assert_int_equal(lks_host_listen(here.host, url, &port, &error), LKS_OK);
    assert_int_equal(port, port_of(fd));
    expect_served(served);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    snprintf(url, sizeof url, "tcp+fd://%d", fd);
    expect_refused(url, LKS_ALREADY_EXISTS, "a listener already has this socket");
    lks_host_close(here.host, 0);
    here.host = NULL;
    assert_int_equal(listen(fd, 8), 0);
    close(fd);
}

/* promise CH36 */
TEST(a_name_is_every_descriptor_of_it)
{
    char *dir = tempdir_make(), path[256], first[64], last[300];
    int fds[N] = {tcp_socket(true), tcp_socket(true)};
    lks_error error;

    snprintf(path, sizeof path, "%s/shop", dir);
    fds[2] = unix_socket(path);
    hand_in(fds, "shop:other:shop");
    lks_code code = lks_host_listen(here.host, "tcp+fd://shop", NULL, &error);
    set_number("LISTEN_PID", getppid());
    lks_code of_another = lks_host_listen(here.host, "tcp+fd://other", NULL, &error);
    take_back();
    assert_int_equal(code, LKS_OK);
    assert_int_equal(of_another, LKS_FAILED_PRECONDITION);
    snprintf(first, sizeof first, "tcp://127.0.0.1:%u", port_of(fds[0]));
    snprintf(last, sizeof last, "unix://%s", path);
    expect_served(first);
    expect_served(last);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    tempdir_remove(dir);
}

/* promise CH36 */
TEST(descriptor_that_does_not_listen_is_refused)
{
    int closed = tcp_socket(true);

    close(closed);
    expect_refused_fd(closed, "no such descriptor is open");
    expect_refused_fd(open("/dev/null", O_RDONLY), "the descriptor is not a socket");
    expect_refused_fd(tcp_socket(false), "the descriptor is a socket that is not listening");
    expect_refused_fd(socket(AF_INET, SOCK_DGRAM, 0), "the descriptor is not a TCP or unix stream socket");
    expect_refused("tcp+fd://shop", LKS_FAILED_PRECONDITION,
                   "no descriptor with this name was handed in (LISTEN_FDNAMES, LISTEN_PID)");
    expect_refused("tcp+fd://", LKS_INVALID_ARGUMENT,
                   "must be the number of a descriptor, or a name of LISTEN_FDNAMES");
    expect_refused("tcp+fd://3:4", LKS_INVALID_ARGUMENT,
                   "must be the number of a descriptor, or a name of LISTEN_FDNAMES");
}

TEST_MAIN(.setup_all = keep_places, .setup = set_up, .teardown = tear_down)
