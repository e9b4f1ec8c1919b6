#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/lock.lks_client.h>
#include <lockstock/v1/stock.lks_client.h>

enum { PAGES_MAX = 16 }; /* a page that is not the last may be empty */

static exit_code open_server(void *arg, const char *url, lks_channel **channel)
{
    snapshot *s = arg;

    if (s->n_servers == SNAPSHOT_SERVERS_MAX)
        return exits_wrong("--server", "too many of them");
    s->servers[s->n_servers++] = (snapshot_server){.url = url, .channel = *channel};
    *channel = NULL;
    return EXIT_DONE;
}

exit_code snapshot_open(snapshot *s, const cli *c)
{
    s->arena = lks_rpc_arena_new();
    if (!s->arena)
        return EXIT_OTHER;
    exit_code code = cli_open(c, &s->channel);
    return code == EXIT_DONE ? probe_servers(c, open_server, s) : code;
}

void snapshot_close(snapshot *s)
{
    for (size_t i = 0; i < s->n_servers; i++)
        lks_channel_close(s->servers[i].channel);
    lks_channel_close(s->channel);
    lks_rpc_arena_free(s->arena);
}

/* Returns "" when out of memory. */
static const char *keep(const snapshot *s, const char *text)
{
    const char *kept = lks_rpc_arena_copy(s->arena, text, strlen(text));

    return kept ? kept : "";
}

/* ---- locks --------------------------------------------------------------------------- */

static int by_waiters(const void *a, const void *b)
{
    const snapshot_lock *left = a, *right = b;

    if (left->waiters != right->waiters)
        return left->waiters > right->waiters ? -1 : 1;
    int order = strcmp(left->group, right->group);
    return order ? order : strcmp(left->name, right->name);
}

static void take_locks(snapshot *s)
{
    lks_list_request asking = LKS_LIST_REQUEST_INIT;

    s->n_locks = 0;
    s->more_locks = false;
    asking.prefix = s->prefix;
    asking.page_size = SNAPSHOT_ROWS_MAX;
    for (int n = 0; n < PAGES_MAX && (n == 0 || *asking.page_token) && !s->stops(); n++) {
        lks_list_response *page = NULL;
        if (lks_lock_list(s->channel, &asking, NULL, &page, &s->locks_error) != LKS_OK)
            return;
        size_t i = 0;
        for (; i < page->n_locks && s->n_locks < SNAPSHOT_ROWS_MAX; i++) {
            const lks_lock_summary *from = page->locks[i];
            s->locks[s->n_locks++] = (snapshot_lock){.group = keep(s, from->group),
                                                     .name = keep(s, from->name),
                                                     .mode = from->mode,
                                                     .holders = from->holders,
                                                     .lease_ms = from->lease_ms,
                                                     .waiters = from->waiters};
        }
        asking.page_token = keep(s, page->next_page_token);
        s->more_locks = *asking.page_token || i < page->n_locks;
        lks_list_response_free(page);
        if (s->n_locks == SNAPSHOT_ROWS_MAX)
            break;
    }
    qsort(s->locks, s->n_locks, sizeof *s->locks, by_waiters);
}

/* ---- items --------------------------------------------------------------------------- */

static int by_sku(const void *a, const void *b)
{
    const snapshot_item *left = a, *right = b;
    int order = strcmp(left->group, right->group);

    return order ? order : strcmp(left->sku, right->sku);
}

static void take_items(snapshot *s)
{
    lks_list_items_request asking = LKS_LIST_ITEMS_REQUEST_INIT;

    s->n_items = 0;
    s->more_items = false;
    asking.prefix = s->prefix;
    asking.page_size = SNAPSHOT_ROWS_MAX;
    for (int n = 0; n < PAGES_MAX && (n == 0 || *asking.page_token) && !s->stops(); n++) {
        lks_list_items_response *page = NULL;
        if (lks_stock_list_items(s->channel, &asking, NULL, &page, &s->items_error) != LKS_OK)
            return;
        size_t i = 0;
        for (; i < page->n_items && s->n_items < SNAPSHOT_ROWS_MAX; i++) {
            const lks_item *from = page->items[i];
            s->items[s->n_items++] = (snapshot_item){.group = keep(s, from->group),
                                                     .sku = keep(s, from->sku),
                                                     .available = from->available,
                                                     .reserved = from->reserved,
                                                     .sold = from->sold,
                                                     .state = from->state};
        }
        asking.page_token = keep(s, page->next_page_token);
        s->more_items = *asking.page_token || i < page->n_items;
        lks_list_items_response_free(page);
        if (s->n_items == SNAPSHOT_ROWS_MAX)
            break;
    }
    qsort(s->items, s->n_items, sizeof *s->items, by_sku);
}

/* ---- all ----------------------------------------------------------------------------- */

bool snapshot_take(snapshot *s)
{
    lks_rpc_arena_reset(s->arena);
    for (size_t i = 0; i < s->n_servers && !s->stops(); i++) {
        snapshot_server *one = &s->servers[i];
        one->server = one->store = probe_server(one->channel);
        if (!probe_is_down(&one->server) && !s->stops())
            one->store = probe_store(one->channel);
    }
    take_locks(s);
    take_items(s);
    s->at_ms = cli_now_ms();
    return !s->stops();
}
