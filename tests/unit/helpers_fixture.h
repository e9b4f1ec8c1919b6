/* What tests of the client's helpers share: services that answer as told, and a channel to them. Main thread only. */
#ifndef LOCKSTOCK_TESTS_HELPERS_FIXTURE_H
#define LOCKSTOCK_TESTS_HELPERS_FIXTURE_H

#include <stddef.h>

#include <lockstock/lockstock.h>

#include "unit/fake_service.h"

extern fake_service *fake;
extern lks_channel *channel;

int setup(void **state);

/* Nothing may be left under way, kept leases included. */
int teardown(void **state);

/* The i-th call of a method, from 0; there must be one. */
fake_event event_of(fake_method method, size_t i);

#endif
