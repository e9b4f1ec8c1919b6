/* The credentials and certificates for the store, loaded from the URL and files, and again on SIGHUP. */
#ifndef LOCKSTOCK_SERVER_STORE_SECRETS_H
#define LOCKSTOCK_SERVER_STORE_SECRETS_H

#include "net/tls.h"
#include "store/types.h"
#include "store/url.h"

/* TLS to the store; the next connection uses the current values. */
typedef struct secrets_tls {
    tls_context *context;    /* NULL: no TLS */
    const char *server_name; /* in its certificates; NULL: the host */
} secrets_tls;

/* Owns its strings. */
typedef struct secrets {
    login as, as_to_sentinels;
    secrets_tls tls;
    char *passwords[2]; /* of both logins, from files; NULL: none */
} secrets;

/* Fills in a zeroed one, or replaces its contents; a failure changes nothing. The strings of `of` and `files` must
 * outlive it. LKS_INVALID_ARGUMENT names the setting or the file. */
lks_code secrets_load(secrets *secrets, const store_files *files, const url *of, lks_error *error);

void secrets_clear(secrets *secrets);

#endif
