/* The client of ZooKeeper against ensembles of one and of three. */
#include <signal.h>
#include <uv.h>

#include "quorum/zookeeper.h"
#include "support/process.h"
#include "support/zookeeper_fixture.h"
#include "test.h"

enum { PATIENCE_MS = 30000, EVENTS_MAX = 64, SHORT_MS = 2000, LINES = 100 };

/* ---- a client ------------------------------------------------------------------------ */

typedef struct client {
    zookeeper *zookeeper;
    bool ready, closed;
    char reason[256];
    unsigned states, sessions;
    struct {
        char path[64];
        zk_change change;
    } watched[EVENTS_MAX];
    size_t n_watched;
} client;

static struct scene {
    zookeeper_fixture *one, *three; /* started when first needed */
    uv_loop_t loop;
    uv_timer_t limit;
    bool late;
} scene;

static void on_late(uv_timer_t *timer)
{
    scene.late = true;
}

/* Runs the loop until *flag, or for PATIENCE_MS. */
static bool run_until(const bool *flag)
{
    scene.late = false;
    uv_timer_start(&scene.limit, on_late, PATIENCE_MS, 0);
    while (!*flag && !scene.late)
        uv_run(&scene.loop, UV_RUN_ONCE);
    uv_timer_stop(&scene.limit);
    return *flag;
}

static void on_state(void *arg, bool ready, const char *reason)
{
    client *c = arg;

    assert_true(ready == !reason);
    c->ready = ready;
    c->states++;
    snprintf(c->reason, sizeof c->reason, "%s", reason ? reason : "");
}

static void on_session(void *arg)
{
    client *c = arg;

    c->sessions++;
    assert_true(zk_is_ready(c->zookeeper));
}

static void on_watch(void *arg, const char *path, zk_change change)
{
    client *c = arg;

    assert_true(c->n_watched < EVENTS_MAX);
    snprintf(c->watched[c->n_watched].path, sizeof c->watched[0].path, "%s", path);
    c->watched[c->n_watched++].change = change;
}

static void client_open(client *c, const char *hosts, const char *root, const char *credentials, bool create)
{
    zk_options options = {
        .loop = &scene.loop,
        .hosts = hosts,
        .root = root,
        .credentials = credentials,
        .session_timeout_ms = SHORT_MS,
        .create_root = create,
        .events = {.state = on_state, .session = on_session, .watch = on_watch, .arg = c},
    };
    lks_error error;

    *c = (client){0};
    assert_int_equal(zk_open(&options, &c->zookeeper, &error), LKS_OK);
    assert_int_equal(c->states, 0);
}

static void client_ready(client *c, const char *hosts, const char *root)
{
    client_open(c, hosts, root, NULL, true);
    if (!run_until(&c->ready))
        fail_msg("not ready: %s", c->reason);
    assert_int_equal(c->sessions, 1);
}

static void on_closed(void *arg)
{
    ((client *)arg)->closed = true;
}

static void client_close(client *c)
{
    zk_close(c->zookeeper, on_closed, c);
    assert_false(c->closed);
    assert_true(run_until(&c->closed));
}

/* Until its state's reason has this text. */
static void await_reason(client *c, const char *text)
{
    long long end = process_now_ms() + PATIENCE_MS;

    while (!strstr(c->reason, text) && process_now_ms() < end) {
        uv_timer_start(&scene.limit, on_late, 100, 0);
        uv_run(&scene.loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&scene.limit);
    if (!strstr(c->reason, text))
        fail_msg("'%s', not '%s'", c->reason, text);
}

/* ---- requests that are waited for ---------------------------------------------------- */

typedef struct answer {
    bool over;
    zk_code code;
    char data[64];
    size_t len, n, failed;
    int32_t version, versions[8];
    char names[512];
} answer;

static void on_got(void *arg, zk_code code, const char *data, size_t len, int32_t version)
{
    answer *a = arg;

    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .len = len, .version = version};
    if (code == ZK_OK)
        memcpy(a->data, data, len < sizeof a->data ? len : sizeof a->data - 1);
}

static void on_found(void *arg, zk_code code, int32_t version)
{
    answer *a = arg;

    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .version = version};
}

