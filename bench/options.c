/* Invariant: `bench_flags` is the only list of flags; defaults and --help come from it. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(bench_options, member)
const setting bench_flags[] = {
    {"in-flight", KEY_NUMBER, AT(in_flight), "256", 1, 65536,
     "calls under way at once; with --sync, threads. With --rate, on each connection before more wait in the client"},
    {"connections", KEY_NUMBER, AT(connections), "1", 1, 1024, "channels, of one connection each"},
    {"items", KEY_NUMBER, AT(items), "0", 0, 1000000, "items, names or keys of a scenario; 0 = as many as in flight"},
    {"seconds", KEY_SECONDS, AT(seconds), "5", 0, 86400, "how long is measured; of each slice with --compare"},
    {"warm-up", KEY_SECONDS, AT(warm_up), "0.5", 0, 3600, "how long it runs before that"},
    {"calls", KEY_NUMBER, AT(calls), "0", 0, 1000000000,
     "operations to run instead, all of them measured; 0 = by time"},
    {"rate", KEY_RATE, AT(rate), NULL, 0, 100000000,
     "operations a second to start, whatever the answers do; 10x = ten times the capacity, measured first.\n"
     "                       Latencies count from the moment at which an operation was due"},
    {"timeout-ms", KEY_NUMBER, AT(timeout_ms), "5000", 1, 86400000, "deadline of a call"},
    {"sync", KEY_BOOL, AT(sync), NULL, 0, 0, "a thread for each call in flight, which waits for it"},
    {"wire", KEY_CHOICE, AT(wire), "unix", 0, 0, "tcp, unix, nng+tcp or nng+ws: to a lockstockd of our own"},
    {"server", KEY_TEXT, AT(server), NULL, 0, 0, "URLs of servers that run; else one of our own is started"},
    {"store", KEY_TEXT, AT(store), NULL, 0, 0,
     "of a server of our own, or, for --compare and Redis' CPU, of --server's:\n"
     "                       redis://[user:pass@]host:port/db or unix:///path"},
    {"fsync", KEY_CHOICE, AT(fsync), "none", 0, 0,
     "always, everysec or none: of a store of our own; none is no persistence at all"},
    {"lockstockd", KEY_TEXT, AT(lockstockd), NULL, 0, 0, "the program to start; else the one beside this, or in PATH"},
    {"compare", KEY_BOOL, AT(compare), NULL, 0, 0, "with what a user would have instead, in slices that take turns"},
    {"rounds", KEY_NUMBER, AT(rounds), "5", 1, 1000, "slices of each, for --compare and the table"},
    {"rows", KEY_TEXT, AT(rows), NULL, 0, 0, "of the table: the numbers of those to measure, with commas"},
    {"json", KEY_TEXT, AT(json), NULL, 0, 0, "also write the results to this file; - = to standard output, alone"},
    {"plot", KEY_BOOL, AT(plot), NULL, 0, 0, "draw the distribution of the latencies"},
};
const size_t bench_flags_len = sizeof bench_flags / sizeof *bench_flags;

static bool wrong(const char *what, const char *why)
{
    fprintf(stderr, "lockstock-bench: %s: %s\n", what, why);
    return false;
}

/* `what` is the flag as it was given. */
static bool set(const setting *f, bench_options *o, const char *what, const char *text)
{
    char why[SETTING_WHY_BYTES];

    if (!setting_takes(f, text, why))
        return wrong(what, why);
    if (f->type == KEY_TEXT || f->type == KEY_CHOICE)
        *(const char **)(void *)((char *)o + f->offset) = text;
    else
        setting_fill(f, o, text);
    if (f->type == KEY_RATE)
        o->rate_is_times = text[strlen(text) - 1] == 'x';
    return true;
}

static bool consistent(const bench_options *o)
{
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
    for (size_t i = 0; i < bench_flags_len; i++)
        if (bench_flags[i].initial && !set(&bench_flags[i], ret, bench_flags[i].name, bench_flags[i].initial))
            return OPTIONS_WRONG;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value;
        if (strcmp(arg, "--help") == 0)
            return OPTIONS_HELP;
        if (strncmp(arg, "--", 2) != 0) {
            if (strcmp(arg, "table") == 0)
                ret->table = true;
            else if (ret->n_scenarios < OPTIONS_SCENARIOS_MAX)
                ret->scenarios[ret->n_scenarios++] = arg;
            continue;
        }
        const setting *f = setting_of_flag(bench_flags, bench_flags_len, arg, &value);
        if (f && !value)
            value = f->type == KEY_BOOL ? "true" : i + 1 < argc ? argv[++i] : NULL;
        if (!f)
            wrong(arg, "unknown flag; see --help");
        else if (!value)
            wrong(arg, "needs a value");
        else if (set(f, ret, arg, value))
            continue;
        return OPTIONS_WRONG;
    }
    return consistent(ret) ? OPTIONS_RUN : OPTIONS_WRONG;
}

void options_print_help(void)
{
    printf("usage: lockstock-bench SCENARIO... [--flag value]...\n"
           "       lockstock-bench table [--rows 1,4] [--flag value]...\n\n"
           "Measures lockstockd: calls a second, latencies, CPU a call of client, server and Redis. Without\n"
           "--server it starts a server and a store of its own in a temporary directory.\n\n");
    for (size_t i = 0; i < bench_flags_len; i++)
        printf("  --%-18s %s%s%s%s\n", bench_flags[i].name, bench_flags[i].help, bench_flags[i].initial ? " (" : "",
               bench_flags[i].initial ? bench_flags[i].initial : "", bench_flags[i].initial ? ")" : "");
}
