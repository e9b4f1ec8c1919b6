/* The client library: includes all headers that a program needs to call lockstock. */
#ifndef LOCKSTOCK_LOCKSTOCK_H
#define LOCKSTOCK_LOCKSTOCK_H

#include <lockstock/call.h>
#include <lockstock/channel.h>
#include <lockstock/entry.h>
#include <lockstock/hold.h>
#include <lockstock/lease.h>
#include <lockstock/limiter.h>
#include <lockstock/mutex.h>
#include <lockstock/once.h>
#include <lockstock/reservation.h>
#include <lockstock/rwlock.h>
#include <lockstock/semaphore.h>
#include <lockstock/status.h>
#include <lockstock/v1/admin.lks_client.h>
#include <lockstock/v1/guard.lks_client.h>
#include <lockstock/v1/id.lks_client.h>
#include <lockstock/v1/idempotency.lks_client.h>
#include <lockstock/v1/lock.lks_client.h>
#include <lockstock/v1/ratelimit.lks_client.h>
#include <lockstock/v1/stock.lks_client.h>
#include <lockstock/version.h>

#endif
