/* List: runs the function lock_list, group after group. */
#ifndef LOCKSTOCK_SERVER_QUORUM_LIST_H
#define LOCKSTOCK_SERVER_QUORUM_LIST_H

#include "quorum/quorum_parts.h"

/* Takes a call of lock_list, as quorum_submit does. */
void list_begin(quorum *q, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

#endif
