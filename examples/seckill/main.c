/* seckill: flash sales against a running lockstockd. Exit 0 only when every run of
 * every scene was exact. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holder.h"
#include "lock_scenes.h"
#include "number.h"
#include "scenes.h"
#include "settler.h"

static const char usage[] =
    "usage: seckill [--url URL] [--scene a,b,c|all] [--runs N] [--buyers N] [--goods N] [--stock N] [--patience S]\n"
    "               [--waiters N] [--redis URL]\n"
    "  --url URL     lockstockd's address (tcp://127.0.0.1:7700)\n"
    "  --scene LIST  sales: a: threads, two goods; b: asynchronous calls; c: every reply lost once;\n"
    "                all: these three (all)\n"
    "                locks: d: work that outlasts its lease; e: a holder killed, or frozen; f: many wait,\n"
    "                at the servers of --url U1,U2; g: naive locks and lockstock side by side\n"
    "                h: everybody clicks twice: limiter, once, reservation\n"
    "                i: the token of a form; j: a penalty; k: orders settled behind the sale\n"
    "  --waiters N   scene f (1000)\n"
    "  --redis URL   scenes g and i: unix:///path of its store, for what is done by hand\n"
    "  --runs N      each scene so often (1)\n"
    "  --buyers N, --goods N, --stock N (of each good)   other figures than the scene's own\n"
    "  --patience S  seconds to ask again for an order without an answer (60)\n";

typedef struct seckill_settings {
    const char *url, *list, *redis;
    long runs;
    size_t waiters;
    sale_plan plan; /* 0 = the scene's own */
} seckill_settings;

static bool parse(int argc, char **argv, seckill_settings *settings)
{
    static const struct option flags[] = {
        {"url", required_argument, NULL, 'u'},
        {"scene", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'r'},
        {"buyers", required_argument, NULL, 'b'},
        {"goods", required_argument, NULL, 'g'},
        {"stock", required_argument, NULL, 'n'},
        {"patience", required_argument, NULL, 'p'},
        {"waiters", required_argument, NULL, 'w'},
        {"redis", required_argument, NULL, 'i'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int flag; good && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        switch (flag) {
        case 'u':
            settings->url = optarg;
            break;
        case 's':
            settings->list = strcmp(optarg, "all") == 0 ? "a,b,c" : optarg;
            break;
        case 'r':
            good = (settings->runs = number_parse(optarg, 1000000)) != 0;
            break;
        case 'b':
            good = (settings->plan.n_buyers = (size_t)number_parse(optarg, 1000000)) != 0;
            break;
        case 'g':
            good = (settings->plan.n_goods = (size_t)number_parse(optarg, SALE_GOODS_MAX)) != 0;
            break;
        case 'n':
            good = (settings->plan.stock = number_parse(optarg, 1000000000)) != 0;
            break;
        case 'p':
            good = (settings->plan.patience_ms = number_parse(optarg, 86400) * 1000) != 0;
            break;
        case 'w':
            good = (settings->waiters = (size_t)number_parse(optarg, 100000)) != 0;
            break;
        case 'i':
            settings->redis = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            good = false;
        }
    }
    return good && optind == argc;
}

static const sale_scene *find_sale_scene(const char *name, size_t len)
{
    for (const sale_scene *scene = scenes; scene->name; scene++)
        if (strlen(scene->name) == len && memcmp(scene->name, name, len) == 0)
            return scene;
    return NULL;
}

static const lock_scene *find_lock_scene(const char *name, size_t len)
{
    for (const lock_scene *scene = lock_scenes; scene->name; scene++)
        if (strlen(scene->name) == len && memcmp(scene->name, name, len) == 0)
            return scene;
    return NULL;
}

static bool run_lock_scene(const lock_scene *scene, const seckill_settings *settings)
{
    const lock_setup setup = {
        .urls = settings->url, .redis = settings->redis, .program = "/proc/self/exe", .waiters = settings->waiters};
    lock_claims claims = {.table = stdout, .good = true};
    lks_error error = {0};

    if (scene->run(&setup, &claims, &error) != LKS_OK) {
        fprintf(stderr, "seckill: scene %s: %s: %s\n", scene->name, lks_code_name(error.code), error.message);
        return false;
    }
    if (!claims.good)
        printf("  NOT SO: %s\n", claims.why);
    fflush(stdout);
    return claims.good;
}

static bool run_sale_scene(const sale_scene *scene, const seckill_settings *settings)
{
    sale_plan plan = scene->plan;
    scene_report report;
    lks_error error = {0};

    plan.n_buyers = settings->plan.n_buyers != 0 ? settings->plan.n_buyers : plan.n_buyers;
    plan.n_goods = settings->plan.n_goods != 0 ? settings->plan.n_goods : plan.n_goods;
    plan.stock = settings->plan.stock != 0 ? settings->plan.stock : plan.stock;
    plan.patience_ms = settings->plan.patience_ms != 0 ? settings->plan.patience_ms : plan.patience_ms;
    if (scene_run(scene, settings->url, &plan, &report, &error) != LKS_OK) {
        fprintf(stderr, "seckill: scene %s: %s: %s\n", scene->name, lks_code_name(error.code), error.message);
        return false;
    }
    scene_print(scene, &plan, &report);
    fflush(stdout);
    return report.result.exact;
}

int main(int argc, char **argv)
{
    seckill_settings settings = {.url = "tcp://127.0.0.1:7700", .list = "a,b,c", .runs = 1, .waiters = 1000};
    bool exact = true;

    if (argc > 1 && strcmp(argv[1], HOLDER_FLAG) == 0)
        return holder_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], SETTLER_FLAG) == 0)
        return settler_main(argc, argv);
    if (!parse(argc, argv, &settings)) {
        fputs(usage, stderr);
        return 2;
    }
    for (const char *name = settings.list; *name != '\0';) {
        size_t len = strcspn(name, ",");
        const sale_scene *sale = find_sale_scene(name, len);
        const lock_scene *lock = find_lock_scene(name, len);
        if (!sale && !lock) {
            fprintf(stderr, "seckill: no scene \"%.*s\"\n", (int)len, name);
            return 2;
        }
        for (long i = 0; i < settings.runs; i++)
            exact &= sale ? run_sale_scene(sale, &settings) : run_lock_scene(lock, &settings);
        name += len + (name[len] == ',');
    }
    return exact ? 0 : 1;
}
