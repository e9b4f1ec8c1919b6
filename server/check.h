/* Checks the settings before the server makes or starts anything. */
#ifndef LOCKSTOCK_SERVER_CHECK_H
#define LOCKSTOCK_SERVER_CHECK_H

#include <lockstock/status.h>

#include "calls/identity.h"
#include "config.h"
#include "net/wires.h"
#include "store/store.h"

/* Also reads the files that the settings name. starts: also checks that the addresses are free. On success the caller
 * frees *ret. The error names the setting. */
lks_code check_settings(const settings *config, bool starts, identity **ret, lks_error *error);

/* Warns about files with unsafe modes: a policy that other users can write, a key that they can read. */
void check_modes(const settings *config);

tls_files check_tls_files(const settings *config);
store_files check_store_files(const settings *config);

/* Checks the store's URL and the files that are read for it. */
lks_code check_store(const settings *config, lks_error *error);

/* The error for an address that needs a certificate. */
extern const char check_no_certificate[];

/* Sets an error about an address. Returns the code of `why`. */
lks_code check_wrong_address(const char *address, const lks_error *why, lks_error *error);

#endif
