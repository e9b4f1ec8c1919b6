/* Invariant: a hand's records are its own until its thread has ended. */
#include "rival.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "interrupt.h"

typedef struct crew {
    rival *rival;
    atomic_int phase; /* 0 warms up, 1 is measured, 2 stops */
    atomic_bool some; /* was measured */
    atomic_llong left;
    uint64_t calls;
    atomic_uint holder; /* of the one lock, the last; from 1 */
} crew;

bool hand_goes_on(hand *h)
{
    crew *c = h->crew;

    if (h->failed || atomic_load_explicit(&c->phase, memory_order_relaxed) == 2 || interrupted())
        return false;
    return c->calls == 0 || atomic_fetch_sub(&c->left, 1) > 0;
}

void hand_record(hand *h, uint64_t began_ns)
{
    unsigned n = work_calls(&h->crew->rival->work);

    if (atomic_load_explicit(&h->crew->phase, memory_order_relaxed) != 1)
        return;
    atomic_store_explicit(&h->crew->some, true, memory_order_relaxed);
    uint64_t latency_ns = measure_now_ns() - began_ns;
    for (unsigned i = 0; i < n; i++)
        measure_call(&h->measured, FATE_OK, latency_ns, latency_ns);
}

void hand_holds(hand *h)
{
    bool other = atomic_exchange(&h->crew->holder, h->slot + 1) != h->slot + 1;

    if (other && atomic_load_explicit(&h->crew->phase, memory_order_relaxed) == 1)
        h->measured.hand_offs++;
}

const rival *hand_rival(const hand *h)
{
    return h->crew->rival;
}

/* ---- synchronous ----------------------------------------------------------------- */

static void ask_and_wait(hand *h)
{
    const work *w = &h->crew->rival->work;
    command *c = measure_alloc(1, sizeof *c);

    for (uint64_t n = 0; hand_goes_on(h); n++) {
        uint64_t began_ns = measure_now_ns();
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
    uint64_t *began_ns; /* a ring, of the commands under way in their order */
    uint64_t sent, answered;
    uint64_t *turns; /* of each slot: how many commands it sent */
} window;

static void append(hand *h, window *w, command *c)
{
    unsigned slot = (unsigned)(w->sent % w->size);

    work_command(&h->crew->rival->work, slot, w->turns[slot]++, c);
    w->began_ns[slot] = measure_now_ns();
    redisAppendCommandArgv(h->redis, c->argc, c->argv, c->lengths);
    w->sent++;
    w->under_way++;
}

/* All replies that are there. */
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
    bool goes_on = true;

    while (!h->failed && (goes_on || w.under_way > 0)) {
        while ((r->kind == RIVAL_PIPELINE || w.under_way == 0 || w.sent % w.size != 0) && w.under_way < w.size &&
               (goes_on = hand_goes_on(h)))
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
    uint64_t from_ns = measure_now_ns();
    while (good && started < n && (good = pthread_create(&threads[started], NULL, run_hand, &hands[started]) == 0))
        started++;
    if (good && calls == 0) {
        measure_pause(warm_up);
        before = place_cpu(p);
        from_ns = measure_now_ns();
        atomic_store(&c.phase, 1);
        measure_pause_until_some(seconds, &c.some);
        m->cpu = measure_cpu(before, place_cpu(p));
    }
    m->seconds += (double)(measure_now_ns() - from_ns) / 1e9;
    if (calls == 0)
        atomic_store(&c.phase, 2);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (calls > 0) {
        m->cpu = measure_cpu(before, place_cpu(p));
        m->seconds = (double)(measure_now_ns() - from_ns) / 1e9;
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
