/* Orders in every state they can end in, adjustments, returns, holds, items with buyers
 * and without, and the ledger: a group of its own each round, and one group that stays. */

#include <lockstock/v1/stock.lks_client.h>

#include "fault/memory_load.h"
#include "test.h"

enum { BRIEF_MS = 20, LONG_MS = 60000, ON_HAND = 1000000, NAME_MAX_BYTES = 64 };

typedef struct shop {
    lks_channel *const *channels;
    size_t round;
    char group[NAME_MAX_BYTES];
} shop;

static char limited[] = "limited", plain[] = "plain";

static char *id_of(char *text, const shop *s, const char *what)
{
    snprintf(text, NAME_MAX_BYTES, "%s-of-the-round-%zu", what, s->round);
    return text;
}

static void put(shop *s, char *sku, int64_t limit)
{
    lks_put_item_request request = LKS_PUT_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = s->group;
    request.sku = sku;
    request.on_hand = ON_HAND;
    request.per_buyer_limit = limit;
    load_ok(lks_stock_put_item(s->channels[0], &request, NULL, NULL, &error), &error, "PutItem");
}

typedef struct cart {
    lks_line lines[2], *at[2];
    char order_id[NAME_MAX_BYTES], buyer[NAME_MAX_BYTES];
} cart;

static void fill(cart *c, const shop *s, const char *what)
{
    for (int i = 0; i < 2; i++) {
        c->lines[i] = (lks_line)LKS_LINE_INIT;
        c->lines[i].sku = i == 0 ? limited : plain;
        c->lines[i].quantity = 2;
        c->at[i] = &c->lines[i];
    }
    id_of(c->order_id, s, what);
    id_of(c->buyer, s, "buyer");
}

static void deduct(shop *s, const char *what)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
    lks_deduct_response *response = NULL;
    lks_error error;
    cart c;

    fill(&c, s, what);
    request.group = s->group;
    request.order_id = c.order_id;
    request.buyer_id = c.buyer;
    request.n_lines = 2;
    request.lines = c.at;
    load_ok(lks_stock_deduct(s->channels[0], &request, NULL, &response, &error), &error, "Deduct");
    assert_int_equal(response->outcome, LKS_DEDUCT_OUTCOME_DEDUCTED);
    lks_deduct_response_free(response);
}

static void reserve(shop *s, const char *what, int64_t hold_ms, lks_reserve_outcome expected)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;
    lks_reserve_response *response = NULL;
    lks_error error;
    cart c;

    fill(&c, s, what);
    request.group = s->group;
    request.order_id = c.order_id;
    request.buyer_id = c.buyer;
    request.n_lines = 2;
    request.lines = c.at;
    request.hold_ms = hold_ms;
    load_ok(lks_stock_reserve(s->channels[1], &request, NULL, &response, &error), &error, "Reserve");
    assert_int_equal(response->outcome, expected);
    lks_reserve_response_free(response);
}

static void confirm(shop *s, const char *what)
{
    lks_confirm_request request = LKS_CONFIRM_REQUEST_INIT;
    lks_confirm_response *response = NULL;
    lks_error error;
    char id[NAME_MAX_BYTES];

    request.group = s->group;
    request.order_id = id_of(id, s, what);
    load_ok(lks_stock_confirm(s->channels[0], &request, NULL, &response, &error), &error, "Confirm");
    assert_int_equal(response->outcome, LKS_CONFIRM_OUTCOME_CONFIRMED);
    lks_confirm_response_free(response);
}

static void cancel(shop *s, const char *what)
{
    lks_cancel_request request = LKS_CANCEL_REQUEST_INIT;
    lks_error error;
    char id[NAME_MAX_BYTES];

    request.group = s->group;
    request.order_id = id_of(id, s, what);
    load_ok(lks_stock_cancel(s->channels[1], &request, NULL, NULL, &error), &error, "Cancel");
}

static void extend(shop *s, const char *what)
{
    lks_extend_hold_request request = LKS_EXTEND_HOLD_REQUEST_INIT;
    lks_error error;
    char id[NAME_MAX_BYTES];

    request.group = s->group;
    request.order_id = id_of(id, s, what);
    request.hold_ms = BRIEF_MS;
    load_ok(lks_stock_extend_hold(s->channels[1], &request, NULL, NULL, &error), &error, "ExtendHold");
}

static void give_back(shop *s, const char *what)
{
    lks_return_request request = LKS_RETURN_REQUEST_INIT;
    lks_return_response *response = NULL;
    lks_error error;
    char id[NAME_MAX_BYTES];

    request.group = s->group;
    request.order_id = id_of(id, s, what);
    load_ok(lks_stock_return(s->channels[0], &request, NULL, &response, &error), &error, "Return");
    assert_int_equal(response->outcome, LKS_RETURN_OUTCOME_RETURNED);
    lks_return_response_free(response);
}

