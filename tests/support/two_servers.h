/* Two real servers on one Redis, each with a channel of its own: what most tests across
 * processes need. Main thread only (see process.h). Failures are printed on stderr. */
#ifndef LOCKSTOCK_TESTS_TWO_SERVERS_H
#define LOCKSTOCK_TESTS_TWO_SERVERS_H

#include <stdbool.h>

#include <lockstock/channel.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"

typedef struct two_servers {
    redis_fixture *redis;
    server_fixture *servers[2];
    lks_channel *channels[2]; /* each to its own server only */
} two_servers;

/* `two` is all zero. redis_options as for redis_fixture_start; options are those of both
 * servers, whose store is set. False on failure; two_servers_end is due in any case. */
bool two_servers_start(two_servers *two, const redis_fixture_options *redis_options, server_fixture_options options);

/* Closes the channels, ends all. Takes what was not, or not wholly, started. */
void two_servers_end(two_servers *two);

#endif
