/* LockService.List: runs the function lock_list over one group after the other. */
#ifndef LOCKSTOCK_SERVER_QUORUM_LIST_H
#define LOCKSTOCK_SERVER_QUORUM_LIST_H

#include "quorum/quorum_parts.h"

/* Runs a call of lock_list. The arguments are those of quorum_submit. */
void list_begin(quorum *q, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg);

#endif
