/* lockstock stock ledger and lockstock stock watch: print changes of stock as they happen. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <lockstock/v1/stock.lks_client.h>

#include "answer.h"
#include "base/clock.h"
#include "commands.h"
#include "words.h"

enum { WAIT_MS = 30000, AFTER_BYTES = 2304 };

/* ---- the ledger ------------------------------------------------------------------- */

typedef struct ledger_flags {
    const char *group, *after;
    bool follow;
} ledger_flags;

static const option ledger_options[] = {
    {"group", OPTION_TEXT, offsetof(ledger_flags, group), "NAME", "the group; may be given without the flag"},
    {"after", OPTION_TEXT, offsetof(ledger_flags, after), "ID", "start after this entry; else at the oldest"},
    {"follow", OPTION_BOOL, offsetof(ledger_flags, follow), NULL, "wait for new entries"},
};
const command_flags flags_of_ledger = COMMAND_FLAGS(ledger_options, ledger_flags);

static void print_entry(const lks_ledger_entry *entry, bool json, lks_rpc_arena *arena)
{
    char clock[CLI_TIME_BYTES], kind[WORDS_BYTES];

    if (json) {
        answer_print_json(&entry->base, false, arena);
        return;
    }
    cli_write_time(entry->at_ms, clock);
    words_of_enum(&lockstock__v1__ledger_kind__descriptor, (int)entry->kind, kind);
    printf("%s.%03d  %-18s  %-9s  %8" PRId64 "  %-16s  %s%s%s\n", clock, (int)(entry->at_ms % 1000),
           answer_printable(entry->id, arena), kind, entry->quantity, answer_printable(entry->sku, arena),
           answer_printable(entry->order_id, arena), entry->reason[0] ? "  " : "",
           answer_printable(entry->reason, arena));
}

/* Prints a page of *n entries and moves `after` behind it. */
static exit_code print_page(const cli *c, lks_channel *channel, lks_read_ledger_request *asking,
                            char after[AFTER_BYTES], lks_rpc_arena *arena, size_t *n)
{
    lks_read_ledger_response *page = NULL;
    lks_error error;
    exit_code code = EXIT_DONE;

    if (lks_stock_read_ledger(channel, asking, NULL, &page, &error) != LKS_OK) {
        options_name_flag(ledger_options, flags_of_ledger.n, &error);
        return exits_failed(&error, true);
    }
    *n = page->n_entries;
    for (size_t i = 0; i < page->n_entries; i++)
        print_entry(page->entries[i], c->json, arena);
    if (*n > 0 && strcmp(after, page->next_after) == 0) {
        error_repeated_page(&error);
        code = exits_failed(&error, true);
    }
    snprintf(after, AFTER_BYTES, "%s", page->next_after);
    if (page->outcome != LKS_READ_LEDGER_OUTCOME_OK) {
        code = exits_refused("--after: entries after it were trimmed; the oldest entry is: ",
                             page->oldest_id[0] ? page->oldest_id : "none");
    }
    lks_read_ledger_response_free(page);
    return code;
}

static exit_code print_ledger(const cli *c, lks_channel *channel, const ledger_flags *flags)
{
    lks_read_ledger_request asking = LKS_READ_LEDGER_REQUEST_INIT;
    lks_rpc_arena *arena = lks_rpc_arena_new();
    char after[AFTER_BYTES] = "";
    exit_code code = arena ? EXIT_DONE : EXIT_OTHER;
    size_t n = 1;

    if (flags->after)
        snprintf(after, sizeof after, "%s", flags->after);
    asking.group = flags->group;
    asking.limit = 1000;
    asking.after = after;
    if (!c->json)
        printf("%-23s  %-18s  %-9s  %8s  %-16s  %s\n", "TIME", "ID", "KIND", "QUANTITY", "SKU", "ORDER");
    while (code == EXIT_DONE && (n > 0 || flags->follow)) {
        if (fflush(stdout) != 0)
            break;
        asking.wait_ms = flags->follow ? WAIT_MS : 0;
        code = print_page(c, channel, &asking, after, arena, &n);
        lks_rpc_arena_reset(arena);
    }
    lks_rpc_arena_free(arena);
    return code;
}

