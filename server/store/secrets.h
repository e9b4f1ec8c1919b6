/* How lockstockd gets into its store: what it shows, what it asks to be shown. Loaded from the URL and files, anew on
 * SIGHUP. */
#ifndef LOCKSTOCK_SERVER_STORE_SECRETS_H
#define LOCKSTOCK_SERVER_STORE_SECRETS_H

#include "net/tls.h"
#include "store/login.h"
#include "store/store.h"
#include "store/url.h"

/* TLS to a store; a connection that is made later uses what stands there then. */
typedef struct secrets_tls {
    tls_context *context;    /* NULL: no TLS */
    const char *server_name; /* that its certificates must be for; NULL: the host's */
} secrets_tls;

/* Owns its strings. */
typedef struct secrets {
    login as, as_to_sentinels;
    secrets_tls tls;
    char *passwords[2]; /* of these two, from files; NULL: none */
} secrets;

/* Fills in a zeroed one, or replaces what it has; on failure it stays as it was. The strings of `of` and `files` must
 * outlive it. LKS_INVALID_ARGUMENT names the setting or the file. */
lks_code secrets_load(secrets *secrets, const store_files *files, const url *of, lks_error *error);

void secrets_clear(secrets *secrets);

#endif
