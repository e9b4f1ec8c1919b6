#include "fake_ensemble.h"

#include "base/container.h"
#include "memory.h"
#include "test.h"

enum { NODES_MAX = 1024, CLIENTS_MAX = 4, WAITING_MAX = 1024, WATCHES_MAX = 128, TEXT_BYTES = 16384 };

typedef enum kind { GET, SYNC, WATCH, CHILDREN, MULTI } kind;

typedef struct request {
    kind kind;
    const char *path;
    bool watch, unsent;
    zk_op *ops;
    size_t n;
    zk_got *got;
    zk_found *found;
    zk_listed *listed;
    zk_applied *applied;
    void *arg;
} request;

typedef struct watching {
    const char *path; /* NULL: it has fired */
    bool children;
} watching;

struct zookeeper {
    zk_events on;
    bool ready;
    request waiting[WAITING_MAX];
    size_t n;
    watching watches[WATCHES_MAX];
    size_t n_watches;
    uv_idle_t ending;
    void (*closed)(void *arg);
    void *closed_arg;
};

static struct {
    lks_rpc_arena *arena; /* all paths and data, until the end */
    fake_node nodes[NODES_MAX];
    size_t n;
    zookeeper *clients[CLIENTS_MAX];
    size_t n_clients;
} fake;

/* ---- nodes ----------------------------------------------------------------------------- */

void fake_begin(void)
{
    fake.arena = memory_arena();
    fake.n = fake.n_clients = 0;
}

void fake_end(void)
{
    lks_rpc_arena_free(fake.arena);
}

static fake_node *find(const char *path)
{
    for (size_t i = 0; i < fake.n; i++)
        if (strcmp(fake.nodes[i].path, path) == 0)
            return &fake.nodes[i];
    return NULL;
}

const fake_node *fake_find(const char *path)
{
    return find(path);
}

static const char *copy_of(const char *text)
{
    return memory_copy_in(fake.arena, text, strlen(text));
}

static lks_rpc_slice copied(lks_rpc_slice data)
{
    return (lks_rpc_slice){memory_copy_in(fake.arena, data.data ? data.data : "", data.len), data.len};
}

static const char *parent_of(const char *path)
{
    const size_t len = (size_t)(strrchr(path, '/') - path);

    return memory_copy_in(fake.arena, path, len);
}

static zk_code create(const zk_op *op, const zookeeper *owner)
{
    const char *parent = parent_of(op->path);
    const lks_rpc_slice data = copied(op->data);

    if (find(op->path))
        return ZK_NODE_EXISTS;
    if (parent[0] != '\0' && !find(parent))
        return ZK_NO_NODE;
    assert_true(fake.n < NODES_MAX);
    fake.nodes[fake.n++] =
        (fake_node){copy_of(op->path), data.data, data.len, 0, op->kind == ZK_CREATE_EPHEMERAL ? owner : NULL};
    return ZK_OK;
}

static zk_code apply_op(const zk_op *op, const zookeeper *owner, int32_t *version)
{
    fake_node *node = find(op->path);

    *version = 0;
    if (op->kind == ZK_CREATE || op->kind == ZK_CREATE_EPHEMERAL)
        return create(op, owner);
    if (!node)
        return ZK_NO_NODE;
    if (op->version >= 0 && op->version != node->version)
        return ZK_BAD_VERSION;
    if (op->kind == ZK_DELETE) {
        *node = fake.nodes[--fake.n];
    } else if (op->kind == ZK_SET) {
        const lks_rpc_slice data = copied(op->data);
        node->data = data.data;
        node->len = data.len;
        *version = ++node->version;
    }
    return ZK_OK;
}

static void fire(const char *path, bool children)
{
    for (size_t c = 0; c < fake.n_clients; c++) {
        zookeeper *z = fake.clients[c];
        for (size_t i = 0; z && z->ready && i < z->n_watches; i++) {
            watching *w = &z->watches[i];
            if (!w->path || w->children != children || strcmp(w->path, path) != 0)
                continue;
            w->path = NULL;
            z->on.watch(z->on.arg, path);
        }
    }
}

static void fire_of(const zk_op *op)
{
    if (op->kind == ZK_CHECK)
        return;
    fire(op->path, false);
    if (op->kind != ZK_SET)
        fire(parent_of(op->path), true);
}

