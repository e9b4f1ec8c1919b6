/* The shop's database, a copy of the stock of groups: the counts of each good, and the last entry of the group's ledger
 * that they contain. Not thread-safe. Prints errors to stderr. */
#ifndef EXAMPLE_LEDGER_GOODS_H
#define EXAMPLE_LEDGER_GOODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/lockstock.h>

enum { GOODS_ID_SIZE = 2304, GOODS_NAME_SIZE = 129 };

/* Before every entry. "" would begin at the oldest entry and hide that older ones were trimmed. */
#define GOODS_NOTHING_READ "0-0"

typedef struct goods goods;

typedef enum goods_result {
    GOODS_COPIED,
    GOODS_OVERTAKEN, /* another consumer copied these entries; nothing was changed */
    GOODS_FAILED,    /* nothing was changed */
} goods_result;

/* Connects to the MariaDB on a unix socket, and makes the database `shop` and its tables if they do not exist. Keeps
 * the pointer `group`. Returns NULL on failure; the caller must call goods_close. */
goods *goods_open(const char *socket_path, const char *group);
void goods_close(goods *db);

/* Reads the position up to which the ledger is copied. */
bool goods_position(goods *db, char id[GOODS_ID_SIZE]);

/* Copies the entries after the position `after`: their effects and the next position in one transaction. So each entry
 * is in the copy exactly once, even if this process is killed or several run. */
goods_result goods_copy(goods *db, const char *after, const lks_read_ledger_response *news);

/* Resets the position to GOODS_NOTHING_READ if the copy is empty and at `position`, so that a new ledger is copied from
 * its first entry. Returns false if it was not reset. */
bool goods_start_over(goods *db, const char *position);

#endif
