/* Invariant: at most one call is under way to each part of the store; `mark` is its last reply, "" before the first.
 * Called by server.c. */
#include "calls/loss.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/queue.h>

#include "base/clock.h"
#include "functions/arguments.h"
#include "memory.h"
#include "slice.h"

enum { TIMEOUT_MS = 5000, MARK_BYTES = 64, TEXT_BYTES = 128 };

/* One part of the store. */
typedef struct watched_part {
    loss *loss;
    store_part part;
    bool asking, current;
    char mark[MARK_BYTES];
    char offered[LKS_RPC_RANDOM_ID_LEN + 1]; /* the mark to set if the part has none; new each time */
    lks_rpc_slice args[1];
    store_call call;
    LIST_ENTRY(watched_part) in_all;
} watched_part;

struct loss {
    store *store;
    waiters *waiters;
    void (*on_loss)(void *arg, const char *text);
    void *arg;
    uint64_t found;
    bool lacks_layout; /* the version of the layout could not be written */
    LIST_HEAD(, watched_part) parts;
};

/* The next look tries again. */
static void on_layout(void *arg, const store_result *result)
{
    ((loss *)arg)->lacks_layout = result->code != LKS_OK;
}

static void write_layout(loss *l)
{
    static lks_rpc_slice args[] = {{STORE_LAYOUT, sizeof STORE_LAYOUT - 1}};
    static store_call call;

    call = (store_call){.base = {STORE_META_BASE, sizeof STORE_META_BASE - 1},
                        .function = fn_mark_layout.name,
                        .n_args = 1,
                        .args = args,
                        .repeatable = true};
    store_submit(l->store, &call, clock_in_ms(TIMEOUT_MS), on_layout, l);
}

static void report(loss *l, const store_part *part)
{
    char at[32], text[TEXT_BYTES];
    const time_t now = time(NULL);
    struct tm utc;

    l->found++;
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (strcmp(part->base, STORE_META_BASE) == 0)
        snprintf(text, sizeof text, "all data of the store was lost, noticed at %s", at);
    else
        snprintf(text, sizeof text, "all data of the primary with slot %u was lost, noticed at %s", part->slot, at);
    l->on_loss(l->arg, text);
    waiters_missed(l->waiters);
    write_layout(l);
}

static void on_mark(void *arg, const store_result *result)
{
    watched_part *w = arg;
    const store_value *reply = result->value;

    w->asking = false;
    if (result->code != LKS_OK || reply->type != STORE_ARRAY || reply->n != 2 || reply->element[1].type != STORE_STRING)
        return;
    lks_rpc_slice mark = reply->element[1].string;
    bool same = slice_is(mark, w->mark);
    bool known = w->mark[0] != '\0';

    if (same || mark.len >= sizeof w->mark)
        return;
    memcpy(w->mark, mark.data, mark.len);
    w->mark[mark.len] = '\0';
    if (known)
        report(w->loss, &w->part);
}

static void check_part(watched_part *w)
{
    w->asking = true;
    lks_rpc_random_id(w->offered);
    w->args[0] = lks_rpc_slice_of(w->offered);
    w->call = (store_call){.base = lks_rpc_slice_of(w->part.base),
                           .function = fn_mark_read.name,
                           .n_args = 1,
                           .args = w->args,
                           .repeatable = true};
    store_submit(w->loss->store, &w->call, clock_in_ms(TIMEOUT_MS), on_mark, w);
}

static watched_part *find_part(loss *l, const store_part *part)
{
    watched_part *w;

    LIST_FOREACH(w, &l->parts, in_all)
        if (w->part.slot == part->slot)
            return w;
    w = memory_alloc(sizeof *w);
    *w = (watched_part){.loss = l, .part = *part};
    LIST_INSERT_HEAD(&l->parts, w, in_all);
    return w;
}

/* Drops entries that are not `current`: of parts that no longer exist, because slots moved. */
static void forget_others(loss *l)
{
    watched_part *w, *next;

    for (w = LIST_FIRST(&l->parts); w; w = next) {
        next = LIST_NEXT(w, in_all);
        if (w->current || w->asking) {
            w->current = false;
            continue;
        }
        LIST_REMOVE(w, in_all);
        free(w);
    }
}

void loss_look(loss *l)
{
    store_part part;

    if (l->lacks_layout)
        write_layout(l);
    for (uint32_t from = 0; store_part_from(l->store, from, &part); from = part.slot + 1U) {
        watched_part *w = find_part(l, &part);
        w->current = true;
        if (!w->asking)
            check_part(w);
    }
    forget_others(l);
}

uint64_t loss_found(const loss *l)
{
    return l ? l->found : 0;
}

loss *loss_new(store *backing, waiters *waiting, void (*on_loss)(void *arg, const char *text), void *arg)
{
    loss *l = memory_alloc(sizeof *l);

    *l = (loss){.store = backing, .waiters = waiting, .on_loss = on_loss, .arg = arg};
    return l;
}

void loss_free(loss *l)
{
    if (l)
        forget_others(l);
    free(l);
}
