/* lockstock run: a program under a lock, like flock(1), over machines.
 *
 *   waiting --held--> running --it ends--> releasing --> over
 *      |                 `---lost--> stopping (TERM, KILL before the lease can end) --> over
 *      `---not taken, a signal--> over (releasing, if it has just been granted)
 *
 * This process has no threads: it starts the program, passes signals on, and ends it in time. What speaks with the
 * servers is the lock process (lock_process.h). */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "child.h"
#include "cli.h"
#include "help.h"
#include "lock_process.h"

enum { RELEASE_MS = 10000 }; /* then the lease ends it */

#define AT(member) offsetof(lock_process_options, member)
const option run_options[] = {
    {"lock", OPTION_TEXT, AT(name), "NAME", "the lock's name"},
    {"group", OPTION_TEXT, AT(group), "NAME", "what the name lives in; else the name itself"},
    {"owner", OPTION_TEXT, AT(owner), "TEXT", "told to who asks who holds it; else host/pid"},
    {"lease", OPTION_DURATION, AT(lease), "TIME", "how soon it is free after a machine died (30s)"},
    {"wait", OPTION_DURATION, AT(wait), "TIME", "how long to wait for it; else not at all"},
};
const size_t run_options_len = sizeof run_options / sizeof *run_options;

typedef enum phase { WAITING, RUNNING, STOPPING, RELEASING, OVER } phase;

typedef struct held_run {
    phase phase;
    lock_process *locker;
    child child;
    char *const *argv;
    const lock_process_options *options;
    uint64_t kill_ns;    /* STOPPING: 0 = it was */
    uint64_t give_up_ns; /* RELEASING */
    int code;
} running;

static void stop(running *r)
{
    uint64_t now_ns = clock_now_ns();

    child_stop(&r->child);
    r->kill_ns = now_ns + lock_process_margin_ns(r->locker) / 4 * 3;
    r->phase = STOPPING;
}

static void release(running *r)
{
    r->phase = RELEASING;
    r->give_up_ns = clock_now_ns() + RELEASE_MS * NS_PER_MS;
    lock_process_release(r->locker);
}

static void start(running *r)
{
    char fence[64], name[256];
    const char *const variables[] = {fence, name, NULL};

    snprintf(fence, sizeof fence, "LOCKSTOCK_FENCE=%" PRIu64, lock_process_fence(r->locker));
    snprintf(name, sizeof name, "LOCKSTOCK_LOCK=%s", r->options->name);
    if (child_start(&r->child, r->argv, variables, -1)) {
        lock_process_guard(r->locker, r->child.group);
        r->phase = RUNNING;
        return;
    }
    r->code = EXIT_AROUND + EXIT_OTHER;
    release(r);
}

static void on_news(running *r)
{
    switch (lock_process_next(r->locker)) {
    case LOCK_PROCESS_HELD:
        if (r->phase == WAITING)
            start(r);
        break;
    case LOCK_PROCESS_LOST:
        if (r->phase == RUNNING)
            stop(r);
        break;
    case LOCK_PROCESS_FAILED:
        if (r->phase == WAITING)
            r->code = EXIT_AROUND + (int)lock_process_code(r->locker);
        else if (lock_process_code(r->locker) == EXIT_LOST)
            r->code = EXIT_LOST;
        r->phase = r->phase == WAITING || r->phase == RELEASING ? OVER : r->phase;
        break;
    case LOCK_PROCESS_DONE:
        r->phase = OVER;
        break;
    default:
        break;
    }
}

static void on_child_end(running *r)
{
    if (r->phase == STOPPING) {
        child_kill(&r->child, SIGKILL); /* what it has started */
        r->code = EXIT_LOST;
        r->phase = OVER;
        return;
    }
    lock_process_guard(r->locker, 0);
    r->code = child_code(&r->child);
    release(r);
}

static void on_signals(running *r)
{
    signal_event event;

    while (signals_next(&event)) {
        if (event.number == SIGCHLD) {
            if ((r->phase == RUNNING || r->phase == STOPPING) && child_has_ended(&r->child))
                on_child_end(r);
        } else if (r->phase == WAITING) {
            r->code = EXIT_SIGNAL + event.number;
            if (lock_process_fence(r->locker) == 0)
                r->phase = OVER;
            else
                release(r);
        } else {
            child_signal(&r->child, &event);
        }
    }
}

/* When something is to be done though nothing happens. */
static uint64_t due_ns(const running *r)
{
    switch (r->phase) {
    case RUNNING:
        return lock_process_certain_ns(r->locker);
    case STOPPING:
        return r->kill_ns ? r->kill_ns : UINT64_MAX;
    case RELEASING:
        return r->give_up_ns;
    default:
        return UINT64_MAX;
    }
}

static void on_time(running *r)
{
    if (r->phase == RUNNING) {
        fprintf(stderr, "lockstock: the lock is lost: it is not known to be renewed\n");
        stop(r);
    } else if (r->phase == STOPPING) {
        child_kill(&r->child, SIGKILL);
        r->kill_ns = 0;
    } else {
        r->phase = OVER;
    }
}

static int run_until_over(running *r, int signals)
{
    while (r->phase != OVER) {
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = lock_process_fd(r->locker), .events = POLLIN}};
        uint64_t due = due_ns(r), now = clock_now_ns(), left_ms = due > now ? (due - now) / NS_PER_MS + 1 : 0;
        /* After it reported the loss, the lock process writes nothing more. */
        int n = poll(fds, r->phase == STOPPING ? 1 : 2, due == UINT64_MAX || left_ms > INT_MAX ? -1 : (int)left_ms);
        if (n > 0 && fds[0].revents)
            on_signals(r);
        if (n > 0 && r->phase != STOPPING && fds[1].revents)
            on_news(r);
        if (r->phase != OVER && clock_now_ns() >= due_ns(r))
            on_time(r);
    }
    return r->code;
}

static exit_code run_locked(cli *c, const lock_process_options *options, arguments *args)
{
    running r = {.argv = args->argv + args->at, .options = options};
    exit_code code = cli_settle(c);

    if (code != EXIT_DONE)
        return EXIT_AROUND + code;
    int signals = signals_catch();
    r.locker = signals >= 0 ? lock_process_start(c, options) : NULL;
    if (!r.locker)
        return EXIT_AROUND + EXIT_OTHER;
    int ended = run_until_over(&r, signals);
    lock_process_free(r.locker);
    return (exit_code)ended;
}

static exit_code run_named(cli *c, arguments *args, const char *command, bool by_word)
{
    lock_process_options options = {0};

    if (!cli_take_all(OPTION_SET(run_options, &options), c, args, by_word ? &options.name : NULL))
        return EXIT_AROUND + EXIT_USAGE;
    if (c->help)
        return help_command(command);
    if (!options.name || !*options.name)
        return EXIT_AROUND + exits_wrong("--lock", "is needed");
    if (!args->ended || args->at == args->argc)
        return EXIT_AROUND + exits_wrong("--", "a program to run is needed after it");
    return run_locked(c, &options, args);
}

exit_code run_command(cli *c, arguments *args)
{
    return run_named(c, args, "run", false);
}

exit_code exec_command(cli *c, arguments *args)
{
    return run_named(c, args, "lock exec", true);
}
