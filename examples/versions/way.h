/* Ways to sell one lamp to a buyer, so that the same buyers can buy by each of them. */
#ifndef EXAMPLE_VERSIONS_WAY_H
#define EXAMPLE_VERSIONS_WAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>

#include "meeting.h"

struct st_mysql;

typedef enum purchase { BOUGHT, SOLD_OUT, FAILED } purchase;

typedef struct buyer {
    const struct way *way;
    lks_channel *channel;
    struct st_mysql *database; /* its own connection */
    meeting *looked;           /* of all buyers: nobody writes before everybody has looked */
    const char *group;
    int number;
    purchase came_of_it;
    int retries; /* how often somebody was faster, and it looked again */
    lks_error error;
} buyer;

typedef struct way {
    const char *name;
    bool in_database;
    /* On the buyer's thread. FAILED: b->error says why. */
    purchase (*buy)(buyer *b);
    int sold, left, retries; /* what comes of BUYERS for LAMPS */
} way;

enum { BUYERS = 10, LAMPS = 5 };

purchase buy_by_item_version(buyer *b);
purchase buy_by_deduct(buyer *b);
purchase buy_by_column(buyer *b);
purchase buy_by_row_lock(buyer *b);
purchase buy_by_select_update(buyer *b);

/* Puts LAMPS on sale, and says how many are left; false: *error says why. */
bool lockstock_fill(lks_channel *channel, const char *group, lks_error *error);
bool lockstock_left(lks_channel *channel, const char *group, int64_t *ret, lks_error *error);
struct st_mysql *database_open(const char *socket_path, lks_error *error);
bool database_fill(struct st_mysql *database, lks_error *error);
bool database_left(struct st_mysql *database, int64_t *ret, lks_error *error);
/* Takes NULL. */
void database_close(struct st_mysql *database);

/* Of a thread that used a database. */
void database_thread_end(void);

#endif
