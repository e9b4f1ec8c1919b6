/* A teardown returns when nothing is under way any more, and not before. */
#include "helpers_fixture.h"

#include <stdatomic.h>

#include "support/process.h"

#include "client/call/channel.h"

fake_service *fake;
lks_channel *channel;

int setup(void **state)
{
    fake = fake_start();
    return fake && lks_channel_open(fake_url(fake), NULL, &channel, NULL) == LKS_OK ? 0 : -1;
}

/* It is waited for, since a connection that is closed while it is answered can hang
 * libnng (docs/client.md). */
int teardown(void **state)
{
    fake_behave(fake, (fake_manner){.body = NULL});
    while (atomic_load(&channel->under_way) != 0)
        process_pause();
    lks_channel_close(channel);
    fake_stop(fake);
    return 0;
}

fake_event event_of(fake_method method, size_t i)
{
    return fake_event_at(fake, method, NULL, i);
}
