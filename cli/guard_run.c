/* lockstock guard run: runs a program between Enter and Leave. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <lockstock/entry.h>

#include "answer.h"
#include "child.h"
#include "commands.h"
#include "held.h"
#include "request.h"

#define FAILURE_HEADER "lockstock-failure" /* the one header of a stored failure */

typedef struct guard_flags {
    const char *result;
    bool store_output;
} guard_flags;

#define AT(member) offsetof(guard_flags, member)
static const option options[] = {
    {"result", OPTION_TEXT, AT(result), "TEXT|@FILE",
     "the result to store when the program exits with 0; FILE is read at that time"},
    {"store-output", OPTION_BOOL, AT(store_output), NULL,
     "store the program's standard output, up to 256 KiB, as the result when it exits with 0"},
};
const command_flags flags_of_guard_run = COMMAND_FLAGS(options, guard_flags);

typedef struct guard_run {
    const guard_flags *flags;
    const request *request;
    const lks_enter_request *enter;
} guard_run;

/* ---- in the keeper ------------------------------------------------------------------------------- */

typedef struct entered {
    keeping *keeping;
    const guard_run *run;
    lks_entry *entry;
} entered;

static uint32_t left_ms(const void *arg)
{
    const entered *e = arg;
    uint32_t left = lks_entry_left_ms(e->entry);

    if (left == 0)
        keeping_lose(e->keeping, "no server renewed it in time, or part of it was taken away");
    return left;
}

/* Returns the list with one more number, in the arena; NULL when out of memory. A fence is below 2^53. */
static const char *append(const char *list, int64_t number, lks_rpc_arena *arena)
{
    return list ? lks_rpc_arena_printf(arena, "%s%s%" PRId64, list, *list ? " " : "", number) : NULL;
}

static void add_variables(const entered *e, lks_rpc_arena *arena)
{
    const lks_enter_response *answer = lks_entry_answer(e->entry);
    const char *fences = "", *remaining = "";

    for (size_t i = 0; i < answer->n_fences; i++)
        fences = append(fences, (int64_t)answer->fences[i]->fence, arena);
    for (size_t i = 0; i < answer->n_rules; i++)
        remaining = append(remaining, answer->rules[i]->remaining, arena);
    keeping_add_variable(e->keeping, "LOCKSTOCK_ENTRY_TOKEN=%s", answer->token);
    if (answer->n_fences > 0 || answer->attempt_fence > 0)
        keeping_add_variable(e->keeping, "LOCKSTOCK_FENCE=%" PRIu64,
                             answer->n_fences > 0 ? answer->fences[0]->fence : answer->attempt_fence);
    if (fences && answer->n_fences > 0)
        keeping_add_variable(e->keeping, "LOCKSTOCK_FENCES=%s", fences);
    if (answer->attempt > 0) {
        keeping_add_variable(e->keeping, "LOCKSTOCK_ATTEMPT=%" PRId64, answer->attempt);
        keeping_add_variable(e->keeping, "LOCKSTOCK_ATTEMPT_FENCE=%" PRIu64, answer->attempt_fence);
    }
    if (remaining && answer->n_rules > 0)
        keeping_add_variable(e->keeping, "LOCKSTOCK_REMAINING=%s", remaining);
}

/* Sets the body. The caller frees *owned, which may be NULL. Returns false after printing an error. */
static bool find_result(const guard_flags *flags, const keeper_end *end, ProtobufCBinaryData *body, char **owned,
                        bool *cut)
{
    const char *text = flags->result ? flags->result : "";

    *owned = NULL;
    *cut = flags->store_output && end->cut;
    body->data = (uint8_t *)(uintptr_t)(flags->store_output ? end->output : text);
    body->len = flags->store_output ? end->output_len : strlen(text);
    if (*text == '@') {
        FILE *file = fopen(text + 1, "re");
        *owned = file ? malloc(LKS_ONCE_BODY_MAX + 1) : NULL;
        body->len = *owned ? fread(*owned, 1, LKS_ONCE_BODY_MAX + 1, file) : 0;
        bool good = *owned && !ferror(file);
        if (!good)
            exits_say("--result: %s; the attempt counts as failed", strerror(errno));
        if (file)
            fclose(file);
        if (!good)
            return false;
        body->data = (uint8_t *)*owned;
    }
    if (body->len > LKS_ONCE_BODY_MAX) {
        body->len = LKS_ONCE_BODY_MAX;
        *cut = true;
    }
    if (*cut)
        output_print_cut();
    return true;
}

static void describe(const keeper_end *end, char *detail, size_t size)
{
    if (end->lost)
        snprintf(detail, size, "lost, or never started");
    else if (WIFSIGNALED(end->status))
        snprintf(detail, size, "signal %d", WTERMSIG(end->status));
    else
        snprintf(detail, size, "exit code %d", WEXITSTATUS(end->status));
}

