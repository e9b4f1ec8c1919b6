/* Called by topology.c. */
#include "store/view.h"

#include <string.h>

/* Returns the setting that loses more. */
static const char *weaker(const char *a, const char *b)
{
    static const char *const words[] = {"no", "everysec", "always"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(a, words[i]) == 0 || strcmp(b, words[i]) == 0)
            return words[i];
    return "";
}

void view_add(store_view *all, const store_view *one)
{
    if (!one->version[0])
        return;
    if (!all->version[0]) {
        *all = *one;
        return;
    }
    all->known = all->known && one->known;
    all->snapshots = (all->snapshots || all->appends) && (one->snapshots || one->appends);
    all->appends = all->appends && one->appends;
    all->evicts = all->evicts || one->evicts;
    all->fsync = weaker(all->fsync, one->fsync);
    all->at_ms = all->at_ms ? all->at_ms : one->at_ms;
    if (one->round_trip_us > all->round_trip_us)
        all->round_trip_us = one->round_trip_us;
}
