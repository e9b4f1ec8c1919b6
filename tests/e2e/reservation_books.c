/* Invariant: after each entry, what the entries so far add up to is a state in which
 * the stock may be: nothing below zero, no buyer over the limit, each line of an order
 * in a state from which its entry may follow. */
#include "reservations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/process.h"

enum { PAGE = 1000, WAIT_MS = 500, PATIENCE_MS = 120000 };

bool books_open(books *b, storm *s, int group)
{
    *b = (books){.storm = s,
                 .group = group,
                 .held = calloc(s->n_buyers * STORM_GOODS, sizeof *b->held),
                 .lines = calloc(s->n_orders * STORM_LINES, sizeof *b->lines)};
    return b->held && b->lines;
}

void books_close(books *b)
{
    free(b->held);
    free(b->lines);
}

static int find_good(const char *sku)
{
    for (int i = 0; i < STORM_GOODS; i++)
        if (strcmp(sku, storm_good(i)) == 0)
            return i;
    return -1;
}

/* What may have happened to a line before, as bits of kinds. */
#define BIT(kind) (1u << (kind))
static const unsigned before[10] = {
    [LKS_LEDGER_KIND_DEDUCTED] = BIT(0) | BIT(LKS_LEDGER_KIND_EXPIRED),
    [LKS_LEDGER_KIND_RESERVED] = BIT(0) | BIT(LKS_LEDGER_KIND_EXPIRED),
    [LKS_LEDGER_KIND_CONFIRMED] = BIT(LKS_LEDGER_KIND_RESERVED),
    [LKS_LEDGER_KIND_CANCELLED] = BIT(LKS_LEDGER_KIND_RESERVED),
    [LKS_LEDGER_KIND_EXPIRED] = BIT(LKS_LEDGER_KIND_RESERVED),
    [LKS_LEDGER_KIND_RETURNED] =
        BIT(LKS_LEDGER_KIND_DEDUCTED) | BIT(LKS_LEDGER_KIND_CONFIRMED) | BIT(LKS_LEDGER_KIND_RETURNED),
};

/* An entry of an order: its line follows, and so does its buyer. */
static void follow_line(books *b, const lks_ledger_entry *e, int which)
{
    storm *s = b->storm;
    size_t index = strtoull(e->order_id + 1, NULL, 10);
    const order *o = index < s->n_orders && e->order_id[0] == 'o' ? &s->orders[index] : NULL;
    int line = 0;

    while (o && line < o->n_lines && o->lines[line].good != which)
        line++;
    if (!o || line == o->n_lines || o->group != b->group) {
        storm_fault(s, "ledger %s: no such order: %s of %s", e->id, e->order_id, e->sku);
        return;
    }
    book_line *l = &b->lines[index * STORM_LINES + (size_t)line];
    int32_t *held = &b->held[(size_t)o->buyer * STORM_GOODS + (size_t)which];
    int32_t quantity = (int32_t)e->quantity;
    bool part = e->kind == LKS_LEDGER_KIND_RETURNED;
    if (!(before[e->kind] & BIT(l->last)) || (part ? quantity > l->sold : quantity != o->lines[line].quantity))
        storm_fault(s, "ledger %s: %s: kind %d of %d after kind %d", e->id, e->order_id, (int)e->kind, quantity,
                    (int)l->last);
    l->last = e->kind;
    switch (e->kind) {
    case LKS_LEDGER_KIND_DEDUCTED:
        l->sold += quantity;
        *held += quantity;
        break;
    case LKS_LEDGER_KIND_RESERVED:
        l->reserved += quantity;
        *held += quantity;
        break;
    case LKS_LEDGER_KIND_CONFIRMED:
        l->reserved -= quantity;
        l->sold += quantity;
        break;
    case LKS_LEDGER_KIND_RETURNED:
        l->sold -= quantity;
        l->returned += quantity;
        *held -= quantity;
        break;
    default: /* CANCELLED, EXPIRED */
        l->reserved -= quantity;
        *held -= quantity;
        break;
    }
    if (storm_limit(which) != 0 && *held > storm_limit(which))
        storm_fault(s, "ledger %s: b%d has %d of %s", e->id, o->buyer, *held, e->sku);
}