static void on_listed(void *arg, zk_code code, const char *const *names, size_t n)
{
    answer *a = arg;

    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .n = n};
    for (size_t i = 0; i < n; i++)
        snprintf(a->names + strlen(a->names), sizeof a->names - strlen(a->names), "%s ", names[i]);
}

static void on_applied(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    answer *a = arg;
    size_t n = a->n;

    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .failed = failed, .n = n};
    if (versions)
        memcpy(a->versions, versions, n * sizeof *versions);
}

static answer get(client *c, const char *path)
{
    answer a = {0};

    zk_get(c->zookeeper, path, on_got, &a);
    assert_false(a.over);
    assert_true(run_until(&a.over));
    return a;
}

static answer sync_get(client *c, const char *path)
{
    answer a = {0};

    zk_sync_get(c->zookeeper, path, on_got, &a);
    assert_true(run_until(&a.over));
    return a;
}

static answer exists(client *c, const char *path, bool watch)
{
    answer a = {0};

    zk_exists(c->zookeeper, path, watch, on_found, &a);
    assert_true(run_until(&a.over));
    return a;
}

static answer children(client *c, const char *path, bool watch)
{
    answer a = {0};

    zk_children(c->zookeeper, path, watch, on_listed, &a);
    assert_true(run_until(&a.over));
    return a;
}

static answer multi(client *c, const zk_op *ops, size_t n)
{
    answer a = {.n = n};

    zk_multi(c->zookeeper, ops, n, on_applied, &a);
    assert_false(a.over);
    assert_true(run_until(&a.over));
    return a;
}

static zk_op op(zk_kind kind, const char *path, const char *data, int32_t version)
{
    return (zk_op){.kind = kind, .path = path, .data = lks_rpc_slice_of(data), .version = version};
}

static zk_code apply(client *c, zk_kind kind, const char *path, const char *data, int32_t version)
{
    zk_op one = op(kind, path, data, version);

    return multi(c, &one, 1).code;
}

/* ---- the ensembles ------------------------------------------------------------------- */

static const char *hosts_of_one(void)
{
    if (!scene.one)
        scene.one = zookeeper_fixture_start(1);
    assert_non_null(scene.one);
    return zookeeper_fixture_hosts(scene.one);
}

static const char *hosts_of_three(void)
{
    if (!scene.three)
        scene.three = zookeeper_fixture_start(3);
    assert_non_null(scene.three);
    assert_true(zookeeper_fixture_wait(scene.three));
    return zookeeper_fixture_hosts(scene.three);
}

static int set_up(void **state)
{
    assert_int_equal(uv_loop_init(&scene.loop), 0);
    uv_timer_init(&scene.loop, &scene.limit);
    return 0;
}

static int tear_down(void **state)
{
    uv_close((uv_handle_t *)&scene.limit, NULL);
    uv_run(&scene.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&scene.loop);
}

static int end_ensembles(void **state)
{
    zookeeper_fixture_free(scene.one);
    zookeeper_fixture_free(scene.three);
    return 0;
}

/* ---- one member ---------------------------------------------------------------------- */

TEST(nodes_are_created_read_changed_and_deleted)
{
    client c;

    client_ready(&c, hosts_of_one(), "/basic/deep");
    assert_int_equal(apply(&c, ZK_CREATE, "/a", "first", 0), ZK_OK);
    answer a = get(&c, "/a");
    assert_int_equal(a.code, ZK_OK);
    assert_string_equal(a.data, "first");
    assert_int_equal(a.version, 0);
    assert_int_equal(apply(&c, ZK_CREATE, "/a", "again", 0), ZK_NODE_EXISTS);
    assert_int_equal(apply(&c, ZK_SET, "/a", "second", 5), ZK_BAD_VERSION);
    assert_int_equal(apply(&c, ZK_SET, "/a", "second", 0), ZK_OK);
    a = sync_get(&c, "/a");
    assert_string_equal(a.data, "second");
    assert_int_equal(a.version, 1);
    assert_int_equal(apply(&c, ZK_CREATE, "/a/b", "", 0), ZK_OK);
    a = get(&c, "/a/b");
    assert_int_equal(a.code, ZK_OK);
    assert_int_equal(a.len, 0);
    assert_int_equal(apply(&c, ZK_DELETE, "/a", "", -1), ZK_NOT_EMPTY);
    assert_int_equal(apply(&c, ZK_DELETE, "/a/b", "", 0), ZK_OK);
    assert_int_equal(apply(&c, ZK_DELETE, "/a", "", -1), ZK_OK);
    assert_int_equal(get(&c, "/a").code, ZK_NO_NODE);
    assert_int_equal(sync_get(&c, "/a").code, ZK_NO_NODE);
    assert_int_equal(exists(&c, "/a", false).code, ZK_NO_NODE);
    assert_int_equal(exists(&c, "/", false).code, ZK_OK);
    client_close(&c);
}

