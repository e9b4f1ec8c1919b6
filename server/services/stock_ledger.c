/* StockService: the ledger. Invariant: an id that reaches the store is one the
 * store can have given, "milliseconds-sequence", so that a function need not
 * expect another. */
#include <stdlib.h>

#include "services/stock_buckets.h"

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

/* An id, or one of each bucket with commas between them (stock_bucket_ledger.c). */
static void check_id(plan *p, const char *field, const char *id)
{
    const char *at = id;

    for (;;) {
        at = after_number(at);
        at = at && *at == '-' ? after_number(at + 1) : NULL;
        if (!at || *at != ',')
            break;
        at++;
    }
    if (!at || *at != '\0')
        plan_invalid(p, "%s: not the id of a ledger entry", field);
}

static int32_t limit_of(const lks_read_ledger_request *request)
{
    return request->limit != 0 ? request->limit : LIMIT_DEFAULT;
}

/* A woken call reads again and may wait again. When its time to wait is over it only reads; the server stays registered as
 * a reader's, which costs a message at the next entry. */
void read_ledger_prepare(const lks_read_ledger_request *request, plan *p)
{
    int32_t limit = limit_of(request);
    bool waits = request->wait_ms > 0 && p->event.kind != SERVICE_WAIT_OVER;

    if (request->after[0] != '\0')
        check_id(p, "after", request->after);
    plan_check_range(p, "limit", limit, 1, LIMIT_MAX);
    plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);
    const plan_function *function = waits ? &fn_stock_await_ledger : &fn_stock_read_ledger;
    const buckets *b = stock_buckets_asked(p, request->group);
    for (unsigned k = 0; k <= b->n && !plan_failed(p); k++) {
        ledger_place place = ledger_place_in(p->arena, b->n, k, request->after);
        plan_call(p, function, request->group, NULL, 0);
        if (waits && k == 0)
            plan_waits(p, "ledger");
        if (b->n > 0)
            stock_moves_call(p, b->n, k);
        plan_weighs(p, 1 + (size_t)limit / ENTRIES_OF_WEIGHT);
        args_stock_read_ledger(p, .after = place.id, .limit = limit, .server = waits ? p->server : "",
                               .wait_ms = request->wait_ms, .loose = place.loose);
    }
}

/* The entries of a reply: outcome, oldest, time, after; then of each entry of the stream id, how many it is, their words. */
enum { REPLY_HEAD = 4, REPLY_ENTRY = 3 };

/* The entries of an entry of the stream, which has that id, that stand behind `after`, up to the limit. */
static void add_entries(answer *a, const char *id, size_t n, const store_value *words, ledger_id after, size_t limit,
                        ledger_page *page)
{
    ledger_id at = ledger_id_of(id);

    if (n > PACKED_MAX || answer_count(a, words) != WORDS_OF_ENTRY * n)
        answer_at(a, words, answer_count(a, words));
    at.seq = (at.seq + 1) * PACKED_MAX - (int64_t)n;
    for (size_t i = 0; i < n && page->n < limit && a->error.code == LKS_OK; i++) {
        at.seq++;
        if (at.ms < after.ms || (at.ms == after.ms && at.seq <= after.seq))
            continue;
        lks_ledger_entry *entry = page->entries[page->n];
        const size_t word = WORDS_OF_ENTRY * i;
        page->ids[page->n++] = at;
        entry->kind = (lks_ledger_kind)answer_enum(a, words, word, &lockstock__v1__ledger_kind__descriptor);
        entry->sku = answer_text(a, words, word + 1);
        entry->quantity = answer_int(a, words, word + 2);
        entry->order_id = answer_text(a, words, word + 3);
        entry->reason = answer_text(a, words, word + 4);
        entry->at_ms = at.ms; /* Redis makes ids of its clock. */
    }
}

ledger_page ledger_page_of(answer *a, const store_value *reply, size_t limit)
{
    const size_t count = answer_count(a, reply);
    ledger_page page = {.waits = answer_says(reply, "WAIT"), .oldest = ""};

    const size_t times = page.waits ? 1 : 2;
    page.time_ms = answer_int(a, reply, times);
    page.after = answer_text(a, reply, times + 1);
    if (page.waits)
        return page;
    page.outcome = (lks_read_ledger_outcome)answer_enum(a, reply, 0, &lockstock__v1__read_ledger_outcome__descriptor);
    page.oldest = answer_text(a, reply, 1);
    page.ids = memory_in(a->arena, limit * sizeof *page.ids);
    page.entries = answer_messages(a, &lockstock__v1__ledger_entry__descriptor, limit);
    for (size_t at = REPLY_HEAD; at + REPLY_ENTRY <= count && a->error.code == LKS_OK; at += REPLY_ENTRY)
        add_entries(a, answer_text(a, reply, at), (size_t)answer_int(a, reply, at + 1), answer_split(a, reply, at + 2),
                    ledger_id_of(page.after), limit, &page);
    return page;
}

void read_ledger_finish(const lks_read_ledger_request *request, answer *a, lks_read_ledger_response *response)
{
    if (stock_is_elsewhere(a))
        return;
    if (a->n_replies > 1) {
        read_buckets_ledger(a, (size_t)limit_of(request), response);
        return;
    }
    ledger_page page = ledger_page_of(a, a->replies[0], (size_t)limit_of(request));
    if (page.waits) {
        answer_waits(a);
        return;
    }
    response->outcome = page.outcome;
    response->oldest_id = page.oldest;
    response->entries = page.entries;
    response->n_entries = page.n;
    for (size_t i = 0; i < page.n; i++)
        page.entries[i]->id = ledger_id_text(a->arena, page.ids[i]);
    response->next_after = page.n > 0 ? page.entries[page.n - 1]->id : page.after;
}

void trim_ledger_prepare(const lks_trim_ledger_request *request, plan *p)
{
    check_id(p, "up_to", request->up_to);
    const buckets *b = stock_buckets_asked(p, request->group);
    for (unsigned k = 0; k <= b->n && !plan_failed(p); k++) {
        plan_call(p, &fn_stock_trim_ledger, request->group, NULL, 0);
        if (b->n > 0)
            stock_moves_call(p, b->n, k);
        plan_weighs(p, STORE_WEIGHT_MAX);
        args_stock_trim_ledger(p, .up_to = ledger_place_in(p->arena, b->n, k, request->up_to).id);
    }
}

static void trim_ledger_next(const ProtobufCMessage *request, plan *p)
{
    trim_ledger_prepare((const lks_trim_ledger_request *)(const void *)request, p);
}

void trim_ledger_finish(const lks_trim_ledger_request *request, answer *a, lks_trim_ledger_response *response)
{
    (void)request;
    (void)response;
    if (stock_is_elsewhere(a))
        return;
    for (size_t i = 0; i < a->n_replies; i++) {
        answer_at(a, a->replies[i], 0);
        if (answer_says(a->replies[i], "MORE"))
            answer_goes_on(a, trim_ledger_next);
    }
}
