/* The view of a store of several shards: the guarantees of the weakest of them. Pure. */
#ifndef LOCKSTOCK_SERVER_STORE_VIEW_H
#define LOCKSTOCK_SERVER_STORE_VIEW_H

#include "store/types.h"

/* Adds a shard's view to *all, which begins with "" as version and fsync. A shard without a version was never greeted,
 * and changes nothing. */
void view_add(store_view *all, const store_view *one);

#endif