TEST(a_multi_is_applied_whole_or_not_at_all)
{
    client c;

    client_ready(&c, hosts_of_one(), "/multi");
    const zk_op good[] = {op(ZK_CREATE, "/x", "1", 0), op(ZK_SET, "/x", "2", 0), op(ZK_CHECK, "/x", "", 1),
                          op(ZK_CREATE, "/y", "", 0)};
    answer a = multi(&c, good, 4);
    assert_int_equal(a.code, ZK_OK);
    assert_int_equal(a.versions[0], 0);
    assert_int_equal(a.versions[1], 1);
    assert_int_equal(a.versions[2], -1);
    const zk_op bad[] = {op(ZK_SET, "/x", "3", 1), op(ZK_DELETE, "/y", "", 0), op(ZK_CHECK, "/x", "", 7),
                         op(ZK_CREATE, "/z", "", 0)};
    a = multi(&c, bad, 4);
    assert_int_equal(a.code, ZK_BAD_VERSION);
    assert_int_equal(a.failed, 2);
    assert_string_equal(get(&c, "/x").data, "2");
    assert_int_equal(get(&c, "/y").code, ZK_OK);
    assert_int_equal(get(&c, "/z").code, ZK_NO_NODE);
    const zk_op checks[] = {op(ZK_CHECK, "/x", "", 1), op(ZK_CHECK, "/y", "", 0)};
    assert_int_equal(multi(&c, checks, 2).code, ZK_OK);
    const zk_op failing[] = {op(ZK_CHECK, "/x", "", 1), op(ZK_CHECK, "/none", "", 0)};
    a = multi(&c, failing, 2);
    assert_int_equal(a.code, ZK_NO_NODE);
    assert_int_equal(a.failed, 1);
    client_close(&c);
}

TEST(what_cannot_be_asked_is_refused)
{
    static const char *const paths[] = {"", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a\n"};
    char *big = calloc(1, ZK_REQUEST_BYTES_MAX + 1);
    client c;

    assert_non_null(big);
    memset(big, 'x', ZK_REQUEST_BYTES_MAX);
    client_ready(&c, hosts_of_one(), "/refused");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(get(&c, paths[i]).code, ZK_REFUSED);
        assert_int_equal(apply(&c, ZK_CREATE, paths[i], "", 0), ZK_REFUSED);
    }
    assert_int_equal(multi(&c, NULL, 0).code, ZK_REFUSED);
    assert_int_equal(apply(&c, ZK_CREATE, "/big", big, 0), ZK_REFUSED);
    big[ZK_REQUEST_BYTES_MAX - 200] = '\0';
    assert_int_equal(apply(&c, ZK_CREATE, "/big", big, 0), ZK_OK);
    assert_int_equal(get(&c, "/big").len, strlen(big));
    assert_int_equal(apply(&c, ZK_CREATE_EPHEMERAL, "/e", "", 0), ZK_OK);
    assert_int_equal(apply(&c, ZK_CREATE, "/e/child", "", 0), ZK_REFUSED);
    assert_int_equal(c.states, 1);
    free(big);
    client_close(&c);
}

