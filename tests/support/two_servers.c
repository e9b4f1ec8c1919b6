/* Redis runs before a server starts, and until both have ended. */
#include "support/two_servers.h"

bool two_servers_start(two_servers *two, const redis_fixture_options *redis_options, server_fixture_options options)
{
    two->redis = redis_fixture_start(redis_options);
    if (!two->redis)
        return false;
    options.store = redis_fixture_url(two->redis);
    for (int i = 0; i < 2; i++) {
        two->servers[i] = server_fixture_start(&options);
        if (!two->servers[i] ||
            lks_channel_open(server_fixture_url(two->servers[i]), NULL, &two->channels[i], NULL) != LKS_OK)
            return false;
    }
    return true;
}

void two_servers_end(two_servers *two)
{
    for (int i = 0; i < 2; i++) {
        lks_channel_close(two->channels[i]);
        server_fixture_free(two->servers[i]);
    }
    redis_fixture_free(two->redis);
}