/* All or none. */
static zk_code apply(const zk_op *ops, size_t n, const zookeeper *owner, size_t *failed, int32_t *versions)
{
    static fake_node before[NODES_MAX];
    const size_t n_before = fake.n;

    memcpy(before, fake.nodes, sizeof before);
    for (size_t i = 0; i < n; i++) {
        const zk_code code = apply_op(&ops[i], owner, &versions[i]);
        if (code == ZK_OK)
            continue;
        memcpy(fake.nodes, before, sizeof before);
        fake.n = n_before;
        *failed = i;
        return code;
    }
    for (size_t i = 0; i < n; i++)
        fire_of(&ops[i]);
    return ZK_OK;
}

void fake_write(const char *path, lks_rpc_slice data)
{
    const zk_op op = {.kind = find(path) ? ZK_SET : ZK_CREATE, .path = path, .data = data, .version = -1};
    size_t failed;
    int32_t version;

    assert_int_equal(apply(&op, 1, NULL, &failed, &version), ZK_OK);
}

/* ---- answers --------------------------------------------------------------------------- */

size_t fake_waiting(const zookeeper *z)
{
    return z->n;
}

static const char *short_path(const char *path)
{
    static const size_t before = sizeof "/groups/00/" - 1;

    return strncmp(path, "/groups/", strlen("/groups/")) == 0 && strlen(path) > before ? path + before : path;
}

