/* The programs make calls until they are ended. Redis counts the calls of redis-benchmark; the gRPC client counts
 * its own in shared memory. */
#include "rival_outside.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char peer[] = "lockstock-bench-peer";

/* Returns how often Redis ran a command. */
static uint64_t ran(redisContext *redis, const char *ran_command)
{
    redisReply *reply = redisCommand(redis, "INFO commandstats");
    char name[40];
    uint64_t n = 0;

    snprintf(name, sizeof name, "cmdstat_%s:calls=", ran_command);
    const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    if (at)
        n = strtoull(at + strlen(name), NULL, 10);
    if (reply)
        freeReplyObject(reply);
    return n;
}

static pid_t start_redis_benchmark(const rival *r, const place *p, command *c)
{
    enum { FLAGS_MAX = 20 };
    const char *argv[FLAGS_MAX + COMMAND_WORDS_MAX] = {"redis-benchmark", "-q", "-n", "2000000000", "-r", "2000000000"};
    char clients[16], pipeline_text[16];
    size_t n = 6;

    snprintf(clients, sizeof clients, "%u", r->in_flight > r->pipeline ? r->in_flight / r->pipeline : 1);
    snprintf(pipeline_text, sizeof pipeline_text, "%u", r->pipeline);
    const char *const more[] = {"-c", clients, "-P", pipeline_text};
    memcpy(argv + n, more, sizeof more);
    n += sizeof more / sizeof *more;
    const char *const by_socket[] = {"-s", p->socket}, *const by_port[] = {"-h", p->host, "-p", p->port};
    bool unix_socket = p->socket[0] != '\0';
    memcpy(argv + n, unix_socket ? by_socket : by_port, unix_socket ? sizeof by_socket : sizeof by_port);
    n += unix_socket ? 2 : 4;
    if (p->password[0] != '\0') {
        argv[n++] = "-a";
        argv[n++] = p->password;
    }
    work_repeated(&r->work, c);
    memcpy(argv + n, c->argv, (size_t)c->argc * sizeof *argv);
    return place_spawn(argv, -1);
}

/* ---- the gRPC C++ service (peer.cc) -------------------------------------------------- */

const char *rival_missing(const rival *r, const place *p)
{
    char path[PATH_MAX];

    if (r->kind != RIVAL_GRPC && r->kind != RIVAL_GRPC_OURS)
        return NULL;
    if (!place_find(peer, path))
        return "lockstock-bench-peer was not built: it needs libgrpc++-dev and protobuf-compiler-grpc";
    if (r->kind == RIVAL_GRPC_OURS)
        return p->grpc[0] != '\0' ? NULL : "not with --server";
    return p->socket[0] != '\0' ? NULL : "it calls Redis by a unix socket";
}

/* Waits until it prints "ready". */
static pid_t start_peer(const place *p, const char *path, const char *address)
{
    const char *const argv[] = {path, "serve", address, p->socket, NULL};
    char word[8] = "";
    int ends[2];

    if (pipe(ends) != 0)
        return 0;
    pid_t pid = place_spawn(argv, ends[1]);
    close(ends[1]);
    bool ready = pid > 0 && read(ends[0], word, 5) == 5 && strcmp(word, "ready") == 0;
    close(ends[0]);
    if (!ready)
        fprintf(stderr, "lockstock-bench: %s does not come up\n", peer);
    return pid;
}

static pid_t start_peer_client(const rival *r, const char *path, const char *address, int count_fd)
{
    const world *w = r->work.world;
    char in_flight[16], things[16], tag[17], fd[16];
    const char *const argv[] = {path, "call", address, in_flight, tag, things, fd, NULL};

    snprintf(in_flight, sizeof in_flight, "%u", r->in_flight);
    snprintf(things, sizeof things, "%u", w->n_things);
    snprintf(tag, sizeof tag, "%.16s", w->things[0]);
    snprintf(fd, sizeof fd, "%d", count_fd);
    return place_spawn(argv, -1);
}

