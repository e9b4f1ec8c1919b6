/* StockService: ListItems. Invariant: a page token cannot lead out of the caller's namespace, because every key is
 * made of that namespace and of encoded parts.
 *
 *   "G" sku                                continues after this sku of the group, encoded
 *   "N" cursor { ":" group "/" sku }...    in a token of walk.h: a cursor of a scan ("" = all keys were seen), and
 *                                          encoded items that were found when the page was full
 */
#include <string.h>

#include "services/stock_list.h"
#include "services/walk.h"

enum {
    PAGE_DEFAULT = 100,
    PAGE_MAX = 1000,
    STEP_MAX = 250,   /* items that one call of a function lists */
    PLACES_MAX = 500, /* in a page token: a step of a scan can find a few more than requested */
    CURSOR_DIGITS_MAX = 20,
};

/* The state of the page, in addition to t->list: a group is listed in several steps. */
typedef struct listing {
    size_t size;
    const walk *walk; /* for a namespace */
    char *token;      /* for a namespace: the next token */
    size_t before;    /* for a group: number of items before this step */
    bool more;        /* for a group: more items follow this step */
} listing;

/* ---- items of several groups ---- */

void stock_new_list(lks_rpc_arena *arena, transfer_list *list, size_t max)
{
    *list = (transfer_list){.items = memory_in(arena, max * sizeof *list->items),
                            .buckets = memory_in(arena, max * sizeof *list->buckets)};
}

void stock_list_bucketed(lks_rpc_arena *arena, transfer_list *list, const char *group, const char *sku,
                         unsigned n_buckets)
{
    lks_item *item = memory_in(arena, sizeof *item);

    *item = (lks_item)LKS_ITEM_INIT;
    item->group = group;
    item->sku = sku;
    list->buckets[list->n] = n_buckets;
    list->items[list->n++] = item;
}

static transfer_step list_item_looked(answer *a, transfer *t)
{
    if (!transfer_look_is_done(t))
        return TRANSFER_LOOK;
    t->list.items[t->list.at] = look_whole_item(a->arena, &t->look, t->group, 0);
    t->list.at++;
    return stock_look_at_list(a, t);
}

transfer_step stock_look_at_list(answer *a, transfer *t)
{
    transfer_list *l = &t->list;

    while (l->at < l->n && l->buckets[l->at] == 0)
        l->at++;
    if (l->at == l->n || a->error.code != LKS_OK)
        return TRANSFER_DONE;
    t->group = l->items[l->at]->group;
    t->n_buckets = l->buckets[l->at];
    t->rounds = 0;
    return transfer_look(t, (const char *const *)&l->items[l->at]->sku, 1, list_item_looked);
}

/* ---- tokens ---- */

static void bad_token(plan *p)
{
    plan_invalid(p, "page_token: must be a token that this method returned for such a request");
}

/* Decodes text from plan_encode; returns NULL for other text. */
static char *decode(lks_rpc_arena *arena, lks_rpc_slice encoded)
{
    char *text = plan_decode(arena, encoded);
    const char *again = plan_encode(arena, text);

    if (strlen(again) != encoded.len || memcmp(again, encoded.data, encoded.len) != 0)
        return NULL;
    return text;
}

/* Returns the bytes up to `end`, or all, and moves *at past them. */
static lks_rpc_slice part_until(const char **at, char end)
{
    const char *start = *at;
    size_t len = strcspn(start, (const char[]){end, '\0'});

    *at = start + len + (start[len] == end);
    return (lks_rpc_slice){.data = start, .len = len};
}

/* Splits a group in the form of tokens and keys: "group", or "group/n/0", the pool of a group in n buckets. Returns the
 * encoded group. */
static lks_rpc_slice split_group(lks_rpc_slice text, unsigned *ret_n)
{
    const char *slash = memchr(text.data, '/', text.len);
    size_t at = slash ? (size_t)(slash - text.data) : text.len;
    lks_rpc_slice group = {.data = text.data, .len = at};
    unsigned n = 0;

    for (at++; at < text.len && text.data[at] >= '0' && text.data[at] <= '9' && n <= STOCK_BUCKETS_MAX; at++)
        n = n * 10 + (unsigned)(text.data[at] - '0');
    if (slash && (text.len - at != 2 || memcmp(text.data + at, "/0", 2) != 0))
        group.len = 0;
    *ret_n = n;
    return group;
}

