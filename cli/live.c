/* lockstock watch: prints servers, locks and items repeatedly: a table at a terminal, else rows. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "answer.h"
#include "commands.h"
#include "screen.h"
#include "snapshot.h"
#include "base/duration.h"
#include "words.h"

enum { CALL_MS = 1000, EVERY_MS = 1000, LINE_BYTES = 512, NAME_BYTES = 300 };

typedef struct live_flags {
    const char *prefix;
    int64_t every, times;
} live_flags;

static const option options[] = {
    {"prefix", OPTION_TEXT, offsetof(live_flags, prefix), "TEXT", "show only locks and items with this prefix"},
    {"every", OPTION_DURATION, offsetof(live_flags, every), "TIME", "interval (1s)"},
    {"times", OPTION_NUMBER, offsetof(live_flags, times), "N", "stop after N; else run until it is ended"},
};
const command_flags flags_of_live = COMMAND_FLAGS(options, live_flags);

/* ---- cells --------------------------------------------------------------------------- */

/* Writes "GROUP/NAME", or "NAME" if both are equal. */
static void name_of(const char *group, const char *name, char to[NAME_BYTES])
{
    char whole[NAME_BYTES];

    if (strcmp(group, name) == 0 || !*group)
        snprintf(whole, sizeof whole, "%s", name);
    else
        snprintf(whole, sizeof whole, "%s/%s", group, name);
    words_printable(whole, to, NAME_BYTES);
}

/* At a terminal, names are cut to the columns that the other cells leave. In rows they are not cut. */
enum { WIDTH_MIN = 24, OTHER_COLUMNS = 48, WHOLE = NAME_BYTES };

/* Cuts or pads a text to a width. */
static void pad(const char *text, size_t width, char *to, size_t size)
{
    size_t least = width == WHOLE ? WIDTH_MIN : width, n = words_fitting(text, width);

    snprintf(to, size, "%.*s", (int)n, text);
    size_t used = words_width(to), len = strlen(to);
    for (; used < least && len + 1 < size; used++)
        to[len++] = ' ';
    to[len] = '\0';
}

static void server_line(const snapshot_server *one, size_t width, char line[LINE_BYTES])
{
    char name[NAME_BYTES], url[NAME_BYTES], server[WORDS_BYTES], store[WORDS_BYTES];

    words_printable(one->url, url, sizeof url);
    pad(url, width, name, sizeof name);
    probe_write(&one->server, server);
    probe_write(&one->store, store);
    snprintf(line, LINE_BYTES, "%s  %-18.40s %.40s", name, server, store);
}

static void lock_line(const snapshot *s, size_t i, size_t width, char line[LINE_BYTES])
{
    const lks_lock_summary *one = s->locks->locks[i];
    char name[NAME_BYTES], whole[NAME_BYTES], mode[WORDS_BYTES], lease[WORDS_BYTES];

    name_of(one->group, one->name, whole);
    pad(whole, width, name, sizeof name);
    words_of_enum(&lockstock__v1__lock_mode__descriptor, (int)one->mode, mode);
    duration_write(one->lease_ms, lease);
    snprintf(line, LINE_BYTES, "%s  %-10.20s %8" PRId64 " %8" PRId64 "  %.20s", name, mode, one->holders, one->waiters,
             lease);
}

static void item_line(const snapshot *s, size_t i, size_t width, char line[LINE_BYTES])
{
    const lks_item *one = s->items->items[i];
    char name[NAME_BYTES], whole[NAME_BYTES], state[WORDS_BYTES];

    name_of(one->group, one->sku, whole);
    pad(whole, width, name, sizeof name);
    words_of_enum(&lockstock__v1__item_state__descriptor, (int)one->state, state);
    snprintf(line, LINE_BYTES, "%s  %10" PRId64 " %10" PRId64 " %10" PRId64 "  %.20s", name, one->available,
             one->reserved, one->sold, state);
}

/* A list of the snapshot. */
typedef struct section {
    const char *kind, *heading; /* the heading after the name */
    void (*line)(const snapshot *s, size_t i, size_t width, char line[LINE_BYTES]);
    size_t n;
    bool more;
    const lks_error *error;
} section;

enum { SECTIONS = 2 };

