/* Scenes m to q of docs/scenes.md: examples/shop, with its guards and without them. */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/scene.h"
#include "shop.lks_client.h"
#include "support/counts.h"
#include "support/lossy_proxy.h"
#include "support/tempdir.h"

enum { SHELVES = 8, AT_ONCE = 16, STORM_LAMPS = 100, LAMPS = 10 };

/* One or two shops on one directory, which keeps their files. */
typedef struct shop {
    char *dir;
    bool guards;
    process *processes[2];
    char urls[2][48]; /* tcp:// */
} shop;

static shop shop_open(bool guards, int n)
{
    shop ret = {.dir = tempdir_make(), .guards = guards};

    assert_non_null(ret.dir);
    for (int i = 0; i < n; i++) {
        const char *lockstockd = server_fixture_url(s.servers[0]), *tcp = "tcp://127.0.0.1:0";
        const char *argv[] = {SHOP_PATH, lockstockd, ret.dir, guards ? tcp : "--no-guards", guards ? NULL : tcp, NULL};
        char line[128];
        ret.processes[i] = process_spawn(argv, NULL);
        assert_non_null(ret.processes[i]);
        assert_true(process_wait_line(ret.processes[i], "listening", line, sizeof line, SCENE_LIMIT_MS));
        assert_int_equal(sscanf(line, "listening %47s", ret.urls[i]), 1);
    }
    return ret;
}

static void shop_close(shop *p)
{
    for (int i = 0; i < 2; i++)
        process_free(p->processes[i]);
    tempdir_remove(p->dir);
}

static lks_channel *channel_to(const char *url, bool retries)
{
    const lks_channel_options options = {.timeout_ms = SCENE_LIMIT_MS, .in_flight_max = 8192, .no_retry = !retries};
    lks_channel *channel = NULL;

    assert_int_equal(lks_channel_open(url, &options, &channel, NULL), LKS_OK);
    return channel;
}

/* Handlers of all shops wait at a point of the order ("read", "taken", "paid") until release. */
static void hold(const shop *p, const char *point)
{
    char path[256];

    snprintf(path, sizeof path, "%s/hold-%s", p->dir, point);
    assert_true(tempdir_write(path, ""));
}

static void let_go(const shop *p, const char *point)
{
    char path[256];

    snprintf(path, sizeof path, "%s/hold-%s", p->dir, point);
    assert_int_equal(unlink(path), 0);
}

/* Waits until a handler of shop i is at the point. */
static void await_at(const shop *p, int i, const char *point)
{
    char text[32];

    snprintf(text, sizeof text, "at %s:", point);
    assert_true(process_wait_line(p->processes[i], text, NULL, 0, SCENE_LIMIT_MS));
}

/* ---- calls ---------------------------------------------------------------------------- */

/* Orders, buyers and goods of a scene are numbered; `scene` is in each name, for lockstockd remembers orders. */
static void name(char ret[48], const char *what, const char *scene, size_t n)
{
    snprintf(ret, 48, "%s-%s-%zu", what, scene, n);
}

static void fill(lks_channel *channel, const char *scene, size_t shelf, int64_t quantity)
{
    shop_v1_add_stock_request request = SHOP_V1_ADD_STOCK_REQUEST_INIT;
    lks_error error = {0};
    char sku[48];

    name(sku, "lamp", scene, shelf);
    request.delivery_id = request.sku = sku;
    request.quantity = quantity;
    scene_ok(shop_v1_shop_add_stock(channel, &request, NULL, NULL, &error), &error);
}

static lks_call *buy_start(lks_channel *channel, const char *scene, size_t order, size_t shelf)
{
    shop_v1_buy_request request = SHOP_V1_BUY_REQUEST_INIT;
    char id[48], buyer[48], sku[48];
    lks_error error = {0};
    lks_call *call = NULL;

    name(id, "order", scene, order);
    name(buyer, "buyer", scene, order);
    name(sku, "lamp", scene, shelf);
    request.order_id = id;
    request.buyer_id = buyer;
    request.sku = sku;
    request.quantity = 1;
    scene_ok(shop_v1_shop_buy_start(channel, &request, NULL, NULL, NULL, &call, &error), &error);
    return call;
}

typedef struct bought {
    shop_v1_buy_outcome outcome;
    int64_t attempt;
    char receipt[32];
} bought;

/* A shop that cannot ask lockstockd in time refuses; then the same order is sent again. */
static bought told(lks_call *call, lks_channel *channel, const char *scene, size_t order, size_t shelf)
{
    lks_error error = {0};
    bought ret;
    lks_code code;

    while ((code = lks_call_wait(call, &error)) == LKS_UNAVAILABLE && error.applied == LKS_APPLIED_NO) {
        lks_call_free(call);
        call = buy_start(channel, scene, order, shelf);
    }
    scene_ok(code, &error);
    const shop_v1_buy_response *response = shop_v1_shop_buy_response(call);
    ret = (bought){.outcome = response->outcome, .attempt = response->attempt};
    snprintf(ret.receipt, sizeof ret.receipt, "%s", response->receipt);
    lks_call_free(call);
    return ret;
}

