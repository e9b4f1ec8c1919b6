#include "waits.h"

#include <stdlib.h>

enum { QUARTER_MS = 250 };

struct waits {
    crowd *crowd;
    shop_side side;
    bool *seen;        /* of each buyer */
    uint32_t *gathers; /* of the quarter that is not over, n of them */
    size_t n;
    int64_t ends_ms;
    int64_t kept[WAITS_KEPT]; /* a ring */
    size_t n_kept;            /* ever */
};

waits *waits_new(crowd *c, shop_side side)
{
    waits *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    *w = (waits){.crowd = c, .side = side};
    w->seen = calloc(c->n_buyers, sizeof *w->seen);
    w->gathers = calloc(c->n_buyers, sizeof *w->gathers);
    if (!w->seen || !w->gathers) {
        waits_free(w);
        return NULL;
    }
    return w;
}

void waits_free(waits *w)
{
    if (w) {
        free(w->seen);
        free(w->gathers);
        free(w);
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void waits_look(waits *w, int64_t now_ms)
{
    if (w->ends_ms == 0)
        w->ends_ms = now_ms + QUARTER_MS;
    for (; now_ms >= w->ends_ms; w->ends_ms += QUARTER_MS) {
        qsort(w->gathers, w->n, sizeof *w->gathers, by_size);
        w->kept[w->n_kept++ % WAITS_KEPT] = w->n > 0 ? (int64_t)w->gathers[(w->n - 1) * 9 / 10] : WAITS_NONE;
        w->n = 0;
    }
    for (size_t i = 0; i < w->crowd->n_buyers; i++) {
        const buyer *b = crowd_buyer(w->crowd, w->side, i);
        if (!w->seen[i] && buyer_is_done(b)) {
            w->seen[i] = true;
            w->gathers[w->n++] = atomic_load(&b->waited_ms);
        }
    }
}

int64_t waits_at(const waits *w, size_t ago)
{
    return ago < WAITS_KEPT && ago < w->n_kept ? w->kept[(w->n_kept - 1 - ago) % WAITS_KEPT] : WAITS_NONE;
}

unsigned waits_level(int64_t ms)
{
    static const int64_t limits[] = {1, 3, 10, 30, 100, 300, 1000};
    unsigned level = 0;

    while (level < sizeof limits / sizeof *limits && ms > limits[level])
        level++;
    return level;
}

void waits_all(crowd *c, shop_side side, int64_t *half_ms, int64_t *longest_ms)
{
    uint32_t *all = calloc(c->n_buyers, sizeof *all);
    size_t n = 0;

    *half_ms = *longest_ms = 0;
    for (size_t i = 0; all && i < c->n_buyers; i++) {
        const buyer *b = crowd_buyer(c, side, i);
        buyer_state state = atomic_load(&b->state);
        if (state == BUYER_BOUGHT || state == BUYER_SOLD_OUT)
            all[n++] = atomic_load(&b->waited_ms);
    }
    if (n > 0) {
        qsort(all, n, sizeof *all, by_size);
        *half_ms = all[(n - 1) / 2];
        *longest_ms = all[n - 1];
    }
    free(all);
}
