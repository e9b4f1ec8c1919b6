/* What is known of a store of several shards: what the weakest of them keeps. Pure. */
#ifndef LOCKSTOCK_SERVER_STORE_VIEW_H
#define LOCKSTOCK_SERVER_STORE_VIEW_H

#include "store/types.h"

/* Adds a shard's view to *all, which begins with version and fsync "". A shard without a version, which has never been
 * greeted, changes nothing. */
void view_add(store_view *all, const store_view *one);

#endif
