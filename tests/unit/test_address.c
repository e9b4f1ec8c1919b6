/* Addresses to listen on. A unix socket replaces a dead socket of the same user, and
 * nothing else; and it is not made where others could put theirs in its place. */
/* promise F1: `unix://` replaces a dead socket of the same user and nothing else; a socket is not created where
 * others could replace it */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <uv.h>

#include "support/ports.h"
#include "support/tempdir.h"
#include "base/address.h"
#include "base/number.h"
#include "net/stream/address_bind.h"
#include "test.h"

enum { OTHER_UID = 12345 };

static char *dir;
static char path[200];
static uv_loop_t loop;
static uv_pipe_t bound;

static int set_up(void **state)
{
    dir = tempdir_make();
    snprintf(path, sizeof path, "%s/s", dir);
    return uv_loop_init(&loop);
}

static int tear_down(void **state)
{
    uv_loop_close(&loop);
    tempdir_remove(dir);
    return 0;
}

static lks_code bind_there(lks_error *error)
{
    *error = (lks_error){0};
    uv_pipe_init(&loop, &bound, 0);
    return address_bind_unix(&bound, path, error);
}

static void let_go(void)
{
    uv_close((uv_handle_t *)&bound, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* Refused by the check and by the binding, with the reason. */
static void assert_refused(lks_code code, const char *why)
{
    lks_error error = {0};

    assert_int_equal(address_check_unix(path, &error), code);
    assert_non_null(strstr(error.message, why));
    assert_int_equal(bind_there(&error), code);
    let_go();
}

static void assert_bound(void)
{
    lks_error error = {0};
    struct stat found;

    assert_int_equal(address_check_unix(path, &error), LKS_OK);
    if (bind_there(&error) != LKS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(lstat(path, &found), 0);
    assert_true(S_ISSOCK(found.st_mode));
    assert_int_equal(found.st_mode & 07777, 0600);
    let_go();
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A socket's file; *fd is to be closed, which makes it stale. */
static void make_socket(int *fd)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    strcpy(name.sun_path, path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(*fd, 1), 0);
}

TEST(file_at_the_socket_path_is_not_replaced)
{
    char text[16] = "", target[210];
    struct stat found;
    write_file("precious");
    assert_refused(LKS_FAILED_PRECONDITION, "not a socket");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "precious");

    snprintf(target, sizeof target, "%s.target", path);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_refused(LKS_FAILED_PRECONDITION, "not a socket");
    assert_int_equal(lstat(path, &found), 0);
    assert_int_equal(access(target, F_OK), 0);

    int fd;
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/other", dir);
    make_socket(&fd);
    close(fd);
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(target, sizeof target, "%s/other", dir);
    assert_int_equal(symlink(target, path), 0);
    assert_refused(LKS_FAILED_PRECONDITION, "not a socket");
    assert_int_equal(lstat(path, &found), 0);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(LKS_FAILED_PRECONDITION, "not a socket");
    assert_int_equal(access(path, F_OK), 0);
}

TEST(a_stale_socket_is_replaced)
{
    int fd;
    lks_error error = {0};
    assert_bound(); /* nothing there */
    make_socket(&fd);
    assert_int_equal(bind_there(&error), LKS_UNAVAILABLE); /* it is listened on */
    let_go();
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    assert_bound();
}

TEST(another_users_socket_stays)
{
    int fd;
    if (geteuid() != 0)
        skip(); /* only root can make one */
    make_socket(&fd);
    close(fd);
    assert_int_equal(chown(path, OTHER_UID, OTHER_UID), 0);
    assert_refused(LKS_FAILED_PRECONDITION, "another user");
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chown(dir, OTHER_UID, OTHER_UID), 0);
    assert_refused(LKS_FAILED_PRECONDITION, "belongs to another user, who could replace");
    assert_int_equal(chown(dir, geteuid(), getegid()), 0);
}

TEST(no_socket_is_created_in_a_directory_that_others_may_write)
{
    assert_int_equal(chmod(dir, 0777), 0);
    assert_refused(LKS_FAILED_PRECONDITION, "writable for all");
    assert_int_equal(chmod(dir, 01777), 0); /* as /tmp: only an owner removes */
    assert_bound();
    assert_int_equal(chmod(dir, 0755), 0);
    assert_bound();
}

TEST(text_that_is_no_path_is_refused)
{
    static const char *const bad[] = {"", "s", "/", "./s", "@s", "/tmp/"};
    struct sockaddr_un name;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(path, sizeof path, "%s", bad[i]);
        assert_refused(LKS_INVALID_ARGUMENT, "absolute path");
    }
    snprintf(path, sizeof path, "%s/no/s", dir);
    assert_refused(LKS_INVALID_ARGUMENT, "/no: No such file");
    size_t len = (size_t)snprintf(path, sizeof path, "%s/", dir);
    memset(path + len, 's', sizeof path - len);
    path[sizeof name.sun_path] = '\0';
    assert_refused(LKS_INVALID_ARGUMENT, "108 bytes");
    path[sizeof name.sun_path - 1] = '\0'; /* the longest that the kernel takes */
    assert_bound();
}

