/* The status of a store of which a part is away; tests/e2e/notify.lua has the rest of a server's life. */

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <uv.h>

#include "notify.h"
#include "support/tempdir.h"
#include "test.h"

static void expect(int fd, const char *text)
{
    char got[256];
    ssize_t len = recv(fd, got, sizeof got - 1, 0);

    assert_true(len >= 0);
    got[len] = '\0';
    assert_string_equal(got, text);
}

/* promise F7 */
TEST(a_store_of_which_a_part_is_away_is_ready)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char *dir = tempdir_make();
    uv_loop_t loop;

    assert_non_null(dir);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    setenv("NOTIFY_SOCKET", at.sun_path, 1);
    uv_loop_init(&loop);
    notify *n = notify_open(&loop);
    assert_non_null(n);
    expect(fd, "STATUS=starting");
    notify_store(n, true, "two nodes\nare away");
    expect(fd, "READY=1\nSTATUS=ready, but two nodes are away");
    notify_store(n, true, NULL);
    expect(fd, "READY=1\nSTATUS=ready");
    notify_close(n);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    close(fd);
    tempdir_remove(dir);
}

TEST_MAIN()
