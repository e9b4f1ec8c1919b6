/* Programs that this module starts end with place_close, or with this process. */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/spawn.h"
#include "measure.h"
#include "store/url.h"

enum { ARGS_MAX = 12, LISTEN_BYTES = 160, PATH_BYTES = 96, LOG_BYTES = 1 << 20 };

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

static void end(pid_t pid)
{
    if (pid > 0) {
        kill(pid, SIGTERM);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
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

/* ---- Redis --------------------------------------------------------------------- */

redisContext *place_connect(const place *p)
{
    redisContext *c =
        p->socket[0] != '\0' ? redisConnectUnix(p->socket) : redisConnect(p->host, (int)strtol(p->port, NULL, 10));
    redisReply *reply = NULL;

    if (!c || c->err) {
        failed(c ? c->errstr : "no memory");
        goto bad;
    }
    if (p->password[0] != '\0') {
        reply = p->user[0] != '\0' ? redisCommand(c, "AUTH %s %s", p->user, p->password)
                                   : redisCommand(c, "AUTH %s", p->password);
        if (!reply || reply->type == REDIS_REPLY_ERROR) {
            failed("Redis refuses the password");
            goto bad;
        }
        freeReplyObject(reply);
    }
    if (p->db > 0) {
        reply = redisCommand(c, "SELECT %u", p->db);
        if (!reply || reply->type == REDIS_REPLY_ERROR) {
            failed("Redis refuses the database");
            goto bad;
        }
        freeReplyObject(reply);
    }
    return c;
bad:
    if (reply)
        freeReplyObject(reply);
    if (c)
        redisFree(c);
    return NULL;
}

static bool read_store(place *p, const char *text)
{
    url found = {0};
    lks_error error;

    if (url_parse(text, "--store", &found, &error) != LKS_OK)
        return failed(error.message);
    bool known = !found.tls && (found.kind == URL_TCP || found.kind == URL_UNIX);
    if (!known)
        failed("--store: must be redis:// or unix://; for a store of our own, --fsync");
    else if (found.kind == URL_UNIX)
        snprintf(p->socket, sizeof p->socket, "%s", found.path);
    else {
        snprintf(p->host, sizeof p->host, "%s", found.hosts[0].name);
        snprintf(p->port, sizeof p->port, "%u", found.hosts[0].port);
    }
    snprintf(p->user, sizeof p->user, "%s", found.user ? found.user : "");
    snprintf(p->password, sizeof p->password, "%s", found.password ? found.password : "");
    p->db = found.db;
    url_clear(&found);
    return known;
}

/* Returns a number of Redis' INFO; below 0 after printing an error. name: with its colon. */
static int64_t redis_number(const place *p, const char *section, const char *name)
{
    redisContext *c = place_connect(p);
    redisReply *info = c ? redisCommand(c, "INFO %s", section) : NULL;
    const char *at = info && info->type == REDIS_REPLY_STRING ? strstr(info->str, name) : NULL;
    int64_t number = at ? strtoll(at + strlen(name), NULL, 10) : -1;

    if (c && !at)
        failed("Redis refuses INFO");
    if (info)
        freeReplyObject(info);
    if (c)
        redisFree(c);
    return number;
}

int64_t place_redis_bytes(const place *p)
{
    return redis_number(p, "memory", "used_memory:");
}

/* Returns the pid that Redis reports if that process runs on this machine, else 0. */
static pid_t pid_of_redis(const place *p)
{
    pid_t pid = (pid_t)redis_number(p, "server", "process_id:");
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
    /* clang-format off */
    const char *const argv[] = {
        "redis-server",
        "--port", "0",
        "--unixsocket", p->socket,
        "--save", "",
        "--dir", p->dir,
        "--loglevel", "warning",
        "--stream-node-max-bytes", "256", /* as the embedded store has it */
        NULL,
    };
    /* clang-format on */

    snprintf(p->socket, sizeof p->socket, "%s/redis.sock", p->dir);
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

static void log_path(const place *p, unsigned server, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/log%u", p->dir, server);
}

/* Returns the log of a lockstockd, to be freed by the caller. */
static char *read_log(const place *p, unsigned server)
{
    char path[PATH_BYTES];
    char *text = measure_alloc(1, LOG_BYTES);

    log_path(p, server, path);
    FILE *file = fopen(path, "re");
    if (file) {
        text[fread(text, 1, LOG_BYTES - 1, file)] = '\0';
        fclose(file);
    }
    return text;
}

/* The first address in the log is its URL. */
static bool await_ready(place *p, unsigned server)
{
    bool ready = false, runs = true;

    while (!ready && runs) {
        runs = measure_pause(0.01) && waitpid(p->server[server], NULL, WNOHANG) == 0;
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
    static const char grpc[] = "grpc://127.0.0.1:0";
    char program[PATH_MAX], listen[LISTEN_BYTES], store[512], path[PATH_BYTES];
    const char *args[ARGS_MAX] = {program, "--listen", listen, "--store", store};
    bool saved = strcmp(fsync, "none") != 0;
    unsigned i = p->n_servers;
    size_t n = 5;

    if (o->lockstockd)
        snprintf(program, sizeof program, "%s", o->lockstockd);
    else
        place_find("lockstockd", program);
    if (strcmp(o->wire, "unix") == 0)
        snprintf(listen, sizeof listen, "unix://%s/server%u.sock,%s", p->dir, i, grpc);
    else
        snprintf(listen, sizeof listen, "%s://127.0.0.1:0%s,%s", o->wire, strstr(o->wire, "ws") ? "/lockstock" : "",
                 grpc);
    if (o->store) {
        snprintf(store, sizeof store, "%s", o->store);
    } else if (!saved || i > 0) {
        snprintf(store, sizeof store, "unix://%s", p->socket);
    } else {
        snprintf(store, sizeof store, "embedded:%s/data", p->dir);
        snprintf(p->socket, sizeof p->socket, "%s/data/redis.sock", p->dir);
        args[n++] = "--fsync";
        args[n++] = fsync;
    }
    if (o->store || !saved)
        args[n++] = "--allow-unsafe-store";
    log_path(p, i, path);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    p->server[i] = log >= 0 ? place_spawn(args, log) : 0;
    if (log >= 0)
        close(log);
    if (p->server[i] > 0)
        p->n_servers++;
    return p->server[i] > 0 && await_ready(p, i);
}

bool place_open(const bench_options *o, const char *fsync, place *ret)
{
    *ret = (place){0};
    bool opened = !o->store || read_store(ret, o->store);

    if (opened && !o->server) {
        const char *tmp = getenv("TMPDIR");
        snprintf(ret->dir, sizeof ret->dir, "%s/lockstock-bench-XXXXXX", tmp && strlen(tmp) < 24 ? tmp : "/tmp");
        if (!mkdtemp(ret->dir)) {
            ret->dir[0] = '\0';
            opened = failed("cannot make a temporary directory");
        }
    }
    if (opened && !o->server && !o->store && strcmp(fsync, "none") == 0)
        opened = start_redis(ret);
    if (o->server) {
        snprintf(ret->url[0], sizeof ret->url[0], "%s", o->server);
        ret->n_servers = 1;
    }
    while (opened && ret->n_servers < o->servers && !o->server)
        opened = start_server(ret, o, fsync);
    if (opened && (ret->socket[0] != '\0' || ret->host[0] != '\0'))
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
        end(p->server[i]);
    end(p->started_redis);
    for (unsigned i = 0; i < p->n_servers; i++)
        if (p->server[i] > 0)
            print_errors(p, i);
    if (p->dir[0] != '\0')
        nftw(p->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    *p = (place){0};
}
