/* Scene g: five schedules, each fatal to one naive lock, and played with lockstock
 * too. Under the lock there is one item, sold by reading the stock and writing one
 * less. A schedule depends on no timing: who is to be late is stopped at a barrier, and
 * who waits for a lease to end looks until it has ended. */
#ifndef SECKILL_NAIVE_SCHEDULES_H
#define SECKILL_NAIVE_SCHEDULES_H

#include "lock_way.h"

enum { NAIVE_SCHEDULES = 5 };

struct schedule_play;

/* What became of the workers, the item and who came next. */
typedef struct schedule_outcome {
    char holders[16]; /* names of those who believe that they hold it, at the same time */
    size_t n_holders;
    int64_t sold, oversold;
    bool endless;          /* the dead one's lock has no end */
    unsigned tries, moved; /* of who came next; how many put the end of the lock off */
    bool granted;          /* and whether one was granted */
} schedule_outcome;

typedef struct naive_schedule {
    const lock_way *naive; /* whom it is fatal to */
    const char *happening; /* for people */
    const char *next;      /* who comes last, and should wait */
    void (*play)(struct schedule_play *play);
} naive_schedule;

extern const naive_schedule naive_schedules[NAIVE_SCHEDULES];

/* Plays one schedule with one way, in names that begin with `run`. */
lks_code schedule_run(const naive_schedule *schedule, const lock_way *way, lks_channel *channel,
                      const char *redis_socket, const char *run, schedule_outcome *ret, lks_error *error);

#endif
