/* Invariant: with lks_once nothing but the ledger and the records of the orders says what is done. By hand it is a
 * place in the ledger, which stands in a file beside the book. */
#include "settler.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/once.h>
#include <lockstock/v1/stock.lks_client.h>

#include "child.h"

enum { PAGE = 4, FOLLOW_MS = 60000, LEASE_MS = 400, LINE_SIZE = 160, ID_SIZE = 64 };

typedef struct settler {
    lks_channel *channel;
    const char *group, *book, *way, *point, *order; /* where it stops; order "" = nowhere */
    char place_path[512];
    char place[ID_SIZE]; /* in the ledger */
} settler;

typedef struct settling {
    settler *settler;
    const char *order;
    const char *how;
} settling;

static void halt_at(const settler *s, const char *point, const char *order)
{
    if (strcmp(s->point, point) != 0 || strcmp(s->order, order) != 0)
        return;
    printf("at %s\n", point);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    exit(EXIT_FAILURE); /* who would kill it is gone */
}

/* ---- the book ------------------------------------------------------------------------------- */

static bool has_booked(const settler *s, const char *order)
{
    FILE *book = fopen(s->book, "r");
    char line[LINE_SIZE];
    bool found = false;

    while (book && !found && fgets(line, sizeof line, book)) {
        line[strcspn(line, "\n")] = '\0';
        found = strcmp(line, order) == 0;
    }
    if (book)
        fclose(book);
    return found;
}

static bool write_line(const char *path, const char *mode, const char *line)
{
    FILE *file = fopen(path, mode);

    return file && fprintf(file, "%s\n", line) > 0 && fclose(file) == 0;
}

static bool book(const settler *s, const char *order)
{
    return write_line(s->book, "a", order);
}

/* ---- by lks_once ---------------------------------------------------------------------------- */

/* Whoever was here before may have died with the book written: then it is not written again. */
static lks_once_verdict settle_order(void *arg, lks_once_attempt *attempt)
{
    settling *one = arg;
    bool is_first = lks_once_number(attempt) == 1;

    halt_at(one->settler, SETTLER_BEGUN, one->order);
    if (!is_first && has_booked(one->settler, one->order)) {
        one->how = SETTLER_DID_FIND;
    } else {
        if (!book(one->settler, one->order))
            return LKS_ONCE_RETRY;
        one->how = is_first ? SETTLER_DID_BOOK : SETTLER_DID_BOOK_AGAIN;
    }
    halt_at(one->settler, SETTLER_BOOKED, one->order);
    return LKS_ONCE_STORE;
}

static bool settle_once(settler *s, const char *order, const char **how)
{
    settling one = {.settler = s, .order = order, .how = SETTLER_DID_NOTHING};
    const lks_once_options options = {.scope = s->group, .key = order, .lease_ms = LEASE_MS, .wait_ms = FOLLOW_MS};
    lks_error error = {0};
    lks_once_outcome outcome = lks_once_run(s->channel, &options, settle_order, &one, NULL, &error);

    if (outcome != LKS_ONCE_EXECUTED && outcome != LKS_ONCE_REPLAYED) {
        fprintf(stderr, "settling %s: %s: %s\n", order, lks_code_name(error.code), error.message);
        return false;
    }
    halt_at(s, SETTLER_STORED, order);
    *how = one.how;
    return true;
}

/* What is trimmed is done with. */
static bool trim(settler *s)
{
    lks_trim_ledger_request request = LKS_TRIM_LEDGER_REQUEST_INIT;

    request.group = s->group;
    request.up_to = s->place;
    return lks_stock_trim_ledger(s->channel, &request, NULL, NULL, NULL) == LKS_OK;
}

/* ---- by hand --------------------------------------------------------------------------------- */

static bool settle_by_hand(settler *s, const char *order, const char **how)
{
    bool books_first = strcmp(s->way, SETTLER_BOOKS_FIRST) == 0;

    if (!books_first && !write_line(s->place_path, "w", s->place))
        return false;
    halt_at(s, SETTLER_BEGUN, order);
    if (!book(s, order))
        return false;
    halt_at(s, SETTLER_BOOKED, order);
    *how = SETTLER_DID_BOOK;
    return !books_first || write_line(s->place_path, "w", s->place);
}

static void find_place(settler *s)
{
    FILE *file = fopen(s->place_path, "r");

    if (file) {
        if (fgets(s->place, sizeof s->place, file))
            s->place[strcspn(s->place, "\n")] = '\0';
        fclose(file);
    }
}

/* ---- following -------------------------------------------------------------------------------- */

/* All of a page, which is at its end the place. */
static bool settle_page(settler *s, const lks_read_ledger_response *page)
{
    bool by_once = strcmp(s->way, SETTLER_ONCE) == 0;

    for (size_t i = 0; i < page->n_entries; i++) {
        const lks_ledger_entry *entry = page->entries[i];
        const char *how = "";
        snprintf(s->place, sizeof s->place, "%s", entry->id);
        if (entry->kind != LKS_LEDGER_KIND_DEDUCTED)
            continue;
        if (!(by_once ? settle_once : settle_by_hand)(s, entry->order_id, &how))
            return false;
        printf("%s %s\n", entry->order_id, how);
        fflush(stdout);
    }
    return !by_once || page->n_entries == 0 || trim(s);
}

/* Returns when anything fails. */
static void follow(settler *s)
{
    lks_read_ledger_response *page = NULL;
    lks_error error = {0};
    bool good = true;

    while (good) {
        lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;
        request.group = s->group;
        request.after = s->place;
        request.limit = PAGE;
        request.wait_ms = FOLLOW_MS;
        good = lks_stock_read_ledger(s->channel, &request, NULL, &page, &error) == LKS_OK;
        if (good)
            good = page->outcome == LKS_READ_LEDGER_OUTCOME_OK && settle_page(s, page);
        else
            fprintf(stderr, "ReadLedger: %s: %s\n", lks_code_name(error.code), error.message);
        lks_read_ledger_response_free(page);
        page = NULL;
    }
}

int settler_main(int argc, char **argv)
{
    const lks_channel_options options = {.timeout_ms = FOLLOW_MS};
    lks_error error = {0};

    if (argc != 8 || !child_begin())
        return 2;
    settler s = {.group = argv[3], .book = argv[4], .way = argv[5], .point = argv[6], .order = argv[7]};
    snprintf(s.place_path, sizeof s.place_path, "%s.place", s.book);
    if (strcmp(s.way, SETTLER_ONCE) != 0)
        find_place(&s);
    if (lks_channel_open(argv[2], &options, &s.channel, &error) == LKS_OK)
        follow(&s);
    else
        fprintf(stderr, "seckill %s: %s\n", SETTLER_FLAG, error.message);
    lks_channel_close(s.channel);
    return EXIT_FAILURE;
}
