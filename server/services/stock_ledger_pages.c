#include "services/stock_ledger_pages.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* functions/stock_change.lua */
enum { PACKED_MAX = 1000, WORDS_OF_ENTRY = 5 };

enum { SHIFT = 128 }; /* more than the buckets and the pool of a group */

/* An id that no ledger has used, so that every ledger answers TRIMMED, and up to which nothing can be trimmed. */
#define NEVER_GIVEN "0-1"

typedef struct ledger_id {
    int64_t ms, seq;
} ledger_id;

/* The entries that a bucket's function has read from its ledger; they have no id yet. */
typedef struct ledger_page {
    bool waits;
    lks_read_ledger_outcome outcome;
    const char *oldest; /* "" = none */
    int64_t time_ms;    /* later entries have no lower id */
    const char *after;  /* the id after which it read, which this ledger has used; "0-0" = none before */
    lks_ledger_entry **entries;
    ledger_id *ids;
    size_t n;
    size_t taken; /* number of entries in the answer */
} ledger_page;

/* ---- ids ---- */

static ledger_id ledger_id_of(const char *id)
{
    char *dash;
    int64_t ms = strtoll(id, &dash, 10);

    return (ledger_id){.ms = ms, .seq = *dash == '-' ? strtoll(dash + 1, NULL, 10) : 0};
}

static const char *ledger_id_text(lks_rpc_arena *arena, ledger_id id)
{
    return memory_printf_in(arena, "%lld-%lld", (long long)id.ms, (long long)id.seq);
}

/* Returns the k-th of the n + 1 ids of a position; NEVER_GIVEN if the position has another number of ids, because it is
 * of another group. */
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
        loose = false; /* no ledger has used it: the pool reports that */
    id.seq /= SHIFT;
    if (k > given_by && id.seq > 0)
        id.seq--;
    return (ledger_place){.id = ledger_id_text(arena, id), .loose = loose};
}

/* Returns the group's id of an entry of bucket k. */
static ledger_id in_group(ledger_id id, unsigned n_buckets, unsigned k)
{
    return n_buckets == 0 ? id : (ledger_id){.ms = id.ms, .seq = id.seq * SHIFT + k};
}

static bool is_before(ledger_id a, ledger_id b)
{
    return a.ms < b.ms || (a.ms == b.ms && a.seq < b.seq);
}

/* ---- the page of a bucket ---- */

/* A reply is {outcome, oldest, time, after; then for each entry of the stream its id, the number of entries in it, and
 * their words}. */
enum { REPLY_HEAD = 4, REPLY_ENTRY = 3 };

/* Adds the n entries in one entry of the stream, if they are after `after`, up to the limit. */
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
        entry->at_ms = at.ms; /* Redis makes ids from its clock. */
    }
}

static ledger_page read_page(answer *a, const store_value *reply, size_t limit)
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

/* ---- all pages as one ---- */

/* Returns the page with the next entry; n_buckets + 1: none. */
static unsigned next_page(const ledger_page *pages, unsigned n_buckets)
{
    unsigned next = n_buckets + 1;
    ledger_id first = {0};

    for (unsigned k = 0; k <= n_buckets; k++) {
        if (pages[k].taken == pages[k].n)
            continue;
        const ledger_id id = in_group(pages[k].ids[pages[k].taken], n_buckets, k);
        if (next <= n_buckets && !is_before(id, first))
            continue;
        next = k;
        first = id;
    }
    return next;
}

/* Takes entries in order, up to the limit, while they are older than before_ms. Returns false if a newer one is next.
 * Each page has as many entries as the limit. */
static bool merge(answer *a, ledger_page *pages, unsigned n_buckets, int64_t before_ms, size_t limit,
                  lks_read_ledger_response *response)
{
    response->entries = memory_in(a->arena, limit * sizeof *response->entries);
    while (response->n_entries < limit) {
        const unsigned k = next_page(pages, n_buckets);
        if (k > n_buckets)
            break;
        ledger_page *page = &pages[k];
        const ledger_id id = page->ids[page->taken];
        if (id.ms >= before_ms)
            return false;
        lks_ledger_entry *entry = page->entries[page->taken++];
        entry->id = ledger_id_text(a->arena, in_group(id, n_buckets, k));
        response->entries[response->n_entries++] = entry;
    }
    return true;
}

/* Returns the position after the entries that were taken: an id for each page. */
static const char *position_of(lks_rpc_arena *arena, const ledger_page *pages, unsigned n_buckets)
{
    const char *position = "";

    for (unsigned k = 0; k <= n_buckets; k++) {
        const ledger_page *page = &pages[k];
        position = memory_printf_in(arena, "%s%s%s", position, k > 0 ? "," : "",
                                    page->taken > 0 ? ledger_id_text(arena, page->ids[page->taken - 1]) : page->after);
    }
    return position;
}

static const char *oldest_of(lks_rpc_arena *arena, const ledger_page *pages, unsigned n_buckets)
{
    ledger_id oldest = {0};
    bool any = false;

    for (unsigned k = 0; k <= n_buckets; k++) {
        if (pages[k].oldest[0] == '\0')
            continue;
        const ledger_id id = in_group(ledger_id_of(pages[k].oldest), n_buckets, k);
        if (!any || is_before(id, oldest))
            oldest = id;
        any = true;
    }
    return any ? ledger_id_text(arena, oldest) : "";
}

ledger_reading ledger_read(answer *a, unsigned n_buckets, size_t limit, lks_read_ledger_response *response)
{
    ledger_page *pages = memory_in(a->arena, (n_buckets + 1) * sizeof *pages);
    int64_t before_ms = INT64_MAX;
    bool waits = true, trimmed = false;

    for (unsigned k = 0; k <= n_buckets; k++) {
        pages[k] = read_page(a, a->replies[k], limit);
        waits = waits && pages[k].waits;
        trimmed = trimmed || pages[k].outcome == LKS_READ_LEDGER_OUTCOME_TRIMMED;
        if (n_buckets > 0 && pages[k].time_ms < before_ms)
            before_ms = pages[k].time_ms;
    }
    if (waits)
        return LEDGER_WAITS;
    response->oldest_id = oldest_of(a->arena, pages, n_buckets);
    response->outcome = trimmed ? LKS_READ_LEDGER_OUTCOME_TRIMMED : LKS_READ_LEDGER_OUTCOME_OK;
    if (trimmed || a->error.code != LKS_OK)
        return LEDGER_READ;
    const bool all = merge(a, pages, n_buckets, before_ms, limit, response);
    response->next_after = position_of(a->arena, pages, n_buckets);
    return all ? LEDGER_READ : LEDGER_TOO_NEW;
}
