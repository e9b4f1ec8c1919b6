#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc.h"
#include "screen.h"

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

/* ---- lists ---------------------------------------------------------------------------- */

static int by_waiters(const void *a, const void *b)
{
    const lks_lock_summary *left = *(lks_lock_summary *const *)a, *right = *(lks_lock_summary *const *)b;

    if (left->waiters != right->waiters)
        return left->waiters > right->waiters ? -1 : 1;
    int order = strcmp(left->group, right->group);
    return order ? order : strcmp(left->name, right->name);
}

static int by_sku(const void *a, const void *b)
{
    const lks_item *left = *(lks_item *const *)a, *right = *(lks_item *const *)b;
    int order = strcmp(left->group, right->group);

    return order ? order : strcmp(left->sku, right->sku);
}

/* Returns NULL with the error, or after a stop. */
static ProtobufCMessage *read_list(const snapshot *s, const lks_rpc_method *method, ProtobufCMessage *asking,
                                   lks_error *error)
{
    const rpc_pages pages = {.rows = SNAPSHOT_ROWS_MAX, .n = PAGES_MAX, .stops = screen_is_over};
    ProtobufCMessage *list = NULL;

    if (!screen_is_over() && rpc_call(s->channel, method, asking, &pages, s->arena, &list, error) != LKS_OK)
        list = NULL;
    return list;
}

/* Cuts a list to the rows that are shown. Returns whether there are more. */
static bool cut(size_t *n, const char *next_page_token)
{
    bool more = *n > SNAPSHOT_ROWS_MAX || *next_page_token;

    *n = *n > SNAPSHOT_ROWS_MAX ? SNAPSHOT_ROWS_MAX : *n;
    return more;
}

static void take_lists(snapshot *s)
{
    lks_list_request locks = LKS_LIST_REQUEST_INIT;
    lks_list_items_request items = LKS_LIST_ITEMS_REQUEST_INIT;

    locks.prefix = items.prefix = s->prefix;
    locks.page_size = items.page_size = SNAPSHOT_ROWS_MAX;
    s->locks = (lks_list_response *)(void *)read_list(s, &lks_lock_list_method, &locks.base, &s->locks_error);
    s->items =
        (lks_list_items_response *)(void *)read_list(s, &lks_stock_list_items_method, &items.base, &s->items_error);
    s->more_locks = s->locks && cut(&s->locks->n_locks, s->locks->next_page_token);
    s->more_items = s->items && cut(&s->items->n_items, s->items->next_page_token);
    if (s->locks && s->locks->n_locks > 0)
        qsort(s->locks->locks, s->locks->n_locks, sizeof *s->locks->locks, by_waiters);
    if (s->items && s->items->n_items > 0)
        qsort(s->items->items, s->items->n_items, sizeof *s->items->items, by_sku);
}

/* ---- all ----------------------------------------------------------------------------- */

bool snapshot_take(snapshot *s)
{
    lks_rpc_arena_reset(s->arena);
    for (size_t i = 0; i < s->n_servers && !screen_is_over(); i++) {
        snapshot_server *one = &s->servers[i];
        one->server = one->store = probe_server(one->channel);
        if (!probe_is_down(&one->server) && !screen_is_over())
            one->store = probe_store(one->channel);
    }
    take_lists(s);
    s->at_ms = clock_unix_ms();
    return !screen_is_over();
}
