#include "support/rep_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_SECONDS = 30 };

typedef struct kept {
    struct kept *next;
    lks_rpc_nng_request *request;
} kept;

struct rep_fixture {
    lks_rpc_nng_rep *rep;
    uint16_t port;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kept *first;
    kept **end;
    size_t count;
    bool echoes;
    size_t answer_bytes;
};

static void answer_with(lks_rpc_nng_request *request, size_t bytes)
{
    size_t len;
    const void *data = lks_rpc_nng_request_data(request, &len);
    void *space = lks_rpc_nng_request_answer(request, bytes > 0 ? bytes : len);

    if (!space)
        abort();
    if (bytes == 0)
        memcpy(space, data, len);
    lks_rpc_nng_request_reply(request);
}

void rep_fixture_answer(lks_rpc_nng_request *request)
{
    answer_with(request, 0);
}

static void on_request(void *arg, lks_rpc_nng_request *request)
{
    rep_fixture *f = arg;
    kept *item = malloc(sizeof *item);

    if (!item)
        abort();
    *item = (kept){.request = request};
    pthread_mutex_lock(&f->lock);
    bool echoes = f->echoes;
    size_t bytes = f->answer_bytes;
    f->count++;
    if (!echoes) {
        *f->end = item;
        f->end = &item->next;
    }
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (echoes) {
        free(item);
        answer_with(request, bytes);
    }
}

rep_fixture *rep_fixture_start(lks_rpc_nng_rep_options options)
{
    rep_fixture *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->end = &f->first;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    options.on_request = on_request;
    options.arg = f;
    if (lks_rpc_nng_rep_open(&options, &f->rep, NULL) != LKS_OK ||
        lks_rpc_nng_rep_listen(f->rep, "tcp://127.0.0.1:0", &f->port, NULL) != LKS_OK) {
        rep_fixture_free(f);
        return NULL;
    }
    return f;
}

void rep_fixture_free(rep_fixture *f)
{
    if (!f)
        return;
    if (f->rep)
        lks_rpc_nng_rep_stop_receiving(f->rep);
    for (kept *item = f->first, *next; item; item = next) {
        next = item->next;
        lks_rpc_nng_request_drop(item->request);
        free(item);
    }
    lks_rpc_nng_rep_close(f->rep);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

lks_rpc_nng_rep *rep_fixture_rep(const rep_fixture *f)
{
    return f->rep;
}

unsigned short rep_fixture_port(const rep_fixture *f)
{
    return f->port;
}

static void set(rep_fixture *f, bool echoes, size_t bytes)
{
    pthread_mutex_lock(&f->lock);
    f->echoes = echoes;
    f->answer_bytes = bytes;
    pthread_mutex_unlock(&f->lock);
}

void rep_fixture_echo(rep_fixture *f, size_t bytes)
{
    set(f, true, bytes);
}

void rep_fixture_keep(rep_fixture *f)
{
    set(f, false, 0);
}

static struct timespec limit(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    return until;
}

lks_rpc_nng_request *rep_fixture_take(rep_fixture *f)
{
    struct timespec until = limit();
    lks_rpc_nng_request *request = NULL;

    pthread_mutex_lock(&f->lock);
    while (!f->first && pthread_cond_timedwait(&f->changed, &f->lock, &until) == 0) {
    }
    kept *item = f->first;
    if (item) {
        request = item->request;
        f->first = item->next;
        if (!f->first)
            f->end = &f->first;
        free(item);
    }
    pthread_mutex_unlock(&f->lock);
    return request;
}

size_t rep_fixture_count(rep_fixture *f)
{
    pthread_mutex_lock(&f->lock);
    size_t count = f->count;
    pthread_mutex_unlock(&f->lock);
    return count;
}

bool rep_fixture_wait_count(rep_fixture *f, size_t count)
{
    struct timespec until = limit();

    pthread_mutex_lock(&f->lock);
    while (f->count < count && pthread_cond_timedwait(&f->changed, &f->lock, &until) == 0) {
    }
    bool reached = f->count >= count;
    pthread_mutex_unlock(&f->lock);
    return reached;
}
