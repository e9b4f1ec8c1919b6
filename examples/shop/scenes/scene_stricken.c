/* Scenes p and q: a shop that is killed, or stands still, in its handler, and another one beside it, to which the order
 * is sent again. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "shop_scenes.h"

enum { LAMPS = 10, N_POINTS = 3 };

typedef struct stricken {
    premises premises;
    shop_process first, second;
    lks_channel *to_first, *to_second, *lockstockd;
    char sku[SHOP_NAME_SIZE], order[SHOP_NAME_SIZE], other[SHOP_NAME_SIZE], ann[SHOP_NAME_SIZE], bob[SHOP_NAME_SIZE];
    lks_call *call;                 /* of the order, to the first shop */
    bought own, repeated, of_other; /* what was told: by the first shop, by the second one, and to another buyer */
    size_t payments, payments_of_other;
    shelf_status shelf;
    bool is_free; /* the shelf's lock, in the end */
} stricken;

/* Two shops, the first of which stops at `point` in the order; and the order, sent to it. */
static lks_code open_two(stricken *s, const shop_setup *setup, bool guards, const char *point, lks_error *error)
{
    char stop[96];
    lks_code code = premises_open(&s->premises, error);

    if (code != LKS_OK)
        return code;
    shop_name(s->sku, &s->premises, "lamp", 0);
    shop_name(s->order, &s->premises, "order", 1);
    shop_name(s->other, &s->premises, "order", 2);
    shop_name(s->ann, &s->premises, "ann", 0);
    shop_name(s->bob, &s->premises, "bob", 0);
    snprintf(stop, sizeof stop, "SHOP_STOP=%s:%s", point, s->order);
    if ((code = shop_start(setup, &s->premises, guards, stop, &s->first, error)) != LKS_OK ||
        (code = shop_start(setup, &s->premises, guards, "", &s->second, error)) != LKS_OK)
        return code;
    if ((code = shop_open(s->first.tcp, false, &s->to_first, error)) != LKS_OK ||
        (code = shop_open(s->second.tcp, false, &s->to_second, error)) != LKS_OK ||
        (code = shop_open(setup->lockstockd, true, &s->lockstockd, error)) != LKS_OK ||
        (code = shop_fill(s->to_second, s->sku, LAMPS, error)) != LKS_OK ||
        (code = shop_buy_start(s->to_first, s->order, s->ann, s->sku, &s->call, error)) != LKS_OK)
        return code;
    return shop_await(&s->first, "stopped", error);
}

static lks_code look(stricken *s, lks_error *error)
{
    char lock[64];
    lease_look held = {.held = true};
    lks_code code = shop_status(s->to_second, s->sku, &s->shelf, error);

    snprintf(lock, sizeof lock, "shelf:%s", s->sku);
    if (code == LKS_OK)
        code = lease_inspect(s->lockstockd, lock, &held, error);
    s->is_free = code == LKS_OK && !held.held;
    s->payments = premises_payments(&s->premises, s->order);
    s->payments_of_other = premises_payments(&s->premises, s->other);
    return code;
}

static lks_code end(stricken *s, lks_code code)
{
    if (s->call) {
        lks_call_cancel(s->call);
        lks_call_free(s->call);
    }
    shop_end(&s->first);
    lks_channel_close(s->to_first);
    lks_channel_close(s->to_second);
    lks_channel_close(s->lockstockd);
    shop_end(&s->second);
    premises_close(&s->premises);
    return code;
}

/* ---- killed ------------------------------------------------------------------------------------- */

/* The buyer has no answer, and sends the order again, to the other shop. Then another buyer comes to the shelf. */
static lks_code play_killed(stricken *s, const shop_setup *setup, bool guards, const char *point, lks_error *error)
{
    *s = (stricken){.payments = 0};
    lks_code code = open_two(s, setup, guards, point, error);
    if (code != LKS_OK)
        return end(s, code);
    shop_end(&s->first);
    if (shop_bought(s->call, &s->own, NULL) == LKS_OK)
        code = lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "a shop that is dead has answered");
    s->call = NULL;
    if (code == LKS_OK && (code = shop_buy(s->to_second, s->order, s->ann, s->sku, &s->repeated, error)) == LKS_OK &&
        (code = shop_buy(s->to_second, s->other, s->bob, s->sku, &s->of_other, error)) == LKS_OK)
        code = look(s, error);
    return end(s, code);
}