/* ---- counting ------------------------------------------------------------------------ */

typedef struct counter {
    redisContext *redis;
    const char *command; /* sent by redis-benchmark */
    int fd;              /* shared with the gRPC client; -1: redis-benchmark */
    atomic_ullong *shared;
} counter;

static bool counter_open(counter *c, const rival *r, const place *p)
{
    *c = (counter){.command = r->work.script ? "evalsha" : "fcall", .fd = -1};
    if (r->kind == RIVAL_BENCHMARK)
        return (c->redis = place_connect(p)) != NULL;
    c->fd = memfd_create("calls", 0); /* the client inherits it */
    if (c->fd < 0 || ftruncate(c->fd, sizeof *c->shared) != 0)
        return false;
    void *mapped = mmap(NULL, sizeof *c->shared, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    c->shared = mapped == MAP_FAILED ? NULL : mapped;
    return c->shared != NULL;
}

static void counter_close(counter *c)
{
    if (c->redis)
        redisFree(c->redis);
    if (c->shared)
        munmap(c->shared, sizeof *c->shared);
    if (c->fd >= 0)
        close(c->fd);
}

static uint64_t counted(const counter *c)
{
    return c->redis ? ran(c->redis, c->command) : atomic_load(c->shared);
}

/* Waits until the count exceeds `than`, for a minute at most. */
static uint64_t counted_more(const counter *c, uint64_t than)
{
    enum { STEPS_MAX = 6000 };
    uint64_t n = counted(c);

    for (int i = 0; n <= than && i < STEPS_MAX && measure_pause(0.01); i++)
        n = counted(c);
    return n;
}

/* ------------------------------------------------------------------------------------ */

/* Returns false if it had ended by itself, because of an error. */
static bool end(pid_t pid)
{
    bool ran_on = pid <= 0 || waitpid(pid, NULL, WNOHANG) == 0;

    if (pid > 0 && ran_on) {
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return ran_on;
}

static double since(double before, pid_t pid)
{
    double now = cpu_of(pid);

    return before < 0 || now < 0 ? -1 : now - before;
}

bool rival_outside(const rival *r, const place *p, double warm_up, double seconds, measure *m)
{
    command *c = measure_alloc(1, sizeof *c);
    char path[PATH_MAX], address[64];
    pid_t server = 0, client = 0;
    counter count;
    bool good = counter_open(&count, r, p);
    uint64_t calls = good ? counted(&count) : 0;

    place_find(peer, path);
    snprintf(address, sizeof address, "unix-abstract:%s-%d", peer, (int)getpid());
    if (good && r->kind == RIVAL_BENCHMARK)
        client = start_redis_benchmark(r, p, c);
    else if (good && r->kind == RIVAL_GRPC_OURS)
        client = start_peer_client(r, path, p->grpc, count.fd);
    else if (good && (server = start_peer(p, path, address)) > 0)
        client = start_peer_client(r, path, address, count.fd);
    if (client > 0 && counted_more(&count, calls) > calls && measure_pause(warm_up)) {
        cpu_times before = place_cpu(p);
        double client_before = cpu_of(client), server_before = cpu_of(server);
        calls = counted(&count);
        uint64_t from_ns = clock_now_ns();
        measure_pause(seconds);
        m->calls[FATE_OK] = counted_more(&count, calls) - calls;
        m->seconds = (double)(clock_now_ns() - from_ns) / 1e9;
        m->cpu = measure_cpu(before, place_cpu(p));
        m->cpu.client = since(client_before, client);
        if (r->kind != RIVAL_GRPC_OURS)
            m->cpu.server = since(server_before, server);
    }
    good = end(client);
    good = end(server) && good && m->calls[FATE_OK] > 0;
    if (!good)
        fprintf(stderr, "lockstock-bench: %s does not run\n", r->kind == RIVAL_BENCHMARK ? "redis-benchmark" : peer);
    counter_close(&count);
    free(c);
    return good;
}
