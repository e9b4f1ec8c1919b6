/* Programs that call until they are ended: how often is counted by Redis. */
#include "rival.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char peer[] = "lockstock-bench-peer";

/* How often Redis ran such a command. */
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

    if (r->kind != RIVAL_GRPC)
        return NULL;
    if (!place_find(peer, path))
        return "lockstock-bench-peer was not built: it needs libgrpc++-dev and protobuf-compiler-grpc";
    return p->socket[0] != '\0' ? NULL : "it calls Redis by a unix socket";
}

/* Ready when it says so. */
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

static pid_t start_peer_client(const rival *r, const char *path, const char *address)
{
    const world *w = r->work.world;
    char in_flight[16], things[16], tag[17];
    const char *const argv[] = {path, "call", address, in_flight, tag, things, NULL};

    snprintf(in_flight, sizeof in_flight, "%u", r->in_flight);
    snprintf(things, sizeof things, "%u", w->n_things);
    snprintf(tag, sizeof tag, "%.16s", w->things[0]);
    return place_spawn(argv, -1);
}

/* ------------------------------------------------------------------------------------ */

/* False: it had ended by itself, which it does only by an error. */
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

/* Until Redis ran more than that, a minute at most. */
static uint64_t ran_more(redisContext *redis, const char *counted, uint64_t than)
{
    enum { STEPS_MAX = 6000 };
    uint64_t n = ran(redis, counted);

    for (int i = 0; n <= than && i < STEPS_MAX && measure_pause(0.01); i++)
        n = ran(redis, counted);
    return n;
}

bool rival_outside(const rival *r, const place *p, double warm_up, double seconds, measure *m)
{
    const char *counted = r->work.script ? "evalsha" : "fcall";
    redisContext *redis = place_connect(p);
    command *c = measure_alloc(1, sizeof *c);
    char path[PATH_MAX], address[64];
    pid_t server = 0, client = 0;
    uint64_t calls = redis ? ran(redis, counted) : 0;

    if (redis && r->kind == RIVAL_GRPC) {
        place_find(peer, path);
        snprintf(address, sizeof address, "unix-abstract:%s-%d", peer, (int)getpid());
        server = start_peer(p, path, address);
        client = server > 0 ? start_peer_client(r, path, address) : 0;
    } else if (redis) {
        client = start_redis_benchmark(r, p, c);
    }
    if (client > 0 && ran_more(redis, counted, calls) > calls && measure_pause(warm_up)) {
        cpu_times before = place_cpu(p);
        double client_before = cpu_of(client), server_before = cpu_of(server);
        calls = ran(redis, counted);
        uint64_t from_ns = measure_now_ns();
        measure_pause(seconds);
        m->calls[FATE_OK] = ran_more(redis, counted, calls) - calls;
        m->seconds = (double)(measure_now_ns() - from_ns) / 1e9;
        m->cpu = measure_cpu(before, place_cpu(p));
        m->cpu.client = since(client_before, client);
        m->cpu.server = since(server_before, server);
    }
    bool good = end(client);
    good = end(server) && good && m->calls[FATE_OK] > 0;
    if (!good)
        fprintf(stderr, "lockstock-bench: %s does not run\n", r->kind == RIVAL_GRPC ? peer : "redis-benchmark");
    if (redis)
        redisFree(redis);
    free(c);
    return good;
}