TEST(a_watch_fires_once)
{
    client c;

    client_ready(&c, hosts_of_one(), "/watch");
    assert_int_equal(exists(&c, "/a", true).code, ZK_NO_NODE);
    assert_int_equal(apply(&c, ZK_CREATE, "/a", "", 0), ZK_OK);
    assert_int_equal(apply(&c, ZK_SET, "/a", "x", -1), ZK_OK);
    assert_int_equal(get(&c, "/a").code, ZK_OK);
    assert_int_equal(c.n_watched, 1);
    assert_string_equal(c.watched[0].path, "/a");
    assert_int_equal(c.watched[0].change, ZK_CREATED);
    assert_int_equal(exists(&c, "/a", true).version, 1);
    assert_int_equal(apply(&c, ZK_SET, "/a", "y", -1), ZK_OK);
    assert_int_equal(apply(&c, ZK_SET, "/a", "z", -1), ZK_OK);
    assert_int_equal(c.n_watched, 2);
    assert_int_equal(c.watched[1].change, ZK_CHANGED);
    assert_int_equal(exists(&c, "/a", true).code, ZK_OK);
    assert_int_equal(apply(&c, ZK_DELETE, "/a", "", -1), ZK_OK);
    assert_int_equal(get(&c, "/a").code, ZK_NO_NODE);
    assert_int_equal(c.n_watched, 3);
    assert_int_equal(c.watched[2].change, ZK_DELETED);
    client_close(&c);
}

TEST(the_end_of_a_client_removes_its_ephemeral_nodes)
{
    client c, other;

    client_ready(&c, hosts_of_one(), "/members");
    client_ready(&other, hosts_of_one(), "/members");
    assert_int_equal(apply(&other, ZK_CREATE_EPHEMERAL, "/m1", "", 0), ZK_OK);
    assert_int_equal(apply(&c, ZK_CREATE, "/m2", "", 0), ZK_OK);
    answer a = children(&c, "/", true);
    assert_int_equal(a.n, 2);
    assert_non_null(strstr(a.names, "m1 "));
    long long start = process_now_ms();
    client_close(&other);
    assert_true(process_now_ms() - start < 1000); /* the session's end was answered */
    assert_int_equal(sync_get(&c, "/m1").code, ZK_NO_NODE);
    assert_int_equal(c.n_watched, 1);
    assert_string_equal(c.watched[0].path, "/");
    assert_int_equal(c.watched[0].change, ZK_CHILDREN);
    assert_string_equal(children(&c, "/", false).names, "m2 ");
    client_close(&c);
}

TEST(a_missing_root_is_named_and_found_later)
{
    client c, maker;

    client_open(&c, hosts_of_one(), "/missing/root", NULL, false);
    await_reason(&c, "the lock store has no path /missing/root");
    assert_false(c.ready);
    answer a = {0};
    zk_get(c.zookeeper, "/x", on_got, &a);
    assert_false(a.over);
    assert_true(run_until(&a.over));
    assert_int_equal(a.code, ZK_NOT_SENT);
    client_ready(&maker, hosts_of_one(), "/missing/root");
    assert_true(run_until(&c.ready));
    client_close(&maker);
    client_close(&c);
}

TEST(nodes_of_a_user_are_his)
{
    client owner, other;

    client_open(&owner, hosts_of_one(), "/owned", "ann:secret", true);
    assert_true(run_until(&owner.ready));
    assert_int_equal(apply(&owner, ZK_CREATE, "/a", "", 0), ZK_OK);
    client_open(&other, hosts_of_one(), "/owned", "bob:secret", false);
    await_reason(&other, "the lock store refused the credentials for the path /owned");
    client_close(&other);
    client_open(&other, hosts_of_one(), "/owned", NULL, false);
    await_reason(&other, "the lock store wants credentials for the path /owned");
    client_close(&other);
    client_ready(&other, hosts_of_one(), "/");
    assert_int_equal(get(&other, "/owned/a").code, ZK_NO_AUTH);
    assert_int_equal(apply(&other, ZK_SET, "/owned/a", "", -1), ZK_NO_AUTH);
    assert_int_equal(children(&other, "/owned", false).code, ZK_NO_AUTH);
    client_close(&other);
    client_close(&owner);
}

