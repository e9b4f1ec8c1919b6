/* The parts of `ledger`. Each gives the program's exit status and says on stderr what
 * went wrong; `group` is not changed. */
#ifndef EXAMPLE_LEDGER_LEDGER_H
#define EXAMPLE_LEDGER_LEDGER_H

#include <stdbool.h>

#include <lockstock/lockstock.h>

#include "goods.h"

enum { EXIT_LOST = 3 }; /* entries were trimmed before they were copied */

typedef struct copy_options {
    int limit; /* entries of one transaction */
    bool naive;
} copy_options;

/* Copies the ledger for good. Returns when anything fails: it may be killed and started
 * again at any moment, so that is all it does about failures. */
int copy_ledger(lks_channel *channel, goods *db, char *group, const copy_options *options);

/* Puts goods on sale. */
int fill_shop(lks_channel *channel, char *group);

/* Sells them: n orders at random, which are deducted, or reserved and then confirmed,
 * cancelled or left to expire; some are returned. */
int sell(lks_channel *channel, char *group, int n);

/* Waits until the copy has all of the ledger, prints both sides, 0 when they are equal. */
int check_copy(lks_channel *channel, goods *db, char *group);

#endif
