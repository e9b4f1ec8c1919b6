/* The client of ZooKeeper against an ensemble of one member. */
#include <signal.h>
#include <sys/socket.h>

#include "support/process.h"
#include "test.h"
#include "zookeeper_scene.h"

TEST(nodes_are_created_read_changed_and_deleted)
{
    client c;

    client_ready(&c, scene_hosts(), "/basic/deep");
    assert_int_equal(client_apply(&c, ZK_CREATE, "/a", "first", 0), ZK_OK);
    answer a = client_get(&c, "/a");
    assert_int_equal(a.code, ZK_OK);
    assert_string_equal(a.data, "first");
    assert_int_equal(a.version, 0);
    assert_int_equal(client_apply(&c, ZK_CREATE, "/a", "again", 0), ZK_NODE_EXISTS);
    assert_int_equal(client_apply(&c, ZK_SET, "/a", "second", 5), ZK_BAD_VERSION);
    assert_int_equal(client_apply(&c, ZK_SET, "/a", "second", 0), ZK_OK);
    a = client_sync_get(&c, "/a");
    assert_string_equal(a.data, "second");
    assert_int_equal(a.version, 1);
    assert_int_equal(client_apply(&c, ZK_CREATE, "/a/b", "", 0), ZK_OK);
    a = client_get(&c, "/a/b");
    assert_int_equal(a.code, ZK_OK);
    assert_int_equal(a.len, 0);
    assert_int_equal(client_apply(&c, ZK_DELETE, "/a", "", -1), ZK_REFUSED);
    assert_int_equal(client_apply(&c, ZK_DELETE, "/a/b", "", 0), ZK_OK);
    assert_int_equal(client_apply(&c, ZK_DELETE, "/a", "", -1), ZK_OK);
    assert_int_equal(client_get(&c, "/a").code, ZK_NO_NODE);
    assert_int_equal(client_sync_get(&c, "/a").code, ZK_NO_NODE);
    client_close(&c);
}

static void break_connections(void)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.ss_family == AF_INET)
            shutdown(fd, SHUT_RDWR);
    }
}

/* The member is alive, so the next connection is made at once. */
TEST(each_broken_connection_is_reported)
{
    client c;

    client_ready(&c, scene_hosts(), "/told");
    for (int i = 0; i < 3; i++) {
        answer lost = {.n = 1};
        const unsigned before = c.states;
        const zk_op one = client_op(ZK_CREATE, "/x", "", 0);
        break_connections();
        zk_multi(c.zookeeper, &one, 1, scene_on_applied, &lost); /* finds the socket broken */
        assert_true(scene_until(&lost.over));
        while (c.states < before + 2) /* it is lost, and made again */
            scene_turn(20);
        assert_true(zk_is_ready(c.zookeeper));
    }
    client_close(&c);
}

TEST(a_multi_is_applied_whole_or_not_at_all)
{
    client c;

    client_ready(&c, scene_hosts(), "/multi");
    const zk_op good[] = {client_op(ZK_CREATE, "/x", "1", 0), client_op(ZK_SET, "/x", "2", 0),
                          client_op(ZK_CHECK, "/x", "", 1), client_op(ZK_CREATE, "/y", "", 0)};
    answer a = client_multi(&c, good, 4);
    assert_int_equal(a.code, ZK_OK);
    assert_int_equal(a.versions[0], 0);
    assert_int_equal(a.versions[1], 1);
    assert_int_equal(a.versions[2], 0);
    const zk_op bad[] = {client_op(ZK_SET, "/x", "3", 1), client_op(ZK_DELETE, "/y", "", 0),
                         client_op(ZK_CHECK, "/x", "", 7), client_op(ZK_CREATE, "/z", "", 0)};
    a = client_multi(&c, bad, 4);
    assert_int_equal(a.code, ZK_BAD_VERSION);
    assert_int_equal(a.failed, 2);
    assert_string_equal(client_get(&c, "/x").data, "2");
    assert_int_equal(client_get(&c, "/y").code, ZK_OK);
    assert_int_equal(client_get(&c, "/z").code, ZK_NO_NODE);
    const zk_op checks[] = {client_op(ZK_CHECK, "/x", "", 1), client_op(ZK_CHECK, "/y", "", 0)};
    assert_int_equal(client_multi(&c, checks, 2).code, ZK_OK);
    const zk_op failing[] = {client_op(ZK_CHECK, "/x", "", 1), client_op(ZK_CHECK, "/none", "", 0)};
    a = client_multi(&c, failing, 2);
    assert_int_equal(a.code, ZK_NO_NODE);
    assert_int_equal(a.failed, 1);
    client_close(&c);
}

