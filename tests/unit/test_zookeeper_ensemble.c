/* The client of ZooKeeper against three members, of which some die, freeze or have no quorum. */
#include <signal.h>

#include "support/process.h"
#include "test.h"
#include "zookeeper_scene.h"

enum { LINES = 100 };

static size_t member_of(const client *c)
{
    for (size_t i = 0; i < ZOOKEEPER_FIXTURE_MAX; i++) {
        char *clients = zookeeper_fixture_ask(here.ensemble, i, "cons");
        bool connected = clients && strstr(clients, "sid=0x");
        free(clients);
        if (connected)
            return i;
    }
    fail_msg("%s", c->reason);
    return 0;
}

TEST(another_member_takes_the_place_of_a_frozen_one)
{
    client c;

    here.session_ms = SCENE_SHORT_MS;
    client_ready(&c, scene_hosts(), "/frozen");
    assert_int_equal(client_apply(&c, ZK_CREATE_EPHEMERAL, "/mine", "", 0), ZK_OK);
    size_t at = member_of(&c);
    zookeeper_fixture_signal(here.ensemble, at, SIGSTOP);
    long long start = process_now_ms();
    answer a = {0};
    zk_get(c.zookeeper, "/mine", scene_on_got, &a);
    assert_true(scene_until(&a.over));
    assert_int_equal(a.code, ZK_UNKNOWN);
    assert_in_range(process_now_ms() - start, SCENE_SHORT_MS / 3, 2 * SCENE_SHORT_MS);
    assert_true(scene_until(&c.ready));
    assert_int_equal(client_apply(&c, ZK_CREATE, "/after", "", 0), ZK_OK);
    zookeeper_fixture_signal(here.ensemble, at, SIGCONT);
    client_close(&c);
}

/* A stream of multis, each of which appends one to two nodes. */
typedef struct stream {
    client *client;
    struct line {
        struct stream *stream;
        unsigned number;
        bool over;
        zk_code code;
        char a[32], b[32];
    } lines[LINES];
    unsigned made, over;
    bool all_over;
} stream;

static void make_next(stream *s);

static void on_line(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    struct line *line = arg;

    assert_false(line->over);
    assert_true(code == ZK_OK || code == ZK_NOT_SENT || code == ZK_UNKNOWN);
    line->over = true;
    line->code = code;
    line->stream->over++;
    line->stream->all_over = line->stream->over == LINES;
    if (line->stream->made < LINES && zk_is_ready(line->stream->client->zookeeper))
        make_next(line->stream);
}

static void make_next(stream *s)
{
    struct line *line = &s->lines[s->made];

    *line = (struct line){.stream = s, .number = s->made++};
    snprintf(line->a, sizeof line->a, "/a%u", line->number);
    snprintf(line->b, sizeof line->b, "/b%u", line->number);
    const zk_op ops[] = {client_op(ZK_CREATE, line->a, "", 0), client_op(ZK_CREATE, line->b, "", 0)};
    zk_multi(s->client->zookeeper, ops, 2, on_line, line);
}

TEST(a_stream_of_multis_survives_the_death_of_the_leader)
{
    client c;
    stream s = {.client = &c};
    unsigned counts[ZK_UNKNOWN + 1] = {0};

    client_ready(&c, scene_hosts(), "/stream");
    for (unsigned i = 0; i < 10; i++)
        make_next(&s);
    while (s.over < LINES / 3)
        scene_turn(100);
    int leader = zookeeper_fixture_leader(here.ensemble);
    assert_true(leader >= 0);
    zookeeper_fixture_signal(here.ensemble, (size_t)leader, SIGKILL);
    long long end = process_now_ms() + SCENE_PATIENCE_MS;
    while (!s.all_over && process_now_ms() < end) {
        if (s.made < LINES && s.made == s.over && (c.ready || s.made % 7 == 0))
            make_next(&s);
        scene_turn(10);
    }
    assert_true(s.all_over);
    assert_true(scene_until(&c.ready));
    for (unsigned i = 0; i < LINES; i++) {
        counts[s.lines[i].code]++;
        zk_code a = client_sync_get(&c, s.lines[i].a).code, b = client_sync_get(&c, s.lines[i].b).code;
        assert_int_equal(a, b);
        if (s.lines[i].code == ZK_OK)
            assert_int_equal(a, ZK_OK);
        else if (s.lines[i].code == ZK_NOT_SENT)
            assert_int_equal(a, ZK_NO_NODE);
    }
    printf("applied %u, not sent %u, unknown %u\n", counts[ZK_OK], counts[ZK_NOT_SENT], counts[ZK_UNKNOWN]);
    assert_true(zookeeper_fixture_start_again(here.ensemble, (size_t)leader));
    client_close(&c);
}

