/* StockService: the ledger. Invariant: an id that reaches the store is one the
 * store can have given, "milliseconds-sequence", so that a function need not
 * expect another. */
#include <stdlib.h>

#include "services/stock.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000, WAIT_MS_MAX = 86400000, ENTRIES_OF_WEIGHT = 50 };

/* Of functions/stock_change.lua. */
enum { PACKED_MAX = 1000, WORDS_OF_ENTRY = 5 };

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

static int32_t limit_of(const lks_read_ledger_request *request)
{
    return request->limit != 0 ? request->limit : LIMIT_DEFAULT;
}

void read_ledger_prepare(const lks_read_ledger_request *request, plan *p)
{
    int32_t limit = limit_of(request);
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

/* An id of the ledger, or of the stream that it is in. */
typedef struct position {
    int64_t ms, seq;
} position;

static position position_of(const char *id)
{
    char *dash;
    int64_t ms = strtoll(id, &dash, 10);

    return (position){.ms = ms, .seq = *dash == '-' ? strtoll(dash + 1, NULL, 10) : 0};
}

/* The entries of an entry of the stream, which has that id, that stand behind `after`, up to the limit. */
static void add_entries(answer *a, const char *id, size_t n, const store_value *words, position after, size_t limit,
                        lks_read_ledger_response *response)
{
    position at = position_of(id);

    if (n > PACKED_MAX || answer_count(a, words) != WORDS_OF_ENTRY * n)
        answer_at(a, words, answer_count(a, words));
    at.seq = (at.seq + 1) * PACKED_MAX - (int64_t)n;
    for (size_t i = 0; i < n && response->n_entries < limit && a->error.code == LKS_OK; i++) {
        at.seq++;
        if (at.ms == after.ms && at.seq <= after.seq)
            continue;
        lks_ledger_entry *entry = response->entries[response->n_entries++];
        const size_t word = WORDS_OF_ENTRY * i;
        entry->id = memory_printf_in(a->arena, "%lld-%lld", (long long)at.ms, (long long)at.seq);
        entry->kind = (lks_ledger_kind)answer_enum(a, words, word, &lockstock__v1__ledger_kind__descriptor);
        entry->sku = answer_text(a, words, word + 1);
        entry->quantity = answer_int(a, words, word + 2);
        entry->order_id = answer_text(a, words, word + 3);
        entry->reason = answer_text(a, words, word + 4);
        entry->at_ms = at.ms; /* Redis makes ids of its clock. */
    }
}

void read_ledger_finish(const lks_read_ledger_request *request, answer *a, lks_read_ledger_response *response)
{
    enum {
        HEAD = 2,
        ENTRY = 3
    }; /* outcome, oldest; then of each entry of the stream: id, how many it is, their words */
    const store_value *reply = a->replies[0];
    const size_t count = answer_count(a, reply);
    const size_t limit = (size_t)limit_of(request);

    if (count == 1) { /* WAIT */
        answer_waits(a);
        return;
    }
    response->outcome =
        (lks_read_ledger_outcome)answer_enum(a, reply, 0, &lockstock__v1__read_ledger_outcome__descriptor);
    response->oldest_id = answer_text(a, reply, 1);
    response->entries = answer_messages(a, &lockstock__v1__ledger_entry__descriptor, limit);
    for (size_t at = HEAD; at + ENTRY <= count && a->error.code == LKS_OK; at += ENTRY)
        add_entries(a, answer_text(a, reply, at), (size_t)answer_int(a, reply, at + 1), answer_split(a, reply, at + 2),
                    position_of(request->after), limit, response);
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
