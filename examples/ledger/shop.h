/* What the consumer is shown with. Each returns the program's exit status and prints what went wrong. */
#ifndef EXAMPLE_LEDGER_SHOP_H
#define EXAMPLE_LEDGER_SHOP_H

#include "goods.h"

/* Puts goods on sale. */
int shop_fill(lks_channel *channel, const char *group);

/* Sells n orders at random, which are deducted, or reserved and then confirmed, cancelled or left to expire. Some are
 * returned. */
int shop_sell(lks_channel *channel, const char *group, int n);

/* Waits until the copy has all of the ledger, prints both sides, and returns 0 when they are equal. */
int shop_check(lks_channel *channel, goods *db, const char *group);

#endif
