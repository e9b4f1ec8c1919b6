/* Scene h: everybody clicks twice. A click goes through a limiter, runs once for its
 * order, reserves, pays and confirms; the second click of an order comes at the same
 * time, at another server where there is one. What is shown are counts, all exact.
 *
 *   click --limiter--> lks_once_run --first of the order--> reserve, pay, confirm
 *              \--> too many            \--else--> what the first was told */
#include "lock_scenes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/limiter.h>
#include <lockstock/once.h>
#include <lockstock/reservation.h>
#include <lockstock/v1/stock.lks_client.h>

enum {
    LAMPS = 20,
    BUYERS = 100,
    PENNILESS = 10,
    ROBOT_CLICKS = 50,
    CLICKS_ALLOWED = 3, /* of a buyer, an hour */
    HOUR_MS = 3600000,
    PATIENCE_MS = 60000,
    CHANNELS = 2,
};

/* What a click is told; the order's result, byte for byte. */
static const char bought[] = "bought", sold_out[] = "sold out", no_money[] = "no money", has_one[] = "has one";

typedef struct crowd {
    const char *who;
    size_t clicks, slowed, run, again;          /* allowed ones run, or are told what the first was told */
    size_t bought, sold_out, no_money, has_one; /* orders, by what they were told */
    bool alike;                                 /* both clicks of each order were told the same */
} crowd;

typedef struct shop {
    lks_channel *channels[CHANNELS];
    lks_limiter *limiters[CHANNELS];
    char group[48];
    atomic_size_t payments;
} shop;

typedef struct click {
    shop *shop;
    int server;
    char buyer[32], order_id[48];
    bool has_money;
    bool slowed, ran;
    char told[16];
    lks_error error;
} click;

/* The card is charged; here it is only counted. */
static bool pay(click *c)
{
    if (c->has_money)
        atomic_fetch_add(&c->shop->payments, 1);
    return c->has_money;
}

static const char *buy(click *c)
{
    const lks_reservation_line line = {.sku = "lamp", .quantity = 1};
    const lks_reservation_order order = {
        .group = c->shop->group, .order_id = c->order_id, .buyer_id = c->buyer, .lines = &line, .n_lines = 1};
    LKS_RESERVATION lks_reservation *reservation = NULL;

    switch (lks_reservation_make(c->shop->channels[c->server], &order, &reservation, &c->error)) {
    case LKS_RESERVE_OUTCOME_RESERVED:
        break;
    case LKS_RESERVE_OUTCOME_SOLD_OUT:
        return sold_out;
    case LKS_RESERVE_OUTCOME_BUYER_LIMIT:
        return has_one;
    default:
        return NULL;
    }
    if (!pay(c))
        return no_money; /* and the lamp goes back */
    return lks_reservation_confirm(reservation, true, &c->error) == LKS_CONFIRM_OUTCOME_CONFIRMED ? bought : NULL;
}

static lks_once_verdict run_order(void *arg, lks_once_attempt *attempt)
{
    const char *told = buy(arg);

    if (!told || lks_once_return(attempt, 200, told, strlen(told)) != LKS_OK)
        return LKS_ONCE_RETRY;
    return LKS_ONCE_STORE;
}

/* One request, as a web server's thread would handle it. */
static void *handle(void *arg)
{
    click *c = arg;
    const lks_once_options options = {.scope = c->shop->group,
                                      .key = c->order_id,
                                      .fingerprint = c->buyer,
                                      .fingerprint_len = strlen(c->buyer),
                                      .wait_ms = PATIENCE_MS};
    lks_once_result *result = NULL;

    c->error = (lks_error){.code = LKS_OK};
    if (!lks_limiter_allow(c->shop->limiters[c->server], c->buyer, 1, NULL, &c->error)) {
        c->slowed = c->error.code == LKS_OK;
        return NULL;
    }
    lks_once_outcome outcome = lks_once_run(c->shop->channels[c->server], &options, run_order, c, &result, &c->error);
    c->ran = outcome == LKS_ONCE_EXECUTED;
    if (c->ran || outcome == LKS_ONCE_REPLAYED) {
        snprintf(c->told, sizeof c->told, "%s", (const char *)result->body);
        c->error.code = LKS_OK;
    }
    lks_once_result_free(result);
    return NULL;
}

static void make_click(click *c, shop *s, const crowd *them, size_t buyer, size_t order, int server)
{
    *c = (click){.shop = s, .server = server, .has_money = strcmp(them->who, "without money") != 0};
    snprintf(c->buyer, sizeof c->buyer, "%s-%zu", them->who, buyer);
    snprintf(c->order_id, sizeof c->order_id, "%s-%zu", c->buyer, order);
}

