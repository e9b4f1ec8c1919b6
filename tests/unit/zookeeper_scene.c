#include "zookeeper_scene.h"

#include "support/process.h"
#include "test.h"

/* ---- a client ------------------------------------------------------------------------ */

struct zookeeper_scene here;

/* Something happened. Without uv_stop, uv_run would wait for the next event after a timer's callback. */
static void wake(void)
{
    uv_stop(&here.loop);
}

static void on_late(uv_timer_t *timer)
{
    here.late = true;
    wake();
}

void scene_turn(unsigned ms)
{
    uv_timer_start(&here.limit, on_late, ms, 0);
    uv_run(&here.loop, UV_RUN_ONCE);
    uv_timer_stop(&here.limit);
}

bool scene_until(const bool *flag)
{
    here.late = false;
    uv_timer_start(&here.limit, on_late, SCENE_PATIENCE_MS, 0);
    while (!*flag && !here.late)
        uv_run(&here.loop, UV_RUN_ONCE);
    uv_timer_stop(&here.limit);
    return *flag;
}

static void on_state(void *arg, const char *reason)
{
    client *c = arg;

    c->ready = !reason;
    c->states++;
    wake();
    snprintf(c->reason, sizeof c->reason, "%s", reason ? reason : "");
}

static void on_session(void *arg)
{
    client *c = arg;

    c->sessions++;
    assert_true(zk_is_ready(c->zookeeper));
}

static void on_watch(void *arg, const char *path)
{
    client *c = arg;

    snprintf(c->watched, sizeof c->watched, "%s", path);
    c->n_watched++;
}

void client_open(client *c, const char *hosts, const char *root, const char *credentials)
{
    zk_options options = {
        .loop = &here.loop,
        .hosts = hosts,
        .root = root,
        .credentials = credentials,
        .session_timeout_ms = here.session_ms ? here.session_ms : SCENE_SESSION_MS,
        .events = {.state = on_state, .session = on_session, .watch = on_watch, .arg = c},
    };

    *c = (client){0};
    c->zookeeper = zk_open(&options);
    assert_int_equal(c->states, 0);
    here.open++;
}

void client_ready(client *c, const char *hosts, const char *root)
{
    client_open(c, hosts, root, NULL);
    if (!scene_until(&c->ready))
        fail_msg("not ready: %s", c->reason);
    assert_int_equal(c->sessions, 1);
}

static void on_closed(void *arg)
{
    ((client *)arg)->closed = true;
    here.open--;
    wake();
}

void client_close(client *c)
{
    zk_close(c->zookeeper, on_closed, c);
    assert_false(c->closed);
    assert_true(scene_until(&c->closed));
}

void client_await_reason(client *c, const char *text)
{
    long long end = process_now_ms() + SCENE_PATIENCE_MS;

    while (!strstr(c->reason, text) && process_now_ms() < end)
        scene_turn(100);
    if (!strstr(c->reason, text))
        fail_msg("'%s', not '%s'", c->reason, text);
}

/* ---- requests that are waited for ---------------------------------------------------- */

void scene_on_got(void *arg, zk_code code, const char *data, size_t len, int32_t version)
{
    answer *a = arg;

    wake();
    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .len = len, .version = version};
    if (code == ZK_OK)
        memcpy(a->data, data, len < sizeof a->data ? len : sizeof a->data - 1);
}

static void on_found(void *arg, zk_code code, int32_t version)
{
    answer *a = arg;

    wake();
    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .version = version};
}

static void on_listed(void *arg, zk_code code, const char *const *names, size_t n)
{
    answer *a = arg;

    wake();
    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .n = n};
    for (size_t i = 0; i < n; i++)
        snprintf(a->names + strlen(a->names), sizeof a->names - strlen(a->names), "%s ", names[i]);
}

void scene_on_applied(void *arg, zk_code code, size_t failed, const int32_t *versions)
{
    answer *a = arg;
    size_t n = a->n;

    wake();
    assert_false(a->over);
    *a = (answer){.over = true, .code = code, .failed = failed, .n = n};
    if (versions)
        memcpy(a->versions, versions, n * sizeof *versions);
}

answer client_get(client *c, const char *path)
{
    answer a = {0};

    zk_get(c->zookeeper, path, scene_on_got, &a);
    assert_false(a.over);
    assert_true(scene_until(&a.over));
    return a;
}

answer client_sync_get(client *c, const char *path)
{
    answer a = {0};

    zk_sync_get(c->zookeeper, path, scene_on_got, &a);
    assert_true(scene_until(&a.over));
    return a;
}

answer client_watch(client *c, const char *path)
{
    answer a = {0};

    zk_watch(c->zookeeper, path, on_found, &a);
    assert_true(scene_until(&a.over));
    return a;
}

answer client_children(client *c, const char *path, bool watch)
{
    answer a = {0};

    zk_children(c->zookeeper, path, watch, on_listed, &a);
    assert_true(scene_until(&a.over));
    return a;
}

answer client_multi(client *c, const zk_op *ops, size_t n)
{
    answer a = {.n = n};

    zk_multi(c->zookeeper, ops, n, scene_on_applied, &a);
    assert_false(a.over);
    assert_true(scene_until(&a.over));
    return a;
}

zk_op client_op(zk_kind kind, const char *path, const char *data, int32_t version)
{
    return (zk_op){.kind = kind, .path = path, .data = lks_rpc_slice_of(data), .version = version};
}

zk_code client_apply(client *c, zk_kind kind, const char *path, const char *data, int32_t version)
{
    zk_op one = client_op(kind, path, data, version);

    return client_multi(c, &one, 1).code;
}

/* ---- the ensembles ------------------------------------------------------------------- */

const char *scene_hosts(void)
{
    if (!here.ensemble)
        here.ensemble = zookeeper_fixture_start(here.n);
    assert_non_null(here.ensemble);
    assert_true(zookeeper_fixture_wait(here.ensemble));
    return zookeeper_fixture_hosts(here.ensemble);
}

int scene_set_up(void **state)
{
    assert_int_equal(uv_loop_init(&here.loop), 0);
    uv_timer_init(&here.loop, &here.limit);
    here.session_ms = 0;
    return 0;
}

int scene_tear_down(void **state)
{
    if (here.open > 0) { /* the case failed: its clients must not disturb the next one */
        here.open = 0;
        zookeeper_fixture_free(here.ensemble);
        here.ensemble = NULL;
        return 0;
    }
    uv_close((uv_handle_t *)&here.limit, NULL);
    uv_run(&here.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&here.loop);
}

int scene_end(void **state)
{
    zookeeper_fixture_free(here.ensemble);
    return 0;
}
