/* Invariant: `flags` is the only list of flags; defaults and --help come from it. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum flag_type { FLAG_TEXT, FLAG_NUMBER, FLAG_SECONDS, FLAG_RATE, FLAG_BOOL } flag_type;

typedef struct flag {
    const char *name;
    flag_type type;
    size_t offset;
    const char *initial; /* NULL: none */
    long min, max;
    const char *help;
} flag;

#define AT(member) offsetof(bench_options, member)
static const flag flags[] = {
    {"in-flight", FLAG_NUMBER, AT(in_flight), "256", 1, 65536,
     "calls under way at once; with --sync, threads. With --rate, on each connection before more wait in the client"},
    {"connections", FLAG_NUMBER, AT(connections), "1", 1, 1024, "channels, of one connection each"},
    {"items", FLAG_NUMBER, AT(items), "0", 0, 1000000, "items, names or keys of a scenario; 0 = as many as in flight"},
    {"seconds", FLAG_SECONDS, AT(seconds), "5", 0, 86400, "how long is measured; of each slice with --compare"},
    {"warm-up", FLAG_SECONDS, AT(warm_up), "0.5", 0, 3600, "how long it runs before that"},
    {"calls", FLAG_NUMBER, AT(calls), "0", 0, 1000000000,
     "operations to run instead, all of them measured; 0 = by time"},
    {"rate", FLAG_RATE, AT(rate), NULL, 0, 100000000,
     "operations a second to start, whatever the answers do; 10x = ten times the capacity, measured first.\n"
     "                       Latencies count from the moment at which an operation was due"},
    {"timeout-ms", FLAG_NUMBER, AT(timeout_ms), "5000", 1, 86400000, "deadline of a call"},
    {"sync", FLAG_BOOL, AT(sync), NULL, 0, 0, "a thread for each call in flight, which waits for it"},
    {"wire", FLAG_TEXT, AT(wire), "unix", 0, 0, "to a lockstockd of our own: tcp, unix, nng+tcp or nng+ws"},
    {"server", FLAG_TEXT, AT(server), NULL, 0, 0, "URLs of servers that run; else one of our own is started"},
    {"store", FLAG_TEXT, AT(store), NULL, 0, 0,
     "of a server of our own, or, for --compare and Redis' CPU, of --server's:\n"
     "                       redis://[user:pass@]host:port/db or unix:///path"},
    {"fsync", FLAG_TEXT, AT(fsync), "none", 0, 0,
     "of a store of our own: always, everysec, or none (no persistence at all)"},
    {"lockstockd", FLAG_TEXT, AT(lockstockd), NULL, 0, 0, "the program to start; else the one beside this, or in PATH"},
    {"compare", FLAG_BOOL, AT(compare), NULL, 0, 0, "with what a user would have instead, in slices that take turns"},
    {"rounds", FLAG_NUMBER, AT(rounds), "5", 1, 1000, "slices of each, for --compare and the table"},
    {"rows", FLAG_TEXT, AT(rows), NULL, 0, 0, "of the table: the numbers of those to measure, with commas"},
    {"json", FLAG_TEXT, AT(json), NULL, 0, 0, "also write the results to this file; - = to standard output, alone"},
    {"plot", FLAG_BOOL, AT(plot), NULL, 0, 0, "draw the distribution of the latencies"},
};
enum { N_FLAGS = sizeof flags / sizeof flags[0] };

static bool wrong(const char *what, const char *why)
{
    fprintf(stderr, "lockstock-bench: %s: %s\n", what, why);
    return false;
}

static bool set_real(const flag *f, bench_options *o, const char *text, double *ret)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(text, &end);
    if (f->type == FLAG_RATE && strcmp(end, "x") == 0) {
        o->rate_is_times = true;
        end++;
    }
    if (errno || end == text || *end != '\0' || !(number > 0) || number > (double)f->max)
        return wrong(f->name, "must be a positive number");
    *ret = number;
    return true;
}

