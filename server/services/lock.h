/* Shared by lock.c and lock_admin.c. */
#ifndef LOCKSTOCK_SERVER_LOCK_H
#define LOCKSTOCK_SERVER_LOCK_H

#include "lockstock/v1/lock.lks.h"
#include "functions/arguments.h"
#include "memory.h"
#include "services/lock_part.h"
#include "services/service.h"

LKS_LOCK_METHODS(SERVICE_DECLARE)

#endif
