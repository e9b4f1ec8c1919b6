/* Invariant: what a round of this file asks for may be asked for again, by this call or another one, and is no effect of the
 * method: units only move, and each move has an id (functions/stock_moves.lua). */
#include "services/stock_buckets.h"

#include <string.h>

#include "base/hash.h"
#include "services/refusals.h"

/* Rounds of a call: under way units may always be a step ahead of who needs them. */
enum { TRIES_MAX = 200 };

stock_kept *stock_kept_of(plan *p)
{
    if (!p->kept)
        p->kept = memory_in(p->arena, sizeof(stock_kept));
    return p->kept;
}

static buckets *buckets_of(const answer *a)
{
    return &((stock_kept *)a->plan->kept)->buckets;
}

/* ---- which bucket ---- */

unsigned stock_bucket_of(const char *order_id, unsigned n)
{
    return 1 + (unsigned)(hash_folded(hash_more(HASH_START, order_id, strlen(order_id))) % n);
}

unsigned stock_bucket_name(unsigned bucket)
{
    /* Found by trying: name i differs from name 0 in the six highest bits of CRC16's slot by the bits of i in reverse. */
    static const uint16_t names[STOCK_BUCKETS_MAX] = {
        100, 102, 101, 103, 179, 322, 178, 323, 139, 362, 138, 363, 140, 142, 141, 143, 342, 119, 343, 118, 162, 160,
        163, 161, 122, 120, 123, 121, 302, 159, 303, 158, 108, 353, 109, 352, 171, 173, 170, 172, 131, 133, 130, 132,
        148, 313, 149, 312, 113, 111, 112, 110, 333, 168, 332, 169, 373, 128, 372, 129, 153, 151, 152, 150,
    };

    return bucket == 0 ? 0 : names[bucket - 1];
}

void stock_moves_call(plan *p, unsigned n, unsigned bucket)
{
    plan_moves_call(p, n, stock_bucket_name(bucket));
}

enum { KEY_PARTS = 2 };

static refusal_key key_of(const plan *p, const char *group, lks_rpc_slice part[KEY_PARTS])
{
    part[0] = p->ns;
    part[1] = lks_rpc_slice_of(group);
    return (refusal_key){.part = part, .n = KEY_PARTS};
}

static unsigned remembered(const plan *p, const char *group)
{
    const stock_memory *memory = p->state;
    lks_rpc_slice part[KEY_PARTS];

    if (!memory || !memory->any_buckets)
        return 0;
    refusal_key key = key_of(p, group, part);
    const refusal *known = refusals_find(memory->buckets, &key, p->now_ns);
    return known ? (unsigned)known->number[0] : 0;
}

static void remember(const answer *a, const char *group, unsigned n)
{
    stock_memory *memory = a->plan->state;
    lks_rpc_slice part[KEY_PARTS];

    if (!memory)
        return;
    refusal_key key = key_of(a->plan, group, part);
    const uint64_t until_ns = a->now_ns + STOCK_BUCKETS_KNOWN_NS;
    const refusal known = {.ask_ns = until_ns, .until_ns = until_ns, .number = {n}};
    if (n == 0)
        refusals_forget(memory->buckets, &key, a->now_ns);
    else
        refusals_put(memory->buckets, lks_rpc_slice_of(""), &key, &known, a->now_ns);
    memory->any_buckets |= n > 0;
}

buckets *stock_buckets_asked(plan *p, const char *group)
{
    buckets *b = &stock_kept_of(p)->buckets;

    b->group = group;
    b->known = true;
    return b;
}

buckets *stock_buckets(plan *p, const char *group)
{
    buckets *b = &stock_kept_of(p)->buckets;

    if (!b->known)
        b->n = remembered(p, group);
    return stock_buckets_asked(p, group);
}

void stock_call(plan *p, const plan_function *function, const char *group, const char *only, const char *order_id,
                size_t each_max)
{
    plan_call(p, function, group, only, each_max);
    if (plan_failed(p))
        return;
    const buckets *b = stock_buckets(p, group[0] == '\0' && only ? only : group);
    if (b->n > 0)
        stock_moves_call(p, b->n, order_id ? stock_bucket_of(order_id, b->n) : 0);
}

bool buckets_go_on(answer *a, buckets *b, service_next *next)
{
    if (a->error.code != LKS_OK)
        return true;
    if (++b->tries > TRIES_MAX)
        lks_error_set_reason(&a->error, LKS_UNAVAILABLE, b->applied ? LKS_APPLIED_MAYBE : LKS_APPLIED_NO,
                             LKS_REASON_BUSY, "units of %s move between its buckets all the time", b->group);
    else if (b->applied)
        answer_goes_on(a, next);
    else
        answer_again(a, next);
    return true;
}

