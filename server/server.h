/* One running lockstockd: the loop and everything on it. */
#ifndef LOCKSTOCK_SERVER_SERVER_H
#define LOCKSTOCK_SERVER_SERVER_H

#include <lockstock/status.h>

#include "config.h"

/* Serves until SIGTERM or SIGINT and the drain that follows. Main thread only; no
 * other thread may run yet. LKS_OK: drained. Else the reason why it could not
 * start, or had to stop. */
lks_code server_run(const settings *config, lks_error *error);

#endif
