/* A hand's records are its own until its thread has ended. */
#include "rival_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rival_outside.h"

enum { SLEEP_MIN_US = 3000, SLEEP_MAX_US = 33000 };

/* A thread of a rival. */
typedef struct hand {
    struct crew *crew;
    unsigned slot;
    redisContext *redis;
    measure measured;
    bool failed;
} hand;

typedef struct crew {
    rival *rival;
    atomic_int phase; /* 0: warm-up, 1: measured, 2: stopping */
    atomic_bool some; /* a call was measured */
    atomic_llong left;
    uint64_t calls;
    atomic_uint holder; /* last holder of the hot lock, from 1 */
} crew;

/* Returns whether another call may begin. */
static bool may_continue(hand *h)
{
    crew *c = h->crew;

    if (h->failed || atomic_load_explicit(&c->phase, memory_order_relaxed) == 2 || interrupted())
        return false;
    return c->calls == 0 || atomic_fetch_sub(&c->left, 1) > 0;
}

/* Records a call that began at began_ns. */
static void hand_record(hand *h, uint64_t began_ns)
{
    unsigned n = work_calls(&h->crew->rival->work);

    if (atomic_load_explicit(&h->crew->phase, memory_order_relaxed) != 1)
        return;
    atomic_store_explicit(&h->crew->some, true, memory_order_relaxed);
    uint64_t latency_ns = clock_now_ns() - began_ns;
    for (unsigned i = 0; i < n; i++)
        measure_call(&h->measured, FATE_OK, latency_ns, latency_ns);
}

/* Records that this hand holds the hot lock. */
static void hand_holds(hand *h)
{
    bool other = atomic_exchange(&h->crew->holder, h->slot + 1) != h->slot + 1;

    if (other && atomic_load_explicit(&h->crew->phase, memory_order_relaxed) == 1)
        h->measured.hand_offs++;
}

/* ---- synchronous ----------------------------------------------------------------- */

static void ask_and_wait(hand *h)
{
    const work *w = &h->crew->rival->work;
    command *c = measure_alloc(1, sizeof *c);

    for (uint64_t n = 0; may_continue(h); n++) {
        uint64_t began_ns = clock_now_ns();
        work_command(w, h->slot, n, c);
        redisReply *reply = redisCommandArgv(h->redis, c->argc, c->argv, c->lengths);
        h->failed = !work_succeeded(reply);
        hand_record(h, began_ns);
        if (reply)
            freeReplyObject(reply);
    }
    free(c);
}

/* ---- pipelined ------------------------------------------------------------------- */

typedef struct window {
    unsigned size, under_way;
    uint64_t *began_ns; /* ring of the start times of running commands */
    uint64_t sent, answered;
    uint64_t *turns; /* by slot: commands sent */
} window;

static void append(hand *h, window *w, command *c)
{
    unsigned slot = (unsigned)(w->sent % w->size);

    work_command(&h->crew->rival->work, slot, w->turns[slot]++, c);
    w->began_ns[slot] = clock_now_ns();
    redisAppendCommandArgv(h->redis, c->argc, c->argv, c->lengths);
    w->sent++;
    w->under_way++;
}

/* Takes all replies that have arrived. */
static void take(hand *h, window *w)
{
    void *reply = NULL;

    while (!h->failed && redisGetReplyFromReader(h->redis, &reply) == REDIS_OK && reply) {
        h->failed = !work_succeeded(reply);
        hand_record(h, w->began_ns[w->answered++ % w->size]);
        w->under_way--;
        freeReplyObject(reply);
    }
}

static bool write_all(hand *h)
{
    int done = 0;

    while (!done)
        if (redisBufferWrite(h->redis, &done) != REDIS_OK)
            return false;
    return true;
}

