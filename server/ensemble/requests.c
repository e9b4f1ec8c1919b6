/* Invariant: a request is either with the library, which calls it back once, or in the list `ended`, whose callbacks a
 * timer of zero milliseconds runs. */
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "memory.h"
#include "ensemble/parts.h"

enum { OP_BYTES = 80 /* of an op, without its path and data */ };

typedef enum request_kind { GET, WATCH, CHILDREN, MULTI } request_kind;

typedef struct request {
    TAILQ_ENTRY(request) next;
    zookeeper *zookeeper;
    request_kind kind;
    union {
        zk_got *got;
        zk_found *found;
        zk_listed *listed;
        zk_applied *applied;
    } done;
    void *arg;
    zk_code code; /* only in the list `ended` */
    bool unsent;  /* the library could not send all of it */
    int synced;   /* the result of sync */
    /* MULTI: the library uses these until it calls back. */
    size_t n;
    zoo_op_result_t *results;
    struct Stat *stats;
    int32_t *versions;
} request;

/* ---- codes --------------------------------------------------------------------------- */

/* Codes below ZAPIERROR are answers of the ensemble, except those about the end of a session. Codes above it are mostly
 * from the library. */
static zk_code code_of(int rc)
{
    switch (rc) {
    case ZOK:
        return ZK_OK;
    case ZNONODE:
        return ZK_NO_NODE;
    case ZNODEEXISTS:
        return ZK_NODE_EXISTS;
    case ZBADVERSION:
        return ZK_BAD_VERSION;
    case ZNOAUTH:
    case ZINVALIDACL:
        return ZK_NO_AUTH;
    case ZSESSIONMOVED: /* the ensemble ignored the request */
    case ZTHROTTLEDOP:
        return ZK_NOT_SENT;
    case ZSESSIONEXPIRED:
    case ZAUTHFAILED:
    case ZCLOSING:
        return ZK_UNKNOWN;
    case ZBADARGUMENTS:
    case ZUNIMPLEMENTED:
    case ZMARSHALLINGERROR:
        return ZK_REFUSED;
    default:
        return rc < ZAPIERROR ? ZK_REFUSED : ZK_UNKNOWN;
    }
}

static zk_code code_for(const request *r, int rc)
{
    zk_code code = code_of(rc);

    return r->unsent && code == ZK_UNKNOWN ? ZK_NOT_SENT : code;
}

/* ---- ends ---------------------------------------------------------------------------- */

static void request_free(request *r)
{
    free(r->results);
    free(r->stats);
    free(r->versions);
    free(r);
}

/* Ends a request without an answer. */
static void end(request *r, zk_code code)
{
    if (r->kind == GET)
        r->done.got(r->arg, code, NULL, 0, 0);
    else if (r->kind == WATCH)
        r->done.found(r->arg, code, 0);
    else if (r->kind == CHILDREN)
        r->done.listed(r->arg, code, NULL, 0);
    else
        r->done.applied(r->arg, code, 0, NULL);
    request_free(r);
}

/* Leaves requests that the callbacks add. */
static void run_ended(zookeeper *z)
{
    struct request_list now = TAILQ_HEAD_INITIALIZER(now);
    request *r;

    TAILQ_CONCAT(&now, &z->requests.ended, next);
    while ((r = TAILQ_FIRST(&now))) {
        TAILQ_REMOVE(&now, r, next);
        end(r, r->code);
    }
}

void requests_end_all(zookeeper *z)
{
    while (!TAILQ_EMPTY(&z->requests.ended))
        run_ended(z);
}

static void on_ended(uv_timer_t *timer)
{
    run_ended(timer->data);
}

void requests_init(zookeeper *z)
{
    TAILQ_INIT(&z->requests.ended);
    uv_timer_init(z->loop, &z->requests.timer);
    z->requests.timer.data = z;
}

static void end_later(request *r, zk_code code)
{
    zookeeper *z = r->zookeeper;

    r->code = code;
    TAILQ_INSERT_TAIL(&z->requests.ended, r, next);
    if (z->state != CLOSING)
        uv_timer_start(&z->requests.timer, on_ended, 0, 0);
}

/* ---- shared by all requests ---------------------------------------------------------- */

