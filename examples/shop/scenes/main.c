/* shop_scenes: the shop's scenes, against a running lockstockd. Exit 0: all came out as claimed. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "shop_scenes.h"

static const char usage[] =
    "usage: shop_scenes [--url URL] [--scene LIST] [--buyers N]\n"
    "  --url URL     lockstockd's address (tcp://127.0.0.1:7700)\n"
    "  --scene LIST  m: double clicks; n: two tabs; o: a retry storm; p: a shop is killed; q: one stands still\n"
    "                (m,n,o,p,q)\n"
    "  --buyers N    of m and o (1000)\n";

static const shop_scene scenes[] = {
    {"m", scene_clicks}, {"n", scene_tabs}, {"o", scene_storm}, {"p", scene_killed}, {"q", scene_frozen}, {NULL, NULL},
};

static const shop_scene *find(const char *name, size_t len)
{
    for (const shop_scene *scene = scenes; scene->name; scene++)
        if (strlen(scene->name) == len && memcmp(scene->name, name, len) == 0)
            return scene;
    return NULL;
}

static bool run(const shop_scene *scene, const shop_setup *setup)
{
    lock_claims claims = {.table = stdout, .good = true};
    lks_error error = {0};

    if (scene->run(setup, &claims, &error) != LKS_OK) {
        fprintf(stderr, "shop_scenes: scene %s: %s: %s\n", scene->name, lks_code_name(error.code), error.message);
        return false;
    }
    if (!claims.good)
        printf("  NOT SO: %s\n", claims.why);
    fflush(stdout);
    return claims.good;
}

int main(int argc, char **argv)
{
    static const struct option flags[] = {{"url", required_argument, NULL, 'u'},
                                          {"scene", required_argument, NULL, 's'},
                                          {"buyers", required_argument, NULL, 'b'},
                                          {NULL, 0, NULL, 0}};
    shop_setup setup = {.lockstockd = "tcp://127.0.0.1:7700",
                        .shop = SHOP_PATH,
                        .clicks = CLICKS_PATH,
                        .protos = {SHOP_PROTO_DIR, LOCKSTOCK_PROTO_DIR},
                        .buyers = 1000};
    const char *list = "m,n,o,p,q";
    bool good = true;

    for (int flag; good && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;)
        if (flag == 'u')
            setup.lockstockd = optarg;
        else if (flag == 's')
            list = optarg;
        else if (flag == 'b')
            good = (setup.buyers = (size_t)number_parse(optarg, 4000)) != 0;
        else
            good = false;
    if (!good || optind != argc) {
        fputs(usage, stderr);
        return 2;
    }
    if (system("/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null && command -v protoc >/dev/null") != 0)
        setup.clicks = NULL;
    for (const char *name = list; *name != '\0';) {
        size_t len = strcspn(name, ",");
        const shop_scene *scene = find(name, len);
        if (!scene) {
            fprintf(stderr, "shop_scenes: no scene \"%.*s\"\n", (int)len, name);
            return 2;
        }
        good = run(scene, &setup) && good;
        name += len + (name[len] == ',');
    }
    return good ? 0 : 1;
}