TEST(malformed_options_are_refused)
{
    static const char *const hosts[] = {"",       ",",        "h1,,h2",       "h1:",   "h1:0",
                                        "h1:x",   "h1:70000", "[::1",         "::1",   "h1/root",
                                        "h1, h2", "h1:2181 ", "user@h1:2181", ":2181", "h1,"};
    zk_options options = {.loop = &scene.loop, .root = "/", .events = {.state = on_state}};
    zookeeper *z;
    lks_error error;

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        options.hosts = hosts[i];
        if (zk_open(&options, &z, &error) != LKS_INVALID_ARGUMENT)
            fail_msg("'%s' is taken", hosts[i]);
    }
    options.hosts = "h1";
    options.root = "/a/";
    assert_int_equal(zk_open(&options, &z, &error), LKS_INVALID_ARGUMENT);
    options.root = "/a";
    options.credentials = "no colon";
    assert_int_equal(zk_open(&options, &z, &error), LKS_INVALID_ARGUMENT);
}

TEST(names_and_ipv6_are_understood)
{
    char hosts[128];
    client c;

    snprintf(hosts, sizeof hosts, "[::1]:1,localhost:%s,nowhere.invalid", strchr(hosts_of_one(), ':') + 1);
    client_ready(&c, hosts, "/names");
    client_close(&c);
    client_open(&c, "nowhere.invalid", "/names", NULL, false);
    await_reason(&c, "the lock store's hosts cannot be found");
    client_close(&c);
}

TEST(a_client_can_be_closed_at_any_time)
{
    client c;

    client_open(&c, hosts_of_one(), "/closed", NULL, true);
    client_close(&c);
    for (unsigned turns = 1; turns < 12; turns++) {
        answer a = {.n = 1}, b = {0};
        client_open(&c, hosts_of_one(), "/closed", NULL, true);
        for (unsigned i = 0; i < turns; i++)
            uv_run(&scene.loop, UV_RUN_ONCE);
        zk_op one = op(ZK_SET, "/", "", -1);
        zk_multi(c.zookeeper, &one, 1, on_applied, &a);
        zk_get(c.zookeeper, "/", on_got, &b);
        client_close(&c);
        assert_true(a.over && b.over);
        assert_true(a.code == ZK_NOT_SENT || a.code == ZK_UNKNOWN);
    }
}

TEST(a_member_that_dies_is_told_and_comes_back)
{
    client c;

    client_ready(&c, hosts_of_one(), "/dies");
    assert_int_equal(apply(&c, ZK_CREATE, "/kept", "x", 0), ZK_OK);
    zookeeper_fixture_signal(scene.one, 0, SIGKILL);
    await_reason(&c, "the lock store is unreachable: connection refused");
    assert_int_equal(get(&c, "/kept").code, ZK_NOT_SENT);
    assert_true(zookeeper_fixture_start_again(scene.one, 0));
    assert_true(run_until(&c.ready));
    assert_string_equal(get(&c, "/kept").data, "x");
    client_close(&c);
    assert_true(zookeeper_fixture_wait(scene.one));
}

/* ---- three members ------------------------------------------------------------------- */

static size_t member_of(const client *c)
{
    for (size_t i = 0; i < ZOOKEEPER_FIXTURE_MAX; i++) {
        char *clients = zookeeper_fixture_ask(scene.three, i, "cons");
        bool here = clients && strstr(clients, "sid=0x");
        free(clients);
        if (here)
            return i;
    }
    fail_msg("%s", c->reason);
    return 0;
}

TEST(another_member_takes_the_place_of_a_frozen_one)
{
    client c;

    client_ready(&c, hosts_of_three(), "/frozen");
    assert_int_equal(apply(&c, ZK_CREATE_EPHEMERAL, "/mine", "", 0), ZK_OK);
    size_t at = member_of(&c);
    zookeeper_fixture_signal(scene.three, at, SIGSTOP);
    long long start = process_now_ms();
    answer a = {0};
    zk_get(c.zookeeper, "/mine", on_got, &a);
    assert_true(run_until(&a.over));
    assert_int_equal(a.code, ZK_UNKNOWN);
    assert_in_range(process_now_ms() - start, SHORT_MS / 3, SHORT_MS);
    assert_true(run_until(&c.ready));
    assert_int_equal(apply(&c, ZK_CREATE, "/after", "", 0), ZK_OK);
    zookeeper_fixture_signal(scene.three, at, SIGCONT);
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
    const zk_op ops[] = {op(ZK_CREATE, line->a, "", 0), op(ZK_CREATE, line->b, "", 0)};
    zk_multi(s->client->zookeeper, ops, 2, on_line, line);
}

