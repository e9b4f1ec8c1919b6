/* The parts of pages about lockstock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/commands.h"
#include "scd.h"

static void print_flags(const option *options, size_t n)
{
    char name[WORDS_BYTES + 4];

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "--%s", options[i].name);
        scd_item(name, options[i].form ? options[i].form : "", options[i].help);
    }
}

void man_commands(void)
{
    char service[WORDS_BYTES], name[WORDS_BYTES], before[WORDS_BYTES] = "";

    for (size_t i = 0; i < commands_len; i++) {
        printf("## %s\n\n*lockstock %s* ", commands[i].name, commands[i].name);
        scd_words(commands[i].usage);
        printf("\n\n");
        scd_text(commands[i].help, 0);
        printf("\n");
        if (commands[i].flags)
            print_flags(commands[i].flags->options, commands[i].flags->n);
        if (commands[i].method) {
            catalog_words(commands[i].method, service, name);
            printf("And the flags of *lockstock %s %s*, see *lockstock-%s*(7).\n\n", service, name, service);
        }
    }
    printf("## SERVICE METHOD\n\n*lockstock* _SERVICE_ _METHOD_ [_ARGUMENT_...]\n\n"
           "Calls a method. Each service has its own page, *lockstock-lock*(7) and so on.\n");
    for (size_t i = 0; i < catalog_len; i++) {
        const char *shorter = catalog_short(catalog[i]);
        catalog_words(catalog[i], service, name);
        if (strcmp(service, before) != 0)
            printf("\n*%s*: ", service);
        else
            printf(", ");
        strcpy(before, service);
        scd_words(name);
        if (shorter)
            printf(" (%s)", shorter);
    }
    printf("\n");
}

void man_flags(void)
{
    print_flags(cli_settings, cli_settings_len);
    print_flags(cli_flags, cli_flags_len);
}

void man_exits(void)
{
    for (size_t i = 0; i < exits_rows_len; i++) {
        char code[16];
        snprintf(code, sizeof code, "%d", (int)exits_rows[i].code);
        scd_item(code, "", exits_rows[i].meaning);
    }
}
