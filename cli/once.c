/* lockstock once: runs a program once for a key. Later callers get its standard output and its exit code. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <lockstock/once.h>

#include "child.h"
#include "commands.h"
#include "held.h"

enum { AGAIN = 75 /* EX_TEMPFAIL: the result is not stored */, STOP_MS = 1000 };

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

/* ---- in the keeper ------------------------------------------------------------------------------- */

typedef struct attempt {
    keeping *keeping;
    const lks_once_attempt *of;
} attempt;

static uint32_t left_ms(const void *arg)
{
    const attempt *a = arg;

    if (lks_once_is_lost(a->of))
        keeping_lose(a->keeping, "no server renewed it in time, or it was taken away");
    return UINT32_MAX;
}

static bool is_stored(int status)
{
    int code = WEXITSTATUS(status);

    return WIFEXITED(status) && code != AGAIN && code != EXIT_NO_PROGRAM && code != EXIT_CANNOT_RUN;
}

static lks_once_verdict execute(void *arg, lks_once_attempt *of)
{
    const attempt a = {.keeping = arg, .of = of};
    keeper_end end;

    keeping_add_variable(a.keeping, "LOCKSTOCK_FENCE=%" PRIu64, lks_once_fence(of));
    keeping_add_variable(a.keeping, "LOCKSTOCK_ATTEMPT=%" PRId64, lks_once_number(of));
    keeping_keep(a.keeping, left_ms, &a, &end);
    if (end.lost || !is_stored(end.status))
        return LKS_ONCE_RETRY;
    if (end.cut) {
        output_print_cut();
        lks_once_add_header(of, OUTPUT_CUT_HEADER, "true");
    }
    lks_once_return(of, WEXITSTATUS(end.status), end.output, end.output_len);
    return LKS_ONCE_STORE;
}

static exit_code replay(keeping *k, const lks_once_result *result)
{
    if (result->failure)
        return exits_refused("it has failed for good: ", result->failure);
    fwrite(result->body, 1, result->body_len, stdout);
    for (size_t i = 0; i < result->n_headers; i++)
        if (strcmp(result->headers[i].key, OUTPUT_CUT_HEADER) == 0)
            output_print_cut();
    keeping_set_code(k, result->code);
    return EXIT_DONE;
}

static exit_code run_once(keeping *k, cli *c, lks_channel *channel, const void *arg)
{
    const once_flags *flags = arg;
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
    lks_error error;
    exit_code code = EXIT_DONE;

    (void)c;
    lks_once_outcome outcome = lks_once_run(channel, &once, execute, k, &result, &error);
    options_name_flag(options, flags_of_once.n, &error);
    switch (outcome) {
    case LKS_ONCE_EXECUTED:
    case LKS_ONCE_RETRYABLE: /* the program printed its own error */
        break;
    case LKS_ONCE_REPLAYED:
        code = replay(k, result);
        break;
    case LKS_ONCE_SUPERSEDED:
        keeping_lose(k, "another attempt took over, because no server renewed it in time");
        code = EXIT_LOST;
        break;
    case LKS_ONCE_DOUBTFUL:
        exits_failed(&error, false);
        code = EXIT_UNKNOWN;
        break;
    case LKS_ONCE_IN_PROGRESS:
    case LKS_ONCE_MISMATCH:
        exits_failed(&error, true);
        code = EXIT_REFUSED;
        break;
    default:
        code = exits_failed(&error, true);
    }
    lks_once_result_free(result);
    return code;
}

/* ---- the command --------------------------------------------------------------------------------- */

exit_code once_command(cli *c, const invocation *in)
{
    static const keeper_kind kind = {
        .what = "the attempt", .run = run_once, .is_stored = is_stored, .stop_ms = STOP_MS};
    const once_flags *flags = in->flags;
    const held_options held = {
        .kind = &kind, .options = flags, .lease_ms = (uint64_t)flags->lease, .keeps_output = true, .argv = in->argv};

    return held_run(c, &held);
}
