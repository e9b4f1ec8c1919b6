/* Whether the settings can be used, as far as that is known before anything is made or started. */
#ifndef LOCKSTOCK_SERVER_CHECK_H
#define LOCKSTOCK_SERVER_CHECK_H

#include <lockstock/status.h>

#include "calls/identity.h"
#include "config.h"
#include "net/wires.h"
#include "store/store.h"

/* Reads the files that are named, too. starts: the addresses must also be free. On success *ret is the caller's to
 * free. The error names the setting. */
lks_code check_settings(const settings *config, bool starts, identity **ret, lks_error *error);

/* Warns about files with unsafe modes: a policy that others may write, a key that others may read. */
void check_modes(const settings *config);

tls_files check_tls_files(const settings *config);
store_files check_store_files(const settings *config);

/* The store's URL, and the files that are read for it. */
lks_code check_store(const settings *config, lks_error *error);

/* The error for an address that needs a certificate. */
extern const char check_no_certificate[];

/* An error about an address. Returns the code of `why`. */
lks_code check_wrong_address(const char *address, const lks_error *why, lks_error *error);

#endif
