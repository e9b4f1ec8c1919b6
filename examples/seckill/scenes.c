/* Buyers may be behind a bad network; what they were told is always checked past
 * it, on a channel of its own. */
#include "scenes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos_proxy.h"
#include "patience.h"

enum { PATIENCE_MS = 60000 };

const sale_scene scenes[] = {
    {"a", "each buyer is a thread", {2, 500, 1000, PATIENCE_MS}, false, sell_by_threads},
    {"b", "each buyer is an asynchronous call", {1, 100, 10000, PATIENCE_MS}, false, sell_by_async},
    {"c", "every reply is lost once", {1, 500, 1000, PATIENCE_MS}, true, sell_by_async},
    {NULL, NULL, {0, 0, 0, 0}, false, NULL},
};

/* The proxy connects to this machine only. */
static unsigned short local_port(const char *url)
{
    static const char prefix[] = "tcp://127.0.0.1:";
    unsigned long port = strncmp(url, prefix, sizeof prefix - 1) == 0 ? strtoul(url + sizeof prefix - 1, NULL, 10) : 0;

    return port <= UINT16_MAX ? (unsigned short)port : 0;
}

static chaos_proxy *start_proxy(const char *url, lks_error *error)
{
    static const chaos_fault lost_once = {.which = CHAOS_REPLY_LOST, .times = CHAOS_ALWAYS, .first_of_call = true};
    unsigned short port = local_port(url);
    chaos_proxy *proxy = port != 0 ? chaos_proxy_start(port, &lost_once, 1) : NULL;

    if (!proxy) {
        lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO, "%s",
                      port != 0 ? "the proxy cannot be started" : "this scene needs a server at tcp://127.0.0.1:PORT");
    }
    return proxy;
}

/* Lost replies must have been asked for again, and the sold ones given again. */
static void check_losses(const flash_sale *sale, scene_report *report)
{
    sale_result *result = &report->result;

    if (result->exact && (report->replies_lost < sale->n_buyers || result->replayed != result->sold)) {
        snprintf(result->why, sizeof result->why, "%" PRIu64 " replies lost, %zu of %zu sales replayed",
                 report->replies_lost, result->replayed, result->sold);
        result->exact = false;
    }
}

lks_code scene_run(const sale_scene *scene, const char *url, const sale_plan *plan, scene_report *report,
                   lks_error *error)
{
    lks_channel *direct = NULL, *buyers = NULL;
    chaos_proxy *proxy = NULL;
    flash_sale sale = {0};

    *report = (scene_report){0};
    lks_code code = lks_channel_open(url, NULL, &direct, error);
    if (code != LKS_OK)
        goto cleanup;
    if (scene->loses_replies) {
        proxy = start_proxy(url, error);
        if (!proxy) {
            code = error->code;
            goto cleanup;
        }
        code = lks_channel_open(chaos_proxy_url(proxy), NULL, &buyers, error);
        if (code != LKS_OK)
            goto cleanup;
    }
    code = sale_open(direct, plan, &sale, error);
    if (code != LKS_OK)
        goto cleanup;
    int64_t start_ms = clock_ms();
    if (!scene->sell(&sale, buyers ? buyers : direct, &report->result)) {
        code = lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "%s", report->result.why);
        goto cleanup;
    }
    report->elapsed_ms = clock_ms() - start_ms;
    code = sale_check(&sale, direct, &report->result, error);
    if (code == LKS_OK && proxy) {
        report->replies_lost = chaos_proxy_hits(proxy);
        check_losses(&sale, report);
    }
cleanup:
    sale_close(&sale);
    lks_channel_close(buyers);
    lks_channel_close(direct);
    chaos_proxy_stop(proxy);
    return code;
}

void scene_print(const sale_scene *scene, const sale_plan *plan, const scene_report *report)
{
    const sale_result *result = &report->result;

    char buyers[COUNT_TEXT_MAX], bought[COUNT_TEXT_MAX], sold_out[COUNT_TEXT_MAX], no_answer[COUNT_TEXT_MAX],
        later[COUNT_TEXT_MAX];

    printf("scene %s: %s buyers, %s\n", scene->name, count_text(plan->n_buyers, buyers), scene->title);
    printf("  %-8s %8s %8s %8s %16s  %s\n", "good", "stock", "sold", "left", "distinct orders", "exact");
    for (size_t i = 0; i < plan->n_goods; i++) {
        const good_result *good = &result->goods[i];
        char name[32];
        snprintf(name, sizeof name, "good-%zu", i);
        printf("  %-8s %8" PRId64 " %8" PRId64 " %8" PRId64 " %16zu  %s\n", name, plan->stock, good->sold, good->left,
               good->orders, good->exact ? "yes" : "NO");
    }
    printf("  %s buyers: %s bought, %s were told sold out, %s without an answer; in %" PRId64 " ms\n", buyers,
           count_text(result->bought, bought), count_text(result->told_sold_out, sold_out),
           count_text(result->no_answer, no_answer), report->elapsed_ms);
    if (result->by_later_choice > 0)
        printf("  %s of those who bought got their second choice, the first was sold out\n",
               count_text(result->by_later_choice, later));
    if (scene->loses_replies)
        printf("  %" PRIu64 " replies lost; %zu orders, asked for again, were told that they had been sold already\n",
               report->replies_lost, result->replayed);
    if (!result->exact)
        printf("  NOT EXACT: %s\n", result->why);
}