exit_code ledger_command(cli *c, const invocation *in)
{
    lks_channel *channel = NULL;
    exit_code code = cli_open(c, &channel);

    if (code == EXIT_DONE)
        code = print_ledger(c, channel, in->flags);
    lks_channel_close(channel);
    return code;
}

/* ---- one item --------------------------------------------------------------------- */

typedef struct watch_flags {
    const char *sku, *group;
    int64_t every;
} watch_flags;

static const option watch_options[] = {
    {"sku", OPTION_TEXT, offsetof(watch_flags, sku), "NAME", "the item; may be given without the flag"},
    {"group", OPTION_TEXT, offsetof(watch_flags, group), "NAME", "the group of the item; else the sku"},
    {"every", OPTION_DURATION, offsetof(watch_flags, every), "TIME", "interval (1s)"},
};
const command_flags flags_of_watch = COMMAND_FLAGS(watch_options, watch_flags);

static void print_item(const lks_item *item, bool json, lks_rpc_arena *arena)
{
    char clock[CLI_TIME_BYTES], state[WORDS_BYTES];
    int64_t now = clock_unix_ms();

    if (json) {
        answer_print_json(&item->base, false, arena);
        return;
    }
    cli_write_time(now, clock);
    words_of_enum(&lockstock__v1__item_state__descriptor, (int)item->state, state);
    printf("%s.%03d  %12" PRId64 "  %12" PRId64 "  %12" PRId64 "  %s\n", clock, (int)(now % 1000), item->available,
           item->reserved, item->sold, state);
}

static exit_code print_changes(const cli *c, lks_channel *channel, const watch_flags *flags, lks_rpc_arena *arena)
{
    const int64_t every = flags->every > 0 ? flags->every : 1000;
    const struct timespec pause = {.tv_sec = every / 1000, .tv_nsec = every % 1000 * 1000000};
    lks_get_item_request asking = LKS_GET_ITEM_REQUEST_INIT;
    lks_item last = {.version = 0};
    /* After the first answer the server may be away as long as with the ledger. */
    const lks_call_options patient = {.timeout_ms = c->timeout > WAIT_MS ? cli_ms(c->timeout) : WAIT_MS};
    bool first = true;

    asking.sku = flags->sku;
    asking.group = flags->group ? flags->group : "";
    if (!c->json)
        printf("%-23s  %12s  %12s  %12s  %s\n", "TIME", "AVAILABLE", "RESERVED", "SOLD", "STATE");
    do {
        lks_get_item_response *answer = NULL;
        lks_error error;
        if (lks_stock_get_item(channel, &asking, first ? NULL : &patient, &answer, &error) != LKS_OK) {
            options_name_flag(watch_options, flags_of_watch.n, &error);
            return exits_failed(&error, true);
        }
        const lks_item *item = answer->item;
        /* An expired hold changes `available` without a new version. */
        if (first || item->version != last.version || item->available != last.available || item->state != last.state)
            print_item(item, c->json, arena);
        lks_rpc_arena_reset(arena);
        first = false;
        last = *item;
        lks_get_item_response_free(answer);
    } while (fflush(stdout) == 0 && nanosleep(&pause, NULL) == 0);
    return EXIT_DONE;
}

exit_code watch_command(cli *c, const invocation *in)
{
    lks_rpc_arena *arena = lks_rpc_arena_new();
    lks_channel *channel = NULL;
    exit_code code = arena ? cli_open(c, &channel) : EXIT_OTHER;

    if (code == EXIT_DONE)
        code = print_changes(c, channel, in->flags, arena);
    lks_channel_close(channel);
    lks_rpc_arena_free(arena);
    return code;
}