static bought buy(lks_channel *channel, const char *scene, size_t order, size_t shelf)
{
    return told(buy_start(channel, scene, order, shelf), channel, scene, order, shelf);
}

typedef struct shelf {
    int64_t left, sold, orders;
} shelf;

static shelf status(lks_channel *channel, const char *scene, size_t n)
{
    shop_v1_status_request request = SHOP_V1_STATUS_REQUEST_INIT;
    shop_v1_status_response *response = NULL;
    lks_error error = {0};
    char sku[48];

    name(sku, "lamp", scene, n);
    request.sku = sku;
    scene_ok(shop_v1_shop_status(channel, &request, NULL, &response, &error), &error);
    shelf ret = {response->left, response->sold, response->orders};
    shop_v1_status_response_free(response);
    return ret;
}

/* How often an order was paid for; all payments with order SIZE_MAX. */
static size_t payments(const shop *p, const char *scene, size_t order)
{
    char path[256], line[256], paid[128], id[48];
    size_t n = 0;

    name(id, "order", scene, order);
    snprintf(path, sizeof path, "%s/payments", p->dir);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        n += sscanf(line, "%127s", paid) == 1 && (order == SIZE_MAX || strcmp(paid, id) == 0);
    if (file)
        fclose(file);
    return n;
}

/* ---- m: everybody clicks twice ---------------------------------------------------------- */

/* Both clicks of so many orders at once. Without guards both are held in the handler before either goes on. Returns
 * how many orders were told the same by both clicks. */
static size_t click_twice(const shop *p, lks_channel *channels[2], const char *scene, size_t from, size_t n,
                          size_t shelves)
{
    lks_call **calls = calloc(2 * n, sizeof *calls);
    size_t same = 0;

    if (!p->guards)
        hold(p, "read");
    for (size_t i = 0; i < 2 * n; i++)
        calls[i] = buy_start(channels[i % 2], scene, from + i / 2, (from + i / 2) % shelves);
    for (size_t i = 0; !p->guards && i < 2 * n; i++)
        await_at(p, 0, "read");
    if (!p->guards)
        let_go(p, "read");
    for (size_t i = 0; i < n; i++) {
        bought first = told(calls[2 * i], channels[0], scene, from + i, (from + i) % shelves);
        bought second = told(calls[2 * i + 1], channels[1], scene, from + i, (from + i) % shelves);
        assert_true(first.receipt[0] != '\0' && second.receipt[0] != '\0');
        same += strcmp(first.receipt, second.receipt) == 0;
    }
    free(calls);
    return same;
}

static void play_clicks(const char *scene, const char *scheme, bool guards)
{
    size_t orders = counts_of(40, 1000), shelves = guards ? SHELVES : orders, same = 0;
    size_t at_once = guards ? orders : AT_ONCE;
    shop p = shop_open(guards, 1);
    char url[64];
    int64_t sold = 0;

    snprintf(url, sizeof url, "%s%s", scheme, strchr(p.urls[0], ':'));
    lks_channel *channels[2] = {channel_to(url, false), channel_to(url, false)};
    for (size_t i = 0; i < shelves; i++)
        fill(channels[0], scene, i, (int64_t)(orders / shelves + (i < orders % shelves)));
    for (size_t from = 0; from < orders; from += at_once)
        same += click_twice(&p, channels, scene, from, from + at_once < orders ? at_once : orders - from, shelves);
    for (size_t i = 0; i < shelves; i++)
        sold += status(channels[0], scene, i).sold;
    for (size_t i = 0; guards && i < orders; i++)
        assert_int_equal(payments(&p, scene, i), 1);
    fprintf(s.table, "  %-8s  %-11s  %15.3g  %12.3g  %s\n", scheme, guards ? "with guards" : "without",
            (double)payments(&p, scene, SIZE_MAX) / (double)orders, (double)sold / (double)orders,
            same == orders ? "the same"
            : same == 0    ? "two receipts"
                           : "SOME THE SAME");
    lks_channel_close(channels[0]);
    lks_channel_close(channels[1]);
    shop_close(&p);
}

/* promise E14: examples/shop: two clicks of an order at once are one order, one payment and one answer, over SP and
 * libnng */