static void sections_of(const snapshot *s, section ret[SECTIONS])
{
    ret[0] = (section){"lock",        "  MODE        HOLDERS  WAITERS  LEASE",
                       lock_line,     s->locks ? s->locks->n_locks : 0,
                       s->more_locks, &s->locks_error};
    ret[1] = (section){"item",        "   AVAILABLE   RESERVED       SOLD  STATE",
                       item_line,     s->items ? s->items->n_items : 0,
                       s->more_items, &s->items_error};
}

/* ---- the table ----------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void print_line(void (*to)(const char *line), const char *format, ...)
{
    char line[LINE_BYTES], shown[LINE_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    words_printable(line, shown, sizeof shown);
    to(shown);
}

/* Returns how many of n fit into `rows`. If not all fit, one row tells how many are left out. */
static size_t fit(const section *list, size_t rows)
{
    size_t beside = rows > 0 ? rows - 1 : 0;

    return list->n + list->more <= rows || list->n < beside ? list->n : beside;
}

static void draw_section(const snapshot *s, const section *list, size_t rows, size_t width)
{
    size_t shown = fit(list, rows);
    char line[LINE_BYTES], kind[8];

    snprintf(kind, sizeof kind, "%s", list->kind);
    words_upper(kind);
    screen_line("");
    print_line(screen_heading, "%-*s%s", (int)width, kind, list->heading);
    if (list->error->code != LKS_OK)
        print_line(screen_line, "  %s", list->error->message);
    for (size_t i = 0; i < shown; i++) {
        list->line(s, i, width, line);
        screen_line(line);
    }
    if (shown < list->n || list->more)
        print_line(screen_line, "  and %s%zu more", list->more ? "at least " : "",
                   list->n - shown + (list->more ? 1 : 0));
}

static void draw(const snapshot *s, int64_t every)
{
    char line[LINE_BYTES], clock[CLI_TIME_BYTES], pause[WORDS_BYTES];
    section lists[SECTIONS];
    size_t rows, columns, taken = 6 + s->n_servers; /* four headings, two empty lines, servers, errors */

    sections_of(s, lists);
    screen_size(&rows, &columns);
    for (size_t i = 0; i < SECTIONS; i++)
        taken += lists[i].error->code != LKS_OK;
    /* Each list gets half of the remaining rows, and those that the other list does not need. */
    size_t left = rows > taken ? rows - taken : 0, n_locks = lists[0].n + lists[0].more;
    size_t n_items = lists[1].n + lists[1].more, for_locks = left / 2;
    if (n_items < left - for_locks)
        for_locks = left - n_items;
    else if (n_locks < for_locks)
        for_locks = n_locks;
    size_t width = columns > WIDTH_MIN + OTHER_COLUMNS ? columns - OTHER_COLUMNS : WIDTH_MIN;

    cli_write_time(s->at_ms, clock);
    duration_write(every, pause);
    screen_begin();
    print_line(screen_line, "lockstock watch   %s   every %s   q quit", clock, pause);
    print_line(screen_heading, "%-*s  %-18s %s", (int)width, "SERVER", "CALL", "STORE");
    for (size_t i = 0; i < s->n_servers; i++) {
        server_line(&s->servers[i], width, line);
        screen_line(line);
    }
    draw_section(s, &lists[0], for_locks, width);
    draw_section(s, &lists[1], left - for_locks, width);
    screen_end();
}

/* Returns the exit code for a snapshot. */
static exit_code exit_of(const snapshot *s)
{
    const lks_error *error = s->locks_error.code != LKS_OK ? &s->locks_error : &s->items_error;

    return error->code != LKS_OK ? exits_failed(error, true) : EXIT_DONE;
}

static exit_code show(snapshot *s, const live_flags *flags)
{
    bool last = false;

    screen_enter();
    for (int64_t n = 1; !last && snapshot_take(s); n++) {
        draw(s, flags->every);
        last = n == flags->times;
        if (!last)
            screen_wait(flags->every);
    }
    screen_leave();
    return last ? exit_of(s) : EXIT_DONE;
}

/* ---- rows ---------------------------------------------------------------------------- */

static void print_row(const char *line)
{
    printf("%s\n", line);
}

