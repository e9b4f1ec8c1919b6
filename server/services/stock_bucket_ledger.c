/* StockService: the ledgers of a group in buckets, read as one. An entry that bucket k gave the id ms-seq has in the group
 * the id ms-(seq * SHIFT + k): so ids of the group are unique, and in each bucket they increase.
 *
 * Invariant: what is told was final: no bucket can write an entry any more that would stand before it. A bucket's reply
 * has the time from which on its entries will be; only entries of before the earliest of these times are told.
 *
 * A reader goes on after a position: "ms-seq,ms-seq,...", of the pool and each bucket the id by which it was read last. Each of
 * them is one that this ledger has given, so that one of a history that was lost is found out in each bucket, and what a bucket
 * writes after its clock was set back is behind its own position. One id of the group's does as well, while clocks only go on:
 * then it is a moment to all buckets but the one that gave it. */
#include "services/stock_buckets.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHIFT = 128,     /* more than STOCK_BUCKETS_MAX, and the pool */
    TRIES_MAX = 100, /* rounds for an entry of this millisecond, until the clocks of all buckets have passed it */
};

/* An id that is TRIMMED in every ledger, and up to which nothing can be trimmed. */
#define NEVER_GIVEN "0-1"

ledger_id ledger_id_of(const char *id)
{
    char *dash;
    int64_t ms = strtoll(id, &dash, 10);

    return (ledger_id){.ms = ms, .seq = *dash == '-' ? strtoll(dash + 1, NULL, 10) : 0};
}

const char *ledger_id_text(lks_rpc_arena *arena, ledger_id id)
{
    return memory_printf_in(arena, "%lld-%lld", (long long)id.ms, (long long)id.seq);
}

/* Of a position the k-th of n + 1 ids; it is of another group when there are not so many. */
static const char *part_of(lks_rpc_arena *arena, unsigned n, unsigned k, const char *position)
{
    const char *part = position, *end;
    unsigned i = 0;

    for (const char *at = position; (at = strchr(at, ',')); at++)
        if (++i == k)
            part = at + 1;
    if (i != n)
        return NEVER_GIVEN;
    end = part + strcspn(part, ",");
    return memory_printf_in(arena, "%.*s", (int)(end - part), part);
}

ledger_place ledger_place_in(lks_rpc_arena *arena, unsigned n, unsigned k, const char *after)
{
    if (strchr(after, ','))
        return (ledger_place){.id = part_of(arena, n, k, after)};
    if (n == 0 || after[0] == '\0')
        return (ledger_place){.id = after};
    ledger_id id = ledger_id_of(after);
    int64_t given_by = id.seq % SHIFT;
    bool loose = k != given_by || strcmp(after, "0-0") == 0;
    if (given_by > n && k == 0)
        loose = false; /* nobody gave it: the pool says so */
    id.seq /= SHIFT;
    if (k > given_by && id.seq > 0)
        id.seq--;
    return (ledger_place){.id = ledger_id_text(arena, id), .loose = loose};
}

static ledger_id in_group(ledger_id id, unsigned k)
{
    return (ledger_id){.ms = id.ms, .seq = id.seq * SHIFT + k};
}

static bool is_before(ledger_id a, ledger_id b)
{
    return a.ms < b.ms || (a.ms == b.ms && a.seq < b.seq);
}

/* The page that has the next entry; n_pages when none has any. */
static unsigned next_page(const ledger_page *pages, const size_t *at, unsigned n_pages)
{
    unsigned next = n_pages;

    for (unsigned k = 0; k < n_pages; k++)
        if (at[k] < pages[k].n &&
            (next == n_pages || is_before(in_group(pages[k].ids[at[k]], k), in_group(pages[next].ids[at[next]], next))))
            next = k;
    return next;
}

/* In order, up to the limit, of before that time; at[k]: how many of a page. Each has as many as may be told. False: some
 * are not of before. */
static bool merge(answer *a, const ledger_page *pages, size_t *at, unsigned n_pages, int64_t before_ms, size_t limit,
                  lks_read_ledger_response *response)
{
    response->entries = memory_in(a->arena, limit * sizeof *response->entries);
    while (response->n_entries < limit) {
        unsigned k = next_page(pages, at, n_pages);
        if (k == n_pages)
            break;
        if (pages[k].ids[at[k]].ms >= before_ms)
            return false;
        lks_ledger_entry *entry = pages[k].entries[at[k]];
        entry->id = ledger_id_text(a->arena, in_group(pages[k].ids[at[k]++], k));
        response->entries[response->n_entries++] = entry;
    }
    return true;
}

/* After at[k] entries of each page. */
static const char *position_of(lks_rpc_arena *arena, const ledger_page *pages, const size_t *at, unsigned n_pages)
{
    const char *position = "";

    for (unsigned k = 0; k < n_pages; k++)
        position = memory_printf_in(arena, "%s%s%s", position, k > 0 ? "," : "",
                                    at[k] > 0 ? ledger_id_text(arena, pages[k].ids[at[k] - 1]) : pages[k].after);
    return position;
}

static void find_oldest(answer *a, const ledger_page *pages, unsigned n_pages, lks_read_ledger_response *response)
{
    ledger_id oldest = {0};
    bool any = false;

    for (unsigned k = 0; k < n_pages; k++) {
        if (pages[k].oldest[0] == '\0')
            continue;
        ledger_id id = in_group(ledger_id_of(pages[k].oldest), k);
        if (!any || is_before(id, oldest))
            oldest = id;
        any = true;
    }
    if (any)
        response->oldest_id = ledger_id_text(a->arena, oldest);
}

void read_buckets_ledger(answer *a, size_t limit, lks_read_ledger_response *response)
{
    buckets *b = &((stock_kept *)a->plan->kept)->buckets;
    unsigned n = b->n + 1;
    ledger_page *pages = memory_in(a->arena, n * sizeof *pages);
    int64_t before_ms = INT64_MAX;
    bool waits = true, trimmed = false;

    for (unsigned k = 0; k < n; k++) {
        pages[k] = ledger_page_of(a, a->replies[k], limit);
        waits = waits && pages[k].waits;
        trimmed = trimmed || pages[k].outcome == LKS_READ_LEDGER_OUTCOME_TRIMMED;
        if (pages[k].time_ms < before_ms)
            before_ms = pages[k].time_ms;
    }
    if (a->error.code != LKS_OK)
        return;
    if (waits) {
        answer_waits(a);
        return;
    }
    find_oldest(a, pages, n, response);
    response->outcome = trimmed ? LKS_READ_LEDGER_OUTCOME_TRIMMED : LKS_READ_LEDGER_OUTCOME_OK;
    if (trimmed)
        return;
    size_t *at = memory_in(a->arena, n * sizeof *at);
    if (!merge(a, pages, at, n, before_ms, limit, response) && b->tries < TRIES_MAX)
        buckets_go_on(a, b, stock_ask_again);
    response->next_after = position_of(a->arena, pages, at, n);
}
