/* StockService: ListItems. Invariant: a page token only says where to go on; it
 * cannot lead out of the namespace, for every key is made of the caller's own
 * namespace and encoded parts.
 *
 *   "G" sku                                after this sku of the group, encoded
 *   "N" cursor { ":" group "/" sku }...    a scan's cursor ("" = all keys were
 *                                          seen), and items found with no room
 *                                          left for them, encoded; in a token of
 *                                          walk.h
 */
#include <string.h>

#include "services/stock_buckets.h"
#include "services/walk.h"

enum {
    PAGE_DEFAULT = 100,
    PAGE_MAX = 1000,
    STEP_MAX = 250,   /* items that one call of a function lists */
    TRIES_MAX = 20,   /* looks at what does not fit together */
    PLACES_MAX = 500, /* in a page token: a step of a scan finds a few more than were asked for */
    CURSOR_DIGITS_MAX = 20,
};

/* The page so far: a group's is listed by several rounds. */
typedef struct listing {
    lks_item **items;
    size_t n, size;
    const walk *walk; /* of a namespace */
    /* Of a group in buckets, while they are looked at: the skus that the pool has named, and whether more follow. */
    const char **skus;
    bool looks, more;
    /* Of a namespace: how many buckets each item is in that is still to be looked at; which is; the next token. */
    unsigned *split;
    size_t at;
    char *token;
} listing;

static void bad_token(plan *p)
{
    plan_invalid(p, "page_token: not one that this method gave for such a request");
}

/* The text that `encoded` stands for; NULL when plan_encode would not give it. */
static char *decode(lks_rpc_arena *arena, lks_rpc_slice encoded)
{
    char *text = plan_decode(arena, encoded);
    const char *again = plan_encode(arena, text);

    if (strlen(again) != encoded.len || memcmp(again, encoded.data, encoded.len) != 0)
        return NULL;
    return text;
}

/* The bytes up to `end`, which *at then points behind; all when there is none. */
static lks_rpc_slice part_until(const char **at, char end)
{
    const char *start = *at;
    size_t len = strcspn(start, (const char[]){end, '\0'});

    *at = start + len + (start[len] == end);
    return (lks_rpc_slice){.data = start, .len = len};
}

/* Of a group as it stands in a token and in keys, "group", or "group/n/0", the pool of one in n buckets: the encoded group,
 * and n, else 0. */
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

/* Appends the place that a token has there, "group/sku", both encoded. */
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

static int32_t step_of(size_t size)
{
    return size < STEP_MAX ? (int32_t)size : STEP_MAX;
}

static void list_group(const lks_list_items_request *request, plan *p)
{
    const listing *page = stock_kept_of(p)->page;
    const char *after = "";
    int32_t step = step_of(page->size - page->n);

    if (page->n > 0) {
        after = page->items[page->n - 1]->sku;
    } else if (request->page_token[0] != '\0') {
        after = request->page_token[0] == 'G' ? decode(p->arena, lks_rpc_slice_of(request->page_token + 1)) : NULL;
        if (!after || after[0] == '\0')
            bad_token(p);
    }
    stock_call(p, &fn_stock_list_group, request->group, NULL, NULL, 0);
    plan_weighs(p, 1 + (size_t)step / STOCK_ITEMS_OF_WEIGHT);
    args_stock_list_group(p, .prefix = request->prefix, .after = after, .page_size = step);
}

