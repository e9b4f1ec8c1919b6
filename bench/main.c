/* lockstock-bench: measures lockstockd, alone or compared with alternatives (docs/performance.md). Exit code: 0
 * measured, and all checks passed; 1 not; 2 invalid flags. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compare.h"

static bool run_scenario(const scenario *s, const bench_options *o, const place *p, json_t *results)
{
    bench_options options = *o;
    measure m = {0};
    world w;
    report r = {.options = &options, .world = &w, .measured = &m};

    bool good = world_open(&w, s, o, p);
    if (good && o->rate_is_times) {
        good = drive_capacity(o, &w, &m.all, &r.capacity);
        options.rate = o->rate * r.capacity;
    }
    good = good && drive_run(&options, &w, &m);
    if (good) {
        r.agrees = world_agrees(&w, &m.all);
        report_print(&r);
        if (o->plot)
            report_plot(&m);
        json_array_append_new(results, report_json(&r));
    }
    measure_clear(&m);
    world_close(&w);
    return good && r.agrees && !program_interrupted();
}

static bool run_scenarios(const bench_options *o, json_t *results)
{
    place p;
    bool good = place_open(o, o->fsync, &p);

    for (size_t i = 0; i < o->n_scenarios && good; i++)
        good = (o->compare ? compare_scenario : run_scenario)(scenario_find(o->scenarios[i]), o, &p, results);
    place_close(&p);
    return good;
}

static bool all_known(const bench_options *o)
{
    for (size_t i = 0; i < o->n_scenarios; i++)
        if (!scenario_find(o->scenarios[i])) {
            fprintf(stderr, "lockstock-bench: %s: no such scenario; see --help\n", o->scenarios[i]);
            return false;
        }
    bool asked = o->n_scenarios > 0 || o->table || o->scale;
    if (!asked)
        fprintf(stderr, "lockstock-bench: no scenario; see --help\n");
    return asked;
}

/* Opens the file, or standard output, to which nothing else is written then. */
static bool open_json(FILE **ret, const char *path)
{
    bool to_stdout = path && strcmp(path, "-") == 0;

    if (!path)
        return true;
    *ret = to_stdout ? fdopen(dup(STDOUT_FILENO), "w") : fopen(path, "we");
    if (*ret && (!to_stdout || freopen("/dev/null", "w", stdout)))
        return true;
    fprintf(stderr, "lockstock-bench: %s: %s\n", path, strerror(errno));
    return false;
}

int main(int argc, char **argv)
{
    bench_options o;
    FILE *file = NULL;

    switch (options_parse(argc, argv, &o)) {
    case OPTIONS_HELP:
        options_print_help();
        puts("\nscenarios:");
        for (unsigned i = 0; i < n_scenarios; i++)
            printf("  %-20s %s\n", scenarios[i].name, scenarios[i].what);
        return 0;
    case OPTIONS_INVALID:
        return 2;
    default:
        break;
    }
    if (!all_known(&o) || !open_json(&file, o.json))
        return 2;
    program_catch_signals();
    json_t *results = json_array();
    bool good = o.table ? table_run(&o, results) : o.scale ? scale_run(&o, results) : run_scenarios(&o, results);
    json_t *all = json_pack("{s:s, s:o}", "version", LOCKSTOCK_VERSION, o.table ? "rows" : "results", results);
    if (file) {
        good = json_dumpf(all, file, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0 && good;
        fputc('\n', file);
        good = fclose(file) == 0 && good;
    }
    json_decref(all);
    return good ? 0 : 1;
}
