/* Programs that this module starts end with place_close, or with this process. */
#include "place.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/spawn.h"
#include "program.h"

enum { ARGS_MAX = 12, LISTEN_BYTES = 160, LOG_BYTES = 1 << 20 };

static bool failed(const char *what)
{
    fprintf(stderr, "lockstock-bench: %s\n", what);
    return false;
}

/* ---- processes ----------------------------------------------------------------- */

pid_t place_spawn(const char *const argv[], int output)
{
    int to = output < 0 ? SPAWN_NULL : output;
    pid_t pid = spawn(&(const spawn_options){.argv = argv,
                                             .input = SPAWN_INHERIT,
                                             .output = to,
                                             .errors = to,
                                             .death_signal = SIGTERM,
                                             .own_group = true, /* Ctrl-C is for this program, which ends the other */
                                             .name = "lockstock-bench"});

    return pid < 0 ? 0 : pid;
}

bool place_end(pid_t pid)
{
    int status = SIGTERM;

    if (pid > 0) {
        kill(pid, SIGTERM);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
}

double cpu_of(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return -1;
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

cpu_times place_cpu(const place *p)
{
    cpu_times used = {.client = cpu_of(getpid()), .redis = cpu_of(p->redis)};

    for (unsigned i = 0; i < p->n_servers; i++) {
        double one = cpu_of(p->server[i]);
        used.server = one < 0 || used.server < 0 ? -1 : used.server + one;
    }
    return used;
}

double cpu_since(double before, double now)
{
    return before < 0 || now < 0 ? -1 : now - before;
}

cpu_times place_cpu_since(cpu_times before, cpu_times now)
{
    return (cpu_times){.client = cpu_since(before.client, now.client),
                       .server = cpu_since(before.server, now.server),
                       .redis = cpu_since(before.redis, now.redis)};
}

/* ---- Redis --------------------------------------------------------------------- */

bool redis_answered(const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ERROR)
        fprintf(stderr, "lockstock-bench: Redis says %s\n", reply->str);
    return reply && reply->type != REDIS_REPLY_ERROR;
}

bool redis_done(redisReply *reply)
{
    bool answered = redis_answered(reply);

    freeReplyObject(reply);
    return answered;
}

redisContext *place_connect(const place *p)
{
    const url *u = &p->store;
    redisContext *c = u->path ? redisConnectUnix(u->path) : redisConnect(u->hosts[0].host, u->hosts[0].port);
    bool good = c && !c->err;

    if (!good)
        failed(c ? c->errstr : "no memory");
    if (good && u->password)
        good = redis_done(u->user ? redisCommand(c, "AUTH %s %s", u->user, u->password)
                                  : redisCommand(c, "AUTH %s", u->password));
    if (good && u->db > 0)
        good = redis_done(redisCommand(c, "SELECT %u", u->db));
    if (good)
        return c;
    redisFree(c);
    return NULL;
}

static bool read_store(place *p, const char *text)
{
    lks_error error;

    if (url_parse(text, "--store", &p->store, &error) != LKS_OK)
        return failed(error.message);
    bool known = !p->store.tls && (p->store.kind == URL_TCP || p->store.kind == URL_UNIX);
    return known || failed("--store: must be redis:// or unix://; for a store of our own, --fsync");
}

/* Redis is to listen there. */
static void set_socket(place *p, const char *name)
{
    size_t size = sizeof p->dir + strlen(name);

    p->store.path = program_alloc(1, size);
    snprintf(p->store.path, size, "%s%s", p->dir, name);
}

int64_t redis_number(redisContext *redis, const char *section, const char *name)
{
    redisReply *info = redisCommand(redis, "INFO %s", section);
    const char *at = info && info->type == REDIS_REPLY_STRING ? strstr(info->str, name) : NULL;
    int64_t number = at ? strtoll(at + strlen(name), NULL, 10) : -1;

    freeReplyObject(info);
    return number;
}

static int64_t number_of(const place *p, const char *section, const char *name)
{
    redisContext *c = place_connect(p);
    int64_t number = c ? redis_number(c, section, name) : -1;

    if (c && number < 0)
        failed("Redis refuses INFO");
    redisFree(c);
    return number;
}

int64_t place_redis_bytes(const place *p)
{
    return number_of(p, "memory", "used_memory:");
}

/* Returns the pid that Redis reports if that process runs on this machine, else 0. */
static pid_t pid_of_redis(const place *p)
{
    pid_t pid = (pid_t)number_of(p, "server", "process_id:");
    char path[64], name[32] = "";

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *comm = pid > 0 ? fopen(path, "re") : NULL;
    if (!comm || !fgets(name, sizeof name, comm) || strncmp(name, "redis-server", strlen("redis-server")) != 0)
        pid = 0;
    if (comm)
        fclose(comm);
    return pid;
}

static bool start_redis(place *p)
{
    set_socket(p, "/redis.sock");
    /* clang-format off */
    const char *const argv[] = {
        "redis-server",
        "--port", "0",
        "--unixsocket", p->store.path,
        "--save", "",
        "--dir", p->dir,
        "--loglevel", "warning",
        "--stream-node-max-bytes", "256", /* as the embedded store has it */
        NULL,
    };
    /* clang-format on */

    p->started_redis = place_spawn(argv, -1);
    return p->started_redis > 0 || failed("cannot start redis-server");
}

/* ---- lockstockd ---------------------------------------------------------------- */

bool place_find(const char *program, char path[PATH_MAX])
{
    static const char *const beside[] = {"", "/../server"};
    char own[PATH_MAX / 2];
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);

    own[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++) {
        snprintf(path, PATH_MAX, "%s%s/%s", own, beside[i], program);
        if (access(path, X_OK) == 0)
            return true;
    }
    snprintf(path, PATH_MAX, "%s", program);
    return false;
}