static void pipeline(hand *h)
{
    const rival *r = h->crew->rival;
    window w = {.size = r->in_flight,
                .began_ns = measure_alloc(r->in_flight, sizeof *w.began_ns),
                .turns = measure_alloc(r->in_flight, sizeof *w.turns)};
    command *c = measure_alloc(1, sizeof *c);
    bool continues = true;

    while (!h->failed && (continues || w.under_way > 0)) {
        while ((r->kind == RIVAL_PIPELINE || w.under_way == 0 || w.sent % w.size != 0) && w.under_way < w.size &&
               (continues = may_continue(h)))
            append(h, &w, c);
        if (w.under_way > 0 && (!write_all(h) || redisBufferRead(h->redis) != REDIS_OK)) {
            fprintf(stderr, "lockstock-bench: Redis: %s\n", h->redis->errstr);
            h->failed = true;
        }
        take(h, &w);
    }
    free(w.began_ns);
    free(w.turns);
    free(c);
}

/* ---- locks as they are written on Redis without a server ----------------------------- */

/* Two of these locks have a lease and a compare-and-delete. They are not fair: the client that releases the lock
 * often takes it again, so only a change of the holder counts as a hand-off. The third is a bare list: fair and
 * fast, but lost if its holder dies. None has a fence. */

/* KEYS: the lock and its list; ARGV: the token. The list has at most one element; the client that pops it tries
 * again. */
static const char release_and_tell[] = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                                       "redis.call('DEL', KEYS[1], KEYS[2])\n"
                                       "redis.call('LPUSH', KEYS[2], '1')\n"
                                       "redis.call('PEXPIRE', KEYS[2], 60000)\n"
                                       "return 1\n";

typedef struct names {
    char lock[64], list[64], token[DRIVE_ID_BYTES], sha[48];
} names;

static bool prepare(hand *h, names *n, const char *release)
{
    const world *w = h->crew->rival->work.world;
    redisReply *reply = redisCommand(h->redis, "SCRIPT LOAD %s", release);

    snprintf(n->lock, sizeof n->lock, "{bench}h:%s", w->things[0]);
    snprintf(n->list, sizeof n->list, "{bench}s:%s", w->things[0]);
    h->failed = !work_answered(reply);
    if (!h->failed)
        snprintf(n->sha, sizeof n->sha, "%s", reply->str);
    if (reply)
        freeReplyObject(reply);
    return !h->failed;
}

/* Returns whether the reply is not nil. */
static bool got(hand *h, redisReply *reply)
{
    bool is = reply && reply->type != REDIS_REPLY_NIL;

    h->failed = !work_done(reply) || h->failed;
    return is && !h->failed;
}

static bool try_to_take(hand *h, const names *n)
{
    return got(h, redisCommand(h->redis, "SET %s %s NX PX 60000", n->lock, n->token));
}

static void new_token(hand *h, names *n)
{
    drive_make_id(n->token, h->crew->rival->work.world->tag, drive_next_serial());
}

/* Uses a lock with a lease: `wait` waits until it may be free; `release` is the script that releases it. */
static void take_in_turns(hand *h, const char *release, void (*wait)(hand *h, const names *n, unsigned *seed))
{
    unsigned seed = h->slot + 1;
    names n;

    if (!prepare(h, &n, release))
        return;
    while (may_continue(h)) {
        uint64_t began_ns = clock_now_ns();
        new_token(h, &n);
        bool held = try_to_take(h, &n);
        while (!held && !h->failed) {
            wait(h, &n, &seed);
            held = !h->failed && try_to_take(h, &n);
        }
        hand_holds(h);
        hand_record(h, began_ns);
        began_ns = clock_now_ns();
        got(h, redisCommand(h->redis, "EVALSHA %s 2 %s %s %s", n.sha, n.lock, n.list, n.token));
        hand_record(h, began_ns);
    }
}

static void wait_for_sign(hand *h, const names *n, unsigned *seed)
{
    (void)seed;
    got(h, redisCommand(h->redis, "BLPOP %s 1", n->list));
}

