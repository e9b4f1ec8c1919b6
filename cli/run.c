/* lockstock run: runs a program under a lock, like flock(1), but across machines. */
#include <inttypes.h>
#include <stdio.h>

#include <lockstock/mutex.h>

#include "commands.h"
#include "held.h"

/* A ForceRelease is noticed at the next renewal: until then the program overlaps with the next holder's. */
enum { RENEW_MS = 1000 };

typedef struct run_flags {
    const char *name, *group, *owner;
    int64_t lease, wait; /* milliseconds */
} run_flags;

#define AT(member) offsetof(run_flags, member)
static const option options[] = {
    {"lock", OPTION_TEXT, AT(name), "NAME", "the lock's name"},
    {"group", OPTION_TEXT, AT(group), "NAME", "the group of the name; default: the name itself"},
    {"owner", OPTION_TEXT, AT(owner), "TEXT", "who holds the lock, shown to other callers; default: host/pid"},
    {"lease", OPTION_DURATION, AT(lease), "TIME", "how long the lock stays held after its machine dies (30s)"},
    {"wait", OPTION_DURATION, AT(wait), "TIME", "how long to wait for the lock; default: do not wait"},
};
const command_flags flags_of_run = COMMAND_FLAGS(options, run_flags);

/* ---- in the keeper ------------------------------------------------------------------------------- */

static void on_lost(void *arg, const lks_lock_loss *loss)
{
    static const char *const reasons[] = {
        [LKS_LOSS_UNRENEWED] = "no server renewed it in time",
        [LKS_LOSS_TAKEN] = "it was taken away, or its lease had ended",
        [LKS_LOSS_MAX_HOLD] = "it was held for too long",
    };

    keeping_lose(arg, reasons[loss->reason]);
}

static uint32_t left_ms(const void *mutex)
{
    return lks_mutex_left_ms(mutex);
}

/* Makes an error about the request name the flag that the field came from. Without --group the lock's name is the
 * group, too. */
static void name_flag(const run_flags *o, lks_error *error)
{
    if (options_rename(error, "targets[0].name", "--lock") || (!o->group && options_rename(error, "group", "--lock")))
        return;
    options_name_flag(options, flags_of_run.n, error);
}

static exit_code not_taken(const run_flags *o, lks_lock_result result, lks_error *error)
{
    bool refused = result != LKS_LOCK_FAILED && error->applied == LKS_APPLIED_NO;

    if (result == LKS_LOCK_FAILED)
        name_flag(o, error);
    return refused ? exits_refused("", error->message) : exits_failed(error, false);
}

/* The mutex is locked. */
static exit_code keep(keeping *k, const run_flags *flags, lks_mutex *mutex)
{
    keeper_end end;
    lks_error error;

    keeping_add_variable(k, "LOCKSTOCK_FENCE=%" PRIu64, lks_mutex_fence(mutex));
    keeping_add_variable(k, "LOCKSTOCK_LOCK=%s", flags->name);
    keeping_keep(k, left_ms, mutex, &end);
    lks_code unlocked = lks_mutex_unlock(mutex, &error);
    if (unlocked == LKS_ABORTED)
        keeping_lose(k, "it was taken away, or its lease had ended");
    else if (unlocked != LKS_OK && !keeping_is_lost(k))
        exits_failed(&error, false);
    return unlocked == LKS_ABORTED ? EXIT_LOST : EXIT_DONE;
}

static exit_code lock_and_keep(keeping *k, cli *c, lks_channel *channel, const void *arg)
{
    const run_flags *flags = arg;
    const lks_lock_options lock_options = {.group = flags->group,
                                           .owner = flags->owner,
                                           .lease_ms = cli_ms(flags->lease),
                                           .renew_ms = RENEW_MS,
                                           .on_lost = on_lost,
                                           .arg = k};
    lks_mutex *mutex = NULL;
    lks_error error;

    (void)c;
    if (lks_mutex_new(channel, flags->name, &lock_options, &mutex, &error) != LKS_OK) {
        name_flag(flags, &error);
        return exits_failed(&error, true);
    }
    lks_lock_result result = lks_mutex_lock(mutex, cli_ms(flags->wait), &error);
    exit_code code = result == LKS_LOCK_ACQUIRED ? keep(k, flags, mutex) : not_taken(flags, result, &error);
    lks_mutex_free(mutex);
    return code;
}

/* ---- the command --------------------------------------------------------------------------------- */

exit_code run_command(cli *c, const invocation *in)
{
    static const keeper_kind kind = {.what = "the lock", .run = lock_and_keep};
    const run_flags *flags = in->flags;
    const held_options held = {.kind = &kind, .options = flags, .lease_ms = (uint64_t)flags->lease, .argv = in->argv};

    return held_run(c, &held);
}