/* Adds the item of a "group/sku" in a token, both encoded. */
static void add_place(plan *p, lks_rpc_slice place)
{
    const char *slash = memrchr(place.data, '/', place.len);
    lks_rpc_slice group = {.data = place.data, .len = slash ? (size_t)(slash - place.data) : 0};
    const char *sku = NULL;
    unsigned n;
    lks_rpc_slice name = split_group(group, &n);

    if (name.len > 0 && group.len + 1 < place.len && decode(p->arena, name))
        sku = decode(p->arena, (lks_rpc_slice){.data = slash + 1, .len = place.len - group.len - 1});
    if (!sku)
        bad_token(p);
    each_stock_list_namespace(p, .group = group, .sku = sku);
}

/* ---- prepare ---- */

static int32_t step_of(size_t size)
{
    return size < STEP_MAX ? (int32_t)size : STEP_MAX;
}

static void list_group(const lks_list_items_request *request, plan *p, const transfer *t, const listing *page)
{
    const char *after = "";
    int32_t step = step_of(page->size - t->list.n);

    if (t->list.n > 0) {
        after = t->list.items[t->list.n - 1]->sku;
    } else if (request->page_token[0] != '\0') {
        after = request->page_token[0] == 'G' ? decode(p->arena, lks_rpc_slice_of(request->page_token + 1)) : NULL;
        if (!after || after[0] == '\0')
            bad_token(p);
    }
    transfer_call(p, &fn_stock_list_group, request->group, NULL, NULL, 0);
    plan_weighs(p, 1 + (size_t)step / STOCK_ITEMS_OF_WEIGHT);
    args_stock_list_group(p, .prefix = request->prefix, .after = after, .page_size = step);
}

/* The group "-" only places the call: a scan sees all groups. */
static void list_namespace(const lks_list_items_request *request, plan *p, listing *page)
{
    const walk *w = page->walk = walk_read(p->arena, request->page_token);
    const char *at = w ? w->rest : "";
    lks_rpc_slice cursor = lks_rpc_slice_of("0");
    size_t places = 0;

    if (!w)
        bad_token(p);
    if (*at != '\0') {
        if (*at++ != 'N')
            bad_token(p);
        for (const char *c = at; *c != '\0'; c++)
            places += *c == ':';
        cursor = part_until(&at, ':');
        if (cursor.len > CURSOR_DIGITS_MAX || strspn(cursor.data, "0123456789") != cursor.len ||
            (cursor.len == 0 && places == 0))
            bad_token(p);
    }
    if (places > PLACES_MAX)
        bad_token(p);
    if (plan_failed(p))
        return;
    plan_call(p, &fn_stock_list_namespace, "-", NULL, places);
    plan_weighs(p, STORE_WEIGHT_MAX);
    args_stock_list_namespace(p, .prefix = request->prefix, .cursor = cursor, .page_size = step_of(page->size),
                              .node = w->node, .listed = walk_listed(p->arena, w));
    walk_place(w, p);
    for (size_t i = 0; i < places && !plan_failed(p); i++)
        add_place(p, part_until(&at, ':'));
}

static transfer_decide list_replied;

void list_items_prepare(const lks_list_items_request *request, plan *p)
{
    int32_t size = request->page_size != 0 ? request->page_size : PAGE_DEFAULT;
    transfer *t = transfer_in(p);

    plan_check_name_or_empty(p, "prefix", request->prefix);
    plan_check_range(p, "page_size", size, 1, PAGE_MAX);
    if (plan_failed(p))
        return;
    if (!t->kept) {
        listing *page = t->kept = memory_in(p->arena, sizeof *page);
        page->size = (size_t)size;
        stock_new_list(p->arena, &t->list, page->size);
        t->replied = list_replied;
    }
    if (request->group[0] != '\0')
        list_group(request, p, t, t->kept);
    else
        list_namespace(request, p, t->kept);
}

/* ---- a group ---- */

