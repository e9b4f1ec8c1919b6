/* One running lockstockd: the loop and everything on it. */
#ifndef LOCKSTOCK_SERVER_SERVER_H
#define LOCKSTOCK_SERVER_SERVER_H

#include <lockstock/status.h>

#include "config.h"

/* Serves until SIGTERM or SIGINT and the drain that follows. Call this on the main thread, before other threads run.
 * LKS_OK: drained. Otherwise the error says why the server could not start or had to stop. */
lks_code server_run(const settings *config, lks_error *error);

#endif
