/* Calls that share an FCALL: random batches of one function, over few items, orders and buyers of a few groups, do what
 * the same calls do one by one in another namespace: every reply, and all that the store holds in the end. And whom an
 * error in writing down what they changed concerns. LOCKSTOCK_SEED=n repeats a run. */
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "functions/library.h"
#include "stock_script.h"
#include "support/counts.h"

enum { GROUPS = 3, SKUS = 4, ORDERS = 24, RETURNS = 8, ADJUSTMENTS = 8, BATCH_MAX = 64, COMMAND_BYTES = 16384 };

static int below(int n)
{
    return (int)(random() % n);
}

/* ---- one sub-call ---- */

typedef struct sub_call {
    int group, n_args;
    char args[512]; /* each with a space before it */
} sub_call;

static void add_arg(sub_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_arg(sub_call *c, const char *format, ...)
{
    size_t len = strlen(c->args);
    va_list ap;

    c->args[len++] = ' ';
    va_start(ap, format);
    vsnprintf(c->args + len, sizeof c->args - len, format, ap);
    va_end(ap);
    c->n_args++;
}

static void add_sku(sub_call *c)
{
    add_arg(c, "s%d", below(SKUS));
}

static void add_order(sub_call *c)
{
    add_arg(c, "o%d", below(ORDERS));
}

/* 1 to SKUS different ones. */
static void add_lines(sub_call *c, int max_quantity)
{
    int n = 1 + below(3) / 2 * below(SKUS), first = below(SKUS);

    for (int i = 0; i < n; i++) {
        add_arg(c, "s%d", (first + i) % SKUS);
        add_arg(c, "%d", 1 + below(max_quantity));
    }
}

static void add_buyer(sub_call *c)
{
    add_arg(c, "buyer%d", below(3));
}

static void deduct_args(sub_call *c)
{
    add_order(c);
    add_buyer(c);
    add_lines(c, 3);
}

static void reserve_args(sub_call *c)
{
    add_order(c);
    add_buyer(c);
    add_arg(c, "%d", 1000 * (1 + below(5)));
    add_lines(c, 3);
}

static void confirm_args(sub_call *c)
{
    add_order(c);
    add_arg(c, "%d", below(2));
}

static void extend_args(sub_call *c)
{
    add_order(c);
    add_arg(c, "%d", 1000 * (1 + below(5)));
}

static void cancel_args(sub_call *c)
{
    add_order(c);
    add_arg(c, "why");
}

static void return_args(sub_call *c)
{
    add_arg(c, "r%d", below(RETURNS));
    add_order(c);
    if (below(2) == 0)
        add_lines(c, 2);
}

static void put_args(sub_call *c)
{
    add_sku(c);
    add_arg(c, "%d", below(40));
    add_arg(c, "%d", below(3) == 0 ? 1 + below(6) : 0);
    add_arg(c, "%d", below(6) == 0 ? 1000 : 0);
    add_arg(c, "%d", below(6) == 0 ? 3000 : 0);
    add_arg(c, "%d", 60000 * (1 + below(3)));
    add_arg(c, "%d", below(4) == 0);
    add_arg(c, "0");
}

static void adjust_args(sub_call *c)
{
    add_sku(c);
    add_arg(c, "%d", below(2) == 0 ? 5 : -2);
    add_arg(c, "a%d", below(ADJUSTMENTS));
    add_arg(c, "why");
    add_arg(c, "0");
}

static void delete_args(sub_call *c)
{
    add_sku(c);
    add_arg(c, "0");
}

static void get_args(sub_call *c)
{
    for (int i = below(SKUS); i >= 0; i--)
        add_arg(c, "s%d", i);
}

static void no_args(sub_call *c)
{
    (void)c;
}

static const struct function {
    const char *name;
    void (*args)(sub_call *c);
    int often;
} functions[] = {
    {"stock_deduct", deduct_args, 6},
    {"stock_reserve", reserve_args, 8},
    {"stock_confirm", confirm_args, 4},
    {"stock_cancel", cancel_args, 2},
    {"stock_cancel_unseen", cancel_args, 1},
    {"stock_extend_hold", extend_args, 2},
    {"stock_return", return_args, 3},
    {"stock_put_item", put_args, 3},
    {"stock_adjust", adjust_args, 3},
    {"stock_delete_item", delete_args, 1},
    {"stock_get_items", get_args, 1},
    {"stock_get_order", add_order, 1},
    {"stock_expire", no_args, 1},
};

static const struct function *random_function(void)
{
    const struct function *f = functions;
    int sum = 0;

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        sum += functions[i].often;
    for (sum = below(sum); sum >= f->often; f++)
        sum -= f->often;
    return f;
}

/* ---- both ways of sending them ---- */

/* One FCALL of all of them. */
static const char *send(const char *ns, const char *function, const sub_call *calls, int n)
{
    static char command[COMMAND_BYTES];
    size_t len = (size_t)snprintf(command, sizeof command, "FCALL %s_%s %d", function, functions_digest, n);

    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(command + len, sizeof command - len, " ls:{%s/g%d}:", ns, calls[i].group);
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(command + len, sizeof command - len, " %d%s", calls[i].n_args, calls[i].args);
    assert_true(len < sizeof command);
    return harness_redis(h, command);
}

static void expect_same_replies(const char *function, const sub_call *calls, int n)
{
    const char *together = send("A", function, calls, n);

    for (int i = 0; i < n; i++) {
        const char *alone = send("B", function, &calls[i], 1);
        size_t len = strlen(alone), ends = n > 1; /* each of several ends its line */
        if (strncmp(together, alone, len) != 0 || (together[len + ends] != '\0' && i == n - 1))
            fail_msg("%s%s, call %d of %d, alone:\n%stogether:\n%s", function, calls[i].args, i, n, alone, together);
        together += len + ends;
    }
}

/* All keys of a namespace with what they hold; of a ledger its entries, however they are packed. */
static const char *held_by(const char *ns)
{
    return harness_redis(h, "EVAL %s 0 %s",
                         "local out = {}\n"
                         "for _, key in ipairs(redis.call('KEYS', 'ls:{' .. ARGV[1] .. '/*')) do\n"
                         "  local kind, value = redis.call('TYPE', key).ok, {}\n"
                         "  if kind == 'string' then value = {redis.call('GET', key)}\n"
                         "  elseif kind == 'hash' then\n"
                         "    local names = redis.call('HKEYS', key)\n"
                         "    table.sort(names)\n"
                         "    for i, n in ipairs(names) do value[i] = n .. '=' .. redis.call('HGET', key, n) end\n"
                         "  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')\n"
                         "  elseif kind == 'stream' then\n"
                         "    for i, e in ipairs(redis.call('XRANGE', key, '-', '+')) do value[i] = e[2][2] end\n"
                         "  end\n"
                         "  local text = table.concat(value, '\\0')\n"
                         "  text = string.gsub(text, '[^ -~]', function(c) return '\\\\' .. string.byte(c) end)\n"
                         "  local ends = redis.call('PTTL', key) > 0 and ' ends ' or ' '\n"
                         "  out[#out + 1] = string.sub(key, 6 + #ARGV[1]) .. ends .. text\n"
                         "end\n"
                         "table.sort(out)\n"
                         "return out",
                         ns);
}

static void set_clock(int64_t now_us)
{
    harness_redis(h, "SET ls:test:clock_still_us %lld", (long long)now_us);
}

static void random_batch(void)
{
    static sub_call calls[BATCH_MAX];
    const struct function *f = random_function();
    int n = below(3) == 0 ? 1 + below(BATCH_MAX) : 1 + below(6);

    for (int i = 0; i < n; i++) {
        calls[i] = (sub_call){.group = below(GROUPS)};
        f->args(&calls[i]);
    }
    expect_same_replies(f->name, calls, n);
}

TEST(a_batch_does_what_its_calls_do_one_by_one)
{
    const char *seed_text = getenv("LOCKSTOCK_SEED");
    unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)time(NULL) ^ (unsigned)getpid() << 8;
    size_t steps = counts_of(600, 20000);
    int64_t now_us = INT64_C(1800000000000000);

    print_message("LOCKSTOCK_SEED=%u\n", seed);
    srandom(seed);
    for (size_t i = 0; i < steps; i++) {
        set_clock(now_us += below(1500000));
        random_batch();
        if (i % 20 == 19)
            assert_string_equal(held_by("A"), held_by("B"));
        /* As if the records that have an end had come to it. */
        if (i % 100 == 99)
            harness_redis(h, "EVAL %s 0",
                          "for _, key in ipairs(redis.call('KEYS', 'ls:{*stock:[oat]:*')) do\n"
                          "  if redis.call('PTTL', key) > 0 then redis.call('DEL', key) end\n"
                          "end");
        harness_forget(h);
    }
}

