/* Turns words into requests and responses into words. Invariant: a word of a
 * script means one thing, so that two equal lines of text are two equal answers. */
#include "services/lock_script.h"

#include <stdio.h>

harness *script_harness;
const lks_acquire_response *acquired;
const lks_renew_response *renewed;
const lks_inspect_response *inspected;

enum { WORDS_MAX = 17, SAID_BYTES = 512, SAID_MAX = 64 };

static char said[SAID_MAX][SAID_BYTES];
static size_t next_said;

int script_open(void **state)
{
    (void)state;
    script_harness = harness_new();
    return script_harness ? 0 : -1;
}

int script_reset(void **state)
{
    (void)state;
    harness_reset(script_harness);
    return 0;
}

int script_close(void **state)
{
    (void)state;
    harness_free(script_harness);
    return 0;
}

static char *new_line(void)
{
    char *line = said[next_said++ % SAID_MAX];

    line[0] = '\0';
    return line;
}

static void add(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char *line, const char *format, ...)
{
    size_t len = strlen(line);
    va_list args;

    va_start(args, format);
    vsnprintf(line + len, SAID_BYTES - len, format, args);
    va_end(args);
}

/* Splits a copy of text at spaces. */
static size_t words(const char *text, char *copy, char **word)
{
    size_t n = 0;

    snprintf(copy, SAID_BYTES, "%s", text);
    for (char *at = strtok(copy, " "); at && n < WORDS_MAX; at = strtok(NULL, " "))
        word[n++] = at;
    return n;
}

static const char *name_of(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

    return found ? found->name + strlen(type->values[0].name) - strlen("UNSPECIFIED") : "?";
}

const char *token_of(const char *alias)
{
    char *token = new_line();

    add(token, "%s", alias);
    while (strlen(token) < SERVICE_TOKEN_BYTES_MIN)
        add(token, ".");
    return token;
}

/* The response, or NULL and *line telling the error. */
static const void *run(const char *method, const void *request, char *line)
{
    lks_error error;
    const void *response = harness_call(script_harness, &lock_service, method, request, &error);

    if (!response)
        add(line, "%s %s %s", lks_code_name(error.code), lks_applied_name(error.applied), error.message);
    return response;
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
    static char copy[SAID_BYTES];
    char *word[WORDS_MAX];

    request = (lks_acquire_request)LKS_ACQUIRE_REQUEST_INIT;
    request.n_targets = words(text, copy, word);
    for (size_t i = 0; i < request.n_targets; i++) {
        read_target(word[i], &target[i]);
        targets[i] = &target[i];
    }
    request.group = "g";
    request.targets = targets;
    request.token = (char *)(uintptr_t)token_of(token);
    request.owner = (char *)(uintptr_t)token;
    request.lease_ms = lease_ms;
    request.wait_ms = wait_ms;
    return &request;
}

const char *acquire_line(const lks_acquire_response *response, const lks_error *error)
{
    char *line = new_line();

    acquired = response;
    if (!response) {
        add(line, "%s %s %s", lks_code_name(error->code), lks_applied_name(error->applied), error->message);
        return line;
    }
    add(line, "%s", name_of(&lockstock__v1__acquire_outcome__descriptor, (int)response->outcome));
    if (response->holder)
        add(line, " %s held by %s", response->holder->name, response->holder->owner);
    if (response->replayed)
        add(line, " again");
    return line;
}

const char *acquire_for(const char *token, const char *text, int64_t lease_ms)
{
    lks_error error;
    const void *response = harness_call(script_harness, &lock_service, "Acquire",
                                        acquire_request(token, text, lease_ms, 0), &error);

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
    char copy[SAID_BYTES];
    char *line = new_line();

    lease.group = "g";
    lease.n_names = words(names, copy, word);
    lease.names = word;
    lease.token = (char *)(uintptr_t)token_of(token);
    lease.lease_ms = lease_ms;
    request.n_leases = 1;
    request.leases = leases;
    renewed = run("Renew", &request, line);
    if (renewed)
        add(line, "%s", name_of(&lockstock__v1__renew_outcome__descriptor, (int)renewed->results[0]->outcome));
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
    char copy[SAID_BYTES];
    char *line = new_line();

    request.group = "g";
    request.n_names = words(names, copy, word);
    request.names = word;
    request.token = (char *)(uintptr_t)token_of(token);
    const lks_release_response *response = run("Release", &request, line);
    if (!response)
        return line;
    add(line, "%s", name_of(outcome, (int)response->outcome));
    for (size_t i = 0; i < response->n_names; i++)
        add(line, " %s=%s", response->names[i]->name, name_of(outcome, (int)response->names[i]->outcome));
    if (response->replayed)
        add(line, " again");
    return line;
}

static void add_holders(char *line, size_t n, lks_lock_holder *const *holders, bool permits)
{
    for (size_t i = 0; i < n; i++) {
        add(line, "%s%s", line[0] ? " " : "", holders[i]->owner);
        if (permits)
            add(line, "=%ld", holders[i]->permits);
    }
}

const char *inspect(const char *name)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    char *line = new_line();

    request.group = "g";
    request.name = (char *)(uintptr_t)name;
    inspected = run("Inspect", &request, line);
    if (!inspected)
        return line;
    if (inspected->mode == LKS_LOCK_MODE_UNSPECIFIED)
        add(line, "FREE");
    else
        add(line, "%s", name_of(&lockstock__v1__lock_mode__descriptor, (int)inspected->mode));
    if (inspected->capacity)
        add(line, "/%ld", inspected->capacity);
    add_holders(line, inspected->n_holders, inspected->holders, inspected->capacity != 0);
    return line;
}

const char *force_release(const char *name)
{
    lks_force_release_request request = LKS_FORCE_RELEASE_REQUEST_INIT;
    char *line = new_line();

    request.group = "g";
    request.name = (char *)(uintptr_t)name;
    const lks_force_release_response *response = run("ForceRelease", &request, line);
    if (response)
        add_holders(line, response->n_removed, response->removed, false);
    return line;
}

const char *check_fence(const char *resource, uint64_t value)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    char *line = new_line();

    request.resource = (char *)(uintptr_t)resource;
    request.fence = value;
    const lks_check_fence_response *response = run("CheckFence", &request, line);
    if (response)
        add(line, "%s %lu", name_of(&lockstock__v1__check_fence_outcome__descriptor, (int)response->outcome),
            response->high_water);
    return line;
}

void says_begin(const char *line, const char *expected)
{
    if (strncmp(line, expected, strlen(expected)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", line, expected);
}

void pass_seconds(int64_t seconds)
{
    harness_advance_ms(script_harness, seconds * 1000);
}

void about(int64_t left_ms, int64_t expected_ms)
{
    if (left_ms > expected_ms || left_ms < expected_ms - 90000)
        fail_msg("%ld ms left instead of about %ld", left_ms, expected_ms);
}