static void follow_entry(books *b, const lks_ledger_entry *e)
{
    int which = find_good(e->sku);
    int64_t q = e->quantity;

    if (which < 0 || e->kind < LKS_LEDGER_KIND_PUT || e->kind > LKS_LEDGER_KIND_RETURNED) {
        storm_fault(b->storm, "ledger %s: kind %d of %s", e->id, (int)e->kind, e->sku);
        return;
    }
    b->entries++;
    b->kinds[e->kind]++;
    if (e->kind == LKS_LEDGER_KIND_PUT || e->kind == LKS_LEDGER_KIND_ADJUSTED) {
        b->available[which] += q;
    } else {
        /* The table of LedgerKind in stock.proto. */
        static const int change[10][3] = {
            [LKS_LEDGER_KIND_DEDUCTED] = {-1, 0, 1},  [LKS_LEDGER_KIND_RESERVED] = {-1, 1, 0},
            [LKS_LEDGER_KIND_CONFIRMED] = {0, -1, 1}, [LKS_LEDGER_KIND_CANCELLED] = {1, -1, 0},
            [LKS_LEDGER_KIND_EXPIRED] = {1, -1, 0},   [LKS_LEDGER_KIND_RETURNED] = {1, 0, -1},
        };
        b->available[which] += change[e->kind][0] * q;
        b->reserved[which] += change[e->kind][1] * q;
        b->sold[which] += change[e->kind][2] * q;
        follow_line(b, e, which);
    }
    if (b->available[which] < 0 || b->reserved[which] < 0 || b->sold[which] < 0)
        storm_fault(b->storm, "ledger %s: %s: available %lld, reserved %lld, sold %lld", e->id, e->sku,
                    (long long)b->available[which], (long long)b->reserved[which], (long long)b->sold[which]);
}

/* A page; -1 when it cannot be read. */
static int read_page(books *b, int server, int64_t wait_ms)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
    lks_read_ledger_response *response = NULL;
    lks_error error;

    request.group = storm_group(b->group);
    request.after = b->last;
    request.limit = PAGE;
    request.wait_ms = wait_ms;
    lks_code code = lks_stock_read_ledger(b->storm->channels[server], &request, &b->storm->options, &response, &error);
    if (code != LKS_OK) {
        if (!b->storm->is_lossy)
            storm_fault(b->storm, "ReadLedger: %s: %s", lks_code_name(code), error.message);
        return -1;
    }
    if (response->outcome != LKS_READ_LEDGER_OUTCOME_OK)
        storm_fault(b->storm, "ReadLedger is told %s", lks_read_ledger_outcome_name(response->outcome));
    int n = (int)response->n_entries;
    for (int i = 0; i < n; i++)
        follow_entry(b, response->entries[i]);
    if (n > 0)
        snprintf(b->last, sizeof b->last, "%s", response->entries[n - 1]->id);
    lks_read_ledger_response_free(response);
    return n;
}

size_t books_read(books *b, int server)
{
    size_t entries = b->entries;

    while (read_page(b, server, 0) > 0)
        ;
    return b->entries - entries;
}

static int64_t all_reserved(const books *b)
{
    int64_t n = 0;

    for (int i = 0; i < STORM_GOODS; i++)
        n += b->reserved[i];
    return n;
}

void *books_follow(void *arg)
{
    books *b = arg;
    long long end = 0;

    for (int i = 0;; i++) {
        bool over = atomic_load(&b->storm->over);
        int n = read_page(b, i % STORM_SERVERS, WAIT_MS);
        if (over && end == 0)
            end = process_now_ms() + PATIENCE_MS;
        if (over && ((n == 0 && all_reserved(b) == 0) || atomic_load(&b->storm->n_faults) > 0))
            return NULL;
        if (over && process_now_ms() > end) {
            storm_fault(b->storm, "%s: %lld units stay reserved", storm_group(b->group), (long long)all_reserved(b));
            return NULL;
        }
    }
}

void books_compare(books *b)
{
    storm *s = b->storm;

    for (size_t i = 0; i < s->n_orders; i++) {
        const order *o = &s->orders[i];
        bool sold = o->state == LKS_ORDER_STATE_CONFIRMED || o->state == LKS_ORDER_STATE_RETURNED;
        for (int k = 0; k < o->n_lines && o->group == b->group && !o->is_adjustment; k++) {
            const book_line *l = &b->lines[i * STORM_LINES + (size_t)k];
            int32_t expected = sold ? o->lines[k].quantity - o->returned[k] : 0;
            if (l->reserved != 0 || l->sold != expected || l->returned != o->returned[k])
                storm_fault(s, "o%zu line %d: the ledger has %d reserved, %d sold, %d returned; told were %d sold", i,
                            k, l->reserved, l->sold, l->returned, expected);
        }
    }
    for (int i = 0; i < STORM_GOODS; i++) {
        const good *g = &s->goods[b->group][i];
        int64_t on_hand = g->initial + atomic_load(&g->adds_done) - atomic_load(&g->takes_done);
        if (b->available[i] + b->reserved[i] + b->sold[i] != on_hand)
            storm_fault(s, "%s/%s: the ledger has %lld on hand, told were %lld", storm_group(b->group), storm_good(i),
                        (long long)(b->available[i] + b->reserved[i] + b->sold[i]), (long long)on_hand);
    }
}