unsigned buckets_told(answer *a, const store_value *reply)
{
    int64_t n = answer_int(a, reply, 1);

    if (n < STOCK_BUCKETS_MIN || n > STOCK_BUCKETS_MAX) {
        answer_at(a, reply, answer_count(a, reply));
        return STOCK_BUCKETS_MIN;
    }
    return (unsigned)n;
}

bool stock_is_elsewhere(answer *a)
{
    buckets *b = buckets_of(a);

    if (!b->known || a->n_replies == 0 || !answer_says(a->replies[0], "BUCKETED"))
        return false;
    b->n = buckets_told(a, a->replies[0]);
    b->certain = true;
    remember(a, b->group, b->n);
    return buckets_go_on(a, b, stock_ask_again);
}

bool stock_asks_group(answer *a)
{
    buckets *b = buckets_of(a);

    if (b->n == 0 || b->certain)
        return false;
    remember(a, b->group, 0);
    b->n = 0;
    return buckets_go_on(a, b, stock_ask_again);
}

/* ---- look ---- */

static bool looked(answer *a, buckets *b);

void buckets_plan_call(plan *p, const buckets *b, const plan_function *function, unsigned bucket, size_t each_max)
{
    p->prepares = true;
    plan_call(p, function, b->group, NULL, each_max);
    stock_moves_call(p, b->n, bucket);
}

void buckets_plan_look(plan *p, buckets *b, const char *const *skus, size_t n, bucket_step *then)
{
    b->skus = skus;
    b->n_skus = n;
    b->then = then;
    b->step = looked;
    for (unsigned k = 0; k <= b->n; k++) {
        buckets_plan_call(p, b, &fn_stock_look, k, n);
        plan_weighs(p, 1 + n / STOCK_LINES_OF_WEIGHT);
        for (size_t i = 0; i < n; i++)
            each_stock_look(p, .sku = skus[i]);
    }
}

static void look_again(const ProtobufCMessage *request, plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    buckets_plan_look(p, b, b->skus, b->n_skus, b->then);
}

bool buckets_look(answer *a, buckets *b, bucket_step *then)
{
    b->then = then;
    return buckets_go_on(a, b, look_again);
}

const bucket_item *buckets_seen(const buckets *b, size_t sku, unsigned bucket)
{
    return &b->seen[sku * (b->n + 1) + bucket];
}

/* functions/stock_moves.lua: view_here */
static bucket_item read_item(answer *a, const store_value *view)
{
    if (view->type == STORE_INTEGER)
        return (bucket_item){.exists = false, .version = view->integer};
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
        .born = answer_int(a, view, 8),
        .era = answer_int(a, view, 9),
        .opens = answer_int(a, view, 10),
        .closes = answer_int(a, view, 11),
        .retain = answer_int(a, view, 12),
    };
}

enum { MOVE_WORDS = 4 }; /* to, id, units, born */

static size_t count_moves(answer *a)
{
    size_t n = 0;

    for (size_t k = 0; k < a->n_replies; k++)
        for (size_t i = 1; i < answer_count(a, a->replies[k]); i++)
            n += answer_count(a, answer_at(a, a->replies[k], i)) / MOVE_WORDS;
    return n;
}

static void read_look(answer *a, buckets *b)
{
    b->seen = memory_in(a->arena, b->n_skus * (b->n + 1) * sizeof *b->seen);
    b->moves = memory_in(a->arena, count_moves(a) * sizeof *b->moves);
    b->n_moves = 0;
    for (unsigned k = 0; k <= b->n; k++)
        for (size_t i = 0; i < b->n_skus && a->error.code == LKS_OK; i++) {
            const store_value *found = answer_at(a, a->replies[k], 1 + i);
            size_t words = answer_count(a, found);
            b->seen[i * (b->n + 1) + k] = read_item(a, answer_at(a, found, 0));
            for (size_t at = 1; at + MOVE_WORDS <= words; at += MOVE_WORDS) {
                bucket_move m = {.sku = i,
                                 .from = k,
                                 .to = (unsigned)answer_int(a, found, at),
                                 .id = answer_int(a, found, at + 1),
                                 .units = answer_int(a, found, at + 2),
                                 .born = answer_int(a, found, at + 3)};
                if (m.to > b->n)
                    answer_at(a, found, words);
                b->moves[b->n_moves++] = m;
            }
        }
}