/* The group only places the call: a scan sees all of them. */
static void list_namespace(const lks_list_items_request *request, plan *p)
{
    listing *page = stock_kept_of(p)->page;
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

static listing *new_listing(plan *p, int32_t size)
{
    listing *page = memory_in(p->arena, sizeof *page);

    *page = (listing){.items = memory_in(p->arena, (size_t)size * sizeof *page->items), .size = (size_t)size};
    return page;
}

void list_items_prepare(const lks_list_items_request *request, plan *p)
{
    int32_t size = request->page_size != 0 ? request->page_size : PAGE_DEFAULT;

    plan_check_name_or_empty(p, "prefix", request->prefix);
    plan_check_range(p, "page_size", size, 1, PAGE_MAX);
    if (!plan_failed(p) && !stock_kept_of(p)->page)
        stock_kept_of(p)->page = new_listing(p, size);
    if (plan_failed(p))
        return;
    if (request->group[0] != '\0')
        list_group(request, p);
    else
        list_namespace(request, p);
}

static void list_items_next(const ProtobufCMessage *request, plan *p)
{
    list_items_prepare((const lks_list_items_request *)(const void *)request, p);
}

/* After a look at items of the page. */
static bool seen(answer *a, buckets *b)
{
    return !buckets_fit(b) && b->tries % TRIES_MAX != 0 && buckets_look(a, b, seen);
}

/* The pool has named the items of a step: all buckets are looked at. */
static void look_at_step(answer *a, listing *page)
{
    const store_value *reply = a->replies[0];
    buckets *b = &((stock_kept *)a->plan->kept)->buckets;
    size_t n = answer_count(a, reply);

    page->more = answer_int(a, reply, 1) != 0;
    page->skus = memory_in(a->arena, n * sizeof *page->skus);
    b->n_skus = 0;
    for (size_t i = 2; i < n; i++)
        page->skus[b->n_skus++] = answer_text(a, answer_at(a, reply, i), 0);
    b->skus = page->skus;
    page->looks = b->n_skus > 0;
    if (page->looks)
        buckets_look(a, b, seen);
}

static void add_step(const lks_list_items_request *request, answer *a, listing *page)
{
    const store_value *reply = a->replies[0];
    const buckets *b = &((stock_kept *)a->plan->kept)->buckets;
    size_t n = page->looks ? b->n_skus : answer_count(a, reply) - 2;

    for (size_t i = 0; i < n && page->n < page->size && a->error.code == LKS_OK; i++) {
        const store_value *found = page->looks ? NULL : answer_at(a, reply, 2 + i);
        lks_item *item = page->looks ? buckets_item(a, b, i)
                                     : stock_item(a, answer_at(a, found, 1), request->group, answer_text(a, found, 0));
        if (item)
            page->items[page->n++] = item;
    }
}

static void finish_group(const lks_list_items_request *request, answer *a, lks_list_items_response *response)
{
    const buckets *b = &((stock_kept *)a->plan->kept)->buckets;
    listing *page = ((stock_kept *)a->plan->kept)->page;
    size_t before = page->n;

    if (b->n > 0 && !page->looks) {
        look_at_step(a, page);
        if (page->looks)
            return;
    }
    if (!page->looks)
        page->more = answer_int(a, a->replies[0], 1) != 0;
    add_step(request, a, page);
    page->looks = false;
    if (page->more && page->n > before && page->n < page->size) {
        answer_again(a, list_items_next);
        return;
    }
    if (page->n == 0 && stock_asks_group(a))
        return;
    response->items = page->items;
    response->n_items = page->n;
    if (a->error.code == LKS_OK && page->more && page->n > 0)
        response->next_page_token =
            memory_printf_in(a->arena, "G%s", plan_encode(a->arena, page->items[page->n - 1]->sku));
}

/* Groups come encoded, as they stand in the keys. */
static void read_namespace(answer *a, listing *page)
{
    const store_value *reply = a->replies[0];
    size_t size = (size_t)step_of(page->size);
    size_t n = answer_count(a, reply);

    page->token = memory_printf_in(a->arena, "N%s", answer_text(a, reply, 1));
    page->items = memory_in(a->arena, n * sizeof *page->items);
    page->split = memory_in(a->arena, n * sizeof *page->split);
    for (size_t i = 4; i < n && a->error.code == LKS_OK; i++) {
        const store_value *found = answer_at(a, reply, i);
        char *group = answer_text(a, found, 0);
        char *sku = answer_text(a, found, 1);
        if (page->n == size) {
            page->token = memory_printf_in(a->arena, "%s:%s/%s", page->token, group, plan_encode(a->arena, sku));
        } else {
            lks_rpc_slice name = split_group(lks_rpc_slice_of(group), &page->split[page->n]);
            page->items[page->n++] = stock_item(a, answer_at(a, found, 2), plan_decode(a->arena, name), sku);
        }
    }
    page->token = (char *)walk_next(a->arena, page->walk, answer_text(a, reply, 2), answer_text(a, reply, 3),
                                    page->token[1] != '\0' ? page->token : "");
}

/* The next item that is in buckets is looked at. False: there is none. */
static bool look_at_next(answer *a, listing *page)
{
    buckets *b = &((stock_kept *)a->plan->kept)->buckets;

    for (size_t i = 0; i < page->n && a->error.code == LKS_OK; i++)
        if (page->split[i] > 0) {
            page->at = i;
            *b = (buckets){.group = page->items[i]->group,
                           .n = page->split[i],
                           .skus = (const char *const *)&page->items[i]->sku,
                           .n_skus = 1};
            return buckets_look(a, b, seen);
        }
    return false;
}

static void finish_namespace(answer *a, lks_list_items_response *response)
{
    listing *page = ((stock_kept *)a->plan->kept)->page;
    const buckets *b = &((stock_kept *)a->plan->kept)->buckets;

    if (b->n == 0) {
        read_namespace(a, page);
    } else {
        page->items[page->at] = buckets_item(a, b, 0);
        page->split[page->at] = 0;
    }
    if (look_at_next(a, page))
        return;
    response->items = memory_in(a->arena, page->n * sizeof *response->items);
    for (size_t i = 0; i < page->n; i++)
        if (page->items[i])
            response->items[response->n_items++] = page->items[i];
    response->next_page_token = page->token;
}

void list_items_finish(const lks_list_items_request *request, answer *a, lks_list_items_response *response)
{
    if (stock_goes_on(a))
        return;
    if (request->group[0] != '\0')
        finish_group(request, a, response);
    else
        finish_namespace(a, response);
}