const char *fake_next(const zookeeper *z)
{
    static const char *const reads[] = {"get", "sync", "watch", "list"};
    static const char *const kinds[] = {"create", "ephemeral", "set", "delete", "check"};
    static char text[TEXT_BYTES];
    size_t at = 0;

    text[0] = '\0';
    if (z->n == 0)
        return text;
    const request *r = &z->waiting[0];
    if (r->kind != MULTI)
        snprintf(text, sizeof text, "%s %s", r->watch ? "watch" : reads[r->kind], short_path(r->path));
    for (size_t i = 0; i < r->n && at < sizeof text; i++) {
        const zk_op *op = &r->ops[i];
        const char *comma = i == 0 ? "" : ", ", *word = kinds[op->kind], *path = short_path(op->path);
        if (op->kind == ZK_CREATE || op->kind == ZK_CREATE_EPHEMERAL || op->version < 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", comma, word, path);
        else
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s %d", comma, word, path, (int)op->version);
    }
    return text;
}

lks_rpc_slice fake_data(const zookeeper *z, size_t op)
{
    assert_true(z->n > 0 && op < z->waiting[0].n);
    return z->waiting[0].ops[op].data;
}

static request take(zookeeper *z)
{
    assert_true(z->n > 0);
    const request r = z->waiting[0];

    memmove(z->waiting, z->waiting + 1, --z->n * sizeof r);
    return r;
}

static void end(const request *r, zk_code code, size_t failed, const int32_t *versions)
{
    const fake_node *node = r->kind == MULTI || code != ZK_OK ? NULL : find(r->path);

    if (r->kind == GET || r->kind == SYNC)
        r->got(r->arg, code, node ? node->data : NULL, node ? node->len : 0, node ? node->version : -1);
    else if (r->kind == WATCH)
        r->found(r->arg, code, node ? node->version : -1);
    else if (r->kind == CHILDREN)
        r->listed(r->arg, code, NULL, 0);
    else
        r->applied(r->arg, code, failed, versions);
}

static void list_children(const request *r)
{
    const char *names[NODES_MAX];
    const size_t len = strlen(r->path);
    size_t n = 0;

    for (size_t i = 0; i < fake.n; i++)
        if (strcmp(parent_of(fake.nodes[i].path), r->path) == 0)
            names[n++] = fake.nodes[i].path + len + 1;
    r->listed(r->arg, ZK_OK, names, n);
}

void fake_answer(zookeeper *z)
{
    const request r = take(z);
    int32_t *versions = memory_in(fake.arena, (r.n + 1) * sizeof *versions);
    size_t failed = 0;

    if (r.unsent) {
        end(&r, ZK_NOT_SENT, 0, NULL);
        return;
    }
    if (r.kind == MULTI) {
        const zk_code code = apply(r.ops, r.n, z, &failed, versions);
        end(&r, code, failed, versions);
        return;
    }
    const bool is_there = find(r.path) != NULL;
    if (r.watch) {
        assert_true(z->n_watches < WATCHES_MAX);
        z->watches[z->n_watches++] = (watching){r.path, r.kind == CHILDREN};
    }
    if (r.kind == CHILDREN && is_there)
        list_children(&r);
    else
        end(&r, is_there ? ZK_OK : ZK_NO_NODE, 0, NULL);
}

void fake_fail(zookeeper *z, zk_code code, size_t failed)
{
    const request r = take(z);

    end(&r, code, failed, NULL);
}

void fake_lose(zookeeper *z, bool applied)
{
    const request r = take(z);
    int32_t *versions = memory_in(fake.arena, (r.n + 1) * sizeof *versions);
    size_t failed = 0;

    if (applied && r.kind == MULTI)
        assert_int_equal(apply(r.ops, r.n, z, &failed, versions), ZK_OK);
    end(&r, ZK_UNKNOWN, 0, NULL);
}

/* ---- sessions -------------------------------------------------------------------------- */

zookeeper *fake_last(void)
{
    return fake.clients[fake.n_clients - 1];
}

static void end_session(zookeeper *z)
{
    z->n_watches = 0;
    for (size_t i = fake.n; i-- > 0;) {
        if (fake.nodes[i].owner != z)
            continue;
        const char *path = fake.nodes[i].path;
        fake.nodes[i] = fake.nodes[--fake.n];
        fire(parent_of(path), true);
    }
}

void fake_up(zookeeper *z, bool new_session)
{
    if (new_session) {
        end_session(z);
        z->on.session(z->on.arg);
    }
    z->ready = true;
    z->on.state(z->on.arg, NULL);
}

void fake_down(zookeeper *z, const char *reason)
{
    z->ready = false;
    z->on.state(z->on.arg, reason);
}

lks_code zk_check(const zk_options *options, lks_error *error)
{
    return LKS_OK;
}

uint64_t zk_root_id(const zookeeper *z)
{
    return 1;
}

zookeeper *zk_open(const zk_options *options)
{
    zookeeper *z = memory_alloc(sizeof *z);

    z->on = options->events;
    uv_idle_init(options->loop, &z->ending);
    assert_true(fake.n_clients < CLIENTS_MAX);
    fake.clients[fake.n_clients++] = z;
    return z;
}

static void on_freed(uv_handle_t *handle)
{
    zookeeper *z = container_of(handle, zookeeper, ending);
    void (*closed)(void *arg) = z->closed;
    void *arg = z->closed_arg;

    free(z);
    closed(arg);
}

static void on_ending(uv_idle_t *ending)
{
    zookeeper *z = container_of(ending, zookeeper, ending);

    while (z->n > 0)
        fake_fail(z, z->waiting[0].unsent ? ZK_NOT_SENT : ZK_UNKNOWN, 0);
    for (size_t i = 0; i < fake.n_clients; i++)
        fake.clients[i] = fake.clients[i] == z ? NULL : fake.clients[i];
    end_session(z);
    uv_close((uv_handle_t *)ending, on_freed);
}

void zk_close(zookeeper *z, void (*closed)(void *arg), void *arg)
{
    z->ready = false;
    z->closed = closed;
    z->closed_arg = arg;
    uv_idle_start(&z->ending, on_ending);
}

/* ---- requests -------------------------------------------------------------------------- */

static void keep(zookeeper *z, request r)
{
    assert_true(z->n < WAITING_MAX);
    r.unsent = !z->ready;
    r.path = r.path ? copy_of(r.path) : NULL;
    z->waiting[z->n++] = r;
}

void zk_get(zookeeper *z, const char *path, zk_got *done, void *arg)
{
    keep(z, (request){.kind = GET, .path = path, .got = done, .arg = arg});
}

void zk_sync_get(zookeeper *z, const char *path, zk_got *done, void *arg)
{
    keep(z, (request){.kind = SYNC, .path = path, .got = done, .arg = arg});
}

void zk_watch(zookeeper *z, const char *path, zk_found *done, void *arg)
{
    keep(z, (request){.kind = WATCH, .path = path, .watch = true, .found = done, .arg = arg});
}

void zk_children(zookeeper *z, const char *path, bool watch, zk_listed *done, void *arg)
{
    keep(z, (request){.kind = CHILDREN, .path = path, .watch = watch, .listed = done, .arg = arg});
}

void zk_multi(zookeeper *z, const zk_op *ops, size_t n, zk_applied *done, void *arg)
{
    zk_op *own = memory_in(fake.arena, n * sizeof *own);

    for (size_t i = 0; i < n; i++) {
        own[i] = ops[i];
        own[i].path = copy_of(ops[i].path);
        own[i].data = copied(ops[i].data);
    }
    keep(z, (request){.kind = MULTI, .ops = own, .n = n, .applied = done, .arg = arg});
}
