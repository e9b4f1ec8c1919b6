/* lockstock once: runs a program once for a key. Later callers get its standard output and its exit code. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/once.h>

#include "base/clock.h"
#include "child.h"
#include "commands.h"

enum { AGAIN = 75 /* EX_TEMPFAIL: the result is not stored */, LOOK_MS = 50, STOP_MS = 1000 };

typedef struct once_flags {
    const char *key, *scope, *fingerprint;
    int64_t lease, retain, wait;
} once_flags;

#define AT(member) offsetof(once_flags, member)
static const option options[] = {
    {"key", OPTION_TEXT, AT(key), "TEXT", "names what is done once"},
    {"scope", OPTION_TEXT, AT(scope), "TEXT", "the kind of key (lockstock-once)"},
    {"fingerprint", OPTION_TEXT, AT(fingerprint), "TEXT",
     "identifies the request; a different one for the same key is refused"},
    {"lease", OPTION_DURATION, AT(lease), "TIME", "how long after its machine dies another run may start (30s)"},
    {"retain", OPTION_DURATION, AT(retain), "TIME", "how long the result is kept (24h)"},
    {"wait", OPTION_DURATION, AT(wait), "TIME", "how long to wait for a run elsewhere; default: do not wait"},
};
const command_flags flags_of_once = COMMAND_FLAGS(options, once_flags);

typedef struct attempt {
    char *const *argv;
    child child;
    output output;
    char *kept; /* for the output */
    bool started;
} running;

/* Returns when the program has ended. */
static void watch(running *r, const lks_once_attempt *attempt, int signals)
{
    uint64_t kill_ns = 0; /* 0: not asked to stop */

    while (r->child.pid > 0) {
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = r->output.fd, .events = POLLIN}};
        signal_event event;
        int n = poll(fds, r->output.fd >= 0 ? 2 : 1, LOOK_MS);
        if (n > 0 && r->output.fd >= 0 && fds[1].revents)
            output_copy(&r->output);
        while (signals_next(&event))
            if (event.number == SIGCHLD)
                child_has_ended(&r->child);
            else
                child_signal(&r->child, &event);
        if (r->child.pid > 0 && lks_once_is_lost(attempt)) {
            uint64_t now_ns = clock_now_ns();
            if (kill_ns == 0) {
                child_stop(&r->child);
                kill_ns = now_ns + STOP_MS * NS_PER_MS;
            } else if (now_ns >= kill_ns) {
                child_kill(&r->child, SIGKILL);
            }
        }
    }
    output_end(&r->output);
}

static lks_once_verdict execute(void *arg, lks_once_attempt *attempt)
{
    running *r = arg;
    char fence[64], number[64];
    const char *const variables[] = {fence, number, NULL};
    int signals = signals_catch(), writing = signals >= 0 ? output_open(&r->output, r->kept) : -1;

    snprintf(fence, sizeof fence, "LOCKSTOCK_FENCE=%" PRIu64, lks_once_fence(attempt));
    snprintf(number, sizeof number, "LOCKSTOCK_ATTEMPT=%" PRId64, lks_once_number(attempt));
    if (writing < 0)
        return LKS_ONCE_RETRY;
    r->started = child_start(&r->child, r->argv, variables, writing);
    close(writing);
    watch(r, attempt, signals);
    int code = child_code(&r->child);
    if (!r->started || WIFSIGNALED(r->child.status) || code == AGAIN || code == EXIT_NO_PROGRAM ||
        code == EXIT_CANNOT_RUN)
        return LKS_ONCE_RETRY;
    if (r->output.cut) {
        output_print_cut();
        lks_once_add_header(attempt, OUTPUT_CUT_HEADER, "true");
    }
    lks_once_return(attempt, code, r->kept, r->output.n_kept);
    return LKS_ONCE_STORE;
}

static int replay(const lks_once_result *result)
{
    if (result->failure)
        return EXIT_AROUND + (int)exits_refused("it has failed for good: ", result->failure);
    fwrite(result->body, 1, result->body_len, stdout);
    for (size_t i = 0; i < result->n_headers; i++)
        if (strcmp(result->headers[i].key, OUTPUT_CUT_HEADER) == 0)
            output_print_cut();
    return result->code;
}

static int run(lks_channel *channel, const once_flags *flags, char *const argv[])
{
    running r = {.argv = argv, .output.fd = -1, .kept = malloc(LKS_ONCE_BODY_MAX)};
    const lks_once_options once = {
        .scope = flags->scope ? flags->scope : "lockstock-once",
        .key = flags->key,
        .fingerprint = flags->fingerprint,
        .fingerprint_len = flags->fingerprint ? strlen(flags->fingerprint) : 0,
        .lease_ms = cli_ms(flags->lease),
        .retain_ms = (uint64_t)flags->retain,
        .wait_ms = cli_ms(flags->wait),
    };
    lks_once_result *result = NULL;
    lks_error error = {.code = LKS_RESOURCE_EXHAUSTED, .message = "out of memory"};
    int code;

    lks_once_outcome outcome = r.kept ? lks_once_run(channel, &once, execute, &r, &result, &error) : LKS_ONCE_FAILED;
    options_name_flag(options, flags_of_once.n, &error);
    switch (outcome) {
    case LKS_ONCE_EXECUTED:
        code = child_code(&r.child);
        break;
    case LKS_ONCE_REPLAYED:
        code = replay(result);
        break;
    case LKS_ONCE_RETRYABLE: /* the program printed its own error */
        code = r.started ? child_code(&r.child) : EXIT_AROUND + EXIT_OTHER;
        break;
    case LKS_ONCE_SUPERSEDED:
        exits_say("another attempt took over, because no server renewed this one in time");
        code = EXIT_LOST;
        break;
    case LKS_ONCE_DOUBTFUL:
        exits_failed(&error, false);
        code = EXIT_AROUND + EXIT_UNKNOWN;
        break;
    case LKS_ONCE_IN_PROGRESS:
    case LKS_ONCE_MISMATCH:
        exits_failed(&error, true);
        code = EXIT_AROUND + EXIT_REFUSED;
        break;
    default:
        code = EXIT_AROUND + (int)exits_failed(&error, true);
    }
    lks_once_result_free(result);
    free(r.kept);
    return code;
}

exit_code once_command(cli *c, const invocation *in)
{
    lks_channel *channel = NULL;
    exit_code wrong = cli_open(c, &channel);

    if (wrong != EXIT_DONE)
        return EXIT_AROUND + wrong;
    int code = run(channel, in->flags, in->argv);
    lks_channel_close(channel);
    return (exit_code)code;
}
