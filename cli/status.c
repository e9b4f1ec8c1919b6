/* lockstock status: each server by itself, whether it answers, and whether its store does; and why not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli.h"
#include "help.h"
#include "probe.h"
#include "words.h"

static void print_probe(const probe *p)
{
    char text[WORDS_BYTES];

    if (p->error.code == LKS_OK)
        snprintf(text, sizeof text, "up, %.1f ms", (double)p->took_ns / 1e6);
    else
        snprintf(text, sizeof text, "%s", probe_is_down(p) ? "down" : lks_code_name(p->error.code));
    printf("  %-18s", text);
}

/* why: NULL where nothing is wrong. */
static exit_code print_json(const char *url, bool is_up, bool has_store, const char *why)
{
    json_t *json = json_pack("{s:s, s:b, s:b, s:s*}", "server", url, "up", is_up, "store", has_store, "why", why);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    if (!text)
        return exits_wrong("--server", "cannot be written as JSON");
    printf("%s\n", text);
    free(text);
    return EXIT_DONE;
}

typedef struct asking {
    const cli *cli;
    int width; /* of the column of URLs */
} asking;

static exit_code ask(void *arg, const char *url, lks_channel **channel)
{
    const asking *a = arg;
    probe server = probe_server(*channel), store = server;
    exit_code code = EXIT_DONE;

    if (!probe_is_down(&server))
        store = probe_store(*channel);
    const lks_error *error = server.error.code != LKS_OK ? &server.error : &store.error;
    char why[sizeof error->message] = "";
    if (error->code != LKS_OK)
        words_printable(error->message, why, sizeof why);
    if (a->cli->json) {
        code = print_json(url, !probe_is_down(&server), !probe_is_down(&store), *why ? why : NULL);
    } else {
        printf("%-*s", a->width, url);
        print_probe(&server);
        print_probe(&store);
        printf("%s%s\n", *why ? "  " : "", why);
    }
    if (code != EXIT_DONE)
        return code;
    if (probe_is_down(&server) || probe_is_down(&store))
        return EXIT_UNAVAILABLE;
    return server.error.code != LKS_OK || store.error.code != LKS_OK ? EXIT_OTHER : EXIT_DONE;
}

exit_code status_command(cli *c, arguments *args)
{
    asking a = {.cli = c, .width = (int)strlen("SERVER")};

    if (!cli_take_all(&(const option_set){0}, c, args, NULL))
        return EXIT_USAGE;
    if (c->help)
        return help_command("status");
    exit_code code = cli_settle(c);
    if (code != EXIT_DONE)
        return code;
    for (const char *url = c->server; *url; url += strcspn(url, ",") + (url[strcspn(url, ",")] != '\0'))
        if ((int)strcspn(url, ",") > a.width)
            a.width = (int)strcspn(url, ",");
    if (!c->json)
        printf("%-*s  %-18s  %s\n", a.width, "SERVER", "STATE", "STORE");
    return probe_servers(c, ask, &a);
}
