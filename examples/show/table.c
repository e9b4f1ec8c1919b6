#include "table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shops.h"
#include "waits.h"

enum { LABEL_COLUMNS = 38, NUMBER_COLUMNS = 26 };

static lks_code settle(crowd *c, lks_error *error)
{
    exact_shop *shop = NULL;
    lks_code code = exact_open(c, 0, false, &shop, error);

    for (size_t i = 0; code == LKS_OK && i < c->n_buyers; i++) {
        buyer *naive = crowd_buyer(c, NAIVE, i);
        if (atomic_load(&crowd_buyer(c, EXACT, i)->state) == BUYER_ASKS)
            exact_buy(shop, i);
        if (atomic_load(&naive->state) == BUYER_ASKS)
            atomic_store(&naive->state, BUYER_NO_ANSWER);
    }
    exact_close(shop);
    return code;
}

/* The receipts, in the form that sale_check knows. */
static void take_receipts(crowd *c, flash_sale *sale)
{
    static const order_state states[] = {
        [BUYER_AWAY] = ORDER_UNUSED,      [BUYER_ASKS] = ORDER_UNKNOWN,      [BUYER_BOUGHT] = ORDER_SOLD,
        [BUYER_SOLD_OUT] = ORDER_REFUSED, [BUYER_NO_ANSWER] = ORDER_UNKNOWN, [BUYER_WRONG] = ORDER_WRONG};

    for (size_t i = 0; i < c->n_buyers; i++) {
        const buyer *b = crowd_buyer(c, EXACT, i);
        sale->orders[i].state = states[atomic_load(&b->state)];
        sale->orders[i].replayed = atomic_load(&b->replayed);
    }
}

static void row(const char *label, const char *naive, const char *exact)
{
    printf("  %-*s%*s%*s\n", LABEL_COLUMNS, label, NUMBER_COLUMNS, naive, NUMBER_COLUMNS / 2, exact);
}

static void counts(const char *label, size_t naive, size_t exact)
{
    char left[COUNT_TEXT_MAX], right[COUNT_TEXT_MAX];

    row(label, count_text(naive, left), count_text(exact, right));
}

static void waits_row(crowd *c)
{
    int64_t half[SIDES], longest[SIDES];
    char texts[SIDES][48];

    for (int k = 0; k < SIDES; k++) {
        waits_all(c, (shop_side)k, &half[k], &longest[k]);
        snprintf(texts[k], sizeof texts[k], "%" PRId64 " / %" PRId64, half[k], longest[k]);
    }
    row("half of them waited, the longest (ms)", texts[NAIVE], texts[EXACT]);
}

static void print_table(crowd *c, const totals t[SIDES])
{
    char lost[COUNT_TEXT_MAX], known[COUNT_TEXT_MAX], replayed[COUNT_TEXT_MAX], late[COUNT_TEXT_MAX];
    char left[SIDES][COUNT_TEXT_MAX];
    int64_t naive_left = atomic_load(&c->naive_left);
    size_t stock = (size_t)c->stock;

    printf("\n");
    row("", naive_titles[c->form], "lockstock");
    counts("phones", stock, stock);
    counts("buyers", c->n_buyers, c->n_buyers);
    counts("  bought", t[NAIVE].bought, t[EXACT].bought);
    counts("  were told sold out", t[NAIVE].sold_out, t[EXACT].sold_out);
    counts("  without an answer", t[NAIVE].no_answer + t[NAIVE].asks, t[EXACT].no_answer + t[EXACT].asks);
    if (t[NAIVE].away + t[EXACT].away > 0)
        counts("  did not come any more", t[NAIVE].away, t[EXACT].away);
    counts("oversold", crowd_oversold(c, &t[NAIVE]), crowd_oversold(c, &t[EXACT]));
    snprintf(left[NAIVE], sizeof left[NAIVE], "%" PRId64, naive_left);
    snprintf(left[EXACT], sizeof left[EXACT], "%zu", t[EXACT].bought < stock ? stock - t[EXACT].bought : 0);
    row("left, as it counts", left[NAIVE], left[EXACT]);
    row("sales that it did not count", count_text(crowd_missed(c, &t[NAIVE]), lost), "0");
    row("answers lost: MAYBE", count_text(t[NAIVE].lost, lost), count_text(t[EXACT].lost, known));
    row("  known afterwards, by the order id", "no way to", count_text(t[EXACT].known, known));
    row("  of these, the first answer again", "-", count_text(t[EXACT].replayed, replayed));
    row("late writes refused, by the fence", "-", count_text(atomic_load(&c->till_late), late));
    waits_row(c);
    printf("\n");
}

static void say(bool colour, const char *sgr, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(bool colour, const char *sgr, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs(colour ? sgr : "", stdout);
    vprintf(format, args);
    puts(colour ? "\033[0m" : "");
    va_end(args);
}

static void judge_naive(crowd *c, const totals *t, bool colour)
{
    static const char red[] = "\033[1;31m";
    char n[COUNT_TEXT_MAX];
    size_t oversold = crowd_oversold(c, t);

    if (oversold > 0)
        say(colour, red, "By hand: %s sold that were not there.", count_text(oversold, n));
    else
        say(colour, "", "By hand: not oversold, this time.");
    if (atomic_load(&c->naive_stuck))
        say(colour, red, "By hand: %s buyers have no answer: SETNX took the lock, EXPIRE never came, so it has no end.",
            count_text(t->no_answer, n));
}

/* What there is to say against the exactness of the totals themselves; NULL = nothing. */
static const char *flaw(const crowd *c, const totals *t)
{
    if (t->away + t->bought + t->sold_out != c->n_buyers)
        return "buyers and answers do not add up";
    if (t->lost != t->known)
        return "an answer was lost, and not learned";
    return crowd_oversold(c, t) > 0 ? "oversold" : NULL;
}

bool table_print(crowd *c, flash_sale *sale, lks_channel *channel, bool colour)
{
    sale_result result = {0};
    lks_error error = {0};
    char sold[COUNT_TEXT_MAX], orders[COUNT_TEXT_MAX], bought[COUNT_TEXT_MAX];
    lks_code code = settle(c, &error);

    take_receipts(c, sale);
    if (code == LKS_OK)
        code = sale_check(sale, channel, &result, &error);
    const totals t[SIDES] = {crowd_totals(c, NAIVE), crowd_totals(c, EXACT)};
    const char *why = code != LKS_OK ? error.message : result.exact ? flaw(c, &t[EXACT]) : result.why;
    print_table(c, t);
    judge_naive(c, &t[NAIVE], colour);
    if (why)
        say(colour, "\033[1;31m", "lockstock is NOT EXACT: %s", why);
    else
        say(colour, "\033[1;32m",
            "lockstock is exact: %s sold by its item, %s orders in its ledger, %s buyers who were told so.",
            count_text((size_t)result.goods[0].sold, sold), count_text(result.goods[0].orders, orders),
            count_text(t[EXACT].bought, bought));
    fflush(stdout);
    return !why;
}
