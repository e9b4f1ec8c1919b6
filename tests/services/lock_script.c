/* Turns words into requests and responses into words. Invariant: a word of a
 * script means one thing, so that two equal lines of text are two equal answers. */
#include "services/lock_script.h"

const lks_acquire_response *acquired;
const lks_renew_response *renewed;
const lks_inspect_response *inspected;

static void read_target(char *word, lks_target *target)
{
    char *mode = strchr(word, ':');

    *target = message(target, .name = word);
    if (!mode)
        return;
    *mode++ = '\0';
    target->mode = *mode == 'S' ? LKS_LOCK_MODE_SHARED : LKS_LOCK_MODE_PERMIT;
    if (*mode == 'P')
        sscanf(mode, "P%ld/%ld", &target->permits, &target->capacity);
}

const lks_acquire_request *acquire_request(const char *token, const char *list, int64_t lease_ms, int64_t wait_ms)
{
    static lks_acquire_request request;
    static lks_target target[WORDS_MAX];
    static lks_target *targets[WORDS_MAX];
    static char copy[LINE_BYTES];
    char *word[WORDS_MAX];
    size_t n = words(list, copy, word);

    for (size_t i = 0; i < n; i++) {
        read_target(word[i], &target[i]);
        targets[i] = &target[i];
    }
    request = message(acquire_request, .group = "g", .n_targets = n, .targets = targets, .token = token_of(token),
                      .owner = token, .lease_ms = lease_ms, .wait_ms = wait_ms);
    return &request;
}

const char *acquire_line(const lks_acquire_response *response)
{
    char *line = new_line();

    acquired = response;
    if (!response)
        return line_of(NULL);
    add_line(line, "%s", lks_acquire_outcome_name(response->outcome));
    if (response->holder)
        add_line(line, " %s held by %s", response->holder->name, response->holder->owner);
    if (response->replayed)
        add_line(line, " again");
    return line;
}

const char *acquire_for(const char *token, const char *targets, int64_t lease_ms)
{
    return acquire_line(answer_to(acquire_request(token, targets, lease_ms, 0)));
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
    char *word[WORDS_MAX], copy[LINE_BYTES];
    lks_lease lease = message(lease, .group = "g", .n_names = words(names, copy, word), .names = (const char **)word,
                              .token = token_of(token), .lease_ms = lease_ms);
    lks_lease *leases[] = {&lease};

    renewed = ask(renew, .n_leases = 1, .leases = leases);
    return renewed ? lks_renew_outcome_name(renewed->results[0]->outcome) : line_of(NULL);
}

const char *renew(const char *token, const char *names)
{
    return renew_for(token, names, LEASE_MS);
}

const char *release(const char *token, const char *names)
{
    char *word[WORDS_MAX], copy[LINE_BYTES], *line = new_line();
    size_t n = words(names, copy, word);
    const lks_release_response *response =
        ask(release, .group = "g", .n_names = n, .names = (const char **)word, .token = token_of(token));

    if (!response)
        return line_of(NULL);
    add_line(line, "%s", lks_release_outcome_name(response->outcome));
    for (size_t i = 0; i < response->n_names; i++)
        add_line(line, " %s=%s", response->names[i]->name, lks_release_outcome_name(response->names[i]->outcome));
    if (response->replayed)
        add_line(line, " again");
    return line;
}

static void add_holders(char *line, size_t n, lks_lock_holder *const *holders, bool permits)
{
    for (size_t i = 0; i < n; i++) {
        add_line(line, "%s%s", line[0] ? " " : "", holders[i]->owner);
        if (permits)
            add_line(line, "=%ld", holders[i]->permits);
    }
}

const char *inspect(const char *name)
{
    char *line = new_line();

    inspected = ask(inspect, .group = "g", .name = name);
    if (!inspected)
        return line_of(NULL);
    add_line(line, "%s", inspected->mode == LKS_LOCK_MODE_UNSPECIFIED ? "FREE" : lks_lock_mode_name(inspected->mode));
    if (inspected->capacity)
        add_line(line, "/%ld", inspected->capacity);
    add_holders(line, inspected->n_holders, inspected->holders, inspected->capacity != 0);
    return line;
}

const char *force_release(const char *name)
{
    const lks_force_release_response *response = ask(force_release, .group = "g", .name = name);
    char *line = response ? new_line() : line_of(NULL);

    if (response)
        add_holders(line, response->n_removed, response->removed, false);
    return line;
}

const char *check_fence(const char *resource, uint64_t value)
{
    const lks_check_fence_response *response = ask(check_fence, .resource = resource, .fence = value);
    char *line = line_of(response);

    if (response)
        add_line(line, " %lu", response->high_water);
    return line;
}

const char *reset_fence(const char *resource, uint64_t value)
{
    const lks_reset_fence_response *response = ask(reset_fence, .resource = resource, .fence = value);
    char *line = response ? new_line() : line_of(NULL);

    if (response)
        add_line(line, "%lu", response->high_water);
    return line;
}
