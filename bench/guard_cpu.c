/* guard_cpu [OTHER]: prints what guards cost a call: CPU time of the host, of lockstockd and of Redis, and the median
 * time. Slices of calls take turns on two methods: one with all three guards, and one whose handler does the same with
 * lks_limiter, lks_once and lks_mutex. OTHER is this program of another build, whose guarded method takes turns with
 * them. With the arguments "host" and the URL of lockstockd it is the host. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lockstock/guard.h>
#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "guarded.pb-c.h"
#include "conformance/caller.h"
#include "base/clock.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"

enum {
    SLICE = 2000,
    ALONE = 500,
    ROUNDS = 8,
    IN_FLIGHT = 16,
    WAYS = 3,
    THREADS = 16,
    HOUR_MS = 3600000,
    WAIT_MS = 10000,
    BYTES = 128
};

typedef Lockstock__Test__BuyRequest buy_request;
typedef Lockstock__Test__BuyResponse buy_response;

static const char *const paths[] = {"/lockstock.test.Bench/Guarded", "/lockstock.test.Bench/ByHand"};

/* ---- the host ------------------------------------------------------------------------------------- */

static lks_channel *channel;
static lks_limiter *limiter;

static lks_code answer(const buy_request *in, buy_response *out)
{
    out->outcome = LOCKSTOCK__TEST__BOUGHT__BOUGHT_YES;
    out->receipt = in->order_id;
    return LKS_OK;
}

static lks_code guarded(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                        ProtobufCMessage *response, lks_error *error)
{
    (void)service;
    (void)context;
    (void)error;
    return answer((const buy_request *)request, (buy_response *)response);
}

struct job {
    const buy_request *in;
    buy_response *out;
};

static lks_once_verdict run(void *arg, lks_once_attempt *attempt)
{
    struct job *job = arg;
    char name[BYTES];
    uint8_t body[BYTES];
    lks_mutex *mutex = NULL;
    lks_once_verdict verdict = LKS_ONCE_RETRY;

    snprintf(name, sizeof name, "item:%s", job->in->items[0]);
    const lks_lock_options options = {.group = "items"};
    if (lks_mutex_new(channel, name, &options, &mutex, NULL) != LKS_OK)
        return LKS_ONCE_RETRY;
    if (lks_mutex_lock(mutex, WAIT_MS, NULL) == LKS_LOCK_ACQUIRED) {
        answer(job->in, job->out);
        lks_once_return(attempt, 0, body, lockstock__test__buy_response__pack(job->out, body));
        lks_mutex_unlock(mutex, NULL);
        verdict = LKS_ONCE_STORE;
    }
    lks_mutex_free(mutex);
    return verdict;
}

static lks_code by_hand(const lks_rpc_service *service, lks_rpc_context *context, const ProtobufCMessage *request,
                        ProtobufCMessage *response, lks_error *error)
{
    struct job job = {(const buy_request *)request, (buy_response *)response};
    const lks_once_options options = {.scope = "hand", .key = job.in->order_id, .wait_ms = WAIT_MS};
    (void)service;
    (void)context;

    if (!lks_limiter_allow(limiter, job.in->buyer_id, 1, NULL, error))
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "limit");
    return lks_once_run(channel, &options, run, &job, NULL, error) == LKS_ONCE_EXECUTED
               ? LKS_OK
               : lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "once");
}

static const char *const by_buyer[] = {"buyer_id", NULL}, *const by_order[] = {"order_id", NULL},
                         *const by_items[] = {"items", NULL};
static const lks_rpc_guard_limit limit = {
    .key = by_buyer, .group = "", .policy = "", .limit = 100000000, .period_ms = HOUR_MS};
static const lks_rpc_guard_idempotency once = {.scope = "guarded", .key = by_order, .group = "", .wait_ms = WAIT_MS};
static const lks_rpc_guard_lock locks = {.prefix = "item", .keys = by_items, .group = "items", .wait_ms = WAIT_MS};
static const lks_rpc_guard guard = {
    .rate_limit = &limit, .idempotency = &once, .lock = &locks, .group = "", .outcome = "", .retry_after = ""};

static int serve(const char *url)
{
    static lks_rpc_method methods[2];
    const lks_rpc_binding bindings[] = {{&methods[0], guarded, &guard}, {&methods[1], by_hand, NULL}};
    const lks_rpc_service service = {.name = "lockstock.test.Bench", .n_bindings = 2, .bindings = bindings};
    lks_limit by_hour = LKS_LIMIT_INIT;
    const lks_limiter_rule rule = {.limit = &by_hour};
    lks_host *host;
    uint16_t port;

    by_hour.algorithm = LKS_ALGORITHM_SLIDING_WINDOW;
    by_hour.limit = 100000000;
    by_hour.period_ms = HOUR_MS;
    for (int i = 0; i < 2; i++)
        methods[i] = (lks_rpc_method){.path = paths[i],
                                      .request = &lockstock__test__buy_request__descriptor,
                                      .response = &lockstock__test__buy_response__descriptor,
                                      .effect = LKS_RPC_EFFECT_WRITE};
    if (lks_channel_open(url, NULL, &channel, NULL) != LKS_OK ||
        lks_limiter_new(channel, &(lks_limiter_options){.rules = &rule, .n_rules = 1}, &limiter, NULL) != LKS_OK ||
        lks_host_open(&(lks_host_options){.threads = THREADS, .guards = channel}, &host, NULL) != LKS_OK ||
        lks_host_add(host, &service, NULL) != LKS_OK ||
        lks_host_listen(host, "tcp://127.0.0.1:0", &port, NULL) != LKS_OK)
        return 1;
    printf("port %u\n", port);
    fflush(stdout);
    for (;;)
        pause();
}

