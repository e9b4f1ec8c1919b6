/* Scene g: every schedule is fatal to its naive lock, and to lockstock none. */
#include "lock_scenes.h"

#include <inttypes.h>
#include <string.h>

#include "naive_schedules.h"

static const char unix_prefix[] = "unix://";

/* What the next one who came met, as a fact of the schedule. */
static void print(FILE *table, const char *name, const naive_schedule *schedule, const schedule_outcome *o)
{
    char next[64];

    if (o->endless) {
        snprintf(next, sizeof next, "for ever: the lock has no end; %u tries in vain", o->tries);
    } else if (o->moved > 0) {
        snprintf(next, sizeof next, "as long as it tries: %u of %u tries put the end off", o->moved, o->tries);
    } else if (o->tries > 0) {
        snprintf(next, sizeof next,
                 o->granted ? "until A's lease ended" : "until A's lease ends: none of %u tries put it off", o->tries);
    } else {
        snprintf(next, sizeof next, o->granted ? "not at all" : "until B is done");
    }
    fprintf(table, "  %-23s  %-27s  %-12s  %4" PRId64 "  %8" PRId64 "  %s, %s\n", name,
            schedule->naive->name == name ? schedule->happening : "", o->n_holders > 0 ? o->holders : "nobody", o->sold,
            o->oversold, schedule->next, next);
}

/* What is wrong with the naive lock must have happened. */
static bool has_failed(const naive_schedule *schedule, const schedule_outcome *o)
{
    if (schedule->naive == &naive_setnx_expire)
        return o->endless && !o->granted && o->tries > 1;
    if (schedule->naive == &naive_refreshing)
        return !o->granted && o->tries > 1 && o->moved == o->tries;
    return o->n_holders == 2 && o->oversold == 1;
}

static bool is_right(const naive_schedule *schedule, const schedule_outcome *o)
{
    bool alone = o->n_holders <= 1 && o->oversold == 0 && !o->endless && o->moved == 0;

    return alone && o->granted == (schedule->naive == &naive_setnx_expire);
}

lks_code scene_naive(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    lks_channel *channel = NULL;
    char run[17];

    if (!setup->redis || strncmp(setup->redis, unix_prefix, sizeof unix_prefix - 1) != 0) {
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "naive locks need --redis unix:///path, best the store of lockstockd");
    }
    lks_code code = lock_run_id(run, error);
    if (code != LKS_OK || (code = lks_channel_open(setup->urls, NULL, &channel, error)) != LKS_OK)
        return code;
    fprintf(claims->table, "scene g: one item under a lock; each schedule with a naive lock, and with lockstock\n");
    fprintf(claims->table, "  %-23s  %-27s  %-12s  %4s  %8s  %s\n", "lock", "what happens", "hold at once", "sold",
            "oversold", "who comes is blocked");
    for (size_t i = 0; code == LKS_OK && i < NAIVE_SCHEDULES; i++) {
        const naive_schedule *schedule = &naive_schedules[i];
        const char *socket = setup->redis + sizeof unix_prefix - 1;
        schedule_outcome naive, ours;
        code = schedule_run(schedule, schedule->naive, channel, socket, run, &naive, error);
        if (code == LKS_OK)
            code = schedule_run(schedule, &lockstock_way, channel, socket, run, &ours, error);
        if (code == LKS_OK) {
            print(claims->table, schedule->naive->name, schedule, &naive);
            print(claims->table, "  lockstock", schedule, &ours);
            lock_claim(claims, has_failed(schedule, &naive), "no harm by: %s", schedule->naive->name);
            lock_claim(claims, is_right(schedule, &ours), "lockstock, too: %s", schedule->happening);
        }
    }
    lks_channel_close(channel);
    return code;
}