TEST(double_clicks)
{
    scene_begin();
    fprintf(s.table, "scene m: everybody clicks twice at once\n");
    fprintf(s.table, "  %-8s  %-11s  %15s  %12s  %s\n", "over", "", "payments/order", "lamps/order",
            "both clicks are told");
    play_clicks("m-tcp", "tcp", true);
    play_clicks("m-nng", "nng+tcp", true);
    play_clicks("m", "tcp", false);
    scene_end();
}

/* ---- n: two tabs -------------------------------------------------------------------------- */

/* Two orders, for one lamp. Both come as far as they can: into the handler, or into the queue of the shelf's lock. */
static void play_tabs(bool guards, const char *how)
{
    shop p = shop_open(guards, 1);
    lks_channel *channel = channel_to(p.urls[0], false);
    lks_call *calls[2];
    size_t had = 0;

    fill(channel, "n", 0, 1);
    hold(&p, "read");
    for (size_t i = 0; i < 2; i++)
        calls[i] = buy_start(channel, "n", i, 0);
    await_at(&p, 0, "read");
    while (guards && scene_inspect("shelf:lamp-n-0").waiters == 0)
        process_pause();
    if (!guards)
        await_at(&p, 0, "read");
    let_go(&p, "read");
    for (size_t i = 0; i < 2; i++) {
        bought b = told(calls[i], channel, "n", i, 0);
        assert_true(b.outcome == SHOP_V1_BUY_OUTCOME_BOUGHT || b.outcome == SHOP_V1_BUY_OUTCOME_SOLD_OUT);
        had += b.outcome == SHOP_V1_BUY_OUTCOME_BOUGHT;
    }
    fprintf(s.table, "  %-14s  %6zu  %13zu  %8zu  %10lld\n", how, had, 2 - had, payments(&p, "n", SIZE_MAX),
            (long long)status(channel, "n", 0).left);
    lks_channel_close(channel);
    shop_close(&p);
}

/* promise E15: ... two orders for the last unit: one has it */
TEST(two_tabs)
{
    scene_begin();
    fprintf(s.table, "scene n: two tabs: a buyer sends two orders at once, for one lamp\n");
    fprintf(s.table, "  %-14s  %6s  %13s  %8s  %10s\n", "", "bought", "told sold out", "payments", "lamps left");
    play_tabs(true, "with guards");
    play_tabs(false, "without");
    scene_end();
}

/* ---- o: a retry storm ----------------------------------------------------------------------- */

/* Each order has a shelf of its own: only the repeats can do harm. */
static void play_storm(bool guards, const char *how)
{
    size_t orders = counts_of(40, 1000), exact = 0, harmed = 0;
    shop p = shop_open(guards, 1);
    lks_channel *direct = channel_to(p.urls[0], true);
    lossy_proxy *proxy = lossy_proxy_start((unsigned short)atoi(strrchr(p.urls[0], ':') + 1), LOSE_FIRST_REPLIES);
    lks_call **calls = calloc(orders, sizeof *calls);

    assert_non_null(proxy);
    lks_channel *buyers = channel_to(lossy_proxy_url(proxy), true);
    for (size_t i = 0; i < orders; i++)
        fill(direct, "o", i, STORM_LAMPS);
    for (size_t i = 0; i < orders; i++)
        calls[i] = buy_start(buyers, "o", i, i);
    for (size_t i = 0; i < orders; i++)
        assert_int_equal(told(calls[i], buyers, "o", i, i).outcome, SHOP_V1_BUY_OUTCOME_BOUGHT);
    for (size_t i = 0; i < orders; i++) {
        int64_t sold = STORM_LAMPS - status(direct, "o", i).left;
        size_t paid = payments(&p, "o", i);
        exact += paid == 1 && sold == 1;
        harmed += paid >= 2 && sold >= 2;
    }
    assert_true(lossy_proxy_hits(proxy) >= orders);
    const char *each = exact == orders ? "1" : harmed == orders ? "2 or more" : "DIFFERENT";
    fprintf(s.table, "  %-14s  %-9s  %s\n", how, each, each);
    free(calls);
    lks_channel_close(buyers);
    lks_channel_close(direct);
    lossy_proxy_stop(proxy);
    shop_close(&p);
}

/* promise E16: ... each first answer lost: each order ran once */
TEST(retry_storm)
{
    scene_begin();
    fprintf(s.table, "scene o: a retry storm: the first answer to each order is lost\n");
    fprintf(s.table, "  %-14s  %-9s  %s\n", "of each order", "payments", "lamps");
    play_storm(true, "with guards");
    play_storm(false, "without");
    scene_end();
}

/* ---- p and q: a shop that is killed, or frozen, in its handler -------------------------------- */

enum { ORDER, OTHER };

typedef struct struck {
    bought own, repeated, of_other; /* told by the first shop, by the second, and to another buyer */
    size_t payments;
    shelf shelf;
} struck;