/* ---- whom an error in writing concerns ---- */

/* What each of these Deducts in one FCALL is told, one a line. */
static const char *told_together(void)
{
    enum { N = 6 };
    static const struct {
        const char *order, *sku;
        int64_t quantity;
    } orders[N] = {{"new", "a", 2}, {"old", "b", 1},  {"other", "nothing", 1},
                   {"new", "a", 2}, {"late", "a", 2}, {"many", "b", 9}};
    lks_line lines[N];
    lks_line *list[N];
    lks_deduct_request requests[N];
    const void *asked[N], *got[N];
    lks_error errors[N];
    char *told = new_line();

    for (int i = 0; i < N; i++) {
        lines[i] = message(line, .sku = orders[i].sku, .quantity = orders[i].quantity);
        list[i] = &lines[i];
        requests[i] = message(deduct_request, .group = "g", .order_id = orders[i].order, .buyer_id = "bob",
                              .n_lines = 1, .lines = &list[i]);
        asked[i] = &requests[i];
    }
    ask_together(N, asked, got, errors);
    for (int i = 0; i < N; i++) {
        err = errors[i];
        add_line(told, "%s\n", got[i] ? line_of(got[i]) : lks_applied_name(err.applied));
    }
    return told;
}

static void two_items(void)
{
    put_item("g", "a", 3);
    put_item("g", "b", 3);
    deduct("g", "old", "bob", "b:1");
}