TEST(invalid_requests_are_refused)
{
    static const char *const paths[] = {"", "a", "/", "/a/", "//", "/a//b", "/.", "/a/..", "/a\n"};
    char *big = calloc(1, ZK_REQUEST_BYTES_MAX + 1);
    client c;

    assert_non_null(big);
    memset(big, 'x', ZK_REQUEST_BYTES_MAX);
    client_ready(&c, scene_hosts(), "/refused");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(client_get(&c, paths[i]).code, ZK_REFUSED);
        assert_int_equal(client_apply(&c, ZK_CREATE, paths[i], "", 0), ZK_REFUSED);
    }
    assert_int_equal(client_multi(&c, NULL, 0).code, ZK_REFUSED);
    assert_int_equal(client_apply(&c, ZK_CREATE, "/big", big, 0), ZK_REFUSED);
    big[ZK_REQUEST_BYTES_MAX - 200] = '\0';
    assert_int_equal(client_apply(&c, ZK_CREATE, "/big", big, 0), ZK_OK);
    assert_int_equal(client_get(&c, "/big").len, strlen(big));
    assert_int_equal(client_apply(&c, ZK_CREATE_EPHEMERAL, "/e", "", 0), ZK_OK);
    assert_int_equal(client_apply(&c, ZK_CREATE, "/e/child", "", 0), ZK_REFUSED);
    assert_int_equal(c.states, 1);
    free(big);
    client_close(&c);
}

TEST(a_watch_fires_once)
{
    client c;

    client_ready(&c, scene_hosts(), "/watch");
    assert_int_equal(client_watch(&c, "/a").code, ZK_NO_NODE);
    assert_int_equal(client_apply(&c, ZK_CREATE, "/a", "", 0), ZK_OK);
    assert_int_equal(client_apply(&c, ZK_SET, "/a", "x", -1), ZK_OK);
    assert_int_equal(client_get(&c, "/a").code, ZK_OK);
    assert_int_equal(c.n_watched, 1);
    assert_string_equal(c.watched, "/a");
    assert_int_equal(client_watch(&c, "/a").version, 1);
    assert_int_equal(client_apply(&c, ZK_SET, "/a", "y", -1), ZK_OK);
    assert_int_equal(client_apply(&c, ZK_SET, "/a", "z", -1), ZK_OK);
    assert_int_equal(c.n_watched, 2);
    assert_int_equal(client_watch(&c, "/a").code, ZK_OK);
    assert_int_equal(client_apply(&c, ZK_DELETE, "/a", "", -1), ZK_OK);
    assert_int_equal(client_get(&c, "/a").code, ZK_NO_NODE);
    assert_int_equal(c.n_watched, 3);
    client_close(&c);
}

TEST(the_end_of_a_client_removes_its_ephemeral_nodes)
{
    client c, other;

    client_ready(&c, scene_hosts(), "/members");
    client_ready(&other, scene_hosts(), "/members");
    assert_int_equal(client_apply(&c, ZK_CREATE, "/m", "", 0), ZK_OK);
    assert_int_equal(client_apply(&other, ZK_CREATE_EPHEMERAL, "/m/m1", "", 0), ZK_OK);
    assert_int_equal(client_apply(&c, ZK_CREATE, "/m/m2", "", 0), ZK_OK);
    answer a = client_children(&c, "/m", true);
    assert_int_equal(a.n, 2);
    assert_non_null(strstr(a.names, "m1 "));
    long long start = process_now_ms();
    client_close(&other);
    assert_true(process_now_ms() - start < 1000); /* the session's end was answered */
    assert_int_equal(client_sync_get(&c, "/m/m1").code, ZK_NO_NODE);
    assert_int_equal(c.n_watched, 1);
    assert_string_equal(c.watched, "/m");
    assert_string_equal(client_children(&c, "/m", false).names, "m2 ");
    client_close(&c);
}