static bool looked(answer *a, buckets *b)
{
    for (size_t k = 0; k < a->n_replies; k++)
        if (answer_says(a->replies[k], "MORE")) {
            b->tries--; /* each gives back some */
            return buckets_look(a, b, b->then);
        }
    read_look(a, b);
    return a->error.code != LKS_OK || b->then(a, b);
}

/* ---- settle ---- */

/* Whether the bucket lacks the item, or its settings. */
static bool is_behind(const buckets *b, size_t sku, unsigned k)
{
    const bucket_item *pool = buckets_seen(b, sku, 0), *item = buckets_seen(b, sku, k);

    return k > 0 && pool->exists &&
           (!item->exists || item->born < pool->born || (item->born == pool->born && item->era < pool->era));
}

static void plan_set(const ProtobufCMessage *request, plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    for (size_t i = 0; i < b->n_skus; i++)
        for (unsigned k = 1; k <= b->n; k++)
            if (is_behind(b, i, k)) {
                const bucket_item *pool = buckets_seen(b, i, 0);
                buckets_plan_call(p, b, &fn_stock_set_bucket, k, 0);
                args_stock_set_bucket(p, .sku = b->skus[i], .made = pool->born, .set = pool->era,
                                      .buyer_limit = pool->limit, .opens = pool->opens, .closes = pool->closes,
                                      .retain = pool->retain);
            }
}

/* Whether the bucket has what the pool has deleted. */
static bool has_ended(const buckets *b, size_t sku, unsigned k)
{
    const bucket_item *pool = buckets_seen(b, sku, 0), *item = buckets_seen(b, sku, k);

    return k > 0 && !pool->exists && item->exists && item->born <= pool->version;
}

static void plan_drop(const ProtobufCMessage *request, plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    for (size_t i = 0; i < b->n_skus; i++)
        for (unsigned k = 1; k <= b->n; k++)
            if (has_ended(b, i, k)) {
                buckets_plan_call(p, b, &fn_stock_drop_bucket, k, 0);
                args_stock_drop_bucket(p, .sku = b->skus[i], .born = buckets_seen(b, i, 0)->version);
            }
}

static bool then_look(answer *a, buckets *b)
{
    return buckets_look(a, b, b->then);
}

static void plan_receive(const ProtobufCMessage *request, plan *p)
{
    const buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    for (size_t i = 0; i < b->n_moves; i++) {
        const bucket_move *m = &b->moves[i];
        buckets_plan_call(p, b, &fn_stock_receive, m->to, 0);
        args_stock_receive(p, .sku = b->skus[m->sku], .from = m->from, .to = m->to, .move_id = m->id, .units = m->units,
                           .move_born = m->born);
    }
}

/* Moves that have come; nobody waits for the replies. */
void buckets_plan_sent(plan *p)
{
    buckets *b = &stock_kept_of(p)->buckets;

    for (size_t i = 0; i < b->n_moves && b->came; i++) {
        const bucket_move *m = &b->moves[i];
        bool prepares = p->prepares;
        buckets_plan_call(p, b, &fn_stock_sent, m->from, 0);
        args_stock_sent(p, .sku = b->skus[m->sku], .to = m->to, .move_id = m->id);
        p->prepares = prepares;
    }
    b->came = false;
}

static void plan_sent(const ProtobufCMessage *request, plan *p)
{
    (void)request;
    p->prepares = true;
    buckets_plan_sent(p);
}

static bool received(answer *a, buckets *b)
{
    for (size_t i = 0; i < a->n_replies; i++)
        if (answer_says(a->replies[i], "NO_ITEM")) /* the pool's item is another one by now */
            return buckets_look(a, b, b->then);
    b->came = true;
    b->step = then_look;
    return buckets_go_on(a, b, plan_sent);
}

/* Moves to a bucket that has not got the item wait until it has; of an item that ended nothing comes. */
static bool is_any(const buckets *b, bool (*is)(const buckets *b, size_t sku, unsigned k))
{
    for (size_t i = 0; i < b->n_skus; i++)
        for (unsigned k = 1; k <= b->n; k++)
            if (is(b, i, k))
                return true;
    return false;
}

static void drop_lost_moves(buckets *b)
{
    size_t left = 0;

    for (size_t i = 0; i < b->n_moves; i++) {
        const bucket_move *m = &b->moves[i];
        const bucket_item *item = buckets_seen(b, m->sku, m->to);
        if (m->to == 0 || (item->exists && item->born >= m->born))
            b->moves[left++] = *m;
    }
    b->n_moves = left;
}

