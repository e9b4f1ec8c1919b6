/* Parses store URLs. */
#ifndef LOCKSTOCK_SERVER_STORE_URL_H
#define LOCKSTOCK_SERVER_STORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "base/address.h"

typedef enum url_kind { URL_EMBEDDED, URL_UNIX, URL_TCP, URL_SENTINEL, URL_CLUSTER } url_kind;

enum { URL_HOSTS_MAX = 16 };

/* Owns its strings; url_clear frees them. */
typedef struct url {
    url_kind kind;
    bool tls;
    char *path;                          /* EMBEDDED: the directory; UNIX: the socket */
    struct address hosts[URL_HOSTS_MAX]; /* TCP: one; SENTINEL: sentinels; CLUSTER: some of its nodes */
    size_t n_hosts;
    char *master;   /* SENTINEL: the sentinels' name for the primary */
    uint32_t db;    /* 0 = no SELECT */
    char *user;     /* NULL = the default user */
    char *password; /* NULL = no AUTH */
} url;

/* embedded:DIR, unix://[[user]:password@]/path[?db=n],
 * redis://[[user]:password@]host[:port][/db],
 * redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/db], user and password for the primary,
 * redis+cluster://[[user]:password@]host[:port][,host[:port]]..., each of these three also with rediss for TLS;
 * user, password, path and master are percent-decoded. LKS_INVALID_ARGUMENT with a text that begins with `from`, the
 * setting ("--store"), and never quotes the URL, which may contain a password. */
lks_code url_parse(const char *text, const char *from, url *ret, lks_error *error);

/* Frees the strings; accepts a zeroed url. */
void url_clear(url *url);

#endif
