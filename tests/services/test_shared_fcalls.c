/* Calls of several groups in one FCALL: each sees its own group only, and an error is its own. */
#include "functions/library.h"
#include "lockstock/v1/lock.lks.h"
#include "lockstock/v1/stock.lks.h"
#include "services/script.h"

enum { GROUPS = 4 };

static char *const groups[GROUPS] = {"a", "b", "c", "d"};

static void put(char *group, int64_t on_hand)
{
    assert_string_equal(call(&message(put_item_request, .group = group, .sku = "pear", .on_hand = on_hand)), "OK");
}

/* An order of `quantity` in each of the groups, in one FCALL; gives "DEDUCTED DEDUCTED ...". */
static const char *deduct_in_each(char *order, int64_t quantity)
{
    static lks_line line;
    static lks_line *lines[] = {&line};
    static lks_deduct_request requests[GROUPS];
    const void *asked[GROUPS], *answers[GROUPS];
    lks_error errors[GROUPS];
    char *got = new_line();

    line = message(line, .sku = "pear", .quantity = quantity);
    for (int i = 0; i < GROUPS; i++) {
        requests[i] = message(deduct_request, .group = groups[i], .order_id = order, .buyer_id = "me", .n_lines = 1,
                              .lines = lines);
        asked[i] = &requests[i];
    }
    ask_together(GROUPS, asked, answers, errors);
    for (int i = 0; i < GROUPS; i++) {
        err = errors[i];
        add_line(got, "%s%s", i > 0 ? ", " : "", line_of(answers[i]));
    }
    return got;
}

TEST(each_call_sees_its_own_group_only)
{
    put(groups[0], 10);
    put(groups[1], 2);
    put(groups[2], 10);
    put(groups[3], 10);
    assert_string_equal(deduct_in_each("o1", 3), "DEDUCTED, SOLD_OUT, DEDUCTED, DEDUCTED");
    assert_string_equal(deduct_in_each("o1", 3), "DEDUCTED again, SOLD_OUT, DEDUCTED again, DEDUCTED again");
    for (int i = 0; i < GROUPS; i++) {
        const lks_get_item_response *got = answer_to(&message(get_item_request, .group = groups[i], .sku = "pear"));
        assert_int_equal(got->item->available, i == 1 ? 2 : 7);
    }
}

TEST(foreign_data_of_one_group_is_no_matter_to_the_others)
{
    for (int i = 0; i < GROUPS; i++)
        put(groups[i], 10);
    harness_redis(h, "DEL ls:{default/c}:stock:ledger");
    harness_redis(h, "SADD ls:{default/c}:stock:ledger foreign");
    assert_string_equal(
        deduct_in_each("o1", 3),
        "DEDUCTED, DEDUCTED, FAILED_PRECONDITION NO the store holds foreign data under this name, DEDUCTED");
    harness_redis(h, "DEL ls:{default/c}:stock:ledger");
    assert_string_equal(deduct_in_each("o1", 3), "DEDUCTED again, DEDUCTED again, DEDUCTED, DEDUCTED again");
}

/* A function whose calls share nothing but the FCALL. */
TEST(a_lock_of_each_group_is_taken)
{
    lks_target target = message(target, .name = "x", .mode = LKS_LOCK_MODE_EXCLUSIVE);
    lks_target *targets[] = {&target};
    lks_acquire_request requests[GROUPS];
    const void *asked[GROUPS], *answers[GROUPS];
    lks_error errors[GROUPS];

    for (int i = 0; i < GROUPS; i++) {
        requests[i] = message(acquire_request, .group = groups[i], .token = "token-of-sixteen", .owner = "me",
                              .lease_ms = 60000, .n_targets = 1, .targets = targets);
        asked[i] = &requests[i];
    }
    ask_together(GROUPS, asked, answers, errors);
    for (int i = 0; i < GROUPS; i++) {
        const lks_acquire_response *told = answers[i];
        assert_non_null(told);
        assert_int_equal(told->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
        const lks_inspect_response *seen = answer_to(&message(inspect_request, .group = groups[i], .name = "x"));
        assert_int_equal(seen->n_holders, 1);
    }
}

/* As a node of a cluster is asked: bases are arguments. */
static const char *ask_node(const char *function, const char *const *calls, size_t n)
{
    char command[512];
    size_t len = (size_t)snprintf(command, sizeof command, "FCALL %s_%s 0", function, functions_digest);

    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(command + len, sizeof command - len, " %s", calls[i]);
    return harness_redis(h, command);
}

/* However many of the calls these are: a call alone is answered without a list. */
TEST(calls_of_groups_that_are_here_run)
{
    static const struct {
        const char *function, *here, *away;
    } asked[] = {{"lock_promote", "2 ls:{default/here}: name", "2 ls:{default/away}: name"},
                 {"stock_expire", "1 ls:{default/here}:", "1 ls:{default/away}:"}};

    harness_alter(h, "return this_node() == '' or", "return not string.find(base, 'away') and");
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const char *here = asked[i].here, *away = asked[i].away, *function = asked[i].function;
        assert_string_equal(ask_node(function, &here, 1), "OK\n-1\n");
        assert_string_equal(ask_node(function, &away, 1), "ELSEWHERE\n");
        assert_string_equal(ask_node(function, (const char *[]){away, here}, 2), "ELSEWHERE\n\nOK\n-1\n\n");
        assert_string_equal(ask_node(function, (const char *[]){away, away}, 2), "ELSEWHERE\n\nELSEWHERE\n\n");
        assert_string_equal(ask_node(function, (const char *[]){here, away, here}, 3),
                            "OK\n-1\n\nELSEWHERE\n\nOK\n-1\n\n");
    }
}

TEST_MAIN(.setup_all = script_open, .setup = script_reset, .teardown_all = script_close)
