/* What pages say of lockstock-bench. */
#include <stdio.h>

#include "bench/options.h"
#include "bench/scenario.h"
#include "scd.h"

static void flag(void *arg, const options_row *row)
{
    char name[128], help[1024];

    (void)arg;
    snprintf(name, sizeof name, "--%s", row->name);
    snprintf(help, sizeof help, "%s%s%s", row->help, row->initial ? "\n\nDefault: " : "",
             row->initial ? row->initial : "");
    scd_item(name, row->form, help);
}

void man_bench_flags(void)
{
    options_each(flag, NULL);
}

void man_bench_scenarios(void)
{
    for (unsigned i = 0; i < n_scenarios; i++)
        scd_item(scenarios[i].name, "", scenarios[i].what);
}
