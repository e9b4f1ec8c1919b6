/* Invariant: between others_go and others_pause each client and its part of the phase
 * belong to its thread; else to the main one. */
#include "others.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/v1/id.lks.h>
#include <lockstock/v1/lock.lks.h>

#include "base/clock.h"
#include "bytes.h"
#include "support/process.h"

enum { CALL_TIMEOUT_MS = 20000, STEPS = 3 };

typedef struct client {
    pthread_t thread;
    size_t index; /* in others_phase */
    wire wire;
    void *caller; /* NULL: not connected */
    unsigned step, round;
    char token[40], lock[40];
    latencies *calls;
    size_t *failed;
    char *why;
    atomic_bool served;
} client;

static struct {
    client clients[N_OTHERS];
    atomic_bool stop;
} here;

/* ---- latencies -------------------------------------------------------------------------- */

static void add(latencies *l, uint64_t us)
{
    if (l->n == l->room) {
        l->room = l->room > 0 ? 2 * l->room : 4096;
        l->us = realloc(l->us, l->room * sizeof *l->us);
        if (!l->us)
            abort();
    }
    l->us[l->n++] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

uint32_t latencies_at(latencies *l, double p)
{
    if (l->n == 0)
        return 0;
    qsort(l->us, l->n, sizeof *l->us, compare);
    size_t at = (size_t)(p * (double)l->n);
    return l->us[at < l->n ? at : l->n - 1];
}

void latencies_free(latencies *l)
{
    free(l->us);
    l->us = NULL;
    l->room = 0;
}

/* ---- calls ------------------------------------------------------------------------------ */

static void pack_release(client *c, bytes *b)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    const char *names[] = {c->lock};

    request.names = names;
    request.n_names = 1;
    request.token = c->token;
    pack(b, &request.base);
}

static const char *pack_step(client *c, bytes *b)
{
    lks_decode_request decode = LKS_DECODE_REQUEST_INIT;

    switch (c->step) {
    case 0:
        decode.id = 1;
        pack(b, &decode.base);
        return PATH_DECODE;
    case 1:
        snprintf(c->token, sizeof c->token, "others-token-%02zu-%016x", c->index, c->round++);
        pack_acquire(b, c->lock, c->token, 0);
        return PATH_ACQUIRE;
    default:
        pack_release(c, b);
        return PATH_RELEASE;
    }
}

static void disconnect(client *c)
{
    if (c->caller)
        target_driver(c->wire)->close(c->caller);
    c->caller = NULL;
}

static bool connect_client(client *c)
{
    if (!c->caller)
        c->caller = target_driver(c->wire)->open(target_url(c->wire), target_certificate(c->wire));
    return c->caller;
}

static void note_failure(client *c, const char *why)
{
    ++*c->failed;
    snprintf(c->why, sizeof((others_phase *)0)->why[0], "%s", why);
}

/* A newcomer's time includes that of connecting. */
static void call(client *c)
{
    const wire_driver *driver = target_driver(c->wire);
    outcome answer;
    bytes payload = {0};
    uint64_t begun_ns = clock_now_ns();
    bool connected = connect_client(c);
    const char *path = pack_step(c, &payload);
    const call_spec spec = {.method = path,
                            .payload = payload.data,
                            .len = payload.len,
                            .timeout_ms = CALL_TIMEOUT_MS,
                            .authorization = "Bearer " TARGET_OTHERS_TOKEN};

    if (!connected) {
        note_failure(c, "not connected");
        process_pause();
    } else if (driver->start(c->caller, &spec) == 0 || !driver->await(c->caller, &answer)) {
        note_failure(c, "the connection ended");
        disconnect(c);
    } else {
        if (answer.code == LKS_OK) {
            add(c->calls, (clock_now_ns() - begun_ns) / 1000);
            atomic_store(&c->served, true);
            c->step = (c->step + 1) % STEPS;
        } else {
            note_failure(c, answer.message);
        }
        free(answer.payload);
    }
    bytes_free(&payload);
}

static void *run(void *arg)
{
    client *c = arg;

    do {
        call(c);
        if (c->index == OTHERS_NEWCOMER) {
            disconnect(c);
            process_pause();
        }
    } while (!atomic_load(&here.stop));
    return NULL;
}

/* ---- phases ----------------------------------------------------------------------------- */

bool others_open(wire same, wire elsewhere)
{
    bool connected = true;

    for (size_t i = 0; i < N_OTHERS; i++) {
        client *c = &here.clients[i];
        *c = (client){.index = i, .wire = i == OTHERS_ELSEWHERE ? elsewhere : same};
        snprintf(c->lock, sizeof c->lock, "others-%zu", i);
        connected = (i == OTHERS_NEWCOMER || connect_client(c)) && connected;
    }
    return connected;
}

void others_go(others_phase *phase)
{
    atomic_store(&here.stop, false);
    for (size_t i = 0; i < N_OTHERS; i++) {
        client *c = &here.clients[i];
        c->calls = &phase->calls[i];
        c->failed = &phase->failed[i];
        c->why = phase->why[i];
        atomic_store(&c->served, false);
        if (pthread_create(&c->thread, NULL, run, c) != 0)
            abort();
    }
}

bool others_were_served(void)
{
    bool all = true;

    for (size_t i = 0; i < N_OTHERS; i++)
        all = all && atomic_load(&here.clients[i].served);
    return all;
}

void others_pause(void)
{
    atomic_store(&here.stop, true);
    for (size_t i = 0; i < N_OTHERS; i++)
        pthread_join(here.clients[i].thread, NULL);
}

void others_close(void)
{
    for (size_t i = 0; i < N_OTHERS; i++)
        disconnect(&here.clients[i]);
}