/* By which servers find that they use different ensembles. */
TEST(a_root_has_an_id_that_others_do_not_have)
{
    client first, same, other;

    client_ready(&first, scene_hosts(), "/one");
    client_ready(&same, scene_hosts(), "/one");
    client_ready(&other, scene_hosts(), "/other");
    assert_int_not_equal(zk_root_id(first.zookeeper), 0);
    assert_int_equal(zk_root_id(first.zookeeper), zk_root_id(same.zookeeper));
    assert_int_not_equal(zk_root_id(first.zookeeper), zk_root_id(other.zookeeper));
    client_close(&first);
    client_close(&same);
    client_close(&other);
}

TEST(nodes_of_a_user_are_his)
{
    client owner, other;

    client_open(&owner, scene_hosts(), "/owned", "ann:secret");
    assert_true(scene_until(&owner.ready));
    client_open(&other, scene_hosts(), "/owned", "bob:secret");
    client_await_reason(&other, "the lock store refused the credentials for the path /owned");
    client_close(&other);
    client_open(&other, scene_hosts(), "/owned", NULL);
    client_await_reason(&other, "the lock store requires credentials for the path /owned");
    client_close(&other);
    client_close(&owner);
    client_ready(&other, scene_hosts(), "/shared");
    client_open(&owner, scene_hosts(), "/shared", "ann:secret");
    assert_true(scene_until(&owner.ready));
    assert_int_equal(client_apply(&owner, ZK_CREATE, "/a", "", 0), ZK_OK);
    assert_int_equal(client_get(&other, "/a").code, ZK_NO_AUTH);
    assert_int_equal(client_apply(&other, ZK_SET, "/a", "", -1), ZK_NO_AUTH);
    assert_int_equal(client_children(&other, "/a", false).code, ZK_NO_AUTH);
    client_close(&other);
    client_close(&owner);
}

TEST(names_and_ipv6_are_understood)
{
    char hosts[128];
    client c;

    snprintf(hosts, sizeof hosts, "[::1]:1,localhost:%s,nowhere.invalid", strchr(scene_hosts(), ':') + 1);
    client_ready(&c, hosts, "/names");
    client_close(&c);
    client_open(&c, "nowhere.invalid", "/names", NULL);
    client_await_reason(&c, "the lock store's hosts cannot be found");
    client_close(&c);
}

TEST(a_client_can_be_closed_at_any_time)
{
    client c;

    client_open(&c, scene_hosts(), "/closed", NULL);
    client_close(&c);
    for (unsigned turns = 1; turns < 12; turns++) {
        answer a = {.n = 1}, b = {0};
        client_open(&c, scene_hosts(), "/closed", NULL);
        for (unsigned i = 0; i < turns; i++)
            scene_turn(10);
        zk_op one = client_op(ZK_CREATE, "/x", "", 0);
        zk_multi(c.zookeeper, &one, 1, scene_on_applied, &a);
        zk_get(c.zookeeper, "/x", scene_on_got, &b);
        client_close(&c);
        assert_true(a.over && b.over);
        assert_true(a.code == ZK_NOT_SENT || a.code == ZK_UNKNOWN);
    }
}