/* Called after the items of a step were added. */
static transfer_step step_added(answer *a, transfer *t)
{
    const listing *page = t->kept;

    if (page->more && t->list.n > page->before && t->list.n < page->size)
        return TRANSFER_CALL;
    return t->list.n == 0 ? transfer_ask_group(a, t) : TRANSFER_DONE;
}

static transfer_step step_looked(answer *a, transfer *t)
{
    const listing *page = t->kept;

    if (!transfer_look_is_done(t))
        return TRANSFER_LOOK;
    for (size_t i = 0; i < t->look.n_skus && t->list.n < page->size; i++) {
        lks_item *item = look_whole_item(a->arena, &t->look, t->group, i);
        if (item)
            t->list.items[t->list.n++] = item;
    }
    return step_added(a, t);
}

/* Reads {'OK', 1 if more follow, {sku, view}...}. For a group in buckets the pool names the items, and all buckets are
 * looked at. */
static transfer_step group_replied(answer *a, transfer *t)
{
    enum { HEAD = 2 };
    listing *page = t->kept;
    const store_value *reply = a->replies[0];
    const size_t count = answer_count(a, reply), n = count > HEAD ? count - HEAD : 0;
    const char **skus = memory_in(a->arena, n * sizeof *skus);

    page->more = answer_int(a, reply, 1) != 0;
    page->before = t->list.n;
    for (size_t i = 0; i < n && a->error.code == LKS_OK; i++) {
        const store_value *found = answer_at(a, reply, HEAD + i);
        skus[i] = answer_text(a, found, 0);
        if (t->n_buckets == 0 && t->list.n < page->size)
            t->list.items[t->list.n++] = stock_item(a, answer_at(a, found, 1), t->group, skus[i]);
    }
    return t->n_buckets > 0 && n > 0 ? transfer_look(t, skus, n, step_looked) : step_added(a, t);
}

/* ---- a namespace ---- */

/* Reads {'OK', next cursor, node, slots, {encoded group, sku, view}...}. Groups are encoded as in the keys. */
static transfer_step namespace_replied(answer *a, transfer *t)
{
    enum { HEAD = 4 };
    listing *page = t->kept;
    const store_value *reply = a->replies[0];
    const size_t size = (size_t)step_of(page->size), n = answer_count(a, reply);
    char *rest = memory_printf_in(a->arena, "N%s", answer_text(a, reply, 1));

    stock_new_list(a->arena, &t->list, n);
    for (size_t i = HEAD; i < n && a->error.code == LKS_OK; i++) {
        const store_value *found = answer_at(a, reply, i);
        char *group = answer_text(a, found, 0), *sku = answer_text(a, found, 1);
        unsigned n_buckets;
        if (t->list.n == size) {
            rest = memory_printf_in(a->arena, "%s:%s/%s", rest, group, plan_encode(a->arena, sku));
            continue;
        }
        char *name = plan_decode(a->arena, split_group(lks_rpc_slice_of(group), &n_buckets));
        if (n_buckets > 0)
            stock_list_bucketed(a->arena, &t->list, name, sku, n_buckets);
        else
            t->list.items[t->list.n++] = stock_item(a, answer_at(a, found, 2), name, sku);
    }
    page->token = (char *)walk_next(a->arena, page->walk, answer_text(a, reply, 2), answer_text(a, reply, 3),
                                    rest[1] != '\0' ? rest : "");
    return stock_look_at_list(a, t);
}

static transfer_step list_replied(answer *a, transfer *t)
{
    const lks_list_items_request *request = (const lks_list_items_request *)(const void *)t->request;

    return request->group[0] != '\0' ? group_replied(a, t) : namespace_replied(a, t);
}

void list_items_finish(const lks_list_items_request *request, answer *a, lks_list_items_response *response)
{
    const transfer *t = transfer_of(a);
    const listing *page = t->kept;

    response->items = memory_in(a->arena, t->list.n * sizeof *response->items);
    for (size_t i = 0; i < t->list.n; i++)
        if (t->list.items[i])
            response->items[response->n_items++] = t->list.items[i];
    if (request->group[0] == '\0')
        response->next_page_token = page->token;
    else if (page->more && t->list.n > 0)
        response->next_page_token =
            memory_printf_in(a->arena, "G%s", plan_encode(a->arena, t->list.items[t->list.n - 1]->sku));
}