static bool set(const flag *f, bench_options *o, const char *text)
{
    char *at = (char *)o + f->offset;
    char *end;
    char range[80];

    switch (f->type) {
    case FLAG_TEXT:
        *(const char **)(void *)at = text;
        return true;
    case FLAG_BOOL:
        *(bool *)at = true;
        return true;
    case FLAG_NUMBER:
        errno = 0;
        *(long *)(void *)at = strtol(text, &end, 10);
        snprintf(range, sizeof range, "must be a number from %ld to %ld", f->min, f->max);
        if (errno || end == text || *end != '\0' || *(long *)(void *)at < f->min || *(long *)(void *)at > f->max)
            return wrong(f->name, range);
        return true;
    default:
        return set_real(f, o, text, (double *)(void *)at);
    }
}

static bool is_one_of(const char *text, const char *const *of)
{
    for (; *of; of++)
        if (strcmp(text, *of) == 0)
            return true;
    return false;
}

static bool consistent(const bench_options *o)
{
    static const char *const wires[] = {"tcp", "unix", "nng+tcp", "nng+ws", NULL};
    static const char *const syncs[] = {"always", "everysec", "none", NULL};

    if (!is_one_of(o->wire, wires))
        return wrong("--wire", "must be tcp, unix, nng+tcp or nng+ws");
    if (!is_one_of(o->fsync, syncs))
        return wrong("--fsync", "must be always, everysec or none");
    if (o->sync && o->rate > 0)
        return wrong("--sync", "a thread that waits starts no calls in the meantime: not with --rate");
    if (o->compare && o->rate > 0)
        return wrong("--compare", "compares closed loops: not with --rate");
    if (o->compare && o->server && !o->store)
        return wrong("--compare", "with --server it needs --store, the Redis of that server");
    if (o->table && (o->server || o->n_scenarios > 0))
        return wrong("table", "stands alone, and starts servers of its own");
    return true;
}

options_action options_parse(int argc, char **argv, bench_options *ret)
{
    *ret = (bench_options){0};
    for (size_t i = 0; i < N_FLAGS; i++)
        if (flags[i].initial && !set(&flags[i], ret, flags[i].initial))
            return OPTIONS_WRONG;
    for (int i = 1; i < argc; i++) {
        const flag *f = NULL;
        const char *equals = strchr(argv[i], '=');
        size_t len = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        if (strcmp(argv[i], "--help") == 0)
            return OPTIONS_HELP;
        if (strncmp(argv[i], "--", 2) != 0) {
            if (strcmp(argv[i], "table") == 0)
                ret->table = true;
            else if (ret->n_scenarios < OPTIONS_SCENARIOS_MAX)
                ret->scenarios[ret->n_scenarios++] = argv[i];
            continue;
        }
        for (size_t k = 0; k < N_FLAGS; k++)
            if (strlen(flags[k].name) == len - 2 && memcmp(flags[k].name, argv[i] + 2, len - 2) == 0)
                f = &flags[k];
        const char *value = equals ? equals + 1 : NULL;
        if (!f)
            wrong(argv[i], "unknown flag; see --help");
        else if (f->type != FLAG_BOOL && !value && ++i == argc)
            wrong(argv[i - 1], "needs a value");
        else if (set(f, ret, value ? value : argv[i]))
            continue;
        return OPTIONS_WRONG;
    }
    return consistent(ret) ? OPTIONS_RUN : OPTIONS_WRONG;
}

void options_each(void (*visit)(void *arg, const options_row *row), void *arg)
{
    static const char *const forms[] = {[FLAG_TEXT] = "TEXT",
                                        [FLAG_NUMBER] = "NUMBER",
                                        [FLAG_SECONDS] = "SECONDS",
                                        [FLAG_RATE] = "NUMBER",
                                        [FLAG_BOOL] = ""};

    for (size_t i = 0; i < N_FLAGS; i++)
        visit(arg, &(options_row){flags[i].name, forms[flags[i].type], flags[i].initial, flags[i].help});
}

void options_print_help(void)
{
    printf("usage: lockstock-bench SCENARIO... [--flag value]...\n"
           "       lockstock-bench table [--rows 1,4] [--flag value]...\n\n"
           "Measures lockstockd: calls a second, latencies, CPU a call of client, server and Redis. Without\n"
           "--server it starts a server and a store of its own in a temporary directory.\n\n");
    for (size_t i = 0; i < N_FLAGS; i++)
        printf("  --%-18s %s%s%s%s\n", flags[i].name, flags[i].help, flags[i].initial ? " (" : "",
               flags[i].initial ? flags[i].initial : "", flags[i].initial ? ")" : "");
}