TEST(dead_member_is_reported_and_used_again_after_restart)
{
    client c;

    client_ready(&c, scene_hosts(), "/dies");
    assert_int_equal(client_apply(&c, ZK_CREATE, "/kept", "x", 0), ZK_OK);
    zookeeper_fixture_signal(here.ensemble, 0, SIGKILL);
    client_await_reason(&c, "the lock store is unreachable: connection refused");
    assert_int_equal(client_get(&c, "/kept").code, ZK_NOT_SENT);
    assert_true(zookeeper_fixture_start_again(here.ensemble, 0));
    assert_true(scene_until(&c.ready));
    assert_string_equal(client_get(&c, "/kept").data, "x");
    client_close(&c);
    assert_true(zookeeper_fixture_wait(here.ensemble));
}

/* Those that are made before the client sees the end of the connection; the kernel may take the first ones. */
TEST(requests_on_a_broken_connection_end_and_leave_nothing_behind)
{
    char paths[8][8];
    answer answers[8] = {{0}};
    client c;

    client_ready(&c, scene_hosts(), "/broken");
    assert_int_equal(client_watch(&c, "/watched").code, ZK_NO_NODE);
    zookeeper_fixture_signal(here.ensemble, 0, SIGKILL);
    for (size_t i = 0; i < 8; i++) {
        snprintf(paths[i], sizeof paths[i], "/p%zu", i);
        zk_op one = client_op(ZK_CREATE, paths[i], "", 0);
        answers[i].n = 1;
        zk_multi(c.zookeeper, &one, 1, scene_on_applied, &answers[i]);
        assert_false(answers[i].over);
    }
    assert_false(zk_is_ready(c.zookeeper));
    for (size_t i = 0; i < 8; i++)
        assert_true(scene_until(&answers[i].over));
    assert_true(answers[0].code == ZK_UNKNOWN || answers[0].code == ZK_NOT_SENT);
    assert_int_equal(answers[7].code, ZK_NOT_SENT);
    assert_true(zookeeper_fixture_start_again(here.ensemble, 0));
    assert_true(scene_until(&c.ready));
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(client_sync_get(&c, paths[i]).code, ZK_NO_NODE);
    assert_int_equal(client_apply(&c, ZK_CREATE, "/watched", "", 0), ZK_OK);
    assert_int_equal(client_get(&c, "/watched").code, ZK_OK);
    assert_int_equal(c.n_watched, c.sessions == 1 ? 1 : 0);
    client_close(&c);
}

/* Even with requests that the kernel does not take. */
TEST(frozen_member_does_not_delay_close)
{
    enum { MANY = 12, BYTES = 900000 };
    answer answers[MANY] = {{0}};
    char *big = calloc(1, BYTES + 1);
    client c;

    assert_non_null(big);
    memset(big, 'x', BYTES);
    client_ready(&c, scene_hosts(), "/held");
    zookeeper_fixture_signal(here.ensemble, 0, SIGSTOP);
    zk_get(c.zookeeper, "/x", scene_on_got, &answers[0]);
    long long start = process_now_ms();
    client_close(&c);
    assert_in_range(process_now_ms() - start, 0, 1500);
    assert_int_equal(answers[0].code, ZK_UNKNOWN);
    zookeeper_fixture_signal(here.ensemble, 0, SIGCONT);
    client_ready(&c, scene_hosts(), "/held");
    zookeeper_fixture_signal(here.ensemble, 0, SIGSTOP);
    for (size_t i = 0; i < MANY; i++) {
        zk_op one = client_op(ZK_CREATE, "/x", big, 0);
        answers[i] = (answer){.n = 1};
        zk_multi(c.zookeeper, &one, 1, scene_on_applied, &answers[i]);
    }
    start = process_now_ms();
    client_close(&c);
    assert_in_range(process_now_ms() - start, 0, 500);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(answers[i].code, ZK_UNKNOWN);
    zookeeper_fixture_signal(here.ensemble, 0, SIGCONT);
    free(big);
}

int main(void)
{
    here.n = 1;
    return zookeeper_fixture_can_start()
               ? TEST_RUN(.setup = scene_set_up, .teardown = scene_tear_down, .teardown_all = scene_end)
               : 77; /* skipped */
}