bool requests_is_path(const char *path)
{
    if (path[0] != '/')
        return false;
    for (const char *part = path; part[0] == '/';) {
        size_t len = strcspn(++part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && strncmp(part, "..", 2) == 0))
            return false;
        for (size_t i = 0; i < len; i++)
            if ((unsigned char)part[i] < ' ' || part[i] == 127)
                return false;
        part += len;
    }
    return true;
}

/* Returns the path with the root before it. The caller frees it. */
static char *full_path(const zookeeper *z, const char *path)
{
    size_t len = strlen(path);
    char *all = memory_alloc(z->root_len + len + 1);

    memcpy(all, z->root, z->root_len);
    memcpy(all + z->root_len, path, len);
    return all;
}

static request *new_request(zookeeper *z, request_kind kind, void *arg)
{
    request *r = memory_alloc(sizeof *r);

    *r = (request){.zookeeper = z, .kind = kind, .arg = arg};
    return r;
}

/* Returns the handle for a request with this path; NULL: the request ends without being sent. */
static zhandle_t *handle_for(request *r, const char *path)
{
    zookeeper *z = r->zookeeper;
    bool good = requests_is_path(path) && strlen(path) + z->root_len + OP_BYTES <= ZK_REQUEST_BYTES_MAX;

    if (good && zk_is_ready(z))
        return session_handle(z->session);
    end_later(r, good ? ZK_NOT_SENT : ZK_REFUSED);
    return NULL;
}

/* Call this after the call of the library that sends the request. rc: the result of that call. */
static void submitted(request *r, int rc)
{
    if (rc == ZOK)
        r->unsent = !session_submitted(r->zookeeper->session);
    else
        end_later(r, rc == ZBADARGUMENTS ? ZK_REFUSED : ZK_NOT_SENT);
}

static request *request_of(const void *arg)
{
    return (request *)(uintptr_t)arg;
}

/* Ends the request and returns false, unless the answer is ZOK. */
static bool ok_or_end(request *r, int rc)
{
    const zk_code code = code_for(r, rc);

    if (code != ZK_OK)
        end(r, code);
    return code == ZK_OK;
}

/* ---- reading ------------------------------------------------------------------------- */

static void on_got(int rc, const char *data, int len, const struct Stat *stat, const void *arg)
{
    request *r = request_of(arg);

    if (!ok_or_end(r, r->synced != ZOK ? r->synced : rc))
        return;
    r->done.got(r->arg, ZK_OK, data ? data : "", len > 0 ? (size_t)len : 0, stat->version);
    request_free(r);
}

static void on_synced(int rc, const char *path, const void *arg)
{
    (void)path;
    request_of(arg)->synced = rc;
}

static void get(zookeeper *z, const char *path, bool sync, zk_got *done, void *arg)
{
    request *r = new_request(z, GET, arg);
    r->done.got = done;
    zhandle_t *zh = handle_for(r, path);

    if (!zh)
        return;
    char *at = full_path(z, path);
    int rc = sync ? zoo_async(zh, at, on_synced, r) : ZOK;
    if (rc == ZOK)
        rc = zoo_aget(zh, at, 0, on_got, r);
    free(at);
    submitted(r, rc);
}

void zk_get(zookeeper *z, const char *path, zk_got *done, void *arg)
{
    get(z, path, false, done, arg);
}

void zk_sync_get(zookeeper *z, const char *path, zk_got *done, void *arg)
{
    get(z, path, true, done, arg);
}

static void on_found(int rc, const struct Stat *stat, const void *arg)
{
    request *r = request_of(arg);

    if (!ok_or_end(r, rc))
        return;
    r->done.found(r->arg, ZK_OK, stat->version);
    request_free(r);
}

void zk_watch(zookeeper *z, const char *path, zk_found *done, void *arg)
{
    request *r = new_request(z, WATCH, arg);
    r->done.found = done;
    zhandle_t *zh = handle_for(r, path);

    if (!zh)
        return;
    char *at = full_path(z, path);
    int rc = zoo_aexists(zh, at, 1, on_found, r);
    free(at);
    submitted(r, rc);
}

