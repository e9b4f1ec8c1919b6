/* lockstock status: each server by itself, whether it answers, and whether its store does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <lockstock/rpc/exchange.h>
#include <lockstock/v1/id.lks_client.h>
#include <lockstock/v1/lock.lks_client.h>

#include "cli.h"
#include "help.h"
#include "words.h"

typedef struct part {
    lks_code code;
    uint64_t took_ns;
} part;

/* What needs no store, and what does. Who may not read has been answered all the same. */
static part ask_server(lks_channel *channel, lks_error *error)
{
    lks_decode_request asking = LKS_DECODE_REQUEST_INIT;
    uint64_t began = lks_rpc_now_ns();

    asking.id = 1;
    lks_code code = lks_id_decode(channel, &asking, NULL, NULL, error);
    return (part){.code = code, .took_ns = lks_rpc_now_ns() - began};
}

static part ask_store(lks_channel *channel, lks_error *error)
{
    lks_inspect_request asking = LKS_INSPECT_REQUEST_INIT;
    uint64_t began = lks_rpc_now_ns();

    asking.name = "lockstock-status";
    lks_code code = lks_lock_inspect(channel, &asking, NULL, NULL, error);
    return (part){.code = code, .took_ns = lks_rpc_now_ns() - began};
}

static bool is_down(const part *p)
{
    return p->code == LKS_UNAVAILABLE || p->code == LKS_DEADLINE_EXCEEDED;
}

static void print_part(const part *p)
{
    char text[WORDS_BYTES];

    if (p->code == LKS_OK)
        snprintf(text, sizeof text, "up, %.1f ms", (double)p->took_ns / 1e6);
    else
        snprintf(text, sizeof text, "%s", is_down(p) ? "down" : lks_code_name(p->code));
    printf("  %-18s", text);
}

static exit_code print_json(const char *url, bool is_up, bool has_store)
{
    json_t *json = json_pack("{s:s, s:b, s:b}", "server", url, "up", is_up, "store", has_store);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    if (!text)
        return exits_wrong("--server", "cannot be written as JSON");
    printf("%s\n", text);
    free(text);
    return EXIT_DONE;
}

/* The URL alone, in a channel of its own. */
static exit_code ask(const cli *c, const char *url, int width)
{
    lks_error error = {0};
    lks_channel *channel = NULL;
    part server = {0}, store = {.code = LKS_UNAVAILABLE};
    cli one = *c;

    one.server = url;
    exit_code code = cli_open(&one, &channel);
    if (code != EXIT_DONE)
        return code;
    server = ask_server(channel, &error);
    if (!is_down(&server))
        store = ask_store(channel, &error);
    lks_channel_close(channel);
    if (c->json) {
        code = print_json(url, !is_down(&server), !is_down(&store));
        if (code != EXIT_DONE)
            return code;
    } else {
        printf("%-*s", width, url);
        print_part(&server);
        print_part(&store);
        printf("\n");
    }
    if (is_down(&server) || is_down(&store))
        return EXIT_UNAVAILABLE;
    return server.code != LKS_OK || store.code != LKS_OK ? EXIT_OTHER : EXIT_DONE;
}

exit_code status_command(cli *c, arguments *args)
{
    int width = (int)strlen("SERVER");
    exit_code worst;

    if (!cli_take_all(&(const option_set){0}, c, args, NULL))
        return EXIT_USAGE;
    if (c->help)
        return help_command("status");
    worst = cli_settle(c);
    char *urls = worst == EXIT_DONE ? lks_rpc_arena_copy(c->arena, c->server, strlen(c->server)) : NULL;
    if (!urls)
        return worst == EXIT_DONE ? EXIT_OTHER : worst;
    for (const char *url = urls; *url; url += strcspn(url, ",") + (url[strcspn(url, ",")] != '\0'))
        if ((int)strcspn(url, ",") > width)
            width = (int)strcspn(url, ",");
    if (!c->json)
        printf("%-*s  %-18s  %s\n", width, "SERVER", "STATE", "STORE");
    for (char *url; (url = strsep(&urls, ","));) {
        exit_code code = ask(c, url, width);
        if (code > worst)
            worst = code;
    }
    return worst;
}
