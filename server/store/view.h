/* What is known of a store of several nodes: what the weakest of them keeps. */
#ifndef LOCKSTOCK_SERVER_STORE_VIEW_H
#define LOCKSTOCK_SERVER_STORE_VIEW_H

#include "store/node.h"
#include "store/store.h"

/* Adds a node to *all, which begins with version and fsync "". One that has never been greeted changes nothing. */
void view_add(store_view *all, const node *node);

#endif
