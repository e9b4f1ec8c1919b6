/* Every word sends one request or checks one thing; on a difference both sides are
 * printed. */
#include "services/ratelimit_script.h"

/* 2026-01-01T00:00:00Z */
#define EPOCH_US 1767225600000000LL

static int64_t advanced_us;

#define LIFE "return math.ceil(span / 1000)"
#define LONG_LIFE "return int(math.ceil(span / 1000) + 3600000)"

/* Redis ends keys by its own clock, which runs on where the test's stands still: so it
 * does that an hour later. */
int ratelimit_reset(void **state)
{
    script_reset(state);
    harness_alter(h, LIFE, LONG_LIFE);
    harness_redis(h, "SET ls:test:clock_still_us %lld", EPOCH_US);
    advanced_us = 0;
    return 0;
}

void let_keys_end(void)
{
    harness_alter(h, LIFE, LIFE);
}

void shorten_chunks(void)
{
    harness_alter(h, LIFE "\nend", LONG_LIFE "\nend\nCHUNK, LOOK = 3, 2");
}

int64_t now_us(void)
{
    return EPOCH_US + advanced_us;
}

/* Whole milliseconds also move the server's clock. */
void advance_us(int64_t us)
{
    harness_advance_ms(h, us / 1000);
    harness_redis(h, "INCRBY ls:test:clock_offset_us %lld", (long long)(us % 1000));
    advanced_us += us;
}

void advance(int64_t ms)
{
    advance_us(ms * 1000);
}

/* ---- requests ---- */

static lks_algorithm algorithm_of(const char *word)
{
    static const char *const words[] = {"", "FIXED", "LOG", "WINDOW", "BUCKET"};

    for (int i = 1; i <= 4; i++)
        if (strcmp(words[i], word) == 0)
            return (lks_algorithm)i;
    fail_msg("no algorithm %s", word);
    return LKS_ALGORITHM_UNSPECIFIED;
}

static void set_word(lks_limit *limit, lks_penalty *penalty, const char *word)
{
    long long number = 0;
    char name[16] = "";

    if (sscanf(word, "%15[a-z]=%lld", name, &number) != 2)
        fail_msg("no word of a limit: %s", word);
    if (strcmp(name, "burst") == 0) {
        limit->burst = number;
        return;
    }
    limit->penalty = penalty;
    if (strcmp(name, "after") == 0)
        penalty->after = number;
    else if (strcmp(name, "ban") == 0)
        penalty->ban_ms = number;
    else if (strcmp(name, "factor") == 0)
        penalty->factor = (int32_t)number;
    else if (strcmp(name, "max") == 0)
        penalty->max_ban_ms = number;
    else
        fail_msg("no word of a limit: %s", word);
}

void set_limit(lks_limit *limit, lks_penalty *penalty, const char *from)
{
    char copy[256], *rest = NULL;
    long long of = 0, period = 0;

    snprintf(copy, sizeof copy, "%s", from);
    *penalty = message(penalty, );
    *limit = message(limit, .algorithm = algorithm_of(strtok_r(copy, " ", &rest)));
    if (sscanf(strtok_r(NULL, " ", &rest), "%lld/%lld", &of, &period) != 2)
        fail_msg("no limit: %s", from);
    limit->limit = of;
    limit->period_ms = period;
    for (char *word = strtok_r(NULL, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        set_word(limit, penalty, word);
}

void set_rules(lks_check_request *request, const char *rules)
{
    static struct {
        char text[4096];
        lks_rule rule[16];
        lks_rule *pointer[16];
        lks_limit limit[16];
        lks_penalty penalty[16];
    } all[RULES_KEPT], *kept;
    static size_t n;
    char *rest = NULL;

    kept = &all[n++ % RULES_KEPT];
    snprintf(kept->text, sizeof kept->text, "%s", rules);
    request->n_rules = 0;
    request->rules = kept->pointer;
    for (char *at = strtok_r(kept->text, ";", &rest); at; at = strtok_r(NULL, ";", &rest)) {
        size_t i = request->n_rules++;
        char *space = strchr(at, ' ');
        *space = '\0';
        kept->pointer[i] = &kept->rule[i];
        kept->rule[i] = message(rule, .key = at);
        if (space[1] == '@') {
            lks_rule_set_policy(&kept->rule[i], space + 2);
        } else {
            lks_rule_set_limit(&kept->rule[i], &kept->limit[i]);
            set_limit(&kept->limit[i], &kept->penalty[i], space + 1);
        }
    }
}

const lks_check_response *check(const lks_check_request *request)
{
    return answer_to(request);
}

static lks_check_request check_request(const char *rules, int64_t cost)
{
    lks_check_request request = message(check_request, .group = "g", .cost = cost);

    set_rules(&request, rules);
    return request;
}

const lks_check_response *check_rules(const char *rules)
{
    return check_cost(rules, 0);
}

const lks_check_response *check_cost(const char *rules, int64_t cost)
{
    lks_check_request request = check_request(rules, cost);

    return check(&request);
}

const lks_check_response *check_id(const char *rules, int64_t cost, const char *request_id)
{
    lks_check_request request = check_request(rules, cost);

    request.request_id = request_id;
    return check(&request);
}

const lks_check_response *peek(const char *rules, int64_t cost)
{
    lks_check_request request = check_request(rules, cost);

    request.peek = true;
    return check(&request);
}

const char *refund(const char *group, const char *request_id)
{
    const lks_refund_response *response = ask(refund, .group = group, .request_id = request_id);

    return response ? line_of(response) : NULL;
}

bool reset(const char *group, const char *key)
{
    return ask(reset, .group = group, .key = key);
}

const lks_policy *put_policy(const char *name, const char *limit, bool shadow, int64_t expected_version)
{
    lks_penalty penalty;
    lks_limit of;

    set_limit(&of, &penalty, limit);
    const lks_put_policy_response *response =
        ask(put_policy, .name = name, .limit = &of, .shadow = shadow, .expected_version = expected_version);
    return response ? response->policy : NULL;
}

const lks_policy *put_unlimited(const char *name)
{
    const lks_put_policy_response *response = ask(put_policy, .name = name, .unlimited = true);

    return response ? response->policy : NULL;
}

const lks_policy *get_policy(const char *name)
{
    const lks_get_policy_response *response = ask(get_policy, .name = name);

    return response ? response->policy : NULL;
}

bool delete_policy(const char *name, int64_t expected_version)
{
    return ask(delete_policy, .name = name, .expected_version = expected_version);
}

/* ---- checks ---- */

const char *told(const lks_check_response *response)
{
    char *line = new_line();

    if (!response)
        fail_msg("Check: %s", line_of(NULL));
    add_line(line, "%s%s", lks_check_outcome_name(response->outcome), response->replayed ? " replayed" : "");
    for (size_t i = 0; i < response->n_rules; i++) {
        const lks_rule_result *r = response->rules[i];
        add_line(line, ": %s %lld %lld %lld %lld %lld", lks_check_outcome_name(r->outcome), (long long)r->limit,
                 (long long)r->remaining, (long long)r->retry_after_ms, (long long)r->reset_after_ms,
                 (long long)r->banned_ms);
    }
    return line;
}

void expect_told(const lks_check_response *response, const char *expected)
{
    assert_string_equal(told(response), expected);
}

void expect_outcome(const lks_check_response *response, const char *outcome)
{
    const char *got = told(response);
    size_t len = strcspn(got, ":");

    if (len != strlen(outcome) || strncmp(got, outcome, len) != 0)
        fail_msg("%s expected, got %s", outcome, got);
}
