/* `bench_flags` is the only list of flags: defaults, --help and the manual page come from it. */
#include "options.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(bench_options, member)
#define TEXT(name, member) name, OPTION_TEXT, AT(member), "TEXT"
#define CHOICE(name, member) name, OPTION_CHOICE, AT(member), "WORD"
#define BOOL(name, member) name, OPTION_BOOL, AT(member), NULL
#define NUMBER(name, member) name, OPTION_NUMBER, AT(member), "NUMBER"
#define SECONDS(name, member) name, OPTION_SECONDS, AT(member), "SECONDS"
const option bench_flags[] = {
    {NUMBER("in-flight", in_flight),
     "calls at once; with --sync, threads. With --rate, the calls of each connection before more wait in the client",
     "256", 1, 65536},
    {NUMBER("connections", connections), "channels, each of one connection", "1", 1, 1024},
    {NUMBER("servers", servers), "lockstockds to start on one store; connections are spread over them", "1", 1,
     OPTIONS_SERVERS_MAX},
    {NUMBER("items", items), "items, names or keys of a scenario, used in turn; 0 = as many as --in-flight", "0", 0,
     1000000},
    {SECONDS("seconds", seconds), "how long to measure; with --compare, each slice", "5", 0, 86400},
    {SECONDS("warm-up", warm_up), "how long to run before measuring", "0.5", 0, 3600},
    {NUMBER("calls", calls), "measure this many operations instead of --seconds; 0 = measure by time", "0", 0,
     1000000000},
    {"rate", OPTION_RATE, AT(rate), "NUMBER",
     "operations to start each second, whether or not earlier ones have ended; 10x = ten times the capacity,\n"
     "                       which is measured first. A latency counts from the time at which the operation was due",
     NULL, 0, 100000000},
    {NUMBER("timeout-ms", timeout_ms), "deadline of a call", "5000", 1, 86400000},
    {BOOL("sync", sync), "use a thread for each call in flight, which waits for the answer"},
    {CHOICE("wire", wire), "tcp, unix, grpc, nng+tcp or nng+ws: how to connect to the lockstockd that is started",
     "unix"},
    {TEXT("server", server), "URLs of running servers; without it, a server is started"},
    {TEXT("store", store),
     "store of the server that is started or, for --compare and the CPU of Redis, store of --server:\n"
     "                       redis://[user:pass@]host:port/db or unix:///path"},
    {CHOICE("fsync", fsync), "always, everysec or none: of the store that is started; none = no persistence", "none"},
    {TEXT("lockstockd", lockstockd), "program to start; without it, the one beside this program, or in PATH"},
    {BOOL("compare", compare), "compare with alternatives, in slices that take turns"},
    {NUMBER("rounds", rounds), "slices of each contender, for --compare and the table", "5", 1, 1000},
    {TEXT("rows", rows), "numbers of the rows of the table to measure, separated by commas"},
    {TEXT("json", json), "also write the results to this file; - = write them, and nothing else, to standard output"},
    {BOOL("plot", plot), "draw the distribution of the latencies"},
};
const size_t bench_flags_len = sizeof bench_flags / sizeof *bench_flags;

static bool invalid(const char *what, const char *why)
{
    fprintf(stderr, "lockstock-bench: %s: %s\n", what, why);
    return false;
}

static bool set(const option *f, bench_options *o, const char *what, const char *text)
{
    char why[OPTION_WHY_BYTES];

    if (!options_store(f, o, text, why))
        return invalid(what, why);
    if (f->type == OPTION_RATE)
        o->rate_is_times = text[strlen(text) - 1] == 'x';
    return true;
}

static bool consistent(const bench_options *o)
{
    const struct {
        bool is;
        const char *what, *why;
    } wrong[] = {
        {o->sync && o->rate > 0, "--sync", "cannot be combined with --rate: a thread that waits starts no calls"},
        {o->servers > o->connections, "--servers", "needs as many --connections at least"},
        {o->compare && o->rate > 0, "--compare", "cannot be combined with --rate: it compares closed loops"},
        {o->compare && o->server && !o->store, "--compare", "needs --store, the Redis of --server"},
        {o->table && (o->server || o->n_scenarios > 0), "table",
         "takes no scenario and no --server: it starts its own servers"},
        {o->scale && (o->server || o->store), "scale", "takes no --server and no --store: it starts its own"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (wrong[i].is)
            return invalid(wrong[i].what, wrong[i].why);
    return true;
}

static bool take_flag(bench_options *o, arguments *args, const argument *arg)
{
    const option *f = options_find(bench_flags, bench_flags_len, arg->name, arg->name_len);

    if (!f || !arguments_give(args, f))
        return invalid(arg->text, f ? "given more than once" : "unknown flag; see --help");
    const char *value = f->type == OPTION_BOOL && !arg->value ? "true" : arguments_value(args, arg);
    return value ? set(f, o, arg->text, value) : invalid(arg->text, "needs a value");
}

options_action options_parse(int argc, char **argv, bench_options *ret)
{
    arguments args = {.argc = argc, .argv = argv, .at = 1};
    argument arg;

    *ret = (bench_options){0};
    for (size_t i = 0; i < bench_flags_len; i++)
        if (bench_flags[i].initial && !set(&bench_flags[i], ret, bench_flags[i].name, bench_flags[i].initial))
            return OPTIONS_INVALID;
    while (arguments_next(&args, &arg)) {
        if (argument_is(&arg, "help"))
            return OPTIONS_HELP;
        if (arg.name && !take_flag(ret, &args, &arg))
            return OPTIONS_INVALID;
        if (!arg.name && strcmp(arg.text, "table") == 0)
            ret->table = true;
        else if (!arg.name && strcmp(arg.text, "scale") == 0)
            ret->scale = true;
        else if (!arg.name && ret->n_scenarios < OPTIONS_SCENARIOS_MAX)
            ret->scenarios[ret->n_scenarios++] = arg.text;
    }
    return consistent(ret) ? OPTIONS_RUN : OPTIONS_INVALID;
}

void options_print_help(void)
{
    printf("usage: lockstock-bench SCENARIO... [--flag value]...\n"
           "       lockstock-bench table [--rows 1,4] [--flag value]...\n"
           "       lockstock-bench scale [SCENARIO...] [--flag value]...\n\n"
           "Measures lockstockd: calls a second, latencies, and the CPU of client, server and Redis for each call.\n"
           "Without --server it starts a server and a store in a temporary directory.\n\n");
    for (size_t i = 0; i < bench_flags_len; i++)
        printf("  --%-18s %s%s%s%s\n", bench_flags[i].name, bench_flags[i].help, bench_flags[i].initial ? " (" : "",
               bench_flags[i].initial ? bench_flags[i].initial : "", bench_flags[i].initial ? ")" : "");
}
