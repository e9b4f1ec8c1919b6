/* Three logins a minute for each user, and a hundred for all of them together.
 *
 *     limiter [URL] */
#include <lockstock/lockstock.h>
#include <stdio.h>

static void log_in(lks_limiter *limiter, const char *user)
{
    lks_limiter_decision decision;
    lks_error error;

    if (lks_limiter_allow(limiter, user, 1, &decision, &error))
        printf("%s: go on, %lld left\n", user, (long long)decision.remaining);
    else if (error.code == LKS_OK)
        printf("%s: too often, rule %zu; try again in a while\n", user, decision.rule);
    else
        printf("%s: not now: %s\n", user, error.message); /* closed: no server could be reached */
}

int main(int argc, char **argv)
{
    lks_limit mine = LKS_LIMIT_INIT, ours = LKS_LIMIT_INIT;
    mine.algorithm = ours.algorithm = LKS_ALGORITHM_SLIDING_LOG;
    mine.period_ms = ours.period_ms = 60000;
    mine.limit = 3;
    ours.limit = 100;
    const lks_limiter_rule rules[] = {{.limit = &mine}, {.limit = &ours, .key = "everyone"}};
    const lks_limiter_options options = {.group = "login", .rules = rules, .n_rules = 2};
    lks_channel *channel;
    lks_limiter *limiter;
    lks_error error;

    if (lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error) != LKS_OK ||
        lks_limiter_new(channel, &options, &limiter, &error) != LKS_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    for (int i = 0; i < 4; i++)
        log_in(limiter, "alice");
    log_in(limiter, "bob");

    /* A job can sleep until it is allowed, but here a minute is too long. */
    if (!lks_limiter_wait(limiter, "alice", 1, 1000, NULL, &error))
        printf("alice: %s\n", error.code == LKS_OK ? "not within a second" : error.message);
    lks_limiter_free(limiter);
    lks_channel_close(channel);
    return 0;
}
