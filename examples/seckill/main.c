/* seckill: runs flash sales against a lockstockd. Exits with 0 if every run was exact. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sale.h"

static const char usage[] =
    "usage: seckill [--url URL] [--scene a,b] [--runs N] [--buyers N] [--goods N] [--stock N] [--patience S]\n"
    "  --url URL     lockstockd's address (tcp://127.0.0.1:7700)\n"
    "  --scene LIST  a: each buyer is a thread, two goods; b: each is an asynchronous call, one good (a,b)\n"
    "  --runs N      how often to run each scene (1)\n"
    "  --buyers N, --goods N, --stock N (of each good)   instead of the scene's numbers\n"
    "  --patience S  seconds during which an order without an answer is sent again (60)\n";

static const struct scene {
    char name;
    const char *title;
    sale_plan plan;
    bool (*sell)(flash_sale *sale, lks_channel *channel, sale_result *result);
} scenes[] = {
    {'a', "each buyer is a thread", {2, 500, 1000, 60000}, sell_by_threads},
    {'b', "each buyer is an asynchronous call", {1, 100, 10000, 60000}, sell_by_async},
};

static void print(const struct scene *scene, const sale_plan *plan, const sale_result *r, int64_t elapsed_ms)
{
    printf("scene %c: %zu buyers, %s\n", scene->name, plan->n_buyers, scene->title);
    printf("  %-8s %8s %8s %8s %16s  %s\n", "good", "stock", "sold", "left", "distinct orders", "exact");
    for (size_t i = 0; i < plan->n_goods; i++) {
        const good_result *good = &r->goods[i];
        printf("  good-%-3zu %8" PRId64 " %8" PRId64 " %8" PRId64 " %16zu  %s\n", i, plan->stock, good->sold,
               good->left, good->orders, good->exact ? "yes" : "NO");
    }
    printf("  %zu bought, %zu of them their second choice; %zu were told sold out, %zu have no answer; in %" PRId64
           " ms\n",
           r->bought, r->by_later_choice, r->told_sold_out, r->no_answer, elapsed_ms);
    if (!r->exact)
        printf("  NOT EXACT: %s\n", r->why);
    fflush(stdout);
}

static bool run(const struct scene *scene, const char *url, const sale_plan *changes)
{
    sale_plan plan = {.n_goods = changes->n_goods ? changes->n_goods : scene->plan.n_goods,
                      .stock = changes->stock ? changes->stock : scene->plan.stock,
                      .n_buyers = changes->n_buyers ? changes->n_buyers : scene->plan.n_buyers,
                      .patience_ms = changes->patience_ms ? changes->patience_ms : scene->plan.patience_ms};
    lks_channel *channel = NULL;
    flash_sale sale = {0};
    sale_result result = {0};
    lks_error error = {0};

    lks_code code = lks_channel_open(url, NULL, &channel, &error);
    if (code == LKS_OK)
        code = sale_open(channel, &plan, &sale, &error);
    int64_t start_ms = sale_now_ms();
    if (code == LKS_OK && !scene->sell(&sale, channel, &result))
        code = lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "%s", result.why);
    int64_t elapsed_ms = sale_now_ms() - start_ms;
    if (code == LKS_OK && (code = sale_check(&sale, channel, &result, &error)) == LKS_OK)
        print(scene, &plan, &result, elapsed_ms);
    if (code != LKS_OK)
        fprintf(stderr, "seckill: scene %c: %s: %s\n", scene->name, lks_code_name(code), error.message);
    sale_close(&sale);
    lks_channel_close(channel);
    return result.exact;
}

int main(int argc, char **argv)
{
    enum { URL, SCENE, RUNS, BUYERS, GOODS, STOCK, PATIENCE, HELP };
    static const struct option flags[] = {
        {"url", 1, NULL, URL},           {"scene", 1, NULL, SCENE}, {"runs", 1, NULL, RUNS},
        {"buyers", 1, NULL, BUYERS},     {"goods", 1, NULL, GOODS}, {"stock", 1, NULL, STOCK},
        {"patience", 1, NULL, PATIENCE}, {"help", 0, NULL, HELP},   {NULL, 0, NULL, 0}};
    const char *texts[] = {[URL] = "tcp://127.0.0.1:7700", [SCENE] = "a,b"};
    long numbers[HELP] = {[RUNS] = 1};
    bool good = true, exact = true;

    for (int flag; good && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (flag == HELP)
            return fputs(usage, stdout) < 0;
        char *end = "";
        if (flag == URL || flag == SCENE)
            texts[flag] = optarg;
        else if (flag != '?')
            numbers[flag] = strtol(optarg, &end, 10);
        good = flag != '?' && *end == '\0' &&
               (flag <= SCENE || (numbers[flag] >= 1 && numbers[flag] <= (flag == GOODS ? SALE_GOODS_MAX : 1000000)));
    }
    const sale_plan changes = {(size_t)numbers[GOODS], numbers[STOCK], (size_t)numbers[BUYERS],
                               numbers[PATIENCE] * 1000};
    for (const char *name = texts[SCENE]; good && *name != '\0'; name += name[1] == ',' ? 2 : 1) {
        size_t at = (size_t)(*name - 'a');
        good = at < sizeof scenes / sizeof *scenes && (name[1] == ',' || name[1] == '\0');
        for (long i = 0; good && i < numbers[RUNS]; i++)
            exact &= run(&scenes[at], texts[URL], &changes);
    }
    if (!good || optind != argc) {
        fputs(usage, stderr);
        return 2;
    }
    return exact ? 0 : 1;
}