/* The order is sent again to the second shop; then another buyer comes there. Then a frozen shop continues. */
static struck strike(const char *scene, bool guards, const char *point, int signal_number)
{
    shop p = shop_open(guards, 2);
    lks_channel *first = channel_to(p.urls[0], false), *second = channel_to(p.urls[1], false);
    struck ret = {.payments = 0};
    char lock[64];

    fill(second, scene, 0, LAMPS);
    hold(&p, point);
    lks_call *call = buy_start(first, scene, ORDER, 0);
    await_at(&p, 0, point);
    process_signal(p.processes[0], signal_number);
    if (signal_number == SIGKILL)
        process_kill(p.processes[0]);
    else
        assert_int_equal(waitid(P_PID, (id_t)process_pid(p.processes[0]), &(siginfo_t){0}, WSTOPPED | WNOWAIT), 0);
    let_go(&p, point);
    ret.repeated = buy(second, scene, ORDER, 0);
    ret.of_other = buy(second, scene, OTHER, 0);
    process_signal(p.processes[0], SIGCONT);
    if (signal_number == SIGSTOP) {
        ret.own = told(call, first, scene, ORDER, 0);
    } else {
        assert_int_not_equal(lks_call_wait(call, NULL), LKS_OK);
        lks_call_free(call);
    }
    snprintf(lock, sizeof lock, "shelf:lamp-%s-0", scene);
    assert_int_equal(scene_inspect(lock).left_ms, 0);
    assert_int_equal(payments(&p, scene, OTHER), 1);
    ret.payments = payments(&p, scene, ORDER);
    ret.shelf = status(second, scene, 0);
    lks_channel_close(first);
    lks_channel_close(second);
    shop_close(&p);
    return ret;
}

/* promise E17: ... killed in the handler: nothing is locked beyond the lease, and the repeat runs as attempt 2 */
TEST(killed_in_the_handler)
{
    static const struct {
        const char *point, *scene, *done;
    } rows[] = {{"read", "p1", "read the shelf"}, {"taken", "p2", "taken the lamp"}, {"paid", "p3", "paid for it"}};

    scene_begin();
    fprintf(s.table,
            "scene p: the shop is killed (SIGKILL) in the handler; the order is sent again, to another shop\n");
    fprintf(s.table, "  %-14s  %-35s  %s\n", "", "with guards", "without");
    fprintf(s.table, "  %-14s  %7s  %8s  %5s  %9s  %8s  %5s\n", "when it has", "attempt", "payments", "lamps",
            "the next", "payments", "lamps");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struck with = strike(rows[i].scene, true, rows[i].point, SIGKILL);
        struck without = strike(rows[i].scene, false, rows[i].point, SIGKILL);
        bool next = with.of_other.outcome == SHOP_V1_BUY_OUTCOME_BOUGHT && with.of_other.attempt == 1;
        assert_int_equal(with.repeated.outcome, SHOP_V1_BUY_OUTCOME_BOUGHT);
        assert_int_equal(with.shelf.orders, 2);
        fprintf(s.table, "  %-14s  %7lld  %8zu  %5lld  %9s  %8zu  %5lld\n", rows[i].done,
                (long long)with.repeated.attempt, with.payments, (long long)(LAMPS - 1 - with.shelf.left),
                next ? "bought" : "DID NOT", without.payments, (long long)(LAMPS - 1 - without.shelf.left));
    }
    scene_end();
}

static void print_frozen(const char *how, struck q)
{
    bool has_both = q.shelf.orders == 2;

    fprintf(s.table, "  %-12s  %-22s  %8zu  %10lld  %-28s  %s\n", how,
            has_both ? "refused: a lower fence" : "written over the other", q.payments, (long long)q.shelf.left,
            has_both ? "has a lamp" : "paid, and is not in the book",
            strcmp(q.own.receipt, q.repeated.receipt) == 0 ? "what the second run did" : "another receipt");
}

/* promise E18: ... frozen in the handler: its late write is refused by its fence, and its caller told what the next
 * attempt did */
TEST(frozen_in_the_handler)
{
    struck with = strike("q", true, "read", SIGSTOP), without = strike("q", false, "read", SIGSTOP);

    assert_int_equal(with.repeated.attempt, 2);
    assert_int_equal(with.own.attempt, 2);
    scene_begin();
    fprintf(s.table,
            "scene q: a shop stands still (SIGSTOP) when it has read %d lamps, and goes on when another sold two\n",
            LAMPS);
    fprintf(s.table, "  %-12s  %-22s  %8s  %10s  %-28s  %s\n", "", "its late write is", "payments", "lamps left",
            "the other buyer", "it tells its buyer");
    print_frozen("with guards", with);
    print_frozen("without", without);
    scene_end();
}

TEST_MAIN(.setup_all = scene_start, .teardown_all = scene_stop)