static lks_code failure(const click *c, lks_error *error)
{
    if (!c->slowed && c->told[0] == '\0') {
        return lks_error_set(error, c->error.code != LKS_OK ? c->error.code : LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s: %s",
                             c->order_id, c->error.message);
    }
    return LKS_OK;
}

static void count(crowd *them, const click *c)
{
    them->clicks++;
    them->slowed += c->slowed;
    them->run += c->ran;
    them->again += !c->slowed && !c->ran;
}

static void count_order(crowd *them, const char *told)
{
    them->bought += strcmp(told, bought) == 0;
    them->sold_out += strcmp(told, sold_out) == 0;
    them->no_money += strcmp(told, no_money) == 0;
    them->has_one += strcmp(told, has_one) == 0;
}

/* Every click is another order. */
static lks_code play_robot(shop *s, crowd *them, lks_error *error)
{
    lks_code code = LKS_OK;

    for (size_t i = 0; i < ROBOT_CLICKS && code == LKS_OK; i++) {
        click c;
        make_click(&c, s, them, 0, i, (int)(i % CHANNELS));
        handle(&c);
        code = failure(&c, error);
        count(them, &c);
        count_order(them, c.told);
    }
    return code;
}

/* Each of n buyers clicks twice at once, all buyers together. */
static lks_code play_crowd(shop *s, crowd *them, size_t n, lks_error *error)
{
    click *clicks = calloc(2 * n, sizeof *clicks);
    pthread_t *threads = calloc(2 * n, sizeof *threads);
    size_t started = 0;
    lks_code code = LKS_OK;

    if (!clicks || !threads)
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    while (code == LKS_OK && started < 2 * n) {
        make_click(&clicks[started], s, them, started / 2, 0, (int)(started % 2));
        if (pthread_create(&threads[started], NULL, handle, &clicks[started]) != 0)
            code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no thread");
        else
            started++;
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        count(them, &clicks[i]);
        code = code == LKS_OK ? failure(&clicks[i], error) : code;
    }
    for (size_t i = 0; i + 1 < started; i += 2) {
        them->alike = them->alike && strcmp(clicks[i].told, clicks[i + 1].told) == 0;
        count_order(them, clicks[i].told);
    }
    free(threads);
    free(clicks);
    return code;
}

/* ---- by hand: look, pay, write ------------------------------------------------------ */

typedef struct by_hand {
    atomic_int stock, payments, bought;
    pthread_barrier_t looked; /* both clicks have looked before either pays */
} by_hand;

static void *click_by_hand(void *arg)
{
    by_hand *h = arg;
    bool there = atomic_load(&h->stock) > 0;

    pthread_barrier_wait(&h->looked);
    if (there) {
        atomic_fetch_add(&h->payments, 1);
        atomic_fetch_add(&h->bought, 1);
        atomic_fetch_sub(&h->stock, 1);
    }
    return NULL;
}

/* One lamp, one buyer, two clicks. */
static lks_code play_by_hand(by_hand *h, lks_error *error)
{
    pthread_t second;

    *h = (by_hand){.stock = 1};
    if (pthread_barrier_init(&h->looked, NULL, 2) != 0)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no barrier");
    if (pthread_create(&second, NULL, click_by_hand, h) != 0) {
        pthread_barrier_destroy(&h->looked);
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "no thread");
    }
    click_by_hand(h);
    pthread_join(second, NULL);
    pthread_barrier_destroy(&h->looked);
    return LKS_OK;
}

/* ---- the shop ------------------------------------------------------------------------ */

/* The second channel asks the second server first, where there is one. */
static lks_code open_channels(shop *s, const char *urls, lks_error *error)
{
    const char *comma = strchr(urls, ',');
    char turned[512];

    snprintf(turned, sizeof turned, "%s%s%.*s", comma ? comma + 1 : "", comma ? "," : "",
             comma ? (int)(comma - urls) : (int)strlen(urls), urls);
    lks_code code = lks_channel_open(urls, NULL, &s->channels[0], error);
    return code == LKS_OK ? lks_channel_open(turned, NULL, &s->channels[1], error) : code;
}

