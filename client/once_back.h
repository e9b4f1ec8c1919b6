/* Gives an attempt back that nobody runs: of lks_once, and of a guard. */
#ifndef LOCKSTOCK_CLIENT_ONCE_BACK_H
#define LOCKSTOCK_CLIENT_ONCE_BACK_H

#include <lockstock/channel.h>
#include <lockstock/v1/idempotency.lks.h>

/* Ends an attempt, so that the next one runs; in the background. Where that cannot be done it ends with its lease. */
void once_fail(lks_channel *channel, const char *scope, const char *key, uint64_t fence);

/* The same after a Begin of which nobody knows whether it began one: the same Begin tells its fence. */
void once_give_back(lks_channel *channel, const lks_begin_request *begin);

#endif
