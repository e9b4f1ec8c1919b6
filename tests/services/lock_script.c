/* Turns words into requests and responses into words. Invariant: a word of a
 * script means one thing, so that two equal lines of text are two equal answers. */
#include "services/lock_script.h"

#include <stdio.h>

const lks_acquire_response *acquired;
const lks_renew_response *renewed;
const lks_inspect_response *inspected;

enum { WORDS_MAX = 17 };

/* Splits a copy of text at spaces. */
static size_t words(const char *text, char *copy, char **word)
{
    size_t n = 0;

    snprintf(copy, LINE_BYTES, "%s", text);
    for (char *at = strtok(copy, " "); at && n < WORDS_MAX; at = strtok(NULL, " "))
        word[n++] = at;
    return n;
}

static const void *run(const char *method, const void *request, char *line)
{
    return run_line(&lock_service, method, request, line);
}

const char *call(const char *method, const void *request)
{
    char *line = new_line();

    return run(method, request, line) ? "OK" : line;
}

static void read_target(char *word, lks_target *target)
{
    char *mode = strchr(word, ':');

    *target = (lks_target)LKS_TARGET_INIT;
    target->name = word;
    if (!mode)
        return;
    *mode++ = '\0';
    target->mode = *mode == 'S' ? LKS_LOCK_MODE_SHARED : LKS_LOCK_MODE_PERMIT;
    if (*mode == 'P')
        sscanf(mode, "P%ld/%ld", &target->permits, &target->capacity);
}

const lks_acquire_request *acquire_request(const char *token, const char *text, int64_t lease_ms, int64_t wait_ms)
{
    static lks_acquire_request request;
    static lks_target target[WORDS_MAX];
    static lks_target *targets[WORDS_MAX];
    static char copy[LINE_BYTES];
    char *word[WORDS_MAX];

    request = (lks_acquire_request)LKS_ACQUIRE_REQUEST_INIT;
    request.n_targets = words(text, copy, word);
    for (size_t i = 0; i < request.n_targets; i++) {
        read_target(word[i], &target[i]);
        targets[i] = &target[i];
    }
    request.group = "g";
    request.targets = targets;
    request.token = harness_unconst(token_of(token));
    request.owner = harness_unconst(token);
    request.lease_ms = lease_ms;
    request.wait_ms = wait_ms;
    return &request;
}

const char *acquire_line(const lks_acquire_response *response, const lks_error *error)
{
    char *line = new_line();

    acquired = response;
    if (!response) {
        add_error(line, error);
        return line;
    }
    add(line, LINE_BYTES, "%s", harness_word(&lockstock__v1__acquire_outcome__descriptor, (int)response->outcome));
    if (response->holder)
        add(line, LINE_BYTES, " %s held by %s", response->holder->name, response->holder->owner);
    if (response->replayed)
        add(line, LINE_BYTES, " again");
    return line;
}

const char *acquire_for(const char *token, const char *text, int64_t lease_ms)
{
    lks_error error;
    const void *response =
        harness_call(script_harness, &lock_service, "Acquire", acquire_request(token, text, lease_ms, 0), &error);

    return acquire_line(response, &error);
}

const char *acquire(const char *token, const char *targets)
{
    return acquire_for(token, targets, LEASE_MS);
}

uint64_t fence(void)
{
    assert_non_null(acquired);
    assert_true(acquired->n_fences > 0);
    return acquired->fences[0]->fence;
}

const char *renew_for(const char *token, const char *names, int64_t lease_ms)
{
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    lks_lease lease = LKS_LEASE_INIT;
    lks_lease *leases[] = {&lease};
    char *word[WORDS_MAX];
    char copy[LINE_BYTES];
    char *line = new_line();

    lease.group = "g";
    lease.n_names = words(names, copy, word);
    lease.names = word;
    lease.token = harness_unconst(token_of(token));
    lease.lease_ms = lease_ms;
    request.n_leases = 1;
    request.leases = leases;
    renewed = run("Renew", &request, line);
    if (renewed)
        add(line, LINE_BYTES, "%s",
            harness_word(&lockstock__v1__renew_outcome__descriptor, (int)renewed->results[0]->outcome));
    return line;
}

const char *renew(const char *token, const char *names)
{
    return renew_for(token, names, LEASE_MS);
}

const char *release(const char *token, const char *names)
{
    const ProtobufCEnumDescriptor *outcome = &lockstock__v1__release_outcome__descriptor;
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    char *word[WORDS_MAX];
    char copy[LINE_BYTES];
    char *line = new_line();

    request.group = "g";
    request.n_names = words(names, copy, word);
    request.names = word;
    request.token = harness_unconst(token_of(token));
    const lks_release_response *response = run("Release", &request, line);
    if (!response)
        return line;
    add(line, LINE_BYTES, "%s", harness_word(outcome, (int)response->outcome));
    for (size_t i = 0; i < response->n_names; i++)
        add(line, LINE_BYTES, " %s=%s", response->names[i]->name,
            harness_word(outcome, (int)response->names[i]->outcome));
    if (response->replayed)
        add(line, LINE_BYTES, " again");
    return line;
}

static void add_holders(char *line, size_t n, lks_lock_holder *const *holders, bool permits)
{
    for (size_t i = 0; i < n; i++) {
        add(line, LINE_BYTES, "%s%s", line[0] ? " " : "", holders[i]->owner);
        if (permits)
            add(line, LINE_BYTES, "=%ld", holders[i]->permits);
    }
}

const char *inspect(const char *name)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    char *line = new_line();

    request.group = "g";
    request.name = harness_unconst(name);
    inspected = run("Inspect", &request, line);
    if (!inspected)
        return line;
    if (inspected->mode == LKS_LOCK_MODE_UNSPECIFIED)
        add(line, LINE_BYTES, "FREE");
    else
        add(line, LINE_BYTES, "%s", harness_word(&lockstock__v1__lock_mode__descriptor, (int)inspected->mode));
    if (inspected->capacity)
        add(line, LINE_BYTES, "/%ld", inspected->capacity);
    add_holders(line, inspected->n_holders, inspected->holders, inspected->capacity != 0);
    return line;
}

const char *force_release(const char *name)
{
    lks_force_release_request request = LKS_FORCE_RELEASE_REQUEST_INIT;
    char *line = new_line();

    request.group = "g";
    request.name = harness_unconst(name);
    const lks_force_release_response *response = run("ForceRelease", &request, line);
    if (response)
        add_holders(line, response->n_removed, response->removed, false);
    return line;
}

const char *check_fence(const char *resource, uint64_t value)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    char *line = new_line();

    request.resource = harness_unconst(resource);
    request.fence = value;
    const lks_check_fence_response *response = run("CheckFence", &request, line);
    if (response)
        add(line, LINE_BYTES, "%s %lu",
            harness_word(&lockstock__v1__check_fence_outcome__descriptor, (int)response->outcome),
            response->high_water);
    return line;
}

const char *reset_fence(const char *resource, uint64_t value)
{
    lks_reset_fence_request request = LKS_RESET_FENCE_REQUEST_INIT;
    char *line = new_line();

    request.resource = harness_unconst(resource);
    request.fence = value;
    const lks_reset_fence_response *response = run("ResetFence", &request, line);
    if (response)
        add(line, LINE_BYTES, "%lu", response->high_water);
    return line;
}