bool buckets_settle(answer *a, buckets *b)
{
    if (is_any(b, is_behind) || is_any(b, has_ended)) {
        b->step = then_look;
        return buckets_go_on(a, b, is_any(b, is_behind) ? plan_set : plan_drop);
    }
    drop_lost_moves(b);
    if (b->n_moves == 0)
        return false;
    b->step = received;
    return buckets_go_on(a, b, plan_receive);
}

/* ---- send ---- */

/* b->moves has what is to be sent: from, to, units. */
static void plan_send(const ProtobufCMessage *request, plan *p)
{
    const buckets *b = &stock_kept_of(p)->buckets;
    (void)request;

    for (size_t i = 0; i < b->n_moves; i++) {
        const bucket_move *m = &b->moves[i];
        buckets_plan_call(p, b, &fn_stock_send, m->from, 0);
        args_stock_send(p, .sku = b->skus[m->sku], .from = m->from, .to = m->to, .units = m->units, .born = m->born);
    }
}

/* {'SENT', id, units, born}, {'NONE'} */
static void read_sent(answer *a, buckets *b)
{
    size_t left = 0;

    for (size_t i = 0; i < b->n_moves && a->error.code == LKS_OK; i++) {
        bucket_move m = b->moves[i];
        if (!answer_says(a->replies[i], "SENT"))
            continue;
        m.id = answer_int(a, a->replies[i], 1);
        m.units = answer_int(a, a->replies[i], 2);
        m.born = answer_int(a, a->replies[i], 3);
        b->moves[left++] = m;
    }
    b->n_moves = left;
}

static bool sent(answer *a, buckets *b)
{
    read_sent(a, b);
    if (b->n_moves == 0)
        return buckets_look(a, b, b->then);
    b->step = received;
    return buckets_go_on(a, b, plan_receive);
}

static bool send_moves(answer *a, buckets *b, bucket_step *answered)
{
    b->step = answered;
    return buckets_go_on(a, b, plan_send);
}

static void add_move(buckets *b, size_t sku, unsigned from, unsigned to, int64_t units)
{
    b->moves[b->n_moves++] =
        (bucket_move){.sku = sku, .from = from, .to = to, .units = units, .born = buckets_seen(b, sku, 0)->born};
}

bool buckets_collect(answer *a, buckets *b, size_t sku, const int64_t *units, bucket_step *then)
{
    b->moves = memory_in(a->arena, (b->n + 1) * sizeof *b->moves);
    b->n_moves = 0;
    for (unsigned k = 0; k <= b->n; k++)
        if (units[k] > 0)
            add_move(b, sku, k, 0, units[k]);
    b->then = then;
    return send_moves(a, b, sent);
}

bool buckets_spread(answer *a, buckets *b, size_t sku, int64_t units, bucket_step *then)
{
    b->moves = memory_in(a->arena, (b->n + 1) * sizeof *b->moves);
    b->n_moves = 0;
    for (unsigned k = 1; k <= b->n; k++)
        add_move(b, sku, 0, k, units);
    b->then = then;
    return send_moves(a, b, sent);
}

/* ---- pull ---- */

static bool pull(answer *a, buckets *b);

/* The units have come: the method's call is made again, and tells the sources. */
static bool pulled(answer *a, buckets *b)
{
    for (size_t i = 0; i < a->n_replies; i++)
        if (answer_says(a->replies[i], "NO_ITEM"))
            return buckets_look(a, b, pull);
    b->came = true;
    return buckets_go_on(a, b, stock_ask_again);
}

static bool pull_sent(answer *a, buckets *b)
{
    read_sent(a, b);
    if (b->n_moves == 0)
        return buckets_look(a, b, pull);
    b->step = pulled;
    return buckets_go_on(a, b, plan_receive);
}

/* Whether a bucket has units of the item that the pool knows. */
static bool is_of(const bucket_item *pool, const bucket_item *item)
{
    return pool->exists && item->exists && item->born == pool->born;
}

int64_t buckets_available(const buckets *b, size_t sku, unsigned k)
{
    const bucket_item *item = buckets_seen(b, sku, k);

    return is_of(buckets_seen(b, sku, 0), item) ? item->available : 0;
}

static int64_t total_of(const buckets *b, size_t sku)
{
    int64_t total = 0;

    for (unsigned k = 0; k <= b->n; k++)
        total += buckets_available(b, sku, k);
    return total;
}