/* ---- the measurement ------------------------------------------------------------------------------------ */

static double slice_cpu_of(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        abort();
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* Makes n calls, in_flight at once; `next` makes each. us: how long each took, of calls that are made one after the
 * other; NULL = not wanted. Returns false if the connection or a call failed. */
static bool slice_run(const wire_driver *driver, void *caller, int n, int in_flight, call_spec (*next)(const void *arg),
                      const void *arg, double *us)
{
    uint64_t since_ns = 0;

    for (int started = 0, ended = 0; ended < n;) {
        outcome got;
        if (started < n && started - ended < in_flight) {
            const call_spec call = next(arg);
            since_ns = clock_now_ns();
            if (driver->start(caller, &call) == 0)
                return false;
            started++;
        } else {
            if (!driver->await(caller, &got) || got.code != LKS_OK) {
                fprintf(stderr, "a call failed: %s\n", got.message);
                return false;
            }
            free(got.payload);
            if (us)
                us[ended] = (double)(clock_now_ns() - since_ns) / 1e3;
            ended++;
        }
    }
    return true;
}

/* Makes a Buy with a new order. */
static call_spec next_order(const void *path)
{
    static long n_orders;
    static uint8_t payload[BYTES];
    char order[32], buyer[32], item[32], *items[] = {item};
    buy_request request = LOCKSTOCK__TEST__BUY_REQUEST__INIT;

    snprintf(order, sizeof order, "order-%ld", ++n_orders);
    snprintf(buyer, sizeof buyer, "buyer-%ld", n_orders % 1000);
    snprintf(item, sizeof item, "commodity-%ld", n_orders % 1000);
    request.order_id = order;
    request.buyer_id = buyer;
    request.items = items;
    request.n_items = 1;
    return (call_spec){.method = path,
                       .payload = payload,
                       .len = lockstock__test__buy_request__pack(&request, payload),
                       .timeout_ms = 30000};
}

static redis_fixture *redis;
static server_fixture *server;

/* A way to make a guarded call. */
static struct way {
    const char *name, *path;
    process *host;
    void *caller;
    double host_s, server_s, redis_s, us[ALONE * ROUNDS];
} ways[WAYS] = {{.name = "guarded", .path = "/lockstock.test.Bench/Guarded"},
                {.name = "by hand", .path = "/lockstock.test.Bench/ByHand"},
                {.name = "other", .path = "/lockstock.test.Bench/Guarded"}};

static bool open_way(struct way *w, const char *program)
{
    const char *const argv[] = {program, "host", server_fixture_url(server), NULL};
    char line[64], url[64];
    unsigned port = 0;

    w->host = process_spawn(argv, NULL);
    if (!w->host || !process_wait_line(w->host, "port", line, sizeof line, 10000) ||
        sscanf(line, "port %u", &port) != 1)
        return false;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    return (w->caller = sp_driver.open(url, NULL));
}

/* round 0 warms up. */
static bool run_slice(struct way *w, int round)
{
    const double host_s = slice_cpu_of(process_pid(w->host)), server_s = slice_cpu_of(server_fixture_pid(server)),
                 redis_s = slice_cpu_of(redis_fixture_pid(redis));

    if (!slice_run(&sp_driver, w->caller, SLICE, IN_FLIGHT, next_order, w->path, NULL))
        return false;
    if (round > 0) {
        w->host_s += slice_cpu_of(process_pid(w->host)) - host_s;
        w->server_s += slice_cpu_of(server_fixture_pid(server)) - server_s;
        w->redis_s += slice_cpu_of(redis_fixture_pid(redis)) - redis_s;
    }
    return slice_run(&sp_driver, w->caller, ALONE, 1, next_order, w->path, &w->us[round > 0 ? (round - 1) * ALONE : 0]);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_ways(int n)
{
    enum { MEDIAN = ALONE * ROUNDS / 2 };
    const double calls = SLICE * ROUNDS;

    for (int i = 0; i < n; i++)
        qsort(ways[i].us, ALONE * ROUNDS, sizeof *ways[i].us, by_size);
    for (int i = 0; i < n; i++) {
        const struct way *w = &ways[i], *last = &ways[n - 1];
        printf("%-8s us of CPU a call: host %6.1f (%.2f of %s), lockstockd %6.1f (%.2f), Redis %6.1f (%.2f); p50 alone "
               "%6.0f us "
               "(%.2f)\n",
               w->name, w->host_s / calls * 1e6, w->host_s / last->host_s, last->name, w->server_s / calls * 1e6,
               w->server_s / last->server_s, w->redis_s / calls * 1e6, w->redis_s / last->redis_s, w->us[MEDIAN],
               w->us[MEDIAN] / last->us[MEDIAN]);
    }
}

int main(int argc, char **argv)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};
    const int n = argc == 2 ? 3 : 2;

    if (argc == 3 && strcmp(argv[1], "host") == 0)
        return serve(argv[2]);
    redis = redis_fixture_start(NULL);
    server = redis ? server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = unsafe})
                   : NULL;
    bool ok = server;
    for (int i = 0; ok && i < n; i++)
        ok = open_way(&ways[i], i == 2 ? argv[1] : argv[0]);
    for (int slice = 0; ok && slice < n * (ROUNDS + 1); slice++)
        ok = run_slice(&ways[slice % n], slice / n);
    if (ok)
        print_ways(n);
    for (int i = 0; i < n; i++) {
        if (ways[i].caller)
            sp_driver.close(ways[i].caller);
        process_free(ways[i].host);
    }
    server_fixture_free(server);
    redis_fixture_free(redis);
    return ok ? 0 : 1;
}
