/* lockstock limit: runs a program if the rate limit allows it, in place of this process. */
#include <stdio.h>
#include <string.h>

#include <lockstock/limiter.h>

#include "base/duration.h"
#include "base/number.h"
#include "commands.h"
#include "words.h"

typedef struct limit_flags {
    const char *key, *rate, *policy, *group;
    int64_t burst, cost, wait;
} limit_flags;

#define AT(member) offsetof(limit_flags, member)
static const option options[] = {
    {"key", OPTION_TEXT, AT(key), "TEXT", "who or what is limited"},
    {"rate", OPTION_TEXT, AT(rate), "N/TIME", "the limit: 10/s, 100/1m, 5/12h"},
    {"burst", OPTION_NUMBER, AT(burst), "N", "how many at once; default: the number of the rate"},
    {"policy", OPTION_TEXT, AT(policy), "NAME", "a stored policy, instead of a rate"},
    {"group", OPTION_TEXT, AT(group), "NAME", "the group of the key; default: the key itself"},
    {"cost", OPTION_NUMBER, AT(cost), "N", "how many times this run counts (1)"},
    {"wait", OPTION_DURATION, AT(wait), "TIME", "how long to wait until it is allowed; default: do not wait"},
};
const command_flags flags_of_limit = COMMAND_FLAGS(options, limit_flags);

/* "10/s", "100/1m". */
static bool read_rate(const char *text, lks_limit *ret)
{
    size_t digits = strcspn(text, "/");
    char per[WORDS_BYTES];

    ret->limit = number_parse(text, digits, INT64_MAX);
    if (ret->limit < 1 || text[digits] != '/')
        return false;
    const char *time = text + digits + 1;
    /* A unit without a number means one: "10/s" is 10 a second. */
    if (*time && time[strspn(time, "dhms")] == '\0' && snprintf(per, sizeof per, "1%s", time) < (int)sizeof per)
        time = per;
    return duration_read(time, &ret->period_ms) && ret->period_ms > 0;
}

/* Makes an error about the request name the flag that the field came from. */
static void name_flag(lks_error *error)
{
    static const char *const fields[][2] = {
        {"rules[0].key", "--key"},
        {"rules[0].policy", "--policy"},
        {"rules[0].limit.burst", "--burst"},
        {"rules[0].limit.limit", "--rate"},
        {"rules[0].limit.period_ms", "--rate"},
        {"group", "--group"},
        {"cost", "--cost"},
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (options_rename(error, fields[i][0], fields[i][1]))
            return;
}

/* Returns EXIT_DONE if the run is allowed. It is counted then. */
static exit_code ask(lks_channel *channel, const limit_flags *flags, const lks_limiter_rule *rule, uint32_t timeout_ms)
{
    const lks_limiter_options limits = {.group = flags->group, .rules = rule, .n_rules = 1, .timeout_ms = timeout_ms};
    lks_limiter_decision decision;
    lks_limiter *limiter = NULL;
    lks_error error;
    char left[WORDS_BYTES];

    if (lks_limiter_new(channel, &limits, &limiter, &error) != LKS_OK)
        return exits_failed(&error, true);
    uint32_t wait = cli_ms(flags->wait);
    bool allowed = wait > 0 ? lks_limiter_wait(limiter, flags->key, flags->cost, wait, &decision, &error)
                            : lks_limiter_allow(limiter, flags->key, flags->cost, &decision, &error);
    lks_limiter_free(limiter);
    if (allowed)
        return EXIT_DONE;
    if (decision.outcome == LKS_CHECK_OUTCOME_UNSPECIFIED) {
        name_flag(&error);
        return error.code == LKS_NOT_FOUND ? exits_wrong("--policy", "no such policy") : exits_failed(&error, false);
    }
    duration_write(decision.retry_after_ms, left);
    if (decision.retry_after_ms < 0)
        exits_say("%s: the cost is more than the limit ever allows at once", flags->key);
    else
        exits_say("%s: %s, try again in %s", flags->key,
                  decision.outcome == LKS_CHECK_OUTCOME_BANNED ? "banned" : "over the limit", left);
    return EXIT_REFUSED;
}

static exit_code check(const limit_flags *flags, lks_limit *limit, lks_limiter_rule *rule)
{
    if (!flags->rate == !flags->policy)
        return exits_wrong("--rate", flags->rate ? "cannot be combined with --policy" : "is needed, or --policy");
    if (flags->burst > 0 && flags->policy)
        return exits_wrong("--burst", "cannot be combined with --policy, which has its own");
    if (flags->rate && !read_rate(flags->rate, limit))
        return exits_wrong("--rate", "must be a number and a time: 10/s, 100/1m, 5/12h");
    limit->algorithm = LKS_ALGORITHM_TOKEN_BUCKET;
    limit->burst = flags->burst;
    *rule = (lks_limiter_rule){.policy = flags->policy, .limit = flags->rate ? limit : NULL};
    return EXIT_DONE;
}

exit_code limit_command(cli *c, const invocation *in)
{
    const limit_flags *flags = in->flags;
    lks_limit limit = LKS_LIMIT_INIT;
    lks_limiter_rule rule;
    lks_channel *channel = NULL;
    exit_code code = check(flags, &limit, &rule);

    if (code == EXIT_DONE)
        code = cli_open(c, &channel);
    if (code == EXIT_DONE)
        code = ask(channel, flags, &rule, c->timeout > 0 ? cli_ms(c->timeout) : CLI_TIMEOUT_MS);
    lks_channel_close(channel);
    if (code != EXIT_DONE)
        return EXIT_AROUND + code;
    return exits_exec(in->argv);
}
