/* ledger copy URLS SOCKET GROUP [--naive] [--limit N]   copies the ledger into MariaDB
 * ledger fill URLS GROUP                                puts goods on sale
 * ledger sell URLS GROUP ORDERS                         sells some
 * ledger check URLS SOCKET GROUP                        compares the two sides */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

static int usage(void)
{
    fprintf(stderr, "ledger copy URLS SOCKET GROUP [--naive] [--limit N]\n"
                    "ledger fill URLS GROUP\n"
                    "ledger sell URLS GROUP ORDERS\n"
                    "ledger check URLS SOCKET GROUP\n");
    return 2;
}

static bool read_options(int argc, char **argv, copy_options *options)
{
    for (int i = 5; i < argc; i++)
        if (strcmp(argv[i], "--naive") == 0)
            options->naive = true;
        else if (strcmp(argv[i], "--limit") == 0 && i + 1 < argc)
            options->limit = atoi(argv[++i]);
        else
            return false;
    return true;
}

/* copy, check: those that need the database. */
static int with_database(lks_channel *channel, int argc, char **argv)
{
    copy_options options = {.limit = 500};
    int status = EXIT_FAILURE;

    if (!read_options(argc, argv, &options))
        return usage();
    goods *db = goods_open(argv[3], argv[4]);
    if (db)
        status = strcmp(argv[1], "copy") == 0 ? copy_ledger(channel, db, argv[4], &options)
                                              : check_copy(channel, db, argv[4]);
    goods_close(db);
    return status;
}

int main(int argc, char **argv)
{
    const char *word = argc > 3 ? argv[1] : "";
    bool database = argc > 4 && (strcmp(word, "copy") == 0 || strcmp(word, "check") == 0);
    const lks_channel_options options = {.timeout_ms = 30000};
    lks_channel *channel = NULL;
    lks_error error;
    int status;

    if (!database && strcmp(word, "fill") != 0 && (strcmp(word, "sell") != 0 || argc != 5))
        return usage();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (lks_channel_open(argv[2], &options, &channel, &error) != LKS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    if (database)
        status = with_database(channel, argc, argv);
    else if (strcmp(word, "fill") == 0)
        status = fill_shop(channel, argv[3]);
    else
        status = sell(channel, argv[3], atoi(argv[4]));
    lks_channel_close(channel);
    return status;
}
