/* The parts of pages about lockstockd and lockstock-bench. */
#include <stdio.h>

#include "bench/options.h"
#include "bench/scenario.h"
#include "config.h"
#include "scd.h"

/* Writes the help, the range and the default. */
static void print_setting(const option *row, const char *dashes, const char *of_bool)
{
    const char *form = row->form;
    char name[128], range[96] = "", help[1024];

    snprintf(name, sizeof name, "%s%s", dashes, row->name);
    if (row->type == OPTION_NUMBER)
        snprintf(range, sizeof range, "From %lld to %lld. ", (long long)row->min, (long long)row->max);
    if (row->type == OPTION_BOOL)
        form = of_bool;
    snprintf(help, sizeof help, "%s\n\n%sDefault: %s", row->help, range, row->initial ? row->initial : "none");
    scd_item(name, form, help);
}

void man_settings(void)
{
    for (size_t i = 0; i < config_keys_len; i++)
        print_setting(&config_keys[i], "", "true|false");
}

static void action(void *arg, const char *flag, const char *help)
{
    (void)arg;
    scd_item(flag, "", help);
}

void man_server_flags(void)
{
    config_each_action(action, NULL);
    scd_item("--config", "FILE", "a file of settings, lockstockd.conf(5)");
    for (size_t i = 0; i < config_keys_len; i++)
        print_setting(&config_keys[i], "--", "true|false");
}

void man_bench_flags(void)
{
    for (size_t i = 0; i < bench_flags_len; i++)
        print_setting(&bench_flags[i], "--", "");
}

void man_bench_scenarios(void)
{
    for (unsigned i = 0; i < n_scenarios; i++)
        scd_item(scenarios[i].name, "", scenarios[i].what);
}
