/* What pages say of lockstockd. */
#include <stdio.h>

#include "config.h"
#include "scd.h"

/* Its help, its range and what it is without. */
static void print_setting(const config_row *row, const char *dashes)
{
    char name[128], help[1024];

    snprintf(name, sizeof name, "%s%s", dashes, row->name);
    snprintf(help, sizeof help, "%s\n\n%s%s%sDefault: %s", row->help, row->range[0] ? "From " : "", row->range,
             row->range[0] ? ". " : "", row->initial ? row->initial : "none");
    scd_item(name, row->form, help);
}

static void as_key(void *arg, const config_row *row)
{
    (void)arg;
    print_setting(row, "");
}

static void as_flag(void *arg, const config_row *row)
{
    (void)arg;
    print_setting(row, "--");
}

void man_settings(void)
{
    config_each(as_key, NULL);
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
    config_each(as_flag, NULL);
}