/* Each that changed something, and each that met what one of them changed: its answer rests on it. */
TEST(an_error_in_writing_is_of_the_calls_that_it_concerns)
{
    two_items();
    says(told_together(), "DEDUCTED\nDEDUCTED again\nUNKNOWN_SKU\nDEDUCTED again\nSOLD_OUT\nSOLD_OUT\n");

    script_reset(NULL);
    two_items();
    harness_redis(h, "DEL ls:{default/g}:stock:ledger");
    harness_redis(h, "SET ls:{default/g}:stock:ledger foreign");
    remember();
    says(told_together(), "NO\nDEDUCTED again\nUNKNOWN_SKU\nNO\nNO\nSOLD_OUT\n");
    expect_unchanged();

    script_reset(NULL);
    two_items();
    harness_alter(h, "write('SET', key .. sku, pack_item(item))", "write('NOSUCH', key .. sku, pack_item(item))");
    says(told_together(), "MAYBE\nDEDUCTED again\nUNKNOWN_SKU\nMAYBE\nMAYBE\nSOLD_OUT\n");
}

/* What an item has is read once, and written once if it has changed, whoever asks. */
TEST(a_batch_reads_and_writes_an_item_once)
{
    two_items();
    harness_redis(h, "CONFIG RESETSTAT");
    told_together();
    assert_int_equal(harness_commands(h, "set"), 2); /* "a", the order "new" */
    /* "a", "b", "nothing", and of that whether the group is in buckets; "new", "old", "other", "late", "many" */
    assert_int_equal(harness_commands(h, "get"), 9);
    assert_int_equal(harness_commands(h, "xadd"), 1);
    assert_int_equal(harness_commands(h, "exists"), 1);
}

TEST(a_batch_looks_once_for_holds_that_are_over)
{
    enum { N = 3 };
    static char *const ids[N] = {"o1", "o2", "o3"};
    lks_line line = message(line, .sku = "a", .quantity = 2), *lines[] = {&line};
    lks_reserve_request requests[N];
    const void *asked[N], *got[N];
    lks_error errors[N];

    two_items();
    reserve("g", "over", "bob", "a:2", 1000);
    harness_advance_ms(h, 1000);
    for (int i = 0; i < N; i++) {
        requests[i] =
            message(reserve_request, .group = "g", .order_id = ids[i], .hold_ms = 60000, .n_lines = 1, .lines = lines);
        asked[i] = &requests[i];
    }
    harness_redis(h, "CONFIG RESETSTAT");
    ask_together(N, asked, got, errors);
    says(line_of(got[0]), "RESERVED");
    says(line_of(got[1]), "SOLD_OUT");
    says(line_of(got[2]), "SOLD_OUT");
    assert_int_equal(harness_commands(h, "zrangebyscore"), 1);
}

/* Orders that are remembered for different times. */
TEST(a_batch_keeps_each_order_as_long_as_its_item_says)
{
    static lks_deduct_request requests[2];
    static const char *const skus[] = {"a", "b"};
    lks_line lines[2], *list[] = {&lines[0], &lines[1]};
    const void *got[2];
    lks_error errors[2];

    for (int i = 0; i < 2; i++) {
        lks_put_item_request item = put_request("g", skus[i], 3);
        item.order_retain_ms = i == 0 ? 60000 : 600000;
        assert_non_null(put(&item));
        lines[i] = message(line, .sku = skus[i], .quantity = 1);
        requests[i] = message(deduct_request, .group = "g", .order_id = skus[i], .n_lines = 1, .lines = &list[i]);
    }
    ask_together(2, (const void *[]){&requests[0], &requests[1]}, got, errors);
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:a")), 1, 60000);
    assert_in_range(atoll(harness_redis(h, "PTTL ls:{default/g}:stock:o:b")), 60001, 600000);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = script_reset)