lks_code scene_killed(const shop_setup *setup, lock_claims *claims, lks_error *error)
{
    static const char *const points[N_POINTS] = {"read", "taken", "paid"};
    static const char *const done[N_POINTS] = {"read the shelf", "taken the lamp", "paid for it"};
    static const struct {
        size_t payments;
        int64_t lamps;
    } harm[N_POINTS] = {{1, 1}, {1, 2}, {2, 2}};

    fprintf(claims->table,
            "scene p: the shop is killed (SIGKILL) in the handler; the order is sent again, to another shop\n");
    fprintf(claims->table, "  %-14s  %-35s  %s\n", "", "with guards", "without");
    fprintf(claims->table, "  %-14s  %7s  %8s  %5s  %9s  %8s  %5s\n", "when it has", "attempt", "payments", "lamps",
            "the next", "payments", "lamps");
    for (int i = 0; i < N_POINTS; i++) {
        stricken with, without;
        lks_code code = play_killed(&with, setup, true, points[i], error);
        if (code != LKS_OK || (code = play_killed(&without, setup, false, points[i], error)) != LKS_OK)
            return code;
        int64_t lamps = LAMPS - 1 - with.shelf.left, lamps_without = LAMPS - 1 - without.shelf.left;
        bool next = with.of_other.outcome == SHOP_V1_BUY_OUTCOME_BOUGHT && with.of_other.attempt == 1;
        fprintf(claims->table, "  %-14s  %7lld  %8zu  %5lld  %9s  %8zu  %5lld\n", done[i],
                (long long)with.repeated.attempt, with.payments, (long long)lamps, next ? "bought" : "DID NOT",
                without.payments, (long long)lamps_without);
        lock_claim(claims, with.repeated.outcome == SHOP_V1_BUY_OUTCOME_BOUGHT && with.repeated.attempt == 2,
                   "%s: not bought by attempt 2", points[i]);
        lock_claim(claims, with.payments == 1 && lamps == 1 && with.shelf.orders == 2, "%s: with guards %zu payments",
                   points[i], with.payments);
        lock_claim(claims, next && with.payments_of_other == 1, "%s: the next buyer could not buy", points[i]);
        lock_claim(claims, with.is_free, "%s: the shelf is locked still", points[i]);
        lock_claim(claims, without.payments == harm[i].payments && lamps_without == harm[i].lamps,
                   "%s: without guards %zu payments", points[i], without.payments);
    }
    return LKS_OK;
}

/* ---- frozen ------------------------------------------------------------------------------------- */

/* The buyer sends the order again, to the other shop; then another one buys there. Then the first shop goes on. */
static lks_code play_frozen(stricken *s, const shop_setup *setup, bool guards, lks_error *error)
{
    *s = (stricken){.payments = 0};
    lks_code code = open_two(s, setup, guards, "read", error);
    if (code != LKS_OK || (code = shop_buy(s->to_second, s->order, s->ann, s->sku, &s->repeated, error)) != LKS_OK ||
        (code = shop_buy(s->to_second, s->other, s->bob, s->sku, &s->of_other, error)) != LKS_OK)
        return end(s, code);
    kill(s->first.process.pid, SIGCONT);
    code = shop_bought(s->call, &s->own, error);
    s->call = NULL;
    return end(s, code == LKS_OK ? look(s, error) : code);
}

static void print_frozen(FILE *table, const char *how, const stricken *s)
{
    bool same = strcmp(s->own.receipt, s->repeated.receipt) == 0;

    fprintf(table, "  %-12s  %-22s  %8zu  %10lld  %-28s  %s\n", how,
            s->shelf.orders == 2 ? "refused: a lower fence" : "written over the other", s->payments,
            (long long)s->shelf.left, s->shelf.orders == 2 ? "has a lamp" : "paid, and is not in the book",
            same ? "what the second run did" : "another receipt");
}

lks_code scene_frozen(const shop_setup *setup, lock_claims *claims, lks_error *error)
{
    stricken with, without;
    lks_code code = play_frozen(&with, setup, true, error);

    if (code != LKS_OK || (code = play_frozen(&without, setup, false, error)) != LKS_OK)
        return code;
    fprintf(claims->table,
            "scene q: a shop stands still (SIGSTOP) when it has read %d lamps, and goes on when another sold two\n",
            LAMPS);
    fprintf(claims->table, "  %-12s  %-22s  %8s  %10s  %-28s  %s\n", "", "its late write is", "payments", "lamps left",
            "the other buyer", "it tells its buyer");
    print_frozen(claims->table, "with guards", &with);
    print_frozen(claims->table, "without", &without);
    lock_claim(claims, with.repeated.attempt == 2 && with.payments == 1 && with.payments_of_other == 1,
               "with guards: %zu payments", with.payments);
    lock_claim(claims, with.shelf.left == LAMPS - 2 && with.shelf.orders == 2, "with guards %lld lamps are left",
               (long long)with.shelf.left);
    lock_claim(claims, with.is_free, "the shelf is locked still");
    lock_claim(claims, strcmp(with.own.receipt, with.repeated.receipt) == 0 && with.own.attempt == 2,
               "with guards two runs of an order told two things");
    lock_claim(claims, without.payments == 2 && without.shelf.left == LAMPS - 1 && without.shelf.orders == 1,
               "no harm without guards");
    return LKS_OK;
}
