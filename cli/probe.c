#include "probe.h"

#include <stdio.h>
#include <string.h>

#include <lockstock/v1/id.lks_client.h>
#include <lockstock/v1/ratelimit.lks_client.h>

#include "base/clock.h"

probe probe_server(lks_channel *channel)
{
    lks_decode_request asking = LKS_DECODE_REQUEST_INIT;
    uint64_t began = clock_now_ns();
    probe p = {.took_ns = 0};

    asking.id = 1;
    lks_id_decode(channel, &asking, NULL, NULL, &p.error);
    p.took_ns = clock_now_ns() - began;
    return p;
}

probe probe_store(lks_channel *channel)
{
    lks_list_policies_request asking = LKS_LIST_POLICIES_REQUEST_INIT;
    uint64_t began = clock_now_ns();
    probe p = {.took_ns = 0};

    asking.page_size = 1;
    lks_rate_limit_list_policies(channel, &asking, NULL, NULL, &p.error);
    p.took_ns = clock_now_ns() - began;
    return p;
}

bool probe_is_down(const probe *p)
{
    return p->error.code == LKS_UNAVAILABLE || p->error.code == LKS_DEADLINE_EXCEEDED;
}

void probe_write(const probe *p, char text[WORDS_BYTES])
{
    if (p->error.code == LKS_OK)
        snprintf(text, WORDS_BYTES, "%.1f ms", (double)p->took_ns / 1e6);
    else
        snprintf(text, WORDS_BYTES, "%s", probe_is_down(p) ? "down" : lks_code_name(p->error.code));
}

exit_code probe_servers(const cli *c, probe_each *each, void *arg)
{
    char *urls = lks_rpc_arena_copy(c->arena, c->server, strlen(c->server));
    exit_code worst = urls ? EXIT_DONE : EXIT_OTHER;

    for (char *url; urls && (url = strsep(&urls, ","));) {
        lks_channel *channel = NULL;
        cli one = *c;
        one.server = url;
        exit_code code = cli_open(&one, &channel);
        if (code == EXIT_DONE)
            code = each(arg, url, &channel);
        lks_channel_close(channel);
        if (code > worst)
            worst = code;
    }
    return worst;
}
