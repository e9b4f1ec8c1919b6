/* seckill [URL [BUYERS STOCK]]: runs two flash sales against a lockstockd. Exits with 0 if both were exact. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sale.h"

static const struct scene {
    char name;
    const char *title;
    size_t n_goods;
    int64_t stock;
    size_t n_buyers;
    bool (*sell)(flash_sale *sale, lks_channel *channel, sale_result *result);
} scenes[] = {
    {'a', "each buyer is a thread", 2, 500, 1000, sell_by_threads},
    {'b', "each buyer is an asynchronous call", 1, 100, 10000, sell_by_async},
};

static void print(const struct scene *scene, const flash_sale *sale, const sale_result *r, int64_t elapsed_ms)
{
    printf("scene %c: %zu buyers, %s\n", scene->name, sale->n_buyers, scene->title);
    printf("  %-8s %8s %8s %8s %16s  %s\n", "good", "stock", "sold", "left", "distinct orders", "exact");
    for (size_t i = 0; i < sale->n_goods; i++) {
        const good_result *good = &r->goods[i];
        printf("  %-8s %8" PRId64 " %8" PRId64 " %8" PRId64 " %16zu  %s\n", sale->skus[i], sale->stock, good->sold,
               good->left, good->orders, good->exact ? "yes" : "NO");
    }
    printf("  %zu bought, %zu of them their second choice; %zu were told sold out, %zu have no answer; in %" PRId64
           " ms\n",
           r->sold, r->by_later_choice, sale->n_buyers - r->sold - r->unsettled, r->unsettled, elapsed_ms);
    if (!r->exact)
        printf("  NOT EXACT: %s\n", r->why);
    fflush(stdout);
}

static bool run(const struct scene *scene, int argc, char **argv)
{
    flash_sale sale = {.n_goods = scene->n_goods,
                       .stock = argc > 3 ? atoll(argv[3]) : scene->stock,
                       .n_buyers = argc > 2 ? strtoul(argv[2], NULL, 10) : scene->n_buyers,
                       .patience_ms = 60000};
    lks_channel *channel = NULL;
    sale_result result = {0};
    lks_error error = {0};

    lks_code code = lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error);
    if (code == LKS_OK)
        code = sale_open(&sale, channel, &error);
    int64_t start_ms = sale_now_ms();
    if (code == LKS_OK && !scene->sell(&sale, channel, &result))
        code = lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "%s", result.why);
    int64_t elapsed_ms = sale_now_ms() - start_ms;
    if (code == LKS_OK && (code = sale_check(&sale, channel, &result, &error)) == LKS_OK)
        print(scene, &sale, &result, elapsed_ms);
    if (code != LKS_OK)
        fprintf(stderr, "seckill: scene %c: %s: %s\n", scene->name, lks_code_name(code), error.message);
    sale_close(&sale);
    lks_channel_close(channel);
    return result.exact;
}

int main(int argc, char **argv)
{
    if (argc > 2 && (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1)) {
        fprintf(stderr, "usage: seckill [URL [BUYERS STOCK]]\n");
        return 2;
    }
    bool exact = run(&scenes[0], argc, argv);

    return run(&scenes[1], argc, argv) && exact ? 0 : 1;
}
