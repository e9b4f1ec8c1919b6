/* versions URL SOCKET: scene l. The same buyers want the same lamps by each of several ways, in lockstock at URL and in
 * the MariaDB on the unix socket; all have looked before any of them writes. Exit 0: all came out as claimed. */
#include <inttypes.h>
#include <mysql.h>
#include <stdio.h>
#include <string.h>

#include "lock_scenes.h"
#include "way.h"

static const way ways[] = {
    {"GetItem, then Adjust by its version", false, buy_by_item_version, LAMPS, 0, 35},
    {"MariaDB: a version column", true, buy_by_column, LAMPS, 0, 35},
    {"MariaDB: SELECT ... FOR UPDATE", true, buy_by_row_lock, LAMPS, 0, 0},
    {"Deduct", false, buy_by_deduct, LAMPS, 0, 0},
    {"MariaDB: SELECT, then UPDATE", true, buy_by_select_update, BUYERS, LAMPS - 1, 0},
};

typedef struct sale {
    lks_channel *channel;
    const char *socket_path;
    MYSQL *database;
    char group[48];
} sale;

static void *shop(void *arg)
{
    buyer *b = arg;

    b->came_of_it = b->way->buy(b);
    meeting_leave(b->looked);
    if (b->way->in_database)
        database_thread_end();
    return NULL;
}

/* All buyers, to their ends. One that cannot begin is not waited for. */
static lks_code sell(const sale *s, const way *how, buyer buyers[BUYERS], lks_error *error)
{
    pthread_t threads[BUYERS];
    bool runs[BUYERS];
    meeting looked;
    lks_code code = LKS_OK;

    meeting_init(&looked, BUYERS);
    for (int i = 0; i < BUYERS; i++) {
        buyer *b = &buyers[i];
        *b = (buyer){
            .way = how, .channel = s->channel, .looked = &looked, .group = s->group, .number = i, .came_of_it = FAILED};
        if (how->in_database)
            b->database = database_open(s->socket_path, &b->error);
        runs[i] = (b->database || !how->in_database) && pthread_create(&threads[i], NULL, shop, b) == 0;
        if (!runs[i])
            meeting_leave(&looked);
    }
    for (int i = 0; i < BUYERS; i++) {
        buyer *b = &buyers[i];
        if (runs[i])
            pthread_join(threads[i], NULL);
        database_close(b->database);
        if (b->came_of_it == FAILED && code == LKS_OK) {
            code = lks_error_set(error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "%s: buyer %d: %s", how->name, i,
                                 b->error.message);
        }
    }
    meeting_destroy(&looked);
    return code;
}

static lks_code play(sale *s, const way *how, lock_claims *claims, lks_error *error)
{
    buyer buyers[BUYERS];
    int64_t left = 0;
    int sold = 0, refused = 0, retries = 0;

    snprintf(s->group, sizeof s->group, "versions-%zu-", (size_t)(how - ways));
    lks_code code = lock_run_id(s->group + strlen(s->group), error);
    if (code == LKS_OK &&
        !(how->in_database ? database_fill(s->database, error) : lockstock_fill(s->channel, s->group, error)))
        code = error->code;
    if (code != LKS_OK || (code = sell(s, how, buyers, error)) != LKS_OK)
        return code;
    if (!(how->in_database ? database_left(s->database, &left, error)
                           : lockstock_left(s->channel, s->group, &left, error)))
        return error->code;
    for (int i = 0; i < BUYERS; i++) {
        sold += buyers[i].came_of_it == BOUGHT;
        refused += buyers[i].came_of_it == SOLD_OUT;
        retries += buyers[i].retries;
    }
    fprintf(claims->table, "  %-36s  %4d  %8d  %13d  %4" PRId64 "  %7d\n", how->name, sold,
            sold > LAMPS ? sold - LAMPS : 0, refused, left, retries);
    lock_claim(claims, sold == how->sold && refused == BUYERS - how->sold, "%s: %d sold", how->name, sold);
    lock_claim(claims, left == how->left, "%s: %" PRId64 " left", how->name, left);
    lock_claim(claims, retries == how->retries, "%s: %d retries", how->name, retries);
    return LKS_OK;
}

int main(int argc, char **argv)
{
    lock_claims claims = {.table = stdout, .good = true};
    sale s = {.channel = NULL};
    lks_error error = {0};

    if (argc != 3) {
        fprintf(stderr, "usage: versions URL SOCKET\n");
        return 2;
    }
    s.socket_path = argv[2];
    lks_code code = lks_channel_open(argv[1], NULL, &s.channel, &error);
    if (code == LKS_OK && !(s.database = database_open(s.socket_path, &error)))
        code = error.code;
    if (code == LKS_OK) {
        printf("scene l: %d buyers, %d lamps; all of them look, then all of them write\n", BUYERS, LAMPS);
        printf("  %-36s  %4s  %8s  %13s  %4s  %7s\n", "way", "sold", "oversold", "told sold out", "left", "retries");
    }
    for (size_t i = 0; code == LKS_OK && i < sizeof ways / sizeof *ways; i++)
        code = play(&s, &ways[i], &claims, &error);
    if (code != LKS_OK)
        fprintf(stderr, "versions: %s: %s\n", lks_code_name(error.code), error.message);
    else if (!claims.good)
        printf("  NOT SO: %s\n", claims.why);
    database_close(s.database);
    lks_channel_close(s.channel);
    mysql_library_end();
    return code == LKS_OK && claims.good ? 0 : 1;
}