TEST_WITH(an_address_is_a_host_and_a_port, NULL, NULL)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } good[] = {{"a:1", "a", 1},
                {"example.org:7700", "example.org", 7700},
                {"127.0.0.1:0", "127.0.0.1", 0},
                {"[::1]:65535", "::1", 65535},
                {"*:0000080", "*", 80}};
    static const char *const bad[] = {
        "",       "a",      ":1",       "a:",    "a:65536",  "a:1x",  "a:-1",  "a:+1",
        "a: 1",   "a:1/b",  "u@a:1",    "a b:1", "::1:7700", "[]:1",  "[::1]", "[::1]7700",
        "[::1:1", "[::1]:", "[::1]: 1", "a?b:1", "a#b:1",    "a:1:2", "[a"};
    char longest[ADDRESS_HOST_BYTES + 3];
    struct address parsed;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_null(address_parse(good[i].text, strlen(good[i].text), 0, &parsed));
        assert_string_equal(parsed.host, good[i].host);
        assert_int_equal(parsed.port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!address_parse(bad[i], strlen(bad[i]), 0, &parsed))
            fail_msg("taken: %s", bad[i]);
    for (size_t len = ADDRESS_HOST_BYTES - 1; len <= ADDRESS_HOST_BYTES; len++) {
        memset(longest, 'a', len);
        strcpy(longest + len, ":1");
        assert_int_equal(!address_parse(longest, len + 2, 0, &parsed), len < ADDRESS_HOST_BYTES);
    }
}

TEST_WITH(a_number_has_digits_only_and_a_maximum, NULL, NULL)
{
    static const struct {
        const char *text;
        int64_t max, number;
    } rows[] = {{"0", 0, 0},
                {"007", 7, 7},
                {"8", 7, -1},
                {"9223372036854775807", INT64_MAX, INT64_MAX},
                {"9223372036854775808", INT64_MAX, -1},
                {"92233720368547758070", INT64_MAX, -1},
                {"", 9, -1},
                {"-1", 9, -1},
                {"+1", 9, -1},
                {" 1", 9, -1},
                {"1 ", 9, -1},
                {"1:", 9, -1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(number_parse(rows[i].text, strlen(rows[i].text), rows[i].max), rows[i].number);
    assert_int_equal(number_parse("123", 2, 99), 12);
}

TEST_WITH(hosts_have_ports, NULL, NULL)
{
    static const char *const good[] = {"127.0.0.1:0", "*:0", "localhost:0"};
    static const char *const bad[] = {"", "127.0.0.1", "127.0.0.1:7x", "no such host:1"};
    lks_error error = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(address_check_tcp(good[i], true, &error), LKS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(address_check_tcp(bad[i], true, &error), LKS_INVALID_ARGUMENT);
}

/* promise F3 */
TEST_WITH(port_in_use_is_refused, NULL, NULL)
{
    char address[32];
    lks_error error = {0};
    uint16_t port;
    int fd = ports_bind(&port);
    assert_int_equal(listen(fd, 1), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(address_check_tcp(address, true, &error), LKS_UNAVAILABLE);
    assert_int_equal(address_check_tcp(address, false, &error), LKS_OK); /* of the server that these settings are for */
    close(fd);
    assert_int_equal(address_check_tcp(address, true, &error), LKS_OK);
    assert_int_equal(address_check_tcp("192.0.2.1:0", false, &error),
                     LKS_UNAVAILABLE); /* of no machine: for documentation */
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)
