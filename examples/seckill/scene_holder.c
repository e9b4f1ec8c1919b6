/* Scene e: the holder is a process of its own that is killed, or frozen for longer than
 * its lease. The next one gets the lock while the first is dead or still frozen, so
 * that no clock decides what is shown. */
#include "lock_scenes.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "holder.h"
#include "lease.h"
#include "resource.h"

enum { LEASE_MS = 400, LONG_MS = 60000 };

typedef struct stricken {
    int signal_number;
    uint64_t fence, next_fence;
    bool next_wrote;
    bool late_wrote;     /* the resource took the stricken one's write */
    bool late_registers; /* CheckFence did */
    bool knows;          /* it found out that it had lost the lock, by itself */
    resource resource;
} stricken;

/* The next one, at once: it waits until the lease has ended. */
static lks_code succeed(lks_channel *channel, const char *name, stricken *s, lks_error *error)
{
    lks_acquire_outcome outcome = LKS_ACQUIRE_OUTCOME_UNSPECIFIED;
    lease next = {.fence = 0};
    bool registers = false;
    lks_code code = lease_acquire(channel, name, "next", LONG_MS, LONG_MS, &next, &outcome, error);

    if (code != LKS_OK)
        return code;
    if (outcome != LKS_ACQUIRE_OUTCOME_ACQUIRED)
        return lks_error_set(error, LKS_ABORTED, LKS_APPLIED_NO, "the next one did not get the lock");
    s->next_fence = next.fence;
    code = lease_check_fence(channel, name, next.fence, &registers, error);
    s->next_wrote = registers && resource_write(&s->resource, "the next", next.fence);
    return code;
}

/* A write of a killed holder was on its way when it died; a frozen one writes when it
 * goes on. */
static lks_code write_late(lks_channel *channel, const char *name, holder *h, stricken *s, lks_error *error)
{
    lks_code code;

    if (s->signal_number == SIGSTOP) {
        kill(h->process.pid, SIGCONT);
        code = holder_write(h, &s->late_registers, &s->knows, error);
    } else {
        code = lease_check_fence(channel, name, s->fence, &s->late_registers, error);
    }
    s->late_wrote = resource_write(&s->resource, "the late one", s->fence);
    return code;
}

static lks_code play(const lock_setup *setup, int signal_number, stricken *ret, lks_error *error)
{
    lks_channel *channel = NULL;
    holder h = {0};
    char run[17], name[48];

    *ret = (stricken){.signal_number = signal_number, .resource = RESOURCE_INIT};
    lks_code code = lock_run_id(run, error);
    if (code != LKS_OK)
        return code;
    snprintf(name, sizeof name, "seckill:%s:account", run);
    if ((code = lks_channel_open(setup->urls, NULL, &channel, error)) != LKS_OK ||
        (code = holder_start(setup->program, setup->urls, name, LEASE_MS, &h, error)) != LKS_OK)
        goto cleanup;
    ret->fence = h.fence;
    kill(h.process.pid, signal_number);
    if ((code = succeed(channel, name, ret, error)) == LKS_OK)
        code = write_late(channel, name, &h, ret, error);
cleanup:
    holder_end(&h);
    lks_channel_close(channel);
    return code;
}

static void print(FILE *table, const char *what, const char *when, const stricken *s)
{
    fprintf(table, "  %-16s  %-18s  %-16s  %-13s  %-15s  %s\n", what, when, s->next_wrote ? "written" : "refused",
            s->late_wrote || s->late_registers ? "WRITTEN" : "refused, late", s->resource.writer,
            s->signal_number == SIGKILL ? "-"
            : s->knows                  ? "yes"
                                        : "no");
}

static void check(lock_claims *claims, const char *what, const stricken *s)
{
    lock_claim(claims, s->next_fence > s->fence, "%s: fence %" PRIu64 " after %" PRIu64, what, s->next_fence, s->fence);
    lock_claim(claims, s->next_wrote, "%s: the next one's write was refused", what);
    lock_claim(claims, !s->late_wrote, "%s: the resource took the late write", what);
    lock_claim(claims, !s->late_registers, "%s: CheckFence took the late write", what);
    lock_claim(claims, strcmp(s->resource.writer, "the next") == 0, "%s: the last word is not the next one's", what);
}

lks_code scene_holder(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    stricken killed, frozen;
    lks_code code = play(setup, SIGKILL, &killed, error);

    if (code != LKS_OK || (code = play(setup, SIGSTOP, &frozen, error)) != LKS_OK)
        return code;
    fprintf(claims->table, "scene e: a holder that no watchdog can save\n");
    fprintf(claims->table, "  %-16s  %-18s  %-16s  %-13s  %-15s  %s\n", "the holder is", "the next gets it",
            "the next's write", "its own write", "last written by", "it knows");
    print(claims->table, "killed (SIGKILL)", "when it is dead", &killed);
    print(claims->table, "frozen (SIGSTOP)", "while it is frozen", &frozen);
    check(claims, "killed", &killed);
    check(claims, "frozen", &frozen);
    lock_claim(claims, frozen.knows, "frozen: it does not know that it lost the lock");
    return LKS_OK;
}