/* Returns the log of a lockstockd, to be freed by the caller. */
static char *read_log(const place *p, unsigned server)
{
    char *text = program_alloc(1, LOG_BYTES);
    ssize_t len = pread(p->log[server], text, LOG_BYTES - 1, 0);

    text[len > 0 ? len : 0] = '\0';
    return text;
}

/* The first address in the log is its URL. */
static bool await_ready(place *p, unsigned server)
{
    bool ready = false, runs = true;

    while (!ready && runs) {
        runs = program_pause(0.01) && waitpid(p->server[server], NULL, WNOHANG) == 0;
        char *text = read_log(p, server);
        const char *listening = strstr(text, "event=listening url="), *grpc = strstr(text, "url=grpc://");
        ready = listening && grpc && strstr(text, "event=ready");
        if (ready) {
            sscanf(listening, "event=listening url=%511s", p->url[server]);
            if (server == 0)
                sscanf(grpc, "url=grpc://%63s", p->grpc);
        } else if (!runs) {
            fprintf(stderr, "lockstock-bench: lockstockd does not come up:\n%s\n", text);
        }
        free(text);
    }
    return ready;
}

static void print_errors(const place *p, unsigned server)
{
    char *text = read_log(p, server), *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, "level=error"))
            fprintf(stderr, "lockstockd: %s\n", line);
    free(text);
}

/* Starts one more. The first starts the embedded Redis, and the others use it. */
static bool start_server(place *p, const bench_options *o, const char *fsync)
{
    char program[PATH_MAX], listen[LISTEN_BYTES], store[512];
    const char *args[ARGS_MAX] = {program, "--listen", listen, "--store", store};
    bool embedded = !o->store && strcmp(fsync, "none") != 0, unix_socket = strcmp(o->wire, "unix") == 0;
    unsigned i = p->n_servers;
    size_t n = 5;

    if (o->lockstockd)
        snprintf(program, sizeof program, "%s", o->lockstockd);
    else
        place_find("lockstockd", program);
    if (unix_socket)
        snprintf(listen, sizeof listen, "unix://%s/server%u.sock,grpc://127.0.0.1:0", p->dir, i);
    else
        snprintf(listen, sizeof listen, "%s://127.0.0.1:0%s,grpc://127.0.0.1:0", o->wire,
                 strstr(o->wire, "ws") ? "/lockstock" : "");
    if (embedded && i == 0) {
        snprintf(store, sizeof store, "embedded:%s/data", p->dir);
        set_socket(p, "/data/redis.sock");
        args[n++] = "--fsync";
        args[n++] = fsync;
    } else {
        snprintf(store, sizeof store, "%s%s", o->store ? "" : "unix://", o->store ? o->store : p->store.path);
    }
    if (!embedded)
        args[n++] = "--allow-unsafe-store";
    p->log[i] = memfd_create("log", MFD_CLOEXEC);
    if (p->log[i] < 0)
        return failed("cannot make a log");
    p->server[i] = place_spawn(args, p->log[i]);
    p->n_servers++;
    return p->server[i] > 0 && await_ready(p, i);
}

static bool make_directory(place *p)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(p->dir, sizeof p->dir, "%s/lockstock-bench-XXXXXX", tmp && strlen(tmp) < 24 ? tmp : "/tmp");
    if (mkdtemp(p->dir))
        return true;
    p->dir[0] = '\0';
    return failed("cannot make a temporary directory");
}

bool place_open(const bench_options *o, const char *fsync, place *ret)
{
    *ret = (place){0};
    bool opened = !o->store || read_store(ret, o->store);

    if (o->server) {
        snprintf(ret->url[0], sizeof ret->url[0], "%s", o->server);
        ret->n_servers = 1;
    } else {
        opened = opened && make_directory(ret);
        if (opened && !o->store && strcmp(fsync, "none") == 0)
            opened = start_redis(ret);
        while (opened && ret->n_servers < o->servers)
            opened = start_server(ret, o, fsync);
    }
    if (opened && (ret->store.path || ret->store.n_hosts > 0))
        ret->redis = pid_of_redis(ret);
    if (!opened)
        place_close(ret);
    return opened;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

void place_close(place *p)
{
    for (unsigned i = p->n_servers; i-- > 0;)
        place_end(p->server[i]);
    place_end(p->started_redis);
    for (unsigned i = 0; i < p->n_servers; i++)
        if (p->log[i] > 0) {
            print_errors(p, i);
            close(p->log[i]);
        }
    if (p->dir[0] != '\0')
        nftw(p->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    url_clear(&p->store);
    *p = (place){0};
}