static void print_rows(const snapshot *s)
{
    char line[LINE_BYTES], clock[CLI_TIME_BYTES];
    section lists[SECTIONS];

    cli_write_time(s->at_ms, clock);
    for (size_t i = 0; i < s->n_servers; i++) {
        server_line(&s->servers[i], WHOLE, line);
        printf("%s  server  %s\n", clock, line);
    }
    sections_of(s, lists);
    for (const section *list = lists; list < lists + SECTIONS; list++) {
        if (list->error->code != LKS_OK)
            print_line(print_row, "%s  %s    %s", clock, list->kind, list->error->message);
        for (size_t i = 0; i < list->n; i++) {
            list->line(s, i, WHOLE, line);
            printf("%s  %s    %s\n", clock, list->kind, line);
        }
        if (list->more)
            printf("%s  %s    and more\n", clock, list->kind);
    }
}

/* Milliseconds, or null without an answer. */
static json_t *json_of(const probe *p)
{
    return p->error.code == LKS_OK ? json_real((double)p->took_ns / 1e6) : json_null();
}

static void replace_by_null(json_t **value)
{
    json_decref(*value);
    *value = json_null();
}

static exit_code print_json(const snapshot *s)
{
    json_t *servers = json_array(), *locks = json_array(), *items = json_array();
    char mode[WORDS_BYTES];
    bool good = servers && locks && items;

    for (size_t i = 0; i < s->n_servers && good; i++)
        good = json_array_append_new(servers, json_pack("{s:s, s:o, s:o}", "server", s->servers[i].url, "call_ms",
                                                        json_of(&s->servers[i].server), "store_ms",
                                                        json_of(&s->servers[i].store))) == 0;
    for (size_t i = 0; s->locks && i < s->locks->n_locks && good; i++) {
        const lks_lock_summary *one = s->locks->locks[i];
        words_of_enum(&lockstock__v1__lock_mode__descriptor, (int)one->mode, mode);
        good = json_array_append_new(locks,
                                     json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "group", one->group, "name", one->name,
                                               "mode", mode, "holders", (json_int_t)one->holders, "waiters",
                                               (json_int_t)one->waiters, "lease_ms", (json_int_t)one->lease_ms)) == 0;
    }
    for (size_t i = 0; s->items && i < s->items->n_items && good; i++) {
        const lks_item *one = s->items->items[i];
        words_of_enum(&lockstock__v1__item_state__descriptor, (int)one->state, mode);
        good = json_array_append_new(items, json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "group", one->group, "sku",
                                                      one->sku, "available", (json_int_t)one->available, "reserved",
                                                      (json_int_t)one->reserved, "sold", (json_int_t)one->sold, "state",
                                                      mode)) == 0;
    }
    /* A list that could not be read is null, not empty. */
    if (!s->locks)
        replace_by_null(&locks);
    if (!s->items)
        replace_by_null(&items);
    json_t *all =
        json_pack("{s:I, s:o, s:o, s:o, s:b, s:b}", "at_ms", (json_int_t)s->at_ms, "servers", servers, "locks", locks,
                  "items", items, "more_locks", (int)s->more_locks, "more_items", (int)s->more_items);
    if (!good)
        json_decref(all);
    return answer_print_line(good ? all : NULL, 6);
}

static exit_code repeat(snapshot *s, const live_flags *flags, bool json)
{
    const struct timespec pause = {.tv_sec = flags->every / 1000, .tv_nsec = flags->every % 1000 * 1000000};

    for (int64_t n = 1;; n++) {
        snapshot_take(s);
        if (!json)
            print_rows(s);
        else if (print_json(s) != EXIT_DONE)
            return EXIT_OTHER;
        if (fflush(stdout) != 0)
            return EXIT_DONE; /* main prints the error */
        if (n == flags->times)
            return exit_of(s);
        nanosleep(&pause, NULL);
    }
}

exit_code live_command(cli *c, const invocation *in)
{
    live_flags flags = *(const live_flags *)in->flags;
    snapshot *s = calloc(1, sizeof *s);

    if (!s)
        return EXIT_OTHER;
    if (c->timeout == 0)
        c->timeout = CALL_MS; /* a server that is down delays the others only briefly */
    if (flags.every == 0)
        flags.every = EVERY_MS;
    s->prefix = flags.prefix ? flags.prefix : "";
    exit_code code = snapshot_open(s, c);
    if (code == EXIT_DONE && screen_is_there() && !c->json)
        code = show(s, &flags);
    else if (code == EXIT_DONE)
        code = repeat(s, &flags, c->json);
    snapshot_close(s);
    free(s);
    return code;
}
