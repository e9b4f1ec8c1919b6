/* Scene k: orders are sold at once and settled behind the sale, by a worker that follows the ledger. It is killed in
 * the third order, and the next one is started. What is shown is what then stands in the book. */
#include "lock_scenes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstock/v1/stock.lks_client.h>

#include "child.h"
#include "settler.h"

enum { ORDERS = 12, FIRST_ORDERS = 6, KILLED_IN = 2, GROUP_SIZE = 48, ORDER_SIZE = 24 };

typedef struct settle_row {
    const char *way, *point;
    const char *who, *when, *next; /* as the table says it */
    int once, twice, never;
    const char *how; /* what the next worker says of the third order; "" = nothing */
} settle_row;

static const settle_row rows[] = {
    {SETTLER_BOOKS_FIRST, SETTLER_BOOKED, "books, then notes its place", "booked, not noted", "books it again",
     ORDERS - 1, 1, 0, SETTLER_DID_BOOK},
    {SETTLER_NOTES_FIRST, SETTLER_BEGUN, "notes its place, then books", "noted, not booked", "goes on behind it",
     ORDERS - 1, 0, 1, ""},
    {SETTLER_ONCE, SETTLER_BEGUN, "lks_once for each order", "begun, not booked", "attempt 2: books it", ORDERS, 0, 0,
     SETTLER_DID_BOOK_AGAIN},
    {SETTLER_ONCE, SETTLER_BOOKED, "", "booked, not stored", "attempt 2: finds it booked", ORDERS, 0, 0,
     SETTLER_DID_FIND},
    {SETTLER_ONCE, SETTLER_STORED, "", "stored, not trimmed", "is told that it is done", ORDERS, 0, 0,
     SETTLER_DID_NOTHING},
};

typedef struct settle_play {
    const lock_setup *setup;
    const settle_row *row;
    lks_channel *channel;
    char group[GROUP_SIZE];
    char book[128];
    char how[32]; /* of the third order, from the next worker */
    int booked[ORDERS];
} settle_play;

static void name_order(char ret[ORDER_SIZE], int i)
{
    snprintf(ret, ORDER_SIZE, "order-%d", i + 1);
}

static lks_code put_lamps(settle_play *p, lks_error *error)
{
    lks_put_item_request lamps = LKS_PUT_ITEM_REQUEST_INIT;

    lamps.group = p->group;
    lamps.sku = "lamp";
    lamps.on_hand = ORDERS;
    return lks_stock_put_item(p->channel, &lamps, NULL, NULL, error);
}

/* Orders from..to - 1, one after the other. The buyer has the answer at once. */
static lks_code sell(settle_play *p, int from, int to, lks_error *error)
{
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    char order[ORDER_SIZE];
    lks_code code = LKS_OK;

    line.sku = "lamp";
    line.quantity = 1;
    request.group = p->group;
    request.order_id = order;
    request.lines = lines;
    request.n_lines = 1;
    for (int i = from; code == LKS_OK && i < to; i++) {
        name_order(order, i);
        code = lks_stock_deduct(p->channel, &request, NULL, NULL, error);
    }
    return code;
}

/* A worker that stops in `order`. */
static bool start(const settle_play *p, const char *order, child *ret)
{
    const char *const argv[] = {p->setup->program, SETTLER_FLAG,  p->setup->urls, p->group, p->book,
                                p->row->way,       p->row->point, order,          NULL};

    return child_start(p->setup->program, argv, ret);
}

/* The first worker, until it is dead. */
static bool work_and_die(settle_play *p)
{
    char order[ORDER_SIZE], line[64];
    child worker;
    bool there = false;

    name_order(order, KILLED_IN);
    bool good = start(p, order, &worker);
    while (good && !there && child_line(&worker, line, sizeof line))
        there = strncmp(line, "at ", 3) == 0;
    child_end(&worker);
    return there;
}

/* The next one, until it is done with the last order. */
static bool work_to_the_end(settle_play *p)
{
    char third[ORDER_SIZE], last[ORDER_SIZE], line[64], order[ORDER_SIZE], how[32];
    child worker;
    bool done = false;

    name_order(third, KILLED_IN);
    name_order(last, ORDERS - 1);
    bool good = start(p, "", &worker);
    while (good && !done && child_line(&worker, line, sizeof line)) {
        if (sscanf(line, "%23s %31s", order, how) == 2 && strcmp(order, third) == 0)
            memcpy(p->how, how, sizeof p->how);
        done = strcmp(order, last) == 0;
    }
    child_end(&worker);
    return done;
}

static bool read_book(settle_play *p)
{
    FILE *book = fopen(p->book, "r");
    int i;

    if (!book)
        return false;
    while (fscanf(book, "order-%d\n", &i) == 1)
        if (i >= 1 && i <= ORDERS)
            p->booked[i - 1]++;
    return fclose(book) == 0;
}

static lks_code play(settle_play *p, lks_error *error)
{
    lks_code code = put_lamps(p, error);

    if (code != LKS_OK || (code = sell(p, 0, FIRST_ORDERS, error)) != LKS_OK)
        return code;
    if (!work_and_die(p))
        return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the worker did not come to %s", p->row->point);
    if ((code = sell(p, FIRST_ORDERS, ORDERS, error)) != LKS_OK)
        return code;
    if (!work_to_the_end(p) || !read_book(p))
        return lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the next worker did not come to its end");
    return LKS_OK;
}

static void report(lock_claims *claims, const settle_play *p)
{
    const settle_row *row = p->row;
    int once = 0, twice = 0, never = 0;

    for (int i = 0; i < ORDERS; i++) {
        once += p->booked[i] == 1;
        twice += p->booked[i] > 1;
        never += p->booked[i] == 0;
    }
    fprintf(claims->table, "  %-27s  %-19s  %-26s  %4d  %5d  %5d\n", row->who, row->when, row->next, once, twice,
            never);
    lock_claim(claims, once == row->once && twice == row->twice && never == row->never,
               "%s, %s: %d once, %d twice, %d never", row->way, row->when, once, twice, never);
    lock_claim(claims, strcmp(p->how, row->how) == 0, "%s, %s: the next one says \"%s\"", row->way, row->when, p->how);
}

lks_code scene_settle(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    char dir[] = "/tmp/seckill-XXXXXX", place[160], run[17];
    lks_channel *channel = NULL;
    lks_code code = lock_run_id(run, error);

    if (code != LKS_OK || (code = lks_channel_open(setup->urls, NULL, &channel, error)) != LKS_OK)
        return code;
    if (!mkdtemp(dir)) {
        code = lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, "no directory in /tmp");
        goto cleanup;
    }
    fprintf(claims->table, "scene k: %d orders, settled behind the sale by a worker that is killed in the third\n",
            ORDERS);
    fprintf(claims->table, "  %-27s  %-19s  %-26s  %4s  %5s  %5s\n", "the worker", "the third is", "the next worker",
            "once", "twice", "never");
    for (size_t i = 0; code == LKS_OK && i < sizeof rows / sizeof *rows; i++) {
        settle_play p = {.setup = setup, .row = &rows[i], .channel = channel};
        snprintf(p.group, sizeof p.group, "seckill-%s-%zu", run, i);
        snprintf(p.book, sizeof p.book, "%s/book-%zu", dir, i);
        snprintf(place, sizeof place, "%s.place", p.book);
        code = play(&p, error);
        if (code == LKS_OK)
            report(claims, &p);
        unlink(p.book);
        unlink(place);
    }
    rmdir(dir);
cleanup:
    lks_channel_close(channel);
    return code;
}
