/* Rivals that are external programs, which make calls until they are ended. Redis counts the calls of redis-benchmark;
 * the gRPC client counts its own in shared memory. */
#include "rival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char peer[] = "lockstock-bench-peer";

static pid_t start_redis_benchmark(const work *w)
{
    enum { FLAGS_MAX = 20 };
    const url *u = &w->world->place->store;
    unsigned pipeline = w->rival->pipeline, in_flight = (unsigned)w->options->in_flight;
    char clients[16], depth[16], port[16];
    const char *argv[FLAGS_MAX + COMMAND_WORDS_MAX] = {"redis-benchmark", "-q", "-n",    "2000000000", "-r",
                                                       "2000000000",      "-c", clients, "-P",         depth};
    command *c = program_alloc(1, sizeof *c);
    size_t n = 10;

    snprintf(clients, sizeof clients, "%u", in_flight > pipeline ? in_flight / pipeline : 1);
    snprintf(depth, sizeof depth, "%u", pipeline);
    snprintf(port, sizeof port, "%u", u->hosts[0].port);
    const char *const flags[][2] = {
        {"-s", u->path}, {"-h", u->path ? NULL : u->hosts[0].host}, {"-p", u->path ? NULL : port}, {"-a", u->password}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i][1]) {
            argv[n++] = flags[i][0];
            argv[n++] = flags[i][1];
        }
    work_repeated(w, c);
    memcpy(argv + n, c->argv, (size_t)c->argc * sizeof *argv);
    pid_t pid = place_spawn(argv, -1);
    free(c);
    return pid;
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
    return p->store.path ? NULL : "it calls Redis by a unix socket";
}

/* Waits until it prints "ready". */
static pid_t start_peer(const place *p, const char *path, const char *address)
{
    const char *const argv[] = {path, "serve", address, p->store.path, NULL};
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

static pid_t start_peer_client(const work *w, const char *path, const char *address, int count_fd)
{
    char in_flight[16], things[16], tag[17], fd[16];
    const char *const argv[] = {path, "call", address, in_flight, tag, things, fd, NULL};

    snprintf(in_flight, sizeof in_flight, "%u", (unsigned)w->options->in_flight);
    snprintf(things, sizeof things, "%u", w->world->n_things);
    snprintf(tag, sizeof tag, "%.16s", w->world->things[0]);
    snprintf(fd, sizeof fd, "%d", count_fd);
    return place_spawn(argv, -1);
}

/* ---- counting ------------------------------------------------------------------------ */

typedef struct counter {
    redisContext *redis; /* counts the calls of redis-benchmark */
    const char *name;    /* of the number in its INFO */
    int fd;              /* memory that is shared with the gRPC client */
} counter;

static bool counter_open(counter *c, const work *w)
{
    *c = (counter){.name = w->rival->script ? "cmdstat_evalsha:calls=" : "cmdstat_fcall:calls=", .fd = -1};
    if (w->rival->kind == RIVAL_BENCHMARK)
        return (c->redis = place_connect(w->world->place)) != NULL;
    c->fd = memfd_create("calls", 0); /* the client inherits it */
    return c->fd >= 0 && ftruncate(c->fd, sizeof(uint64_t)) == 0;
}

static void counter_close(counter *c)
{
    redisFree(c->redis);
    if (c->fd >= 0)
        close(c->fd);
}

static uint64_t counted(const counter *c)
{
    int64_t n = 0;

    if (c->redis)
        n = redis_number(c->redis, "commandstats", c->name);
    else if (pread(c->fd, &n, sizeof n, 0) != sizeof n)
        n = 0;
    return n > 0 ? (uint64_t)n : 0;
}

/* Waits until the count exceeds `than`, for a minute at most. */
static uint64_t counted_more(const counter *c, uint64_t than)
{
    enum { PAUSES_MAX = 6000 };
    uint64_t n = counted(c);

    for (int i = 0; n <= than && i < PAUSES_MAX && program_pause(0.01); i++)
        n = counted(c);
    return n;
}

/* ---- a run --------------------------------------------------------------------------- */

bool outside_run(const work *w, measure *m)
{
    const place *p = w->world->place;
    rival_kind kind = w->rival->kind;
    char path[PATH_MAX], address[64];
    pid_t server = 0, client = 0;
    counter count;
    bool good = counter_open(&count, w);
    uint64_t calls = good ? counted(&count) : 0;

    place_find(peer, path);
    snprintf(address, sizeof address, "unix-abstract:%s-%d", peer, (int)getpid());
    if (good && kind == RIVAL_BENCHMARK)
        client = start_redis_benchmark(w);
    else if (good && kind == RIVAL_GRPC_OURS)
        client = start_peer_client(w, path, p->grpc, count.fd);
    else if (good && (server = start_peer(p, path, address)) > 0)
        client = start_peer_client(w, path, address, count.fd);
    if (client > 0 && counted_more(&count, calls) > calls && program_pause(w->options->warm_up)) {
        cpu_times before = place_cpu(p);
        double client_before = cpu_of(client), server_before = cpu_of(server);
        calls = counted(&count);
        uint64_t from_ns = clock_now_ns();
        program_pause(w->options->seconds);
        m->calls[FATE_OK] = counted_more(&count, calls) - calls;
        m->seconds = (double)(clock_now_ns() - from_ns) / 1e9;
        m->cpu = place_cpu_since(before, place_cpu(p));
        m->cpu.client = cpu_since(client_before, cpu_of(client));
        if (kind != RIVAL_GRPC_OURS)
            m->cpu.server = cpu_since(server_before, cpu_of(server));
    }
    good = place_end(client);
    good = place_end(server) && good && m->calls[FATE_OK] > 0;
    if (!good)
        fprintf(stderr, "lockstock-bench: %s does not run\n", kind == RIVAL_BENCHMARK ? "redis-benchmark" : peer);
    counter_close(&count);
    return good;
}