TEST(a_stream_of_multis_survives_the_death_of_the_leader)
{
    client c;
    stream s = {.client = &c};
    unsigned counts[ZK_UNKNOWN + 1] = {0};

    client_ready(&c, hosts_of_three(), "/stream");
    for (unsigned i = 0; i < 10; i++)
        make_next(&s);
    while (s.over < LINES / 3)
        uv_run(&scene.loop, UV_RUN_ONCE);
    int leader = zookeeper_fixture_leader(scene.three);
    assert_true(leader >= 0);
    zookeeper_fixture_signal(scene.three, (size_t)leader, SIGKILL);
    long long end = process_now_ms() + PATIENCE_MS;
    while (!s.all_over && process_now_ms() < end) {
        if (s.made < LINES && s.made == s.over && (c.ready || s.made % 7 == 0))
            make_next(&s);
        uv_timer_start(&scene.limit, on_late, 10, 0);
        uv_run(&scene.loop, UV_RUN_ONCE);
    }
    assert_true(s.all_over);
    assert_true(run_until(&c.ready));
    for (unsigned i = 0; i < LINES; i++) {
        counts[s.lines[i].code]++;
        zk_code a = sync_get(&c, s.lines[i].a).code, b = sync_get(&c, s.lines[i].b).code;
        assert_int_equal(a, b);
        if (s.lines[i].code == ZK_OK)
            assert_int_equal(a, ZK_OK);
        else if (s.lines[i].code == ZK_NOT_SENT)
            assert_int_equal(a, ZK_NO_NODE);
    }
    printf("applied %u, not sent %u, unknown %u\n", counts[ZK_OK], counts[ZK_NOT_SENT], counts[ZK_UNKNOWN]);
    assert_true(zookeeper_fixture_start_again(scene.three, (size_t)leader));
    client_close(&c);
}

TEST(without_a_quorum_the_state_says_so)
{
    client c;

    client_ready(&c, hosts_of_three(), "/quorum");
    zookeeper_fixture_signal(scene.three, 0, SIGKILL);
    zookeeper_fixture_signal(scene.three, 1, SIGKILL);
    await_reason(&c, "the lock store has no quorum");
    zookeeper_fixture_signal(scene.three, 2, SIGKILL);
    await_reason(&c, "the lock store is unreachable: connection refused");
    for (size_t i = 0; i < ZOOKEEPER_FIXTURE_MAX; i++)
        assert_true(zookeeper_fixture_start_again(scene.three, i));
    assert_true(run_until(&c.ready));
    assert_int_equal(exists(&c, "/", false).code, ZK_OK);
    client_close(&c);
}

TEST(a_session_that_expired_is_followed_by_another)
{
    client c, other;

    client_ready(&other, hosts_of_three(), "/expired");
    client_close(&other);
    size_t at = 0;
    char hosts[32];
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", zookeeper_fixture_port(scene.three, at));
    client_ready(&c, hosts, "/expired");
    assert_int_equal(apply(&c, ZK_CREATE_EPHEMERAL, "/mine", "", 0), ZK_OK);
    client_open(&other, zookeeper_fixture_hosts(scene.three), "/expired", NULL, false);
    assert_true(run_until(&other.ready));
    zookeeper_fixture_signal(scene.three, at, SIGSTOP);
    long long end = process_now_ms() + PATIENCE_MS;
    while (process_now_ms() < end && !(other.ready && sync_get(&other, "/mine").code == ZK_NO_NODE)) {
        uv_timer_start(&scene.limit, on_late, 50, 0);
        uv_run(&scene.loop, UV_RUN_ONCE);
    }
    assert_false(c.ready);
    zookeeper_fixture_signal(scene.three, at, SIGCONT);
    assert_true(run_until(&c.ready));
    assert_int_equal(c.sessions, 2);
    client_close(&c);
    client_close(&other);
}

int main(void)
{
    const test_fixtures fixtures = {.setup = set_up, .teardown = tear_down, .teardown_all = end_ensembles};

    return zookeeper_fixture_can_start() ? test_run(&fixtures) : 77;
}