TEST(loss_of_quorum_is_the_reported_state)
{
    client c;

    client_ready(&c, scene_hosts(), "/quorum");
    zookeeper_fixture_signal(here.ensemble, 0, SIGKILL);
    zookeeper_fixture_signal(here.ensemble, 1, SIGKILL);
    client_await_reason(&c, "the lock store has no quorum");
    zookeeper_fixture_signal(here.ensemble, 2, SIGKILL);
    client_await_reason(&c, "the lock store is unreachable: connection refused");
    for (size_t i = 0; i < ZOOKEEPER_FIXTURE_MAX; i++)
        assert_true(zookeeper_fixture_start_again(here.ensemble, i));
    assert_true(scene_until(&c.ready));
    assert_int_equal(client_get(&c, "/x").code, ZK_NO_NODE);
    client_close(&c);
}

TEST(a_session_that_expired_is_followed_by_another)
{
    client c, other;

    here.session_ms = SCENE_SHORT_MS;
    size_t at = 0;
    char hosts[32];
    scene_hosts(); /* starts the ensemble */
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", zookeeper_fixture_port(here.ensemble, at));
    client_ready(&c, hosts, "/expired");
    assert_int_equal(client_apply(&c, ZK_CREATE_EPHEMERAL, "/mine", "", 0), ZK_OK);
    client_ready(&other, zookeeper_fixture_hosts(here.ensemble), "/expired");
    zookeeper_fixture_signal(here.ensemble, at, SIGSTOP);
    long long end = process_now_ms() + SCENE_PATIENCE_MS;
    while (process_now_ms() < end && !(other.ready && client_sync_get(&other, "/mine").code == ZK_NO_NODE))
        scene_turn(50);
    assert_false(c.ready);
    zookeeper_fixture_signal(here.ensemble, at, SIGCONT);
    assert_true(scene_until(&c.ready));
    assert_int_equal(c.sessions, 2);
    client_close(&c);
    client_close(&other);
}

TEST(a_watch_survives_the_loss_of_its_member)
{
    client c, other;

    client_ready(&c, scene_hosts(), "/lost");
    assert_int_equal(client_watch(&c, "/early").code, ZK_NO_NODE);
    assert_int_equal(client_watch(&c, "/later").code, ZK_NO_NODE);
    assert_int_equal(client_apply(&c, ZK_CREATE_EPHEMERAL, "/mine", "", 0), ZK_OK);
    size_t at = member_of(&c);
    zookeeper_fixture_signal(here.ensemble, at, SIGKILL);
    client_ready(&other, zookeeper_fixture_hosts(here.ensemble), "/lost");
    assert_int_equal(client_apply(&other, ZK_CREATE, "/early", "", 0), ZK_OK);
    long long end = process_now_ms() + SCENE_PATIENCE_MS;
    while ((!c.ready || c.states < 3) && process_now_ms() < end) /* ready, lost, ready */
        scene_turn(100);
    assert_true(c.ready && c.states >= 3);
    assert_int_equal(client_apply(&other, ZK_CREATE, "/later", "", 0), ZK_OK);
    assert_int_equal(client_sync_get(&c, "/later").code, ZK_OK);
    if (c.sessions == 1) { /* the election was not too long for it */
        assert_int_equal(c.n_watched, 2);
        assert_int_equal(client_get(&c, "/mine").code, ZK_OK);
    }
    assert_true(zookeeper_fixture_start_again(here.ensemble, at));
    client_close(&other);
    client_close(&c);
}

int main(void)
{
    here.n = 3;
    return zookeeper_fixture_can_start()
               ? TEST_RUN(.setup = scene_set_up, .teardown = scene_tear_down, .teardown_all = scene_end)
               : 77; /* skipped */
}