static lks_code open_shop(shop *s, const char *urls, lks_error *error)
{
    lks_put_item_request lamps = LKS_PUT_ITEM_REQUEST_INIT;
    lks_limit limit = LKS_LIMIT_INIT;
    const lks_limiter_rule rule = {.limit = &limit};
    const lks_limiter_options options = {.group = s->group, .rules = &rule, .n_rules = 1, .timeout_ms = PATIENCE_MS};
    char run[17], sku[] = "lamp";
    lks_code code = lock_run_id(run, error);

    if (code != LKS_OK || (code = open_channels(s, urls, error)) != LKS_OK)
        return code;
    snprintf(s->group, sizeof s->group, "seckill-%s", run);
    limit.algorithm = LKS_ALGORITHM_SLIDING_LOG;
    limit.limit = CLICKS_ALLOWED;
    limit.period_ms = HOUR_MS;
    for (size_t i = 0; i < CHANNELS && code == LKS_OK; i++)
        code = lks_limiter_new(s->channels[i], &options, &s->limiters[i], error);
    lamps.group = s->group;
    lamps.sku = sku;
    lamps.on_hand = LAMPS;
    lamps.per_buyer_limit = 1;
    lamps.order_retain_ms = HOUR_MS;
    return code == LKS_OK ? lks_stock_put_item(s->channels[0], &lamps, NULL, NULL, error) : code;
}

static void close_shop(shop *s)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        lks_limiter_free(s->limiters[i]);
        lks_channel_close(s->channels[i]);
    }
}

static lks_code look(shop *s, lks_item *ret, lks_error *error)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    lks_get_item_response *response = NULL;
    char sku[] = "lamp";

    request.group = s->group;
    request.sku = sku;
    lks_code code = lks_stock_get_item(s->channels[0], &request, NULL, &response, error);
    if (code == LKS_OK) {
        *ret = (lks_item){
            .available = response->item->available, .reserved = response->item->reserved, .sold = response->item->sold};
        lks_get_item_response_free(response);
    }
    return code;
}

static void print(FILE *table, const crowd *c)
{
    fprintf(table, "  %-14s %7zu %9zu %5zu %11zu %7zu %8zu %9zu %9zu\n", c->who, c->clicks, c->slowed, c->run, c->again,
            c->bought, c->has_one, c->no_money, c->sold_out);
}

lks_code scene_click(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    shop s = {.payments = 0};
    crowd robot = {.who = "a robot", .alike = true}, poor = {.who = "without money", .alike = true},
          buyers = {.who = "buyers", .alike = true};
    by_hand hand;
    lks_item lamps = {.sold = 0};
    lks_code code = open_shop(&s, setup->urls, error);

    if (code != LKS_OK || (code = play_by_hand(&hand, error)) != LKS_OK ||
        (code = play_robot(&s, &robot, error)) != LKS_OK ||
        (code = play_crowd(&s, &poor, PENNILESS, error)) != LKS_OK ||
        (code = play_crowd(&s, &buyers, BUYERS, error)) != LKS_OK || (code = look(&s, &lamps, error)) != LKS_OK)
        goto cleanup;
    fprintf(claims->table, "scene h: everybody clicks twice, for %d lamps\n", LAMPS);
    fprintf(claims->table, "  %-14s %7s %9s %5s %11s %7s %8s %9s %9s\n", "who", "clicks", "too many", "run",
            "told again", "bought", "has one", "no money", "sold out");
    print(claims->table, &robot);
    print(claims->table, &poor);
    print(claims->table, &buyers);
    fprintf(claims->table, "  %zu payments for %lld lamps sold, %lld left\n", atomic_load(&s.payments),
            (long long)lamps.sold, (long long)(lamps.available + lamps.reserved));
    fprintf(claims->table, "  by hand, one lamp, two clicks: %d payments for %d lamps sold, %d left\n", hand.payments,
            hand.bought, hand.stock);
    lock_claim(claims, robot.slowed == ROBOT_CLICKS - CLICKS_ALLOWED && robot.bought == 1, "the robot got more");
    lock_claim(claims, poor.slowed + buyers.slowed == 0, "a double click was too much");
    lock_claim(claims, robot.run == CLICKS_ALLOWED && poor.run == PENNILESS && buyers.run == BUYERS,
               "an order did not run just once");
    lock_claim(claims, poor.alike && buyers.alike, "two clicks of an order were told different things");
    lock_claim(claims, poor.no_money == PENNILESS, "what nobody paid for was not there for the next");
    lock_claim(claims,
               atomic_load(&s.payments) == LAMPS && lamps.sold == LAMPS && lamps.available == 0 &&
                   lamps.reserved == 0 && robot.bought + buyers.bought == LAMPS,
               "payments and lamps differ");
    lock_claim(claims, hand.payments == 2 && hand.stock == -1, "the shop by hand did not fail");
cleanup:
    close_shop(&s);
    return code;
}
