/* What the files of LockService share: lock.c holds the table and the life of a
 * lock, lock_admin.c looking at locks and overruling them. Private to lock*.c. */
#ifndef LOCKSTOCK_SERVER_LOCK_H
#define LOCKSTOCK_SERVER_LOCK_H

#include "lockstock/v1/lock.lks.h"
#include "functions/arguments.h"
#include "memory.h"
#include "services/service.h"

/* lock_admin.c */
void inspect_prepare(const lks_inspect_request *request, plan *p);
void inspect_finish(const lks_inspect_request *request, answer *a, lks_inspect_response *response);
void list_prepare(const lks_list_request *request, plan *p);
void list_finish(const lks_list_request *request, answer *a, lks_list_response *response);
void force_release_prepare(const lks_force_release_request *request, plan *p);
void force_release_finish(const lks_force_release_request *request, answer *a, lks_force_release_response *response);
void check_fence_prepare(const lks_check_fence_request *request, plan *p);
void check_fence_finish(const lks_check_fence_request *request, answer *a, lks_check_fence_response *response);
void reset_fence_prepare(const lks_reset_fence_request *request, plan *p);
void reset_fence_finish(const lks_reset_fence_request *request, answer *a, lks_reset_fence_response *response);

#endif