/* done: the program exited with 0, and *end is COMPLETE. */
static exit_code leave(const entered *e, lks_leave_request *end, bool done)
{
    bool lost = done && e->run->enter->locks && lks_entry_is_lost(e->entry);
    lks_error error;

    switch ((int)lks_leave(e->entry, end, &error)) {
    case LKS_LEAVE_OUTCOME_LEFT:
        if (!lost)
            return EXIT_DONE;
        keeping_lose(e->keeping, "a lock was taken away, or its lease had ended");
        return EXIT_LOST;
    case LKS_LEAVE_OUTCOME_SUPERSEDED:
        exits_failed(&error, true);
        return EXIT_LOST;
    case LKS_LEAVE_OUTCOME_HOLD_ENDED:
        exits_say("the hold of the stock has ended: no result is stored, and nothing is sold");
        end->kind = LKS_LEAVE_KIND_RETRYABLE;
        end->detail = "the hold had ended";
        if (lks_leave(e->entry, end, &error) == LKS_LEAVE_OUTCOME_HOLD_ENDED)
            lks_entry_free(e->entry);
        return EXIT_LOST;
    default:
        exits_failed(&error, false);
        return done ? EXIT_UNKNOWN : EXIT_DONE;
    }
}

static bool is_stored(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static exit_code keep(entered *e, lks_rpc_arena *arena)
{
    lks_leave_request end = LKS_LEAVE_REQUEST_INIT;
    lks_result_header header = LKS_RESULT_HEADER_INIT, *headers[] = {&header};
    keeper_end ended;
    char detail[64], *owned = NULL;
    bool cut = false;

    add_variables(e, arena);
    keeping_keep(e->keeping, left_ms, e, &ended);
    bool exited_0 = !ended.lost && is_stored(ended.status);
    bool done = exited_0 && find_result(e->run->flags, &ended, &end.body, &owned, &cut);
    end.kind = done ? LKS_LEAVE_KIND_COMPLETE : LKS_LEAVE_KIND_RETRYABLE;
    if (cut) {
        header.key = OUTPUT_CUT_HEADER;
        header.value = "true";
        end.n_headers = 1;
        end.headers = headers;
    }
    if (!done) {
        describe(&ended, detail, sizeof detail);
        end.detail = exited_0 ? "the result cannot be read" : detail;
    }
    exit_code code = leave(e, &end, done);
    free(owned);
    return exited_0 && !done && code == EXIT_DONE ? EXIT_OTHER : code;
}

static exit_code replay(cli *c, const lks_enter_response *answer)
{
    const lks_stored_result *result = answer->result;
    bool cut = false;

    if (c->json)
        answer_print_json(&answer->base, true, c->arena);
    else if (result->body.len > 0)
        fwrite(result->body.data, 1, result->body.len, stdout);
    for (size_t i = 0; i < result->n_headers; i++) {
        if (strcmp(result->headers[i]->key, FAILURE_HEADER) == 0)
            return exits_refused("it has failed for good: ", result->headers[i]->value);
        cut = cut || strcmp(result->headers[i]->key, OUTPUT_CUT_HEADER) == 0;
    }
    if (cut)
        output_print_cut();
    return EXIT_DONE;
}

static exit_code not_entered(cli *c, const lks_entry *entry, lks_enter_outcome outcome, const lks_error *error)
{
    const lks_enter_response *answer = lks_entry_answer(entry);

    if (outcome == LKS_ENTER_OUTCOME_REPLAY)
        return replay(c, answer);
    if (c->json)
        answer_print_json(&answer->base, true, c->arena);
    else
        answer_print(&answer->base, c->arena);
    return error->applied == LKS_APPLIED_MAYBE ? exits_doubtful() : EXIT_REFUSED;
}

static exit_code enter_and_keep(keeping *k, cli *c, lks_channel *channel, const void *arg)
{
    const guard_run *run = arg;
    entered e = {.keeping = k, .run = run};
    lks_error error;

    lks_enter_outcome outcome = lks_enter(channel, run->enter, &e.entry, &error);
    if (outcome == LKS_ENTER_OUTCOME_ENTERED)
        return keep(&e, c->arena);
    if (!e.entry) {
        if (!options_rename(&error, "options.lease_ms", "--lease"))
            request_name_flag(run->request, &error);
        return exits_failed(&error, false);
    }
    exit_code code = not_entered(c, e.entry, outcome, &error);
    lks_entry_free(e.entry);
    return code;
}

/* ---- the command --------------------------------------------------------------------------------- */

static exit_code check(const guard_flags *flags, bool has_once)
{
    if (flags->result && flags->store_output)
        return exits_wrong("--result", "cannot be combined with --store-output");
    if (!has_once && (flags->result || flags->store_output))
        return exits_wrong(flags->result ? "--result" : "--store-output",
                           "needs --once, under which the result is stored");
    return EXIT_DONE;
}

exit_code guard_run_command(cli *c, const invocation *in)
{
    static const keeper_kind kind = {.what = "the entry", .run = enter_and_keep, .is_stored = is_stored};
    guard_run run = {.flags = in->flags, .request = in->request};
    ProtobufCMessage *message;
    lks_error error;

    if (request_build(run.request, c->arena, &message, &error) != LKS_OK) {
        request_name_flag(run.request, &error);
        return EXIT_AROUND + exits_failed(&error, true);
    }
    run.enter = (const lks_enter_request *)message;
    exit_code wrong = check(run.flags, run.enter->once);
    if (wrong != EXIT_DONE)
        return EXIT_AROUND + wrong;
    const held_options held = {.kind = &kind,
                               .options = &run,
                               .lease_ms = run.enter->lease_ms > 0 ? (uint64_t)run.enter->lease_ms : 0,
                               .keeps_output = run.flags->store_output,
                               .argv = in->argv};
    return held_run(c, &held);
}