/* The bucket that has most of it, but for the one that wants it; the pool before others that have as much. */
static unsigned richest(const buckets *b, size_t sku)
{
    unsigned best = b->to == 0 ? 1 : 0;

    for (unsigned k = best + 1; k <= b->n; k++)
        if (k != b->to && buckets_available(b, sku, k) > buckets_available(b, sku, best))
            best = k;
    return best;
}

bool buckets_unchanged(answer *a, buckets *b)
{
    size_t n = b->n_skus * (b->n + 1);
    bool same = b->versions != NULL;

    if (!b->versions)
        b->versions = memory_in(a->arena, n * sizeof *b->versions);
    for (size_t i = 0; i < n; i++) {
        same = same && b->versions[i] == b->seen[i].version;
        b->versions[i] = b->seen[i].version;
    }
    return same;
}

static bool pull(answer *a, buckets *b)
{
    bool is_short = false;

    if (buckets_settle(a, b))
        return true;
    b->moves = memory_in(a->arena, b->n_skus * sizeof *b->moves);
    b->total = memory_in(a->arena, b->n_skus * sizeof *b->total);
    for (size_t i = 0; i < b->n_skus; i++) {
        int64_t here = buckets_available(b, i, b->to);
        int64_t wanted = b->wanted ? b->wanted[i] - here : b->missing;
        unsigned from = richest(b, i);
        int64_t there = buckets_available(b, i, from);
        b->total[i] = total_of(b, i);
        is_short |= b->total[i] - here < wanted;
        /* Half of what is there, so that the next order need not ask again. */
        if (wanted > 0 && there > 0)
            add_move(b, i, from, b->to, wanted > there / 2 ? wanted : there / 2);
    }
    if (is_short) {
        b->n_moves = 0;
        uint64_t asked_ns = b->asked_ns;
        b->asked_ns = a->plan->asked_ns;
        if (!buckets_unchanged(a, b))
            return buckets_look(a, b, pull);
        b->asked_ns = asked_ns;
        b->is_short = true;
        return false;
    }
    b->versions = NULL;
    return b->n_moves > 0 ? send_moves(a, b, pull_sent) : buckets_go_on(a, b, stock_ask_again);
}

bool buckets_pull(answer *a, buckets *b, unsigned to, const char *const *skus, const int64_t *wanted, size_t n)
{
    b->to = to;
    b->skus = skus;
    b->wanted = wanted;
    b->n_skus = n;
    b->versions = NULL;
    return buckets_look(a, b, pull);
}

/* ---- one item ---- */

/* What is under way counts as available: so on_hand, which the pool knows, is the sum at every moment. */
static int64_t available_of(const buckets *b, size_t sku)
{
    const bucket_item *pool = buckets_seen(b, sku, 0);
    int64_t available = pool->available + pool->sold;

    for (unsigned k = 1; k <= b->n; k++) {
        const bucket_item *item = buckets_seen(b, sku, k);
        if (is_of(pool, item))
            available -= item->reserved + item->sold;
    }
    return available;
}

bool buckets_fit(const buckets *b)
{
    for (size_t i = 0; i < b->n_skus; i++)
        if (buckets_seen(b, i, 0)->exists && available_of(b, i) < 0)
            return false;
    return true;
}

int64_t buckets_version(const buckets *b, size_t sku)
{
    const bucket_item *pool = buckets_seen(b, sku, 0);
    int64_t version = pool->version;

    for (unsigned k = 1; k <= b->n; k++) {
        const bucket_item *item = buckets_seen(b, sku, k);
        if (is_of(pool, item))
            version += item->version - item->born;
    }
    return version;
}

lks_item *buckets_item(answer *a, const buckets *b, size_t sku)
{
    const bucket_item *pool = buckets_seen(b, sku, 0);
    lks_item *item = memory_in(a->arena, sizeof *item);

    if (!pool->exists)
        return NULL;
    *item = (lks_item)LKS_ITEM_INIT;
    item->group = b->group;
    item->sku = b->skus[sku];
    item->available = available_of(b, sku) > 0 ? available_of(b, sku) : 0;
    for (unsigned k = 1; k <= b->n; k++) {
        const bucket_item *part = buckets_seen(b, sku, k);
        if (is_of(pool, part)) {
            item->reserved += part->reserved;
            item->sold += part->sold;
        }
    }
    item->version = buckets_version(b, sku);
    item->per_buyer_limit = pool->limit;
    item->state = pool->state;
    item->opens_in_ms = pool->opens_in_ms;
    item->closes_in_ms = pool->closes_in_ms;
    item->buckets = (int32_t)b->n;
    return item;
}