static void sleep_a_while(hand *h, const names *n, unsigned *seed)
{
    long us = SLEEP_MIN_US + rand_r(seed) % (SLEEP_MAX_US - SLEEP_MIN_US + 1);

    (void)h;
    (void)n;
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void rival_blpop(hand *h)
{
    take_in_turns(h, release_and_tell, wait_for_sign);
}

static void rival_polling(hand *h)
{
    take_in_turns(h, work_release_script, sleep_a_while);
}

static void list_name(const world *w, char name[static THING_BYTES + 16])
{
    snprintf(name, THING_BYTES + 16, "{bench}t:%s", w->things[0]);
}

static bool rival_list_prepare(const rival *r, redisContext *redis)
{
    char list[THING_BYTES + 16];

    list_name(r->work.world, list);
    return work_done(redisCommand(redis, "DEL %s", list)) && work_done(redisCommand(redis, "RPUSH %s 1", list));
}

static void rival_list(hand *h)
{
    char list[THING_BYTES + 16];

    list_name(h->crew->rival->work.world, list);
    while (may_continue(h)) {
        uint64_t began_ns = clock_now_ns();
        got(h, redisCommand(h->redis, "BLPOP %s 0", list));
        hand_holds(h);
        hand_record(h, began_ns);
        began_ns = clock_now_ns();
        got(h, redisCommand(h->redis, "RPUSH %s 1", list));
        hand_record(h, began_ns);
    }
}

/* ---- threads --------------------------------------------------------------------- */

static void *run_hand(void *arg)
{
    hand *h = arg;

    switch (h->crew->rival->kind) {
    case RIVAL_THREADS:
        ask_and_wait(h);
        break;
    case RIVAL_BLPOP:
        rival_blpop(h);
        break;
    case RIVAL_LIST:
        rival_list(h);
        break;
    case RIVAL_POLLING:
        rival_polling(h);
        break;
    default:
        pipeline(h);
    }
    return NULL;
}

static bool run_threads(rival *r, const place *p, double warm_up, double seconds, uint64_t calls, measure *m)
{
    bool one = r->kind == RIVAL_PIPELINE || r->kind == RIVAL_CHUNKS;
    unsigned n = one ? 1 : r->in_flight;
    crew c = {.rival = r, .calls = calls, .left = (long long)calls, .phase = calls > 0};
    hand *hands = measure_alloc(n, sizeof *hands);
    pthread_t *threads = measure_alloc(n, sizeof *threads);
    unsigned started = 0;
    bool good = true;

    for (unsigned i = 0; i < n && good; i++) {
        hands[i] = (hand){.crew = &c, .slot = i, .redis = place_connect(p)};
        good = hands[i].redis != NULL;
    }
    cpu_times before = place_cpu(p);
    uint64_t from_ns = clock_now_ns();
    while (good && started < n && (good = pthread_create(&threads[started], NULL, run_hand, &hands[started]) == 0))
        started++;
    if (good && calls == 0) {
        measure_pause(warm_up);
        before = place_cpu(p);
        from_ns = clock_now_ns();
        atomic_store(&c.phase, 1);
        measure_pause_until_some(seconds, &c.some);
        m->cpu = measure_cpu(before, place_cpu(p));
    }
    m->seconds += (double)(clock_now_ns() - from_ns) / 1e9;
    if (calls == 0)
        atomic_store(&c.phase, 2);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (calls > 0) {
        m->cpu = measure_cpu(before, place_cpu(p));
        m->seconds = (double)(clock_now_ns() - from_ns) / 1e9;
    }
    for (unsigned i = 0; i < n; i++) {
        good = good && !hands[i].failed;
        measure_add(m, &hands[i].measured);
        measure_clear(&hands[i].measured);
        if (hands[i].redis)
            redisFree(hands[i].redis);
    }
    free(threads);
    free(hands);
    return good;
}

/* ---------------------------------------------------------------------------------- */

bool rival_run(rival *r, const place *p, double warm_up, double seconds, uint64_t calls, measure *m)
{
    redisContext *redis = place_connect(p);
    bool prepared = redis && work_prepare(&r->work, redis) && (r->kind != RIVAL_LIST || rival_list_prepare(r, redis));

    if (redis)
        redisFree(redis);
    if (!prepared)
        return false;
    if (r->kind == RIVAL_BENCHMARK || r->kind == RIVAL_GRPC || r->kind == RIVAL_GRPC_OURS)
        return rival_outside(r, p, warm_up, seconds, m);
    return run_threads(r, p, warm_up, seconds, calls, m);
}