static void adjust(shop *s)
{
    lks_adjust_request request = LKS_ADJUST_REQUEST_INIT;
    lks_error error;

    request.group = s->group;
    request.sku = plain;
    request.delta = 1;
    load_ok(lks_stock_adjust(s->channels[0], &request, NULL, NULL, &error), &error, "Adjust");
}

/* Waits until a server has given back what nobody asks for, as the ledger tells; trims
 * all, and waits once more, for an adjustment. */
static void follow_and_trim(shop *s, size_t expected)
{
    lks_trim_ledger_request trim = LKS_TRIM_LEDGER_REQUEST_INIT;
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    char last[NAME_MAX_BYTES] = "";
    lks_call *reader = NULL;
    lks_error error;

    request.group = trim.group = s->group;
    request.after = trim.up_to = last;
    request.wait_ms = LONG_MS;
    for (size_t expired = 0; expired < expected;) {
        lks_read_ledger_response *response = NULL;
        load_ok(lks_stock_read_ledger(s->channels[1], &request, NULL, &response, &error), &error, "ReadLedger");
        assert_true(response->n_entries > 0);
        for (size_t i = 0; i < response->n_entries; i++) {
            expired += response->entries[i]->kind == LKS_LEDGER_KIND_EXPIRED;
            snprintf(last, sizeof last, "%s", response->entries[i]->id);
        }
        lks_read_ledger_response_free(response);
    }
    load_ok(lks_stock_trim_ledger(s->channels[0], &trim, NULL, NULL, &error), &error, "TrimLedger");
    load_ok(lks_stock_read_ledger_start(s->channels[1], &request, NULL, NULL, NULL, &reader, &error), &error,
            "ReadLedger");
    load_look("stock:r");
    adjust(s);
    load_ok(lks_call_wait(reader, &error), &error, "the waiting ReadLedger");
    lks_call_free(reader);
}

static void trade(shop *s)
{
    put(s, limited, 1000000);
    put(s, plain, 0);
    deduct(s, "deducted");
    reserve(s, "confirmed", LONG_MS, LKS_RESERVE_OUTCOME_RESERVED);
    confirm(s, "confirmed");
    reserve(s, "cancelled", LONG_MS, LKS_RESERVE_OUTCOME_RESERVED);
    cancel(s, "cancelled");
    cancel(s, "buried");
    reserve(s, "buried", LONG_MS, LKS_RESERVE_OUTCOME_CANCELLED);
    reserve(s, "returned", LONG_MS, LKS_RESERVE_OUTCOME_RESERVED);
    confirm(s, "returned");
    give_back(s, "returned");
    reserve(s, "extended", LONG_MS, LKS_RESERVE_OUTCOME_RESERVED);
    load_look("stock:x");
    extend(s, "extended");
    reserve(s, "expired", BRIEF_MS, LKS_RESERVE_OUTCOME_RESERVED);
    follow_and_trim(s, 4); /* two orders of two lines */
}

static void delete_item(shop *s, char *sku)
{
    lks_delete_item_request request = LKS_DELETE_ITEM_REQUEST_INIT;
    lks_error error;

    request.group = s->group;
    request.sku = sku;
    load_ok(lks_stock_delete_item(s->channels[0], &request, NULL, NULL, &error), &error, "DeleteItem");
}

/* Deleting writes to the ledger, so that is trimmed once more. */
static void trim_rest(shop *s)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;
    lks_trim_ledger_request trim = LKS_TRIM_LEDGER_REQUEST_INIT;
    lks_error error;

    request.group = trim.group = s->group;
    load_ok(lks_stock_read_ledger(s->channels[1], &request, NULL, &response, &error), &error, "ReadLedger");
    assert_true(response->n_entries > 0);
    trim.up_to = response->entries[response->n_entries - 1]->id;
    load_ok(lks_stock_trim_ledger(s->channels[0], &trim, NULL, NULL, &error), &error, "TrimLedger");
    lks_read_ledger_response_free(response);
}

void load_stock(lks_channel *const channels[LOAD_SERVERS], size_t round)
{
    shop passing = {.channels = channels, .round = round}, staying = {.channels = channels, .round = round};

    snprintf(passing.group, sizeof passing.group, "shop-of-the-round-%zu", round);
    snprintf(staying.group, sizeof staying.group, "shop");
    trade(&passing);
    delete_item(&passing, limited);
    delete_item(&passing, plain);
    trim_rest(&passing);
    trade(&staying);
    /* Without a limit for a moment: else a buyer of long ago would be remembered. */
    put(&staying, limited, 0);
}
