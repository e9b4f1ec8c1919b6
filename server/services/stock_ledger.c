/* StockService: the ledger. Invariant: an id that reaches the store is one the
 * store can have given, "milliseconds-sequence", so that a function need not
 * expect another. */
#include <stdlib.h>

#include "services/stock.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000, WAIT_MS_MAX = 86400000, ENTRIES_OF_WEIGHT = 50 };

/* A decimal number up to 2^53-1 without needless zeros; NULL or what follows it. */
static const char *after_number(const char *text)
{
    int64_t number = 0;
    const char *at;

    for (at = text; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (*at - '0');
        if (number > SERVICE_QUANTITY_MAX)
            return NULL;
    }
    return at == text || (text[0] == '0' && at > text + 1) ? NULL : at;
}

static void check_id(plan *p, const char *field, const char *id)
{
    const char *at = after_number(id);

    if (at && *at == '-')
        at = after_number(at + 1);
    else
        at = NULL;
    if (!at || *at != '\0')
        plan_invalid(p, "%s: not the id of a ledger entry", field);
}

/* Woken it reads again and may wait again; when the time is over it reads only. The
 * server stays registered as a reader's, which costs a message at the next entry. */
static void read_ledger_wake(const ProtobufCMessage *request, plan *p, service_event event)
{
    (void)request;
    if (event == SERVICE_ABANDONED) {
        lks_error_set(&p->error, LKS_CANCELLED, LKS_APPLIED_NO, "the caller's connection is gone");
        return;
    }
    p->calls[0].function = event == SERVICE_WOKEN ? fn_stock_await_ledger.name : fn_stock_read_ledger.name;
    p->n_calls = 1;
}

void read_ledger_prepare(const lks_read_ledger_request *request, plan *p)
{
    int32_t limit = request->limit != 0 ? request->limit : LIMIT_DEFAULT;
    bool waits = request->wait_ms > 0;

    if (request->after[0] != '\0')
        check_id(p, "after", request->after);
    plan_check_range(p, "limit", limit, 1, LIMIT_MAX);
    plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);
    plan_call(p, waits ? &fn_stock_await_ledger : &fn_stock_read_ledger, request->group, NULL, 0);
    plan_weighs(p, 1 + (size_t)limit / ENTRIES_OF_WEIGHT);
    args_stock_read_ledger(p, .after = request->after, .limit = limit, .server = waits ? p->server : "",
                           .wait_ms = request->wait_ms);
    if (waits)
        plan_waits(p, "ledger", read_ledger_wake);
}

void read_ledger_finish(const lks_read_ledger_request *request, answer *a, lks_read_ledger_response *response)
{
    enum { HEAD = 2, ENTRY = 6 }; /* outcome, oldest; then id, kind, sku, quantity, order, reason of each */
    const store_value *reply = a->replies[0];
    size_t count = answer_count(a, reply);
    size_t n = count > HEAD ? (count - HEAD) / ENTRY : 0;
    (void)request;

    if (count == 1) { /* WAIT */
        answer_waits(a);
        return;
    }
    response->outcome =
        (lks_read_ledger_outcome)answer_enum(a, reply, 0, &lockstock__v1__read_ledger_outcome__descriptor);
    response->oldest_id = answer_text(a, reply, 1);
    response->entries = answer_messages(a, &lockstock__v1__ledger_entry__descriptor, n);
    response->n_entries = n;
    for (size_t i = 0; i < n; i++) {
        size_t at = HEAD + ENTRY * i;
        lks_ledger_entry *entry = response->entries[i];
        entry->id = answer_text(a, reply, at);
        entry->kind = (lks_ledger_kind)answer_enum(a, reply, at + 1, &lockstock__v1__ledger_kind__descriptor);
        entry->sku = answer_text(a, reply, at + 2);
        entry->quantity = answer_int(a, reply, at + 3);
        entry->order_id = answer_text(a, reply, at + 4);
        entry->reason = answer_text(a, reply, at + 5);
        /* Redis makes ids of its clock. */
        entry->at_ms = strtoll(entry->id, NULL, 10);
    }
}

void trim_ledger_prepare(const lks_trim_ledger_request *request, plan *p)
{
    check_id(p, "up_to", request->up_to);
    plan_call(p, &fn_stock_trim_ledger, request->group, NULL, 0);
    plan_weighs(p, STORE_WEIGHT_MAX);
    args_stock_trim_ledger(p, .up_to = request->up_to);
}

static void trim_ledger_next(const ProtobufCMessage *request, plan *p)
{
    trim_ledger_prepare((const lks_trim_ledger_request *)(const void *)request, p);
}

void trim_ledger_finish(const lks_trim_ledger_request *request, answer *a, lks_trim_ledger_response *response)
{
    (void)request;
    (void)response;
    answer_at(a, a->replies[0], 0);
    if (answer_says(a->replies[0], "MORE"))
        answer_goes_on(a, trim_ledger_next);
}
