/* StockService: ReadLedger, TrimLedger. Invariant: an id that reaches the store has the form
 * "milliseconds-sequence". */
#include "services/stock.h"

#include <string.h>

#include "base/number.h"
#include "services/stock_ledger_pages.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000, WAIT_MS_MAX = 86400000, ENTRIES_OF_WEIGHT = 50 };

enum { READS_MAX = 100 }; /* reads of an entry of this millisecond, until the clocks of all buckets have passed it */

/* Skips a decimal number up to 2^53-1 without leading zeros. Returns the text after it; NULL: no number. */
static const char *after_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return number_parse(text, digits, SERVICE_QUANTITY_MAX) < 0 || (text[0] == '0' && digits > 1) ? NULL
                                                                                                  : text + digits;
}

/* Checks an id, or one id for each bucket, separated by commas (stock_ledger_pages.h). */
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
        plan_invalid(p, "%s: must be the id of a ledger entry", field);
}

static int32_t limit_of(const lks_read_ledger_request *request)
{
    return request->limit != 0 ? request->limit : LIMIT_DEFAULT;
}

/* A woken call reads again and may wait again. When its wait is over it only reads; the server stays registered as a
 * reader, which costs a message at the next entry. */
void read_ledger_prepare(const lks_read_ledger_request *request, plan *p)
{
    int32_t limit = limit_of(request);
    bool waits = request->wait_ms > 0 && p->event.kind != SERVICE_WAIT_OVER;

    if (request->after[0] != '\0')
        check_id(p, "after", request->after);
    plan_check_range(p, "limit", limit, 1, LIMIT_MAX);
    plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);
    const plan_function *function = waits ? &fn_stock_await_ledger : &fn_stock_read_ledger;
    transfer *t = transfer_begin_asked(p, request->group);
    if (!t->kept)
        t->kept = memory_in(p->arena, sizeof(int)); /* the number of reads */
    for (unsigned k = 0; k <= t->n_buckets && !plan_failed(p); k++) {
        ledger_place place = ledger_place_in(p->arena, t->n_buckets, k, request->after);
        plan_call(p, function, request->group, NULL, 0);
        if (waits && k == 0)
            plan_waits(p, plan_last_base(p), "ledger");
        if (t->n_buckets > 0)
            stock_place_in_bucket(p, t->n_buckets, k);
        plan_weighs(p, 1 + (size_t)limit / ENTRIES_OF_WEIGHT);
        args_stock_read_ledger(p, .after = place.id, .limit = limit, .server = waits ? p->server : "",
                               .wait_ms = request->wait_ms, .loose = place.loose);
    }
}

void read_ledger_finish(const lks_read_ledger_request *request, answer *a, lks_read_ledger_response *response)
{
    const transfer *t = transfer_of(a);
    int *reads = t->kept;

    switch (ledger_read(a, t->n_buckets, (size_t)limit_of(request), response)) {
    case LEDGER_WAITS:
        answer_waits(a);
        break;
    case LEDGER_TOO_NEW:
        if (++*reads < READS_MAX)
            transfer_again(a);
        break;
    case LEDGER_READ:
        break;
    }
}

void trim_ledger_prepare(const lks_trim_ledger_request *request, plan *p)
{
    check_id(p, "up_to", request->up_to);
    transfer *t = transfer_begin_asked(p, request->group);
    t->more_is_applied = true;
    for (unsigned k = 0; k <= t->n_buckets && !plan_failed(p); k++) {
        plan_call(p, &fn_stock_trim_ledger, request->group, NULL, 0);
        if (t->n_buckets > 0)
            stock_place_in_bucket(p, t->n_buckets, k);
        plan_weighs(p, STORE_WEIGHT_MAX);
        args_stock_trim_ledger(p, .up_to = ledger_place_in(p->arena, t->n_buckets, k, request->up_to).id);
    }
}

void trim_ledger_finish(const lks_trim_ledger_request *request, answer *a, lks_trim_ledger_response *response)
{
    (void)request;
    (void)response;
    for (size_t i = 0; i < a->n_replies; i++)
        answer_at(a, a->replies[i], 0);
}
