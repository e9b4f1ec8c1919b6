/* Atomics only: a client may be killed or frozen at any instruction, and would keep a mutex. */
#include "crowd.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "patience.h"

static crowd *map(int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

lks_code crowd_new(size_t n_buyers, int *fd, crowd **ret, lks_error *error)
{
    size_t bytes = sizeof(crowd) + SIDES * n_buyers * sizeof(buyer);
    int memory = memfd_create("lockstock-show", MFD_CLOEXEC);
    crowd *c = memory >= 0 && ftruncate(memory, (off_t)bytes) == 0 ? map(memory, bytes) : NULL;

    if (!c) {
        lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no memory for the crowd: %s", strerror(errno));
        if (memory >= 0)
            close(memory);
        return LKS_RESOURCE_EXHAUSTED;
    }
    c->n_buyers = n_buyers;
    *fd = memory;
    *ret = c;
    return LKS_OK;
}

crowd *crowd_attach(int fd)
{
    struct stat found;

    return fstat(fd, &found) == 0 && (size_t)found.st_size >= sizeof(crowd) ? map(fd, (size_t)found.st_size) : NULL;
}

buyer *crowd_buyer(crowd *c, shop_side side, size_t index)
{
    return &c->buyers[(size_t)side * c->n_buyers + index];
}

bool buyer_is_done(const buyer *b)
{
    return atomic_load(&b->state) >= BUYER_BOUGHT;
}

totals crowd_totals(crowd *c, shop_side side)
{
    totals t = {0};

    for (size_t i = 0; i < c->n_buyers; i++) {
        const buyer *b = crowd_buyer(c, side, i);
        buyer_state state = atomic_load(&b->state);
        bool lost = atomic_load(&b->lost);
        t.away += state == BUYER_AWAY;
        t.asks += state == BUYER_ASKS;
        t.bought += state == BUYER_BOUGHT;
        t.sold_out += state == BUYER_SOLD_OUT;
        t.no_answer += state == BUYER_NO_ANSWER || state == BUYER_WRONG;
        t.wrong += state == BUYER_WRONG;
        t.lost += lost;
        t.known += lost && (state == BUYER_BOUGHT || state == BUYER_SOLD_OUT);
        t.replayed += atomic_load(&b->replayed);
    }
    return t;
}

int64_t crowd_arrival_ms(const crowd *c, size_t index)
{
    size_t first_of_wave = index - index % (CLIENTS * CLIENT_THREADS);

    return atomic_load(&c->opens_ms) + c->run_ms * (int64_t)first_of_wave / (int64_t)c->n_buyers;
}

void crowd_pay(size_t index)
{
    clock_rest(index % PAY_SLOWLY_ONE_IN == PAY_SLOWLY_ONE_IN / 2 ? PAY_SLOWLY_MS : PAY_MS);
}

bool crowd_write_till(crowd *c, uint64_t fence)
{
    uint64_t highest = atomic_load(&c->till_fence);

    while (fence >= highest) {
        if (atomic_compare_exchange_weak(&c->till_fence, &highest, fence)) {
            atomic_fetch_add(&c->till_writes, 1);
            return true;
        }
    }
    atomic_fetch_add(&c->till_late, 1);
    return false;
}

size_t crowd_oversold(const crowd *c, const totals *t)
{
    return t->bought > (size_t)c->stock ? t->bought - (size_t)c->stock : 0;
}

size_t crowd_missed(const crowd *c, const totals *naive)
{
    int64_t missed = (int64_t)naive->bought + atomic_load(&c->naive_left) - c->stock;

    return missed > 0 ? (size_t)missed : 0;
}
