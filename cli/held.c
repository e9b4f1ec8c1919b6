/* The common part of `lockstock run`, `lockstock once` and `lockstock guard run`.
 *
 *   waiting --held--> running --it ends--> releasing --> over
 *      |                 `---lost--> stopping (TERM, KILL before the lease can end) --> over
 *      |                                                                  (releasing, if the end is stored)
 *      `---not taken, nothing to run, a signal--> over (releasing, if it has just been granted)
 *
 * This process has no threads: it starts the program, forwards signals, copies output and ends the program in time.
 * The keeper (keeper.h) calls the servers. */
#include "held.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "child.h"

enum {
    RELEASE_MS = 10000, /* after that, the end of the lease releases it */
    LOST_RELEASE_MS = 1000
};

typedef enum phase { WAITING, RUNNING, STOPPING, RELEASING, OVER } phase;

typedef struct held_run {
    phase phase;
    keeper *keeper;
    child child;
    output output;
    const held_options *options;
    uint64_t kill_ns;    /* STOPPING; 0: SIGKILL was sent */
    uint64_t give_up_ns; /* RELEASING */
    bool is_lost;        /* the keeper has reported a loss */
    bool is_stored;      /* RELEASING: a server stores how the program ended */
    uint64_t timeout_ms; /* of the keeper's calls */
    int code;
} running;

static void stop(running *r)
{
    uint64_t now_ns = clock_now_ns(), stop_ms = r->options->kind->stop_ms;

    child_stop(&r->child);
    r->kill_ns = now_ns + (stop_ms > 0 ? stop_ms * NS_PER_MS : keeper_margin_ns(r->keeper) / 4 * 3);
    r->phase = STOPPING;
}

static uint64_t longer(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns how long the keeper may take to release. An end that must be stored is retried for as long as the lease, or
 * the timeout of a call. */
static uint64_t patience_ms(const running *r, bool lost)
{
    if (!r->options->kind->is_stored)
        return RELEASE_MS;
    return lost ? LOST_RELEASE_MS : longer(longer(r->keeper->lease_ms, r->timeout_ms), RELEASE_MS) + RELEASE_MS;
}

/* lost: the program did not run to its end. */
static void release(running *r, bool lost)
{
    const keeper_end end = {
        .status = r->child.status, .lost = lost, .cut = r->output.cut, .output_len = r->output.n_kept};

    r->phase = RELEASING;
    r->is_stored = !lost && r->options->kind->is_stored && r->options->kind->is_stored(r->child.status);
    r->give_up_ns = clock_now_ns() + patience_ms(r, lost) * NS_PER_MS;
    keeper_release(r->keeper, &end);
}

static bool start_program(running *r)
{
    const char *variables[KEEPER_VARIABLES_MAX + 1];
    int writing = -1;

    keeper_variables(r->keeper, variables);
    if (r->options->keeps_output && (writing = output_open(&r->output, keeper_room(r->keeper))) < 0)
        return false;
    bool started = child_start(&r->child, r->options->argv, variables, writing);
    if (writing >= 0)
        close(writing);
    return started;
}

static void start(running *r)
{
    if (!r->is_lost && start_program(r)) {
        keeper_guard(r->keeper, r->child.group);
        r->phase = RUNNING;
        return;
    }
    r->code = r->is_lost ? EXIT_LOST : EXIT_AROUND + EXIT_OTHER;
    release(r, true);
}

static void on_failure(running *r)
{
    int code = r->keeper->code;

    if (code == EXIT_LOST)
        r->code = EXIT_LOST;
    else if (r->phase == WAITING)
        r->code = EXIT_AROUND + code;
    else if (r->phase == RELEASING && r->options->kind->is_stored && r->code != EXIT_LOST)
        r->code = EXIT_AROUND + code;
    r->phase = r->phase == WAITING || r->phase == RELEASING ? OVER : r->phase;
}

static void on_news(running *r)
{
    switch (keeper_next(r->keeper)) {
    case KEEPER_HELD:
        if (r->phase == WAITING)
            start(r);
        break;
    case KEEPER_LOST:
        r->is_lost = true;
        if (r->phase == RUNNING)
            stop(r);
        break;
    case KEEPER_FAILED:
        on_failure(r);
        break;
    case KEEPER_DONE:
        r->code = r->phase == WAITING ? r->keeper->code : r->code;
        r->phase = OVER;
        break;
    default:
        break;
    }
}

static void on_child_end(running *r)
{
    bool lost = r->phase == STOPPING;

    if (lost)
        child_kill(&r->child, SIGKILL); /* the processes that it started */
    output_end(&r->output);
    keeper_guard(r->keeper, 0);
    r->code = lost ? EXIT_LOST : child_code(&r->child);
    if (lost && !r->options->kind->is_stored)
        r->phase = OVER;
    else
        release(r, lost);
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
            if (keeper_holds(r->keeper))
                release(r, true);
            else
                r->phase = OVER;
        } else {
            child_signal(&r->child, &event);
        }
    }
}

/* Returns when on_time must run if no event comes before. */
static uint64_t due_ns(const running *r)
{
    switch (r->phase) {
    case RUNNING:
        return keeper_certain_ns(r->keeper);
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
        exits_say("%s is lost: no renewal was confirmed in time", r->options->kind->what);
        stop(r);
    } else if (r->phase == STOPPING) {
        child_kill(&r->child, SIGKILL);
        r->kill_ns = 0;
    } else {
        if (r->is_stored) {
            exits_say("the result may not be stored: the keeper did not report in time");
            r->code = EXIT_AROUND + EXIT_UNKNOWN;
        }
        r->phase = OVER;
    }
}

static int run_until_over(running *r, int signals)
{
    while (r->phase != OVER) {
        /* After it has reported a loss, the keeper sends nothing until it is asked to release. */
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                               {.fd = r->phase == STOPPING ? -1 : r->keeper->fd, .events = POLLIN},
                               {.fd = r->output.fd, .events = POLLIN}};
        uint64_t due = due_ns(r), now = clock_now_ns(), left_ms = due > now ? (due - now) / NS_PER_MS + 1 : 0;
        int n = poll(fds, 3, due == UINT64_MAX || left_ms > INT_MAX ? -1 : (int)left_ms);
        if (n > 0 && fds[2].revents)
            output_copy(&r->output);
        if (n > 0 && fds[0].revents)
            on_signals(r);
        if (n > 0 && r->phase != STOPPING && fds[1].revents)
            on_news(r);
        if (r->phase != OVER && clock_now_ns() >= due_ns(r))
            on_time(r);
    }
    return r->code;
}

exit_code held_run(cli *c, const held_options *options)
{
    running r = {.options = options, .output.fd = -1, .timeout_ms = (uint64_t)c->timeout};
    int signals = signals_catch();

    r.keeper = signals >= 0 ? keeper_start(c, options->kind, options->options, options->lease_ms) : NULL;
    if (!r.keeper)
        return EXIT_AROUND + EXIT_OTHER;
    int ended = run_until_over(&r, signals);
    keeper_free(r.keeper);
    return (exit_code)ended;
}
