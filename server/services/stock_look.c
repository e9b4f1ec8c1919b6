/* Invariant: units under way count as available, so the sum of available, reserved and sold is the pool's on_hand. */
#include "services/stock_look.h"

#include "memory.h"

const bucket_item *look_item(const bucket_look *look, size_t sku, unsigned bucket)
{
    return &look->items[sku * (look->n_buckets + 1) + bucket];
}

/* ---- reading ---- */

/* functions/stock_base.lua: view */
static bucket_item read_view(answer *a, const store_value *view)
{
    return (bucket_item){
        .exists = true,
        .available = answer_int(a, view, 0),
        .reserved = answer_int(a, view, 1),
        .sold = answer_int(a, view, 2),
        .version = answer_int(a, view, 3),
        .limit = answer_int(a, view, 4),
        .state = (lks_item_state)answer_enum(a, view, 5, &lockstock__v1__item_state__descriptor),
        .opens_in_ms = answer_int(a, view, 6),
        .closes_in_ms = answer_int(a, view, 7),
    };
}

/* functions/stock_moves.lua: view_here */
static bucket_item read_bucket_item(answer *a, const store_value *view, bool in_pool)
{
    if (view->type == STORE_INTEGER)
        return (bucket_item){.exists = false, .version = view->integer};
    bucket_item item = read_view(a, view);
    if (in_pool) {
        item.lent = item.sold;
        item.sold = 0;
    }
    item.born = answer_int(a, view, 8);
    item.era = answer_int(a, view, 9);
    item.opens = answer_int(a, view, 10);
    item.closes = answer_int(a, view, 11);
    item.retain = answer_int(a, view, 12);
    return item;
}

enum { MOVE_WORDS = 4 }; /* to, id, units, born */

static size_t count_moves(answer *a, unsigned n_buckets)
{
    size_t n = 0;

    for (unsigned k = 0; k <= n_buckets; k++)
        for (size_t i = 1; i < answer_count(a, a->replies[k]); i++)
            n += answer_count(a, answer_at(a, a->replies[k], i)) / MOVE_WORDS;
    return n;
}

/* found: the item, then the words of each move that is under way from bucket k. */
static void read_moves(answer *a, const bucket_look *look, size_t sku, unsigned k, const store_value *found,
                       bucket_moves *moves)
{
    const size_t words = answer_count(a, found);

    for (size_t at = 1; at + MOVE_WORDS <= words; at += MOVE_WORDS) {
        const bucket_move m = {.sku = sku,
                               .from = k,
                               .to = (unsigned)answer_int(a, found, at),
                               .id = answer_int(a, found, at + 1),
                               .units = answer_int(a, found, at + 2),
                               .born = answer_int(a, found, at + 3)};
        if (m.to > look->n_buckets)
            answer_at(a, found, words); /* no such bucket: an unexpected reply */
        moves->move[moves->n++] = m;
    }
}

static void note_changes(bucket_look *look, const bucket_item *before, uint64_t asked_ns)
{
    const size_t n = look->n_skus * (look->n_buckets + 1);

    look->unchanged = before != NULL;
    for (size_t i = 0; i < n && look->unchanged; i++)
        look->unchanged = before[i].version == look->items[i].version;
    if (!look->unchanged)
        look->since_ns = asked_ns;
}

bucket_moves look_read(bucket_look *look, answer *a)
{
    const unsigned n = look->n_buckets + 1;
    const bucket_item *before = look->items;
    bucket_moves moves = {.move = memory_in(a->arena, count_moves(a, look->n_buckets) * sizeof *moves.move)};

    look->items = memory_in(a->arena, look->n_skus * n * sizeof *look->items);
    for (unsigned k = 0; k < n; k++)
        for (size_t i = 0; i < look->n_skus && a->error.code == LKS_OK; i++) {
            const store_value *found = answer_at(a, a->replies[k], 1 + i);
            look->items[i * n + k] = read_bucket_item(a, answer_at(a, found, 0), k == 0);
            read_moves(a, look, i, k, found, &moves);
        }
    note_changes(look, before, a->plan->asked_ns);
    return moves;
}

/* ---- sums ---- */

/* Whether a bucket's item is the one that the pool has, not a deleted one. */
static bool is_of(const bucket_item *pool, const bucket_item *item)
{
    return pool->exists && item->exists && item->born == pool->born;
}

int64_t look_available(const bucket_look *look, size_t sku, unsigned bucket)
{
    const bucket_item *item = look_item(look, sku, bucket);

    return is_of(look_item(look, sku, 0), item) ? item->available : 0;
}

int64_t look_total(const bucket_look *look, size_t sku)
{
    int64_t total = 0;

    for (unsigned k = 0; k <= look->n_buckets; k++)
        total += look_available(look, sku, k);
    return total;
}

/* Returns the pool's item with the counts of all buckets added. */
static bucket_item sum_of(const bucket_look *look, size_t sku)
{
    const bucket_item *pool = look_item(look, sku, 0);
    bucket_item sum = *pool;

    sum.available += pool->lent;
    for (unsigned k = 1; k <= look->n_buckets; k++) {
        const bucket_item *item = look_item(look, sku, k);
        if (!is_of(pool, item))
            continue;
        sum.available -= item->reserved + item->sold;
        sum.reserved += item->reserved;
        sum.sold += item->sold;
        sum.version += item->version - item->born;
    }
    return sum;
}

int64_t look_version(const bucket_look *look, size_t sku)
{
    return sum_of(look, sku).version;
}

bool look_fits(const bucket_look *look)
{
    for (size_t i = 0; i < look->n_skus; i++)
        if (look_item(look, i, 0)->exists && sum_of(look, i).available < 0)
            return false;
    return true;
}

bool look_found_any(const bucket_look *look)
{
    for (size_t i = 0; i < look->n_skus; i++)
        if (look_item(look, i, 0)->exists)
            return true;
    return false;
}

static lks_item *new_item(lks_rpc_arena *arena, const char *group, const char *sku, const bucket_item *of)
{
    lks_item *item = memory_in(arena, sizeof *item);

    *item = (lks_item)LKS_ITEM_INIT;
    item->group = group;
    item->sku = sku;
    item->available = of->available > 0 ? of->available : 0;
    item->reserved = of->reserved;
    item->sold = of->sold;
    item->version = of->version;
    item->per_buyer_limit = of->limit;
    item->state = of->state;
    item->opens_in_ms = of->opens_in_ms;
    item->closes_in_ms = of->closes_in_ms;
    return item;
}

lks_item *stock_item(answer *a, const store_value *view, const char *group, const char *sku)
{
    const bucket_item item = read_view(a, view);

    return new_item(a->arena, group, sku, &item);
}

lks_item *look_whole_item(lks_rpc_arena *arena, const bucket_look *look, const char *group, size_t sku)
{
    if (!look_item(look, sku, 0)->exists)
        return NULL;
    const bucket_item sum = sum_of(look, sku);
    lks_item *item = new_item(arena, group, look->skus[sku], &sum);
    item->buckets = (int32_t)look->n_buckets;
    return item;
}
