/* The cursor of a page is "<shard>.<digest>" of the last group, if the page ends with a complete group. If it ends
 * inside a group, the cursor is "<SHARDS + shard>.<digest>.<cursor of lock_list, 12 hex digits>[.<digest>...]"; the
 * part after the first digest is the cursor inside that group. services/lock_admin.c checks this form. */
#include "quorum/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "functions/arguments.h"
#include "memory.h"
#include "quorum/paths.h"
#include "quorum/shards.h"
#include "store/fcall.h"

enum { GROUPS_OF_PAGE = 256, HEAD = 4, INNER_BYTES = 1024 };

typedef struct list {
    shards walk;
    const store_call *call;
    uint64_t deadline_ns;
    store_done *done;
    void *arg;
    lks_rpc_arena *arena;
    char prefix[256];        /* of the groups' names */
    char inner[INNER_BYTES]; /* where lock_list continues in the first group; "0": at its start */
    size_t page, n_groups;
    const store_value **items;
    size_t n_items;
} list;

static void end_with(list *l, const store_result *result)
{
    store_done *done = l->done;
    void *arg = l->arg;

    done(arg, result);
    shards_clear(&l->walk);
    free(l->items);
    lks_rpc_arena_free(l->arena);
    free(l);
}

static store_value text_value(const char *text)
{
    return (store_value){.type = STORE_STRING, .string = lks_rpc_slice_of(text)};
}

static void end_page(list *l, const char *cursor)
{
    store_value *elements = memory_in(l->arena, (HEAD + l->n_items) * sizeof *elements);
    const store_value reply = {.type = STORE_ARRAY, .n = HEAD + l->n_items, .element = elements};
    const store_result result = {.code = LKS_OK, .applied = LKS_APPLIED_YES, .message = "", .value = &reply};

    elements[0] = text_value("OK");
    elements[1] = text_value(cursor);
    elements[2] = elements[3] = text_value("");
    for (size_t i = 0; i < l->n_items; i++)
        elements[HEAD + i] = *l->items[i];
    end_with(l, &result);
}

static void fail(list *l, lks_code code, store_fault fault)
{
    const store_result result = {
        .code = code, .applied = LKS_APPLIED_NO, .reason = fault.reason, .message = fault.text};

    end_with(l, &result);
}

static void on_end(void *arg, bool complete)
{
    list *l = arg;

    if (complete)
        end_page(l, "");
    else
        fail(l, LKS_UNAVAILABLE, STORE_FAULT(STORE_UNREACHABLE, "the lock store is unreachable"));
}

static int64_t time_of(const list *l, const char *path, const stored_group *s)
{
    const group *g = group_of_path(l->walk.quorum, path);

    return g && g->clock.at_ns ? group_clock_now(&g->clock, clock_now_ns()) : s->time_us;
}

/* Runs lock_list over the keys of one group and returns its reply. */
static const store_value *list_group(list *l, const stored_group *s, int64_t now_us)
{
    store_call call = *l->call;
    lks_rpc_slice *args = memory_in(l->arena, call.n_args * sizeof *args);

    memcpy(args, call.args, call.n_args * sizeof *args);
    args[ARG_LOCK_LIST_PAGE_SIZE] = lks_rpc_slice_of(memory_printf_in(l->arena, "%zu", l->page - l->n_items));
    args[ARG_LOCK_LIST_PAGE_CURSOR] = lks_rpc_slice_of(memory_text_in(l->arena, l->inner));
    call.args = args;
    return functions_run(l->walk.quorum->functions, s->keys, NULL, now_us, &call, false, l->arena);
}

/* Converts a cursor of lock_list, "<decimal>[.<digest>...]", to "<12 hex digits>[.<digest>...]". */
static const char *hex_cursor(list *l, const char *inner)
{
    char *rest;
    const uint64_t number = strtoull(inner, &rest, 10);

    return memory_printf_in(l->arena, "%012" PRIx64 "%s", number, rest);
}

static bool take_items(list *l, const store_value *reply, const char **inner)
{
    *inner = "";
    if (fcall_result(reply, l->call->function).code != LKS_OK || reply->type != STORE_ARRAY || reply->n < HEAD)
        return false;
    for (size_t i = HEAD; i < reply->n; i++)
        l->items[l->n_items++] = &reply->element[i];
    *inner = reply->element[1].string.data;
    return true;
}

static void on_group(void *arg, const char *path, const stored_group *s, int32_t version)
{
    list *l = arg;
    shards *w = &l->walk;
    const char *inner = "";
    (void)version;

    if (s && !take_items(l, list_group(l, s, time_of(l, path, s)), &inner)) {
        fail(l, LKS_INTERNAL, STORE_FAULT(NONE, "the lock store's function failed"));
        return;
    }
    snprintf(l->inner, sizeof l->inner, "0");
    if (*inner != '\0')
        end_page(l, memory_printf_in(l->arena, "%u.%s.%s", SHARDS + w->shard, shards_digest(w), hex_cursor(l, inner)));
    else if (l->n_items >= l->page || ++l->n_groups >= GROUPS_OF_PAGE || clock_now_ns() >= l->deadline_ns)
        end_page(l, memory_printf_in(l->arena, "%u.%s", w->shard, shards_digest(w)));
    else
        shards_next(w);
}

/* Sets where the page begins. */
static void read_cursor(list *l, const char *cursor)
{
    char *rest;
    const unsigned long number = strtoul(cursor, &rest, 10);

    snprintf(l->inner, sizeof l->inner, "0");
    l->walk.shard = (unsigned)(number % SHARDS);
    l->walk.including = number >= SHARDS;
    if (*rest == '.')
        snprintf(l->walk.after, sizeof l->walk.after, "%s", rest + 1);
    if (l->walk.including && strlen(rest) > 1 + SHARD_DIGEST_CHARS) {
        const char *inner = rest + 1 + SHARD_DIGEST_CHARS + 1;
        char *given;
        const uint64_t at = strtoull(inner, &given, 16);
        snprintf(l->inner, sizeof l->inner, "%" PRIu64 "%s", at, given);
    }
}

void list_begin(quorum *q, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    const lks_rpc_slice ns = paths_namespace(call->base);
    list *l = memory_alloc(sizeof *l);

    *l = (list){.walk = {.quorum = q, .prefix = l->prefix, .group = on_group, .end = on_end, .arg = l},
                .call = call,
                .deadline_ns = deadline_ns,
                .done = done,
                .arg = arg,
                .arena = memory_arena()};
    l->page = strtoul(call->args[ARG_LOCK_LIST_PAGE_SIZE].data, NULL, 10);
    l->items = memory_alloc((l->page + 1) * sizeof *l->items);
    snprintf(l->prefix, sizeof l->prefix, "%.*s%%2F", (int)ns.len, ns.data);
    read_cursor(l, call->args[ARG_LOCK_LIST_PAGE_CURSOR].data);
    shards_next(&l->walk);
}