static void on_listed(int rc, const struct String_vector *names, const void *arg)
{
    request *r = request_of(arg);

    if (!ok_or_end(r, rc))
        return;
    r->done.listed(r->arg, ZK_OK, (const char *const *)names->data, (size_t)names->count);
    request_free(r);
}

void zk_children(zookeeper *z, const char *path, bool watch, zk_listed *done, void *arg)
{
    request *r = new_request(z, CHILDREN, arg);
    r->done.listed = done;
    zhandle_t *zh = handle_for(r, path);

    if (!zh)
        return;
    char *at = full_path(z, path);
    int rc = zoo_aget_children(zh, at, watch, on_listed, r);
    free(at);
    submitted(r, rc);
}

/* ---- writing ------------------------------------------------------------------------- */

/* In a failed multi, the ops that are not at fault have ZOK or ZRUNTIMEINCONSISTENCY. */
static size_t first_failed(const request *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->results[i].err != ZOK && r->results[i].err != ZRUNTIMEINCONSISTENCY)
            return i;
    return 0;
}

static void on_applied(int rc, const void *arg)
{
    request *r = request_of(arg);
    zk_code code = code_for(r, rc);

    for (size_t i = 0; i < r->n; i++)
        r->versions[i] = r->stats[i].version; /* the library sets it for a SET */
    r->done.applied(r->arg, code, code == ZK_OK ? 0 : first_failed(r), code == ZK_OK ? r->versions : NULL);
    request_free(r);
}

static void write_op(const zookeeper *z, const zk_op *op, char *path, struct Stat *stat, zoo_op_t *ret)
{
    const char *data = op->data.len > 0 ? op->data.data : "";

    switch (op->kind) {
    case ZK_CREATE:
    case ZK_CREATE_EPHEMERAL:
        zoo_create_op_init(ret, path, data, (int)op->data.len, zookeeper_acl(z),
                           op->kind == ZK_CREATE ? ZOO_PERSISTENT : ZOO_EPHEMERAL, NULL, 0);
        break;
    case ZK_SET:
        zoo_set_op_init(ret, path, data, (int)op->data.len, op->version, stat);
        break;
    case ZK_DELETE:
        zoo_delete_op_init(ret, path, op->version);
        break;
    case ZK_CHECK:
        zoo_check_op_init(ret, path, op->version);
        break;
    }
}

/* Checks the ops before the library does: for a path that it refuses in a multi, it leaks memory and frees memory that
 * it did not allocate. */
static bool are_valid(const zookeeper *z, const zk_op *ops, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        size_t path = strlen(ops[i].path);
        if (!requests_is_path(ops[i].path) || path > ZK_REQUEST_BYTES_MAX || ops[i].data.len > ZK_REQUEST_BYTES_MAX)
            return false;
        bytes += OP_BYTES + z->root_len + path + ops[i].data.len;
        if (bytes > ZK_REQUEST_BYTES_MAX)
            return false;
    }
    return n > 0;
}

static int send_multi(request *r, const zk_op *ops)
{
    zookeeper *z = r->zookeeper;
    zoo_op_t *written = memory_alloc(r->n * sizeof *written);
    char **paths = memory_alloc(r->n * sizeof *paths);

    for (size_t i = 0; i < r->n; i++) {
        paths[i] = full_path(z, ops[i].path);
        write_op(z, &ops[i], paths[i], &r->stats[i], &written[i]);
    }
    int rc = zoo_amulti(session_handle(z->session), (int)r->n, written, r->results, on_applied, r);
    for (size_t i = 0; i < r->n; i++)
        free(paths[i]);
    free(paths);
    free(written);
    return rc;
}

void zk_multi(zookeeper *z, const zk_op *ops, size_t n, zk_applied *done, void *arg)
{
    request *r = new_request(z, MULTI, arg);

    r->done.applied = done;
    if (!are_valid(z, ops, n)) {
        end_later(r, ZK_REFUSED);
        return;
    }
    if (!zk_is_ready(z)) {
        end_later(r, ZK_NOT_SENT);
        return;
    }
    r->n = n;
    r->results = memory_alloc(n * sizeof *r->results);
    r->stats = memory_alloc(n * sizeof *r->stats);
    r->versions = memory_alloc(n * sizeof *r->versions);
    submitted(r, send_multi(r, ops));
}
